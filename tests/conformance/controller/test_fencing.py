"""Fenced, batched writes: results per item, isolation of stale ones, lost answers, and a second controller."""

from collections.abc import Iterator
from random import Random

import pytest

from cluster.model.broker import ZkVersion
from cluster.model.errors import ControllerMovedError, SessionExpiredError
from cluster.zookeeper.port import Create, Delete, Op, OpResult, SetData
from controller import fenced_writes
from controller.fenced_writes import MAX_OPS, WINDOW, Conflict, FencedWriter, Missing, Outcome, TooLarge, Written
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.controllers.worlds import World, quiesce, run_virtually, until


class CountingClient(SimulatedZooKeeperClient):
    """Counts transactions; loses the answers of chosen ones after they were applied."""

    transactions = 0
    lose: tuple[int, ...] = ()

    async def multi_many(self, transactions):  # type: ignore[no-untyped-def]
        answers: list[list[OpResult] | Exception] = []
        for transaction in transactions:
            if self.transactions in self.lose:
                self.lose_answer_of_next_write()
            self.transactions += 1
            answers.extend(await super().multi_many([transaction]))
        return answers


async def writer(*paths: str) -> tuple[CountingClient, FencedWriter]:
    client = CountingClient(SimulatedZooKeeper(Random(1)))
    client.listen(lambda _: None)
    await client.start_session()
    await client.multi([Create("/epoch", b"1"), *(Create(path, b"old") for path in paths)])
    client.transactions = 0
    return client, FencedWriter(client, ZkVersion(0), "/epoch", on_refusal=lambda: None)


@pytest.mark.rule("FN-1", "FN-2", "D-24")
def test_many_items_are_taken_as_they_are_sent_and_each_has_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = 5
    monkeypatch.setattr(fenced_writes, "MAX_OPS", ops)

    async def main() -> None:
        units = WINDOW * 3 * ops
        bad = {0, WINDOW * ops, units - 1}
        client, fenced = await writer("/there")
        taken = 0

        def each() -> Iterator[list[Op]]:
            nonlocal taken
            for number in range(units):
                taken += 1
                assert taken <= (client.transactions + 4 * WINDOW) * ops
                yield [Create("/there" if number in bad else f"/n{number}")]

        outcomes = await fenced.write(each())
        assert [number for number, outcome in enumerate(outcomes) if outcome != Written(0)] == sorted(bad)
        assert {outcomes[number] for number in bad} == {Conflict(0, exists=True)}
        # Each of the three is isolated by two halves of its transaction.
        assert client.transactions == WINDOW * 3 + 2 * len(bad)

    run_virtually(main)


@pytest.mark.rule("FN-2", "ZC-2", "D-13", "D-24")
@pytest.mark.parametrize("seed", range(6))
def test_windows_in_flight_together_leave_each_item_as_if_it_were_alone(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fenced_writes, "MAX_OPS", 3)
    monkeypatch.setattr(fenced_writes, "WINDOW", 2)
    random = Random(seed)

    async def main() -> None:
        paths = [f"/n{number}" for number in range(60)]
        client, fenced = await writer(*paths)
        client.lose = tuple(random.sample(range(40), 8))
        units, expected = list[list[Op]](), list[Outcome]()
        for path in paths:
            kinds: list[tuple[list[Op], Outcome]] = [
                ([SetData(path, b"new", 0)], Written(1)),
                ([SetData(path, b"new", 0)], Written(1)),
                ([SetData(path, b"new", 3)], Conflict(0, exists=False)),
                ([Create(f"{path}-made", b"new")], Written(0)),
                ([Create(path, b"new")], Conflict(0, exists=True)),
                ([Create(f"/absent{path}", b"new")], Missing(0)),
                ([Create(f"{path}-made", b"new"), SetData(path, b"new", 0)], Written(1)),
                ([Delete(path)], Written(-1)),
                ([Create("/x" * 550_000)], TooLarge(1_100_000)),
            ]
            unit, outcome = random.choice(kinds)
            units.append(unit)
            expected.append(outcome)
        assert await fenced.write(units) == expected
        for unit, outcome in zip(units, expected, strict=True):
            for op, znode in zip(unit, await client.get_many([op.path for op in unit]), strict=True):
                is_new = znode is not None and (znode.data, znode.stat.version) == (
                    b"new",
                    int(isinstance(op, SetData)),
                )
                is_done = znode is None if isinstance(op, Delete) else is_new
                assert is_done is isinstance(outcome, Written), op

    run_virtually(main)


