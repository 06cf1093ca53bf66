"""What is added to `/admin/reassign_partitions`, changed or taken out of it while it is pending (KAFKA-9478)."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.znodes.admin_requests import encode_reassignments
from cluster.znodes.paths import REASSIGN_PARTITIONS
from cluster.zookeeper.port import Create, Delete, SetData
from tests.controllers.contexts import assignment, ids
from tests.controllers.reassignments import Cluster, cluster
from tests.controllers.worlds import quiesce, run_virtually, until

Entries = Mapping[tuple[str, int], Sequence[int]]


def encoded(entries: Entries) -> bytes:
    return encode_reassignments({TopicPartition(*tp): ids(*target) for tp, target in entries.items()})


async def overwrite(c: Cluster, entries: Entries) -> None:
    await c.world.write(SetData(REASSIGN_PARTITIONS, encoded(entries)))
    await quiesce()


@pytest.mark.rule("D-95", "D-20", "RA-33")
def test_an_entry_that_is_added_to_a_pending_request_begins_and_the_pending_one_does_not_begin_again() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2], [1, 2]])
        await c.submit({0: [1, 3]})
        await overwrite(c, {("t", 0): [1, 3], ("t", 1): [2, 3]})
        assert await c.lists(0) == assignment([1, 3, 2], [3], [2])
        assert await c.lists(1) == assignment([2, 3, 1], [3], [1])
        assert [(await c.state(p))[1] for p in (0, 1)] == [1, 1]
        await c.in_sync(1, 2, 3, partition=0)
        assert await c.requested() == {TopicPartition("t", 1): (2, 3)}
        await c.in_sync(1, 2, 3, partition=1)
        assert await c.requested() is None
        # As without the addition.
        assert await c.state(0) == (1, 3, (1, 3))
        assert await c.state(1) == (2, 3, (2, 3))
        # The znode that follows is another one, in which a request for the list in place is carried out.
        await c.submit({0: [1, 3]})
        assert await c.state(0) == (1, 4, (1, 3))
        assert await c.requested() is None
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-95", "D-4", "RA-32")
@pytest.mark.parametrize(
    ("entry", "target"),
    [
        (("nosuch", 0), [1]),
        (("t", 7), [1]),
        (("t", 1), [1, 2]),
        (("t", 1), [1, 1, 2]),
        (("t", 1), []),
        (("t", 1), [1001]),
    ],
)
def test_an_entry_that_cannot_begin_leaves_and_the_others_stay(entry: tuple[str, int], target: list[int]) -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2], [1, 2]])
        c.controller.context.brokers.registered_controllers = {1001}
        await c.submit({0: [1, 3]})
        await overwrite(c, {("t", 0): [1, 3], entry: target})
        assert await c.requested() == {TopicPartition("t", 0): (1, 3)}
        assert await c.lists(1) == assignment([1, 2])
        assert (await c.state(1))[1] == 0
        await c.in_sync(1, 2, 3)
        assert await c.requested() is None
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-95", "RA-61", "RA-33")
@pytest.mark.parametrize("recreated", [False, True])
def test_a_third_target_takes_the_place_of_the_second(recreated: bool) -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, 4, topic=[[1, 2]])
        await c.submit({0: [1, 3]})
        if recreated:
            await c.world.write(Delete(REASSIGN_PARTITIONS), Create(REASSIGN_PARTITIONS, encoded({("t", 0): [1, 4]})))
            await quiesce()
        else:
            await overwrite(c, {("t", 0): [1, 4]})
        assert await c.lists() == assignment([1, 4, 2], [4], [2])
        assert c.sent_to(3)[-2:] == ["stop", "delete"]
        await c.in_sync(1, 2, 4)
        assert await c.lists() == assignment([1, 4])
        assert await c.requested() is None
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-95")
def test_the_same_request_made_again_does_not_begin_again() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]])
        await c.submit({0: [1, 3]})
        before = await c.state()
        await c.world.write(Delete(REASSIGN_PARTITIONS), Create(REASSIGN_PARTITIONS, encoded({("t", 0): [1, 3]})))
        await quiesce()
        await overwrite(c, {("t", 0): [1, 3]})
        assert await c.state() == before
        await c.in_sync(1, 2, 3)
        assert await c.requested() is None
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-95", "RA-33", "RA-60")
def test_an_entry_taken_out_cancels_nothing_and_the_list_as_it_was_does() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2], [1, 2]])
        await c.submit({0: [1, 3], 1: [1, 3]})
        await overwrite(c, {("t", 1): [1, 2]})
        assert await c.lists(0) == assignment([1, 3, 2], [3], [2])
        assert await c.lists(1) == assignment([1, 2])
        assert await c.requested() is None
        await c.in_sync(1, 2, 3)
        assert await c.lists(0) == assignment([1, 3])
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-95", "ZK-34")
def test_malformed_content_in_between_ends_no_move_and_hides_no_later_one() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2], [1, 2]])
        await c.submit({0: [1, 3]})
        await c.world.write(SetData(REASSIGN_PARTITIONS, b"{nonsense"))
        await quiesce()
        assert (await c.lists(0)).is_being_reassigned
        await overwrite(c, {("t", 0): [1, 3], ("t", 1): [1, 3]})
        assert [(await c.state(p))[1] for p in (0, 1)] == [1, 1]
        await c.world.write(SetData(REASSIGN_PARTITIONS, b"{nonsense"))
        await c.in_sync(1, 2, 3, partition=0)
        await c.in_sync(1, 2, 3, partition=1)
        assert [await c.lists(p) for p in (0, 1)] == [assignment([1, 3])] * 2
        await overwrite(c, {("t", 1): [1, 2]})
        assert (await c.lists(1)).is_being_reassigned
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-95", "RA-53", "FO-12")
def test_the_next_controller_begins_what_was_added_while_nobody_ruled() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2], [1, 2]])
        await c.submit({0: [1, 3]})
        await c.controller.stop()
        await c.world.write(SetData(REASSIGN_PARTITIONS, encoded({("t", 0): [1, 3], ("t", 1): [2, 3]})))
        successor = c.world.start_controller(1002)
        await until(lambda: successor.is_active)
        c = Cluster(c.world, successor)
        await quiesce()
        assert [(await c.state(p))[1] for p in (0, 1)] == [2, 1]
        await overwrite(c, {("t", 0): [1, 3], ("t", 1): [2, 3], ("nosuch", 1): [1]})
        assert [(await c.state(p))[1] for p in (0, 1)] == [2, 1]
        await c.in_sync(1, 2, 3, partition=0)
        await c.in_sync(1, 2, 3, partition=1)
        assert await c.requested() is None
        await successor.stop()

    run_virtually(main)


@pytest.mark.rule("D-95")
def test_own_writes_are_read_once_and_carried_out_not_at_all() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]] * 30)
        await c.submit({p: [1, 3] for p in range(30)})
        asked = c.controller.zookeeper.requests
        await c.in_sync(1, 2, 3, partition=0)
        one = c.controller.zookeeper.requests - asked
        assert [(await c.state(p))[1] for p in range(1, 30)] == [1] * 29
        asked = c.controller.zookeeper.requests
        await c.in_sync(1, 2, 3, partition=1)
        assert c.controller.zookeeper.requests - asked == one
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-95", "RA-40")
@pytest.mark.parametrize("seed", range(6))
def test_in_a_burst_of_changes_that_race_with_completions_none_begins_twice_and_none_is_lost(seed: int) -> None:
    """A tool adds entries one by one to what it finds; replicas catch up meanwhile."""

    async def main() -> None:
        count = 40
        random = Random(seed)
        c = await cluster(1, 2, 3, topic=[[1, 2]] * count)

        async def add(partition: int) -> None:
            while True:
                znode = await c.world.tool.get(REASSIGN_PARTITIONS)
                entries = {} if znode is None else dict(await c.requested() or {})
                entries[TopicPartition("t", partition)] = ids(1, 3)
                data = encode_reassignments(entries)
                op = (
                    Create(REASSIGN_PARTITIONS, data)
                    if znode is None
                    else SetData(REASSIGN_PARTITIONS, data, znode.stat.version)
                )
                if (await c.world.tool.multi([op]))[0].ok:
                    return

        async def add_all() -> None:
            for partition in range(count):
                await add(partition)
                if random.random() < 0.5:
                    await asyncio.sleep(random.random() * 0.2)

        async def catch_up() -> None:
            waiting = set(range(count))
            while waiting:
                await asyncio.sleep(random.random() * 0.05)
                under_way = [p for p in sorted(waiting) if (await c.lists(p)).is_being_reassigned]
                for partition in under_way[: random.randrange(4)]:
                    await c.in_sync(1, 2, 3, partition=partition)
                    waiting.discard(partition)

        async with asyncio.timeout(300), asyncio.TaskGroup() as both:
            both.create_task(add_all())
            both.create_task(catch_up())
        await until(lambda: not c.controller.context.topics.being_reassigned)
        await quiesce()
        assert await c.requested() is None
        for partition in range(count):
            assert await c.lists(partition) == assignment([1, 3])
            assert await c.state(partition) == (1, 3, (1, 3))
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-95", "RA-22", "RA-2")
def test_a_dry_run_begins_nothing_that_waits_in_the_request_and_nor_does_the_call() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, 4, topic=[[1, 2], [1, 2]])
        # The second entry lists a broker twice: it is not recognised when it is complete, and stays.
        await c.submit({0: [1, 3], 1: [2, 2, 1]})
        before = await c.state(1)
        answer = await c.ask_for({0: [1, 4]}, validate_only=True)
        assert answer.plan is not None
        assert [change.after.partition for change in answer.plan.changes if change.after] == [0]
        assert await c.alter({0: [1, 4]}) == [ErrorCode.NONE]
        assert await c.requested() == {TopicPartition("t", 1): (2, 2, 1)}
        assert await c.state(1) == before
        # Whoever changes the znode has it judged again: the replicas are in place.
        await overwrite(c, {("t", 1): [2, 2, 1]})
        assert await c.requested() is None
        assert await c.state(1) == before
        await c.controller.stop()

    run_virtually(main)
