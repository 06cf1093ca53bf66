import asyncio

import pytest

from broker_agent.replication.purgatory import CHECKED_AT_ONCE, LastingWatch, Purgatory, Test
from cluster.aio.parking import CURRENT
from cluster.metrics.registry import Metrics
from cluster.model.partition import TopicPartition
from tests.brokers.agents import virtually

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class World:
    def __init__(self) -> None:
        self.metrics = Metrics()
        self.purgatory = Purgatory("Fetch", self.metrics)

    @property
    def gauges(self) -> tuple[float, float]:
        """(entries in lists, operations with a timer)."""
        names = ("PurgatorySize", "NumDelayedOperations")
        type_ = "DelayedOperationPurgatory"
        size, delayed = (self.metrics.gauge("kafka.server", type_, name, delayedOperation="Fetch") for name in names)
        return size.value, delayed.value


@pytest.mark.rule("R13.1", "R13.2", "R13.4", "R13.6", "P36")
@virtually
async def test_an_operation_completes_once_by_the_first_satisfied_key_and_leaves_all_lists() -> None:
    world, tested = World(), list[TopicPartition]()

    def is_satisfied(key: TopicPartition) -> bool:
        tested.append(key)
        return key == B

    waiting = asyncio.ensure_future(world.purgatory.wait(is_satisfied, (A, B), 10_000))
    await asyncio.sleep(0)
    assert world.gauges == (2, 1)
    assert world.purgatory.check_and_complete(A) == 0
    assert world.purgatory.check_and_complete(B) == 1
    assert world.purgatory.check_and_complete(B) == 0
    assert tested == [A, B]
    assert await waiting is True
    assert world.gauges == (0, 0)
    assert world.purgatory.check_and_complete(A) == 0


@pytest.mark.rule("R13.5", "P36")
@virtually
async def test_the_deadline_ends_the_wait() -> None:
    world = World()
    started = asyncio.get_running_loop().time()
    assert await world.purgatory.wait(lambda _: False, (A,), 700) is False
    assert asyncio.get_running_loop().time() - started == pytest.approx(0.7)
    assert world.gauges == (0, 0)
    assert await world.purgatory.wait(lambda _: False, (A,), 0) is False


@pytest.mark.rule("R13.2")
@virtually
async def test_a_deadline_and_a_completion_at_the_same_moment_complete_it_once() -> None:
    world = World()
    loop = asyncio.get_running_loop()
    completed: list[int] = []
    loop.call_later(0.5, lambda: completed.append(world.purgatory.check_and_complete(A)))
    waiting = asyncio.ensure_future(world.purgatory.wait(lambda _: True, (A,), 500))
    satisfied = await waiting
    await asyncio.sleep(0.1)
    assert completed == [int(satisfied)]


@pytest.mark.rule("R13.4")
@virtually
async def test_what_changes_for_all_partitions_is_tested_under_every_key() -> None:
    world, tested = World(), list[TopicPartition]()
    waiting = [
        asyncio.ensure_future(world.purgatory.wait(lambda key: tested.append(key) or key == B, keys, 10_000))  # type: ignore[func-returns-value]
        for keys in ((A,), (A, B))
    ]
    await asyncio.sleep(0)
    world.purgatory.check_all()
    assert (tested, await waiting[1], waiting[0].done()) == ([A, A, B], True, False)
    waiting[0].cancel()


