"""The contract of the ZooKeeper port, for the real client on a real server and for the simulator's in-memory server."""

from collections.abc import Sequence

import pytest

from cluster.model.errors import SessionExpiredError
from cluster.zookeeper.port import (
    Check,
    Create,
    Delete,
    Op,
    SetData,
    WatchKind,
    ZkError,
)
from tests.contract.zookeeper_worlds import World, create, eventually

OK, UNDONE = ZkError.OK, ZkError.RUNTIME_INCONSISTENCY


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