@pytest.mark.rule("FN-1", "EL-12")
def test_nothing_more_is_sent_once_the_epoch_has_changed() -> None:
    async def main() -> None:
        client, fenced = await writer()
        await client.multi([SetData("/epoch", b"2")])
        client.transactions = 0
        with pytest.raises(ControllerMovedError):
            await fenced.write([Create(f"/n{number}")] for number in range(10 * WINDOW * MAX_OPS))
        await quiesce()
        assert client.transactions <= 2 * WINDOW

    run_virtually(main)


@pytest.mark.rule("FN-1", "FN-2", "D-24")
def test_stale_items_are_isolated_and_all_others_written() -> None:
    async def main() -> None:
        paths = [f"/n{i}" for i in range(600)]
        client, fenced = await writer(*paths)
        bad = {3, 77, 251, 252, 599}
        units: list[list[Op]] = [[SetData(p, b"new", 5 if i in bad else 0)] for i, p in enumerate(paths)]
        units.append([Create("/n0")])
        units.append([Create("/absent/child")])
        units.append([Delete("/gone")])
        outcomes = await fenced.write(units)
        expected: list[Outcome] = [Conflict(0, exists=False) if i in bad else Written(1) for i in range(600)]
        assert outcomes == [*expected, Conflict(0, exists=True), Missing(0), Written(-1)]
        znodes = await client.get_many(paths)
        assert [znode.data if znode else None for znode in znodes] == [
            b"old" if i in bad else b"new" for i in range(600)
        ]

    run_virtually(main)


@pytest.mark.rule("D-24")
def test_many_writes_take_few_transactions() -> None:
    async def main() -> None:
        client, fenced = await writer()
        outcomes = await fenced.write([[Create(f"/n{i}")] for i in range(1000)])
        assert set(map(type, outcomes)) == {Written}
        assert client.transactions == 1000 / MAX_OPS

    run_virtually(main)


def test_what_zookeeper_would_not_take_is_not_sent_and_keeps_nobody_else_from_being_written() -> None:
    async def main() -> None:
        client, fenced = await writer()
        units = [[Create("/small", b"x")], [Create("/huge", b"x" * 1_100_000)], [Create("/other", b"x")]]
        small, huge, other = await fenced.write(units)
        assert huge == TooLarge(1_100_005)
        assert (small, other) == (Written(0), Written(0))
        assert await client.exists("/huge") is None

    run_virtually(main)


def test_a_write_without_an_answer_is_not_taken_for_done_because_the_content_stood_there_before() -> None:
    async def main() -> None:
        client, fenced = await writer("/a")
        # Somebody else was faster with the same content: the version is not the one that this write would have made.
        await client.multi([SetData("/a", b"new")])
        await client.multi([SetData("/a", b"new")])
        client.lose = (0,)
        assert await fenced.write([[SetData("/a", b"new", 0)]]) == [Conflict(0, exists=False)]

    run_virtually(main)


def test_large_nodes_are_spread_over_transactions() -> None:
    async def main() -> None:
        client, fenced = await writer()
        await fenced.write([[Create(f"/n{i}", b"x" * 150_000)] for i in range(5)])
        assert client.transactions == 3

    run_virtually(main)


