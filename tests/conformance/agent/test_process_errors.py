"""Too many open files, a name that is too long, short memory: the operation fails, and the log directory goes on."""

import copy
import errno
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import LeaderEpoch, Offset, TopicId
from cluster.model.errors import ErrorCode, LogOperationError, StartupError, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.data import EpochEndOffset
from simulator.disk import SimulatedDisk
from tests.brokers import agents
from tests.brokers.agents import AgentWorld, until, virtually
from tests.brokers.followers import data, error, follow
from tests.contract.log_worlds import (
    TP,
    InMemoryWorld,
    Node,
    TestClock,
    batch,
    check_invariants,
    extents,
    fetched,
    fill,
)

A, B = "/disk/a", "/disk/b"
TOPIC_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAQ")
CONFIG = LogConfig(segment_bytes=330, index_interval_bytes=100, retention_bytes=330, file_delete_delay_ms=0)

ERRNOS_OF_PROCESS = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT),
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ENOLCK, errno.EFBIG),
        *(errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EOVERFLOW),
        *(errno.EAGAIN, errno.EINTR, errno.ETXTBSY, errno.EDEADLK, errno.EBADF, errno.EFAULT, errno.E2BIG),
        *(errno.ERANGE, errno.EDOM),
    }
)


class RefusingDisk(SimulatedDisk):
    """Refuses the operation with number `refused_at`, counted from 0."""

    def __init__(self) -> None:
        super().__init__(TestClock(), Random(1))
        self.operations = 0
        self.refused_at = -1
        self.errno = errno.EMFILE
        self.is_counting = True

    @contextmanager
    def at_peace(self) -> Iterator[None]:
        """What is done to check the results is not counted."""
        self.is_counting = False
        yield
        self.is_counting = True

    @property
    def has_refused(self) -> bool:
        return self.operations > self.refused_at

    def check(self, path: str) -> None:
        super().check(path)
        if not self.is_counting:
            return
        self.operations += 1
        if self.operations == self.refused_at + 1:
            raise OSError(self.errno, "refused", path)


def refusing_node(*paths: str) -> tuple[Node, RefusingDisk]:
    world, disk = InMemoryWorld(), RefusingDisk()
    world.disk = disk
    return Node(world, *paths, config=CONFIG), disk


def refuse_next(disk: RefusingDisk, number: int = errno.EMFILE) -> None:
    disk.errno, disk.refused_at = number, disk.operations


@pytest.mark.rule("R11.1", "FD-1")
@pytest.mark.parametrize("number", sorted(errno.errorcode), ids=errno.errorcode.get)
async def test_an_error_of_the_disk_fails_the_directory_and_another_one_the_operation(number: int) -> None:
    node, disk = refusing_node(A, B)
    await node.start()
    log = await node.log()
    fill(log, 0)
    refuse_next(disk, number)
    with pytest.raises(StorageError, match=rf"^log directory {A}: .*refused.*{log.path}") as caught:
        fill(log, 0)
    is_of_process = number in ERRNOS_OF_PROCESS
    assert isinstance(caught.value, LogOperationError) is is_of_process
    assert node.logs.live_directories == ((A, B) if is_of_process else (B,))
    assert len(node.failures) == (0 if is_of_process else 1)
    if is_of_process:
        assert f"[Errno {number}]" in str(caught.value)
        assert "; " in str(caught.value), "it says what to do"
        assert extents(log) == [(0, 9, 0)]
        await node.logs.directories[A].measure_room()  # Of a full one, which takes no records until then.
        fill(log, 0)
        assert extents(log) == [(0, 9, 0), (10, 19, 0)]


@pytest.mark.rule("FD-1")
async def test_a_name_that_is_too_long_is_not_tried_in_one_directory_after_the_other() -> None:
    node, disk = refusing_node(A, B)
    await node.start()
    refuse_next(disk, errno.ENAMETOOLONG)
    with pytest.raises(LogOperationError, match="shorten the name"):
        await node.log(tp=TopicPartition("t" * 249, 0))
    assert node.failures == []
    assert node.logs.live_directories == (A, B)
    assert [(await node.log(tp=TopicPartition("t", number))).directory for number in range(2)] == [A, B]


@pytest.mark.rule("FD-1")
async def test_a_log_that_could_not_be_created_leaves_nothing_behind() -> None:
    for step in itertools.count():
        node, disk = refusing_node(A, B)
        await node.start()
        before = disk.operations
        disk.refused_at = disk.operations + step
        try:
            await node.log()
        except LogOperationError:
            assert disk.list_directory(A) == disk.list_directory(B), (step, disk.list_directory(A))
            continue
        assert disk.operations - before == step, "each operation was refused once"
        assert step > 3
        return


