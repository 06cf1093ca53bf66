"""The contract of the ZooKeeper port, for the real client on a real server and for the simulator's in-memory server."""

import asyncio
from collections.abc import Sequence

import pytest

from cluster.errors import SessionExpiredError
from cluster.zookeeper.port import (
    Check,
    Create,
    Delete,
    Op,
    SetData,
    WatchKind,
    ZkError,
)
from cluster.zookeeper.recipes import watched_children
from tests.contract.zookeeper_worlds import RealWorld, SimulatedWorld, World, create, eventually

OK, UNDONE = ZkError.OK, ZkError.RUNTIME_INCONSISTENCY


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "simulated":
        return SimulatedWorld()
    return RealWorld(request.getfixturevalue("zookeeper"))


def test_a_created_node_can_be_read_with_its_stat(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        (created,) = await client.multi([Create("/a", b"one")])
        assert created.ok
        assert created.path == "/a"
        znode = await client.get("/a")
        assert znode is not None
        assert znode.data == b"one"
        assert (znode.stat.version, znode.stat.ephemeral_owner, znode.stat.num_children) == (0, 0, 0)
        assert znode.stat.czxid == znode.stat.mzxid > 0
        assert created.stat is not None
        assert created.stat.czxid == znode.stat.czxid
        assert await client.exists("/a") == znode.stat

    world.run(test)


def test_what_is_absent_reads_as_none(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        assert await client.get("/none") is None
        assert await client.exists("/none") is None
        assert await client.children("/none") is None
        assert await client.get_many(["/none", "/neither"]) == [None, None]
        assert await client.children_many(["/none"]) == [None]
        assert await client.get_many([]) == []
        assert await client.multi_many([]) == []

    world.run(test)


def test_versions_count_changes_and_the_creation_stays(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        await create(client, "/a")
        before = await client.exists("/a")
        (first,) = await client.multi([SetData("/a", b"1", 0)])
        (second,) = await client.multi([SetData("/a", b"2")])
        assert first.stat is not None
        assert second.stat is not None
        assert before is not None
        assert (first.stat.version, second.stat.version) == (1, 2)
        assert first.stat.czxid == second.stat.czxid == before.czxid
        assert second.stat.mzxid > first.stat.mzxid > before.mzxid

    world.run(test)


@pytest.mark.parametrize("null_version", [0, 1])
def test_a_version_is_compared_even_when_it_is_zero(world: World, null_version: int) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        await create(client, "/a")
        await client.multi([SetData("/a", b"1", 0)])
        (stale,) = await client.multi([SetData("/a", b"x", 0)])
        assert stale.error is ZkError.BAD_VERSION
        (checked,) = await client.multi([Check("/a", null_version)])
        assert checked.error is (OK if null_version == 1 else ZkError.BAD_VERSION)

    world.run(test)


# What an operation on these nodes is answered: /full has the child /full/child, /ephemeral is ephemeral, /a is at
# version 1, /none does not exist.
REFUSALS: list[tuple[Op, ZkError]] = [
    (Check("/none", 0), ZkError.NO_NODE),
    (Check("/a", 0), ZkError.BAD_VERSION),
    (Create("/a"), ZkError.NODE_EXISTS),
    (Create("/none/child"), ZkError.NO_NODE),
    (Create("/ephemeral/child"), ZkError.NO_CHILDREN_FOR_EPHEMERALS),
    (SetData("/none", b""), ZkError.NO_NODE),
    (SetData("/a", b"", 0), ZkError.BAD_VERSION),
    (SetData("/a", b"", 2), ZkError.BAD_VERSION),
    (Delete("/none"), ZkError.NO_NODE),
    (Delete("/a", 0), ZkError.BAD_VERSION),
    (Delete("/full"), ZkError.NOT_EMPTY),
]


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(("refused", "error"), REFUSALS, ids=lambda value: str(getattr(value, "name", value)))
def test_one_refused_operation_undoes_the_whole_transaction(
    world: World, refused: Op, error: ZkError, position: int
) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        await create(client, "/a", "/full", "/full/child")
        await client.multi([SetData("/a", b"1"), Create("/ephemeral", ephemeral=True)])
        await client.exists("/new", watch=True)
        good: list[Op] = [Create("/new", b"x"), SetData("/a", b"2", 1)]
        ops = [*good[:position], refused, *good[position:]]
        # Between the good operations the version of /a has moved on already.
        if position == 2 and isinstance(refused, SetData | Check) and refused.version == 2:
            return
        results = await client.multi(ops)
        expected = [UNDONE] * 3
        expected[position] = error
        assert [result.error for result in results] == expected
        znode = await client.get("/a")
        assert znode is not None
        assert (znode.data, znode.stat.version) == (b"1", 1)
        assert await client.exists("/new") is None
        assert await client.children("/full") == ("child",)
        assert events.watches == []

    world.run(test)


def test_operations_of_a_transaction_see_those_before_them(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        results = await client.multi(
            [
                Create("/a"),
                Create("/a/b"),
                SetData("/a", b"1", 0),
                Check("/a", 1),
                Delete("/a/b", 0),
                Create("/a/b", b"new"),
            ]
        )
        assert [result.error for result in results] == [OK] * 6
        znode = await client.get("/a/b")
        assert znode is not None
        assert znode.data == b"new"

    world.run(test)


@pytest.mark.rule("ZK-12")
def test_a_registration_tells_the_czxid_of_its_node(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        created, written = await client.multi([Create("/id", ephemeral=True), SetData("/id", b"data", 0)])
        assert created.stat is not None
        assert written.stat is not None
        assert written.stat.version == 1
        assert written.stat.ephemeral_owner == client.session_id
        assert created.stat.czxid == written.stat.czxid
        stat = await client.exists("/id")
        assert stat is not None
        assert stat.czxid == written.stat.czxid

    world.run(test)


@pytest.mark.rule("ZK-5")
def test_sequential_names_count_up_with_ten_digits(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        await create(client, "/s", "/s/other")
        results = await client.multi([Create("/s/n_", sequential=True), Create("/s/n_", sequential=True)])
        assert [result.path for result in results] == ["/s/n_0000000001", "/s/n_0000000002"]
        await client.multi([Delete("/s/n_0000000002")])
        (third,) = await client.multi([Create("/s/n_", ephemeral=True, sequential=True)])
        assert third.path == "/s/n_0000000003"
        assert await client.children("/s") == ("n_0000000001", "n_0000000003", "other")

    world.run(test)


def test_children_are_sorted(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        await create(client, "/p", "/p/b", "/p/a", "/p/10", "/p/9", "/q")
        assert await client.children("/p") == ("10", "9", "a", "b")
        assert await client.children_many(["/p", "/none", "/q"]) == [("10", "9", "a", "b"), None, ()]

    world.run(test)


def test_ephemeral_nodes_go_with_the_session_that_is_closed(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        other, events = await world.client()
        await client.multi([Create("/e", ephemeral=True), Create("/p")])
        stat = await other.exists("/e", watch=True)
        assert stat is not None
        assert stat.ephemeral_owner == client.session_id != other.session_id
        await client.close()
        await client.close()
        await eventually(lambda: events.watches == [("/e", WatchKind.DELETED)])
        assert await other.exists("/e") is None
        assert await other.exists("/p") is not None
        with pytest.raises(SessionExpiredError):
            await client.get("/p")

    world.run(test)


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


def test_many_nodes_are_read_in_the_order_asked(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        numbers = range(2500)
        writes: list[Sequence[Op]] = [
            [Create(f"/n{i}", str(i).encode()) for i in numbers[start : start + 250]] for start in range(0, 2500, 250)
        ]
        results = await client.multi_many(writes)
        assert all(isinstance(result, list) and all(each.ok for each in result) for result in results)
        asked = [f"/n{i}" for i in reversed(numbers)] + ["/none", "/"]
        znodes = await client.get_many(asked)
        assert [znode and znode.data for znode in znodes] == [str(i).encode() for i in reversed(numbers)] + [None, b""]
        listed = await client.children_many(["/", "/n7"])
        assert listed == [tuple(sorted(f"n{i}" for i in numbers)), ()]

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


@pytest.mark.rule("ZC-1")
def test_pipelined_transactions_are_applied_in_order_each_with_its_own_result(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        await create(client, "/a")
        transactions = [[SetData("/a", str(i).encode(), i)] for i in range(300)]
        transactions[150] = [SetData("/a", b"stale", 0)]
        results = await client.multi_many(transactions)
        errors = [result[0].error for result in results if isinstance(result, list)]
        # The version did not move at 150, so every later one expects too much.
        assert errors == [OK] * 150 + [ZkError.BAD_VERSION] * 150

    world.run(test)


@pytest.mark.rule("ZK-7")
def test_a_chroot_is_made_and_hides_what_is_outside(world: World) -> None:
    async def test(world: World) -> None:
        outside, _ = await world.client()
        inside, events = await world.client(chroot=f"{world.chroot}/deep/er")
        assert await outside.children("/deep") == ("er",)
        await inside.exists("/a", watch=True)
        (made,) = await inside.multi([Create("/a", b"x")])
        assert made.path == "/a"
        await eventually(lambda: events.watches == [("/a", WatchKind.CREATED)])
        await inside.children("/", watch=True)
        znode = await outside.get("/deep/er/a")
        assert znode is not None
        assert znode.data == b"x"
        await inside.multi([Create("/b")])
        await eventually(lambda: events.watches[1:] == [("/", WatchKind.CHILDREN)])
        assert await inside.children("/") == ("a", "b")

    world.run(test)
