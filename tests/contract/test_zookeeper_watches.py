"""The contract of the ZooKeeper port about watches, for the real client on a real server and for the simulator."""

import asyncio

import pytest

from cluster.zookeeper.port import (
    Create,
    Delete,
    SetData,
    WatchKind,
)
from cluster.zookeeper.recipes import watched_children
from tests.contract.zookeeper_worlds import World, create, eventually


@pytest.mark.rule("ZC-4")
def test_a_watch_fires_once(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        other, _ = await world.client()
        await create(client, "/a")
        await client.get("/a", watch=True)
        await other.multi([SetData("/a", b"1")])
        await other.multi([SetData("/a", b"2")])
        await eventually(lambda: events.watches != [])
        await client.get("/a")
        assert events.watches == [("/a", WatchKind.CHANGED)]

    world.run(test)


@pytest.mark.rule("ZC-4")
@pytest.mark.parametrize("how", ["get", "exists", "get_many"])
def test_a_data_watch_is_left_on_nodes_that_are_absent_and_present(world: World, how: str) -> None:
    async def watch(client, path: str) -> None:  # type: ignore[no-untyped-def]
        if how == "get_many":
            await client.get_many(["/other", path], watch=True)
        else:
            await getattr(client, how)(path, watch=True)

    async def test(world: World) -> None:
        client, events = await world.client()
        other, _ = await world.client()
        expected = []
        for change, kind in (
            (Create("/a"), WatchKind.CREATED),
            (SetData("/a", b"1"), WatchKind.CHANGED),
            (Delete("/a"), WatchKind.DELETED),
        ):
            await watch(client, "/a")
            assert events.watches == expected
            await other.multi([change])
            expected.append(("/a", kind))
            await eventually(lambda: len(events.watches) == len(expected))
            assert events.watches == expected

    world.run(test)


def test_a_child_watch_sees_children_come_and_go_and_nothing_else(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        other, _ = await world.client()
        assert await client.children("/p", watch=True) is None
        await create(other, "/p", "/p/a")
        assert await client.children("/p", watch=True) == ("a",)
        await other.multi([SetData("/p", b"1"), SetData("/p/a", b"1")])
        await other.multi([Create("/p/b")])
        await eventually(lambda: events.watches == [("/p", WatchKind.CHILDREN)])
        assert await client.children("/p", watch=True) == ("a", "b")
        await other.multi([Delete("/p/a"), Delete("/p/b")])
        await eventually(lambda: len(events.watches) == 2)
        assert await client.children("/p", watch=True) == ()
        await other.multi([Delete("/p")])
        await eventually(lambda: len(events.watches) == 3)
        assert events.watches[2] == ("/p", WatchKind.DELETED)

    world.run(test)


def test_a_list_whose_node_is_deleted_is_watched_for_its_next_creation(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        other, _ = await world.client()
        expected: list[tuple[str, WatchKind]] = []
        assert await watched_children(client, "/p") is None
        for data in (b"1", b"2"):
            await create(other, "/p", data=data)
            expected.append(("/p", WatchKind.CREATED))
            await eventually(lambda: events.watches == expected)
            assert await watched_children(client, "/p") == ()
            await create(other, "/p/a")
            expected.append(("/p", WatchKind.CHILDREN))
            await eventually(lambda: events.watches == expected)
            assert await watched_children(client, "/p") == ("a",)
            await other.multi([Delete("/p/a")])
            expected.append(("/p", WatchKind.CHILDREN))
            await eventually(lambda: events.watches == expected)
            assert await watched_children(client, "/p") == ()
            await other.multi([Delete("/p")])
            expected.append(("/p", WatchKind.DELETED))
            await eventually(lambda: events.watches == expected)
            assert await watched_children(client, "/p") is None

    world.run(test)


def test_no_answer_shows_a_change_before_its_watch_event(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        other, _ = await world.client()
        await create(client, *(f"/n{i}" for i in range(200)))
        for i in range(200):
            path = f"/n{i}"
            await client.get(path, watch=True)
            write = asyncio.ensure_future(other.multi([SetData(path, b"new")]))
            while (znode := await client.get(path)) is not None and znode.data != b"new":
                pass
            assert events.watches[-1:] == [(path, WatchKind.CHANGED)], f"round {i}"
            await write

    world.run(test)


def test_many_watches_are_left_at_once(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        other, _ = await world.client()
        present = [f"/n{i}" for i in range(0, 1500, 2)]
        await create(client, *present)
        everything = [f"/n{i}" for i in range(1500)]
        znodes = await client.get_many(everything, watch=True)
        assert [znode is not None for znode in znodes] == [True, False] * 750
        assert events.watches == []
        await other.multi([SetData(path, b"1") for path in present])
        await other.multi([Create(path) for path in everything[1::2]])
        await eventually(lambda: len(events.watches) == 1500)
        assert set(events.watches) == {
            (path, WatchKind.CREATED if index % 2 else WatchKind.CHANGED) for index, path in enumerate(everything)
        }

    world.run(test)