@pytest.mark.rule("FD-2")
async def test_a_start_without_descriptors_is_refused_and_loses_no_log() -> None:
    """A directory whose logs were loaded in part would get empty logs in the place of the others."""
    for step in itertools.count():
        node, disk = refusing_node(A, B)
        await node.start()
        for number in range(2):
            fill(await node.log(tp=TopicPartition("t", number)), 0, 0, 0, 0)
        await node.stop()
        disk.refused_at = disk.operations + step
        try:
            await node.start()
        except StartupError:
            await node.start()
        if node.logs.unloadable:
            assert disk.has_refused
            await node.restart()
        assert node.failures == []
        with disk.at_peace():
            assert {str(tp): len(extents(log)) for tp, log in node.logs.all_logs().items()} == {"t-0": 4, "t-1": 4}
        if not disk.has_refused:
            assert step > 20
            return


Step = Callable[[Node], Awaitable[Any] | object]


def log_of(node: Node) -> PartitionLog:
    log = node.logs.get(TP)
    assert log is not None
    return log


async def create(node: Node) -> None:
    log = await node.logs.get_or_create(TP, topic_id=TOPIC_ID, is_new=True, config=CONFIG)
    await log.begin_leader_epoch(LeaderEpoch(1), log.log_end_offset)


def append_fetched(base: int) -> Step:
    return lambda node: log_of(node).append_as_follower(fetched(base, 10, epoch=4), LeaderEpoch(4))


def append_set(base: int, *epochs: int) -> Step:
    """Append batches of these leader epochs as one set; what there is of it already is not fetched again."""
    batches = [(at, fetched(at, 10, epoch=epoch)) for at, epoch in zip(itertools.count(base, 10), epochs)]

    def fetch(node: Node) -> None:
        log = log_of(node)
        log.append_as_follower(
            b"".join(each for at, each in batches if at >= log.log_end_offset), LeaderEpoch(epochs[-1])
        )

    return fetch


async def delete(node: Node) -> None:
    for failure in (await node.logs.delete([TP])).values():
        raise failure


STEPS: list[Step] = [
    create,
    *(lambda node: log_of(node).append_as_leader(batch(10), LeaderEpoch(1), 1) for _ in range(8)),
    lambda node: node.logs.write_high_watermarks(A, lambda: {TP: log_of(node).set_high_watermark(Offset(70))}),
    lambda node: log_of(node).flush(),
    lambda node: node.logs.write_recovery_points(),
    lambda node: log_of(node).raise_log_start_offset(Offset(15)),
    lambda node: node.logs.write_log_start_offsets(),
    lambda node: log_of(node).truncate_to(Offset(25)),
    *map(append_fetched, range(25, 80, 10)),
    lambda node: node.logs.flush_due(),
    lambda node: log_of(node).set_high_watermark(Offset(85)),
    lambda node: node.logs.enforce_retention(1),
    lambda node: log_of(node).truncate_to(Offset(60)),
    *map(append_fetched, range(60, 110, 10)),
    lambda node: log_of(node).truncate_fully_and_start_at(Offset(500)),
    *map(append_fetched, range(500, 550, 10)),
    append_set(550, 4, 5, 7, 7, 8),
    lambda node: log_of(node).truncate_to(Offset(575)),
    append_set(575, 9, 9, 11, 12),
    lambda node: node.logs.flush_due(),
    delete,
    lambda node: node.logs.remove_deleted(),
    create,
    *(lambda node: log_of(node).append_as_leader(batch(10), LeaderEpoch(1), 1) for _ in range(4)),
    lambda node: node.logs.enforce_retention(1),
]


def state_of(node: Node) -> object:
    log = node.logs.get(TP)
    if log is None:
        return None
    return extents(log), log.log_start_offset, log.log_end_offset, log.high_watermark, log.epoch_entries


async def carry_out(step: Step, node: Node) -> None:
    result = step(node)
    if isawaitable(result):
        await result


@pytest.mark.rule("FD-1")
async def test_whatever_operation_is_refused_the_next_attempt_finds_the_log_as_it_should_be() -> None:
    """A step is repeated after a refusal, as a fetcher or producer does; then, and after a crash, nothing shows."""
    node, disk = refusing_node(A)
    await node.start()
    wanted = []
    for step in STEPS:
        await carry_out(step, node)
        with disk.at_peace():
            wanted.append(state_of(node))
    for refused_at in range(disk.operations):
        await check_with_refusal(refused_at, wanted)


