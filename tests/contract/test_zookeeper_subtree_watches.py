"""The contract of the ZooKeeper port about watches of subtrees, for the real client and for the simulator."""

import pytest

from cluster.zookeeper.port import Create, Delete, SessionState, SetData, WatchKind, ZooKeeper
from tests.contract.zookeeper_worlds import Events, World, create, eventually

Changes = list[tuple[str, WatchKind]]


async def watching(world: World, path: str) -> tuple[ZooKeeper, Events, Changes]:
    """A client that watches a subtree, what its listener hears, and what is reported of the subtree."""
    client, events = await world.client()
    changes: Changes = []
    assert await client.watch_subtree(path, lambda event: changes.append((event.path, event.kind)))
    return client, events, changes


@pytest.mark.rule("ZC-4")
def test_every_change_below_is_reported_until_it_is_not_watched_any_more(world: World) -> None:
    async def test(world: World) -> None:
        other, _ = await world.client()
        await create(other, "/t", "/beside", "/tt")
        client, events, changes = await watching(world, "/t")
        await other.multi([Create("/t/a"), Create("/t/a/b", b"0")])
        await other.multi([SetData("/t/a/b", b"1"), SetData("/tt", b"1"), SetData("/beside", b"1")])
        await other.multi([SetData("/t/a/b", b"2"), SetData("/t", b"1")])
        await other.multi([Delete("/t/a/b")])
        expected = [
            ("/t/a", WatchKind.CREATED),
            ("/t/a/b", WatchKind.CREATED),
            ("/t/a/b", WatchKind.CHANGED),
            ("/t/a/b", WatchKind.CHANGED),
            ("/t", WatchKind.CHANGED),
            ("/t/a/b", WatchKind.DELETED),
        ]
        await eventually(lambda: len(changes) >= len(expected))
        assert changes == expected
        await client.unwatch_subtree("/t")
        await client.unwatch_subtree("/t")
        await other.multi([SetData("/t/a", b"1")])
        # The response comes after every event of an earlier change.
        await client.multi([SetData("/beside", b"2")])
        assert changes == expected
        assert events.watches == []

    world.run(test)


@pytest.mark.rule("ZC-4")
def test_a_change_is_reported_before_a_response_that_shows_it(world: World) -> None:
    async def test(world: World) -> None:
        other, _ = await world.client()
        await create(other, "/t", *(f"/t/{number}" for number in range(50)))
        client, _, changes = await watching(world, "/t")
        for round_ in range(5):
            await other.multi([SetData(f"/t/{number}", b"x") for number in range(50)])
            # A write of one's own, like a won election: what was written before is known when it is answered.
            await client.multi([SetData("/t", str(round_).encode())])
            assert len(changes) == (round_ + 1) * 51
            assert changes[-1] == ("/t", WatchKind.CHANGED)

    world.run(test)


@pytest.mark.rule("ZC-4")
def test_watches_of_single_znodes_fire_as_without_it(world: World) -> None:
    async def test(world: World) -> None:
        other, _ = await world.client()
        await create(other, "/t", "/t/list", "/t/list/a", "/t/list/b")
        client, events, changes = await watching(world, "/t")
        await client.watch_many(["/t/list/a", "/t/list/missing"])
        await client.get("/t/list/b", watch=True)
        await client.children("/t/list", watch=True)
        # Servers report the one that is missing as deleted.
        changes.clear()
        for data in (b"1", b"2"):
            await other.multi([SetData("/t/list/a", data), SetData("/t/list/b", data)])
        await other.multi([Create("/t/list/missing"), Create("/t/list/c")])
        await other.multi([Delete("/t/list/a")])
        await eventually(lambda: len(changes) >= 7)
        assert [path for path, _ in changes] == [
            *("/t/list/a", "/t/list/b") * 2,
            "/t/list/missing",
            "/t/list/c",
            "/t/list/a",
        ]
        assert sorted(events.watches) == sorted(
            [
                ("/t/list/a", WatchKind.CHANGED),
                ("/t/list/b", WatchKind.CHANGED),
                ("/t/list", WatchKind.CHILDREN),
            ]
        )

    world.run(test)


@pytest.mark.rule("ZC-5")
def test_it_is_watched_again_after_a_reconnection_which_reports_nothing_that_was_missed(world: World) -> None:
    async def test(world: World) -> None:
        other, _ = await world.client()
        await create(other, "/t", "/t/a", "/t/b")
        client, events, changes = await watching(world, "/t")
        await client.watch_many(["/t/b"])
        await world.disconnect(client, 0.3)
        await eventually(lambda: SessionState.DISCONNECTED in events.states)
        await other.multi([SetData("/t/a", b"missed"), SetData("/t/b", b"missed")])
        await eventually(lambda: events.states.count(SessionState.CONNECTED) == 2)
        await client.get("/t/a")
        assert events.watches == [("/t/b", WatchKind.CHANGED)]
        changes.clear()
        await other.multi([SetData("/t/a", b"seen")])
        await eventually(lambda: changes == [("/t/a", WatchKind.CHANGED)])

    world.run(test)


@pytest.mark.rule("ZC-5")
def test_it_ends_with_the_session(world: World) -> None:
    async def test(world: World) -> None:
        other, _ = await world.client()
        await create(other, "/t", "/t/a")
        client, events, changes = await watching(world, "/t")
        await world.expire(client)
        await eventually(lambda: SessionState.EXPIRED in events.states)
        await client.start_session()
        await other.multi([SetData("/t/a", b"1")])
        await client.get("/t/a")
        assert changes == []
        assert await client.watch_subtree("/t", lambda event: changes.append((event.path, event.kind)))
        await other.multi([SetData("/t/a", b"2")])
        await eventually(lambda: changes == [("/t/a", WatchKind.CHANGED)])

    world.run(test)


def test_a_watch_of_one_znode_armed_while_it_changes_is_not_forgotten(world: World) -> None:
    """One event stands for both kinds of watch; which of them it is cannot always be told."""

    async def test(world: World) -> None:
        other, _ = await world.client()
        paths = [f"/t/{number}" for number in range(20)]
        await create(other, "/t", *paths)
        client, events, _ = await watching(world, "/t")
        for _ in range(5):
            writes = other.multi([SetData(path, b"1") for path in paths])
            arming = client.watch_many(paths)
            await writes
            await arming
            await client.get("/t")
            before = {path for path, _ in events.watches}
            # Those that have not been reported are armed; they survive a reconnection, too.
            await world.disconnect(client, 0.05)
            await other.multi([SetData(path, b"2") for path in paths])
            await eventually(lambda before=before: {path for path, _ in events.watches} | before == set(paths))  # type: ignore[misc]
            events.all.clear()

    world.run(test)