@pytest.mark.rule("R13.10")
@virtually
async def test_whoever_gives_up_or_is_shut_out_leaves_nothing_behind() -> None:
    world = World()
    waiting = [asyncio.ensure_future(world.purgatory.wait(lambda _: True, (A, B), 10_000)) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    assert world.gauges == (2, 1)
    world.purgatory.close()
    assert await waiting[1] is False
    assert world.gauges == (0, 0)
    assert await world.purgatory.wait(lambda _: True, (A,), 10_000) is False


class Parked:
    """A request that records what becomes of it."""

    def __init__(self) -> None:
        self.seen = list[str]()

    def park(self) -> None:
        self.seen.append("parked")

    async def resume(self) -> None:
        self.seen.append("resumed")


@pytest.mark.rule("AD-4")
@virtually
async def test_a_request_that_waits_is_parked() -> None:
    world, request = World(), Parked()
    CURRENT.set(request)
    assert await world.purgatory.wait(lambda _: True, (A,), 0) is False
    assert request.seen == []
    waiting = asyncio.ensure_future(world.purgatory.wait(lambda _: True, (A,), 700))
    await asyncio.sleep(0)
    assert request.seen == ["parked"]
    world.purgatory.check_and_complete(A)
    assert await waiting is True
    assert request.seen == ["parked", "resumed"]


@pytest.mark.rule("R13.4", "AD-6")
@virtually
async def test_of_many_operations_each_is_tested_once_per_change_in_parts() -> None:
    purgatory, tested = Purgatory("Fetch", Metrics(), in_parts=True), list[int]()
    count = 5 * CHECKED_AT_ONCE

    def test_of(number: int) -> Test:
        def is_satisfied(_: TopicPartition) -> bool:
            tested.append(number)
            return number % 2 == 0

        return is_satisfied

    waiting = [asyncio.ensure_future(purgatory.wait(test_of(number), (A,), 10_000)) for number in range(count)]
    await asyncio.sleep(0)
    assert purgatory.check_and_complete(A) == CHECKED_AT_ONCE // 2
    assert tested == list(range(CHECKED_AT_ONCE))
    # A change during the tests is seen by those tested before it as well, once.
    assert purgatory.check_and_complete(A) == 0
    assert purgatory.check_and_complete(A) == 0
    await asyncio.sleep(1)
    assert sorted(tested) == sorted([*range(count), *range(1, count, 2)])
    assert sum(task.done() for task in waiting) == count / 2
    purgatory.close()
    assert [await task for task in waiting] == [number % 2 == 0 for number in range(count)]


@pytest.mark.rule("R13.7")
@pytest.mark.parametrize("in_parts", [False, True])
@virtually
async def test_what_one_test_raises_reaches_the_request_that_waits_and_nobody_else(in_parts: bool) -> None:
    purgatory, count = Purgatory("Fetch", Metrics(), in_parts=in_parts), 3 * CHECKED_AT_ONCE

    def raises(_: TopicPartition) -> bool:
        raise ZeroDivisionError

    waiting = [
        asyncio.ensure_future(purgatory.wait(raises if number == 1 else lambda _: True, (A, B), 10_000))
        for number in range(count)
    ]
    later = asyncio.ensure_future(purgatory.wait(lambda _: True, (B,), 10_000))
    await asyncio.sleep(0)
    # The caller is the request that changed the partition.
    assert purgatory.check_and_complete(A) == (CHECKED_AT_ONCE if in_parts else count)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(outcomes.pop(1), ZeroDivisionError)
    assert outcomes == [True] * (count - 1)
    assert asyncio.get_running_loop().time() == 0
    assert purgatory.check_and_complete(B) == 1
    assert await later is True


@pytest.mark.rule("R13.3", "R13.4", "R13.6", "P36")
@virtually
async def test_a_lasting_watch_sees_changes_between_its_operations_and_counts_while_one_waits() -> None:
    world, changed = World(), list[TopicPartition]()
    watch = LastingWatch(world.purgatory)
    watch.changed = changed.append  # type: ignore[method-assign]
    for key in (A, B, B):
        watch.watch(key)
    world.purgatory.tell(A)
    assert (changed, world.purgatory.check_and_complete(A), world.gauges) == ([A], 0, (0, 0))
    waiting = asyncio.ensure_future(watch.wait(lambda key: key == B, (), 10_000))
    await asyncio.sleep(0)
    assert (watch.is_waiting, world.gauges) == (True, (2, 1))
    watch.unwatch(A)
    watch.unwatch(A)
    assert world.gauges == (1, 1)
    watch.watch(A)
    assert (world.gauges, world.purgatory.check_and_complete(A)) == ((2, 1), 0)
    assert world.purgatory.check_and_complete(B) == 1
    assert await waiting is True
    assert (watch.is_waiting, world.gauges) == (False, (0, 0))
    interrupted = asyncio.ensure_future(watch.wait(lambda _: False, (), 10_000))
    await asyncio.sleep(0)
    watch.interrupt()
    assert await interrupted is True
    watch.interrupt()
    for key in (A, B):
        watch.unwatch(key)
    world.purgatory.tell(B)
    assert changed == [A]