async def check_with_refusal(refused_at: int, wanted: list[object]) -> None:
    node, disk = refusing_node(A)
    disk.refused_at = refused_at
    try:
        await node.start()
    except StartupError:
        await node.start()
    for number, step in enumerate(STEPS):
        had_refused = disk.has_refused
        try:
            await carry_out(step, node)
        except LogOperationError:
            with disk.at_peace():
                await start_successor(disk)
                if (log := node.logs.get(TP)) is not None:
                    check_invariants(log)
            await carry_out(step, node)
        with disk.at_peace():
            if disk.has_refused and not had_refused and state_of(node) != wanted[number]:
                # Periodic work goes on in spite of a refusal, and does at its next turn what is left.
                await carry_out(step, node)
            assert node.failures == []
            assert state_of(node) == wanted[number], (refused_at, number)
            if (log := node.logs.get(TP)) is not None:
                check_invariants(log)
            if disk.has_refused and not had_refused:
                await check_restart(node, disk)
    with disk.at_peace():
        await check_restart(node, disk)


async def check_restart(node: Node, disk: RefusingDisk) -> None:
    """The files hold what memory says, but for a log start that was not checkpointed yet."""
    found, log = await start_successor(disk), node.logs.get(TP)
    assert (found is None) is (log is None)
    if found is not None and log is not None:
        assert [extent for extent in extents(found) if extent[1] >= log.log_start_offset] == extents(log)


async def start_successor(disk: RefusingDisk) -> PartitionLog | None:
    """The log as the successor of a process that is killed now finds it."""
    world = InMemoryWorld()
    world.disk = copy.deepcopy(disk)
    world.disk.kill_process()
    successor = Node(world, A, config=CONFIG)
    await successor.start()
    assert successor.failures == []
    assert successor.logs.newly_damaged == []
    found = successor.logs.get(TP)
    if found is not None:
        check_invariants(found)
    return found


@pytest.mark.rule("FD-1")
@virtually
async def test_a_refused_role_change_is_made_by_the_next_request() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]
    world.decide(1, [1])
    await world.update_metadata()
    agent.disk.refuse(errno.EMFILE, 1)
    assert await world.tell(1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not agent.agent.manager.is_offline(agents.TP)
    assert (await agent.produce()).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await world.tell(1) is ErrorCode.NONE
    assert (await agent.produce()).error_code is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("FD-1")
@virtually
async def test_a_leader_that_cannot_take_over_leads_no_longer() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]
    await world.create(1, [1])
    world.decide(1, [1])
    agent.disk.refuse(errno.EMFILE, 1)
    assert await world.tell(1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (await agent.produce()).error_code is not ErrorCode.NONE
    assert await world.tell(1) is ErrorCode.NONE
    assert (await agent.produce()).error_code is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("FD-1")
@virtually
async def test_a_refused_append_is_answered_with_errno_and_remedy_and_the_next_one_is_taken() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]
    await world.create(1, [1])
    agent.disk.refuse(errno.EMFILE, 1)
    refused = await agent.produce()
    assert refused.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "[Errno 24]" in refused.error_message
    assert "ulimit -n" in refused.error_message
    assert (await agent.produce()).error_code is ErrorCode.NONE
    assert not agent.agent.manager.is_offline(agents.TP)
    await world.stop()


@pytest.mark.rule("FD-1", "R5.17")
@virtually
async def test_a_follower_tries_a_refused_append_and_a_refused_truncation_again() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    follower.disk.refuse(errno.EMFILE, 2)  # The first one meets the flush of the topic id before the append.
    for _ in range(2):
        leader.answers.put_nowait(data(0, 5))
    await until(lambda: follower.offsets()[1] == 5)
    assert follower.agent.fetchers.failed == ()
    diverging = replace(error(ErrorCode.NONE), diverging_epoch=EpochEndOffset(LeaderEpoch(0), Offset(2)))
    follower.disk.refuse(errno.EMFILE, 1)
    for _ in range(2):
        leader.answers.put_nowait(diverging)
    await until(lambda: follower.offsets()[1] == 2)
    assert follower.agent.fetchers.failed == ()
    assert not follower.agent.manager.is_offline(agents.TP)
    await world.stop()
