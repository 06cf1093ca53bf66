"""The promises of the ZooKeeper port, each held by the real client on a real server and by the simulator's twin."""

import asyncio
import itertools
from collections.abc import Sequence
from functools import partial
from random import Random

import pytest

from cluster.errors import OutcomeUnknownError, SessionExpiredError
from cluster.zookeeper.port import (
    Check,
    Create,
    Delete,
    Op,
    SessionState,
    SetData,
    WatchKind,
    ZkError,
)
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
        node = await client.get("/a")
        assert node is not None
        assert node.data == b"one"
        assert (node.stat.version, node.stat.ephemeral_owner, node.stat.num_children) == (0, 0, 0)
        assert node.stat.czxid == node.stat.mzxid > 0
        assert created.stat is not None
        assert created.stat.czxid == node.stat.czxid
        assert await client.exists("/a") == node.stat

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
        node = await client.get("/a")
        assert node is not None
        assert (node.data, node.stat.version) == (b"1", 1)
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
        node = await client.get("/a/b")
        assert node is not None
        assert node.data == b"new"

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


def test_no_answer_shows_a_change_before_its_watch_event(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        other, _ = await world.client()
        await create(client, *(f"/n{i}" for i in range(200)))
        for i in range(200):
            path = f"/n{i}"
            await client.get(path, watch=True)
            write = asyncio.ensure_future(other.multi([SetData(path, b"new")]))
            while (node := await client.get(path)) is not None and node.data != b"new":
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
        nodes = await client.get_many(asked)
        assert [node and node.data for node in nodes] == [str(i).encode() for i in reversed(numbers)] + [None, b""]
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
        nodes = await client.get_many(everything, watch=True)
        assert [node is not None for node in nodes] == [True, False] * 750
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
        node = await outside.get("/deep/er/a")
        assert node is not None
        assert node.data == b"x"
        await inside.multi([Create("/b")])
        await eventually(lambda: events.watches[1:] == [("/", WatchKind.CHILDREN)])
        assert await inside.children("/") == ("a", "b")

    world.run(test)


@pytest.mark.rule("EL-24")
def test_a_disconnection_within_the_session_loses_neither_ephemerals_nor_watches(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        other, _ = await world.client()
        session = client.session_id
        await create(client, "/changed", "/same", "/deleted", "/parent", "/later")
        await client.multi([Create("/e", ephemeral=True)])
        for path in ("/changed", "/same", "/deleted", "/created", "/later"):
            await client.get(path, watch=True)
        await client.children("/parent", watch=True)
        await world.disconnect(client, 0.3)
        await eventually(lambda: events.states[-1:] == [SessionState.DISCONNECTED])
        await other.multi([SetData("/changed", b"1"), Delete("/deleted"), Create("/created"), Create("/parent/child")])
        # Asked while disconnected: waits, and is answered after the events.
        assert await client.children("/parent") == ("child",)
        assert sorted(events.watches) == sorted(
            [
                ("/changed", WatchKind.CHANGED),
                ("/deleted", WatchKind.DELETED),
                ("/created", WatchKind.CREATED),
                ("/parent", WatchKind.CHILDREN),
            ],
        )
        await other.multi([SetData("/later", b"1")])
        await eventually(lambda: ("/later", WatchKind.CHANGED) in events.watches)
        assert events.states == [SessionState.CONNECTED, SessionState.DISCONNECTED, SessionState.CONNECTED]
        assert client.session_id == session
        stat = await other.exists("/e")
        assert stat is not None
        assert stat.ephemeral_owner == session

    world.run(test)


@pytest.mark.rule("ZC-2")
def test_a_write_whose_answer_is_lost_has_an_unknown_outcome(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        await create(client, "/a")
        await world.lose_answer_of_next_write(client)
        with pytest.raises(OutcomeUnknownError):
            await client.multi([SetData("/a", b"applied", 0)])
        node = await client.get("/a")
        assert node is not None
        assert (node.data, node.stat.version) == (b"applied", 1)
        (again,) = await client.multi([SetData("/a", b"applied", 0)])
        assert again.error is ZkError.BAD_VERSION
        assert SessionState.EXPIRED not in events.states

    world.run(test)


def test_writes_made_while_disconnected_wait_for_the_connection(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        await create(client, "/a")
        await world.disconnect(client, 0.2)
        await eventually(lambda: events.states[-1:] == [SessionState.DISCONNECTED])
        results = await client.multi_many([[SetData("/a", b"1", 0)], [SetData("/a", b"2", 1)]])
        assert [result[0].error for result in results if isinstance(result, list)] == [OK, OK]

    world.run(test)


@pytest.mark.rule("ZC-3", "ZC-6", "EL-22")
def test_an_expired_session_ends_everything_and_a_new_one_starts_afresh(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        other, _ = await world.client()
        first = client.session_id
        await create(client, "/a")
        await client.multi([Create("/e", ephemeral=True)])
        await client.get("/a", watch=True)
        await world.expire(client)
        await eventually(lambda: events.states[-1:] == [SessionState.EXPIRED])
        assert events.all[-1].session_id == first  # type: ignore[union-attr]
        assert await other.exists("/e") is None
        with pytest.raises(SessionExpiredError):
            await client.get("/a")
        with pytest.raises(SessionExpiredError):
            await client.multi([SetData("/a", b"late")])
        (late,) = await client.multi_many([[SetData("/a", b"late")]])
        assert isinstance(late, SessionExpiredError)
        heard = len(events.all)
        await other.multi([SetData("/a", b"1")])
        await client.start_session()
        assert client.session_id not in (0, first)
        await eventually(lambda: events.states[-1:] == [SessionState.CONNECTED])
        await other.multi([SetData("/a", b"2")])
        node = await client.get("/a", watch=True)
        assert node is not None
        assert node.data == b"2"
        assert len(events.all) == heard + 1, "a watch of the old session fired, or an event came twice"
        await other.multi([SetData("/a", b"3")])
        await eventually(lambda: events.watches == [("/a", WatchKind.CHANGED)])

    world.run(test)


def test_requests_in_flight_when_the_session_expires_are_all_answered(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        await create(client, "/a")
        everything = asyncio.gather(
            client.multi_many([[SetData("/a", b"x")] for _ in range(500)]),
            *(client.get("/a") for _ in range(50)),
            return_exceptions=True,
        )
        await world.expire(client)
        await eventually(lambda: events.states[-1:] == [SessionState.EXPIRED])
        written, *read = await everything
        assert len(written) == 500
        assert all(isinstance(each, list | OutcomeUnknownError | SessionExpiredError) for each in written)
        assert all(isinstance(each, SessionExpiredError) for each in read if isinstance(each, BaseException))

    world.run(test)


def test_a_caller_that_gives_up_does_not_disturb_the_others(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        await create(client, "/a")
        impatient = asyncio.ensure_future(client.get("/a"))
        patient = asyncio.ensure_future(client.get("/a"))
        await asyncio.sleep(0)
        impatient.cancel()
        assert await patient is not None
        with pytest.raises(asyncio.CancelledError):
            await impatient
        assert await client.get("/a") is not None

    world.run(test)


def test_disconnections_at_any_moment_lose_no_change_and_invent_no_success(world: World) -> None:
    async def test(world: World) -> None:
        writer, _ = await world.client()
        paths = [f"/n{i}" for i in range(5)]
        await create(writer, *paths)
        reader, events = await world.client()
        chance, seen, stop = Random(5), {}, asyncio.Event()
        surely = dict.fromkeys(paths, 0)
        perhaps = dict.fromkeys(paths, 0)

        def has_heard_more_than(done: int) -> bool:
            return len(events.watches) > done

        async def write() -> None:
            for round_ in range(150):
                await asyncio.sleep(chance.random() * 0.02)
                path = chance.choice(paths)
                try:
                    await writer.multi([SetData(path, f"{path} {round_}".encode())])
                    surely[path] += 1
                except OutcomeUnknownError:
                    perhaps[path] += 1
            stop.set()

        async def cut() -> None:
            while not stop.is_set():
                await asyncio.sleep(chance.random() * 0.05)
                await world.disconnect(chance.choice([writer, reader]), 0.02)
                await asyncio.sleep(0.15)

        async def read() -> None:
            seen.update(zip(paths, await reader.get_many(paths, watch=True), strict=True))
            for done in itertools.count():
                await eventually(partial(has_heard_more_than, done))
                path = events.watches[done][0]
                seen[path] = await reader.get(path, watch=True)

        reading = asyncio.ensure_future(read())
        await asyncio.gather(write(), cut())
        last = dict(zip(paths, await writer.get_many(paths), strict=True))
        await eventually(lambda: seen == last)
        reading.cancel()
        assert SessionState.DISCONNECTED in events.states
        for path, node in last.items():
            assert node is not None
            assert surely[path] <= node.stat.version <= surely[path] + perhaps[path]

    world.run(test)