@pytest.mark.rule("D-24", "FN-2")
def test_the_operations_of_one_unit_stand_or_fall_together() -> None:
    async def main() -> None:
        client, fenced = await writer("/b")
        outcomes = await fenced.write([[Create("/a"), Create("/b")], [Create("/c"), Create("/d")]])
        assert outcomes == [Conflict(1, exists=True), Written(0)]
        assert await client.exists("/a") is None

    run_virtually(main)


@pytest.mark.rule("ZC-2", "D-13")
@pytest.mark.parametrize("lost", [(0,), (0, 1), (1,), (0, 1, 2, 3)])
def test_a_write_whose_answer_was_lost_is_found_out_about(lost: tuple[int, ...]) -> None:
    async def main() -> None:
        paths = [f"/n{i}" for i in range(300)]
        client, fenced = await writer(*paths)
        client.lose = lost
        units: list[list[Op]] = [[SetData(p, b"new", 4 if i == 7 else 0)] for i, p in enumerate(paths)]
        outcomes = await fenced.write([*units, [Create("/made")], [Delete("/n0")]])
        expected: list[Outcome] = [Conflict(0, exists=False) if i == 7 else Written(1) for i in range(300)]
        assert outcomes[1:] == [*expected[1:], Written(0), Written(-1)]
        assert await client.exists("/n0") is None

    run_virtually(main)


@pytest.mark.rule("ZC-2", "D-13")
def test_a_lost_write_that_shows_only_later_still_counts_as_written() -> None:
    async def main() -> None:
        client, fenced = await writer("/n")
        client.lose = (0,)
        read, reads = client.get_many, 0

        async def read_too_early(paths, *, watch=False):  # type: ignore[no-untyped-def]
            nonlocal reads
            reads += 1
            return [None] * len(paths) if reads == 1 else await read(paths, watch=watch)

        client.get_many = read_too_early  # type: ignore[method-assign]
        assert await fenced.write([[SetData("/n", b"new", 0)], [Create("/made")]]) == [Written(1), Written(0)]
        assert reads > 1

    run_virtually(main)


@pytest.mark.rule("FN-2", "FN-4")
def test_a_moved_epoch_stops_every_write() -> None:
    async def main() -> None:
        client, fenced = await writer("/n")
        await client.multi([SetData("/epoch", b"2")])
        with pytest.raises(ControllerMovedError):
            await fenced.write([[SetData("/n", b"new")]])
        znode = await client.get("/n")
        assert znode is not None
        assert znode.data == b"old"

    run_virtually(main)


def test_a_lost_session_ends_the_write() -> None:
    async def main() -> None:
        client, fenced = await writer("/n")
        client.expire()
        with pytest.raises(SessionExpiredError):
            await fenced.write([[SetData("/n", b"new")]])

    run_virtually(main)


@pytest.mark.rule("FN-3")
def test_a_writer_without_a_fence_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="fences nothing"):
        FencedWriter(
            SimulatedZooKeeperClient(SimulatedZooKeeper(Random(1))), ZkVersion(-1), "/epoch", on_refusal=lambda: None
        )


@pytest.mark.rule("FN-4", "EV-9", "INV-5", "INV-11")
def test_a_controller_that_was_replaced_unnoticed_writes_nothing_and_resigns() -> None:
    async def main() -> None:
        world = await World().start()
        first = world.start_controller(1001)
        await until(lambda: first.is_active)
        await world.start_broker(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        # The process hangs for longer than its session; meanwhile another rules and changes the partition.
        first.zookeeper.pause()
        second = world.start_controller(1002)
        await until(lambda: second.is_active)
        await world.stop_broker(1)
        after = await world.leads("t", leader=2)
        first.zookeeper.resume()
        await until(lambda: first.gauge("ActiveControllerCount") == 0)
        await quiesce(2)
        assert await world.state("t") == after
        assert first.gauge("GlobalTopicCount") == first.gauge("ActiveBrokerCount") == 0
        assert first.gauge("TotalQueueSize", "ControllerChannelManager") == 0
        await second.stop()
        await until(lambda: first.is_active)
        await first.stop()

    run_virtually(main)
