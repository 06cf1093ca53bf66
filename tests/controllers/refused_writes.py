"""Procedures of the controller, each run while ZooKeeper refuses one of its writes: what is compared afterwards."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple

from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError
from cluster.model.partition import TopicPartition
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest
from cluster.znodes.paths import (
    BROKERS_TOPICS,
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
)
from cluster.zookeeper.port import Check, Delete, Op, OpResult, SetData, ZkError
from simulator.recount import recount
from tests.controllers.worlds import RunningController, World, quiesce, until

AFTER_RESUMPTION_S = 100
"""Longer than the controller waits before it tries a refused write again, three times over."""


class Refusal(Enum):
    """What becomes of one transaction of the controller."""

    NO_AUTH = "the last operation is not allowed"
    FENCE_UNREADABLE = "the check of the epoch is not allowed"
    SERVER_ERROR = "an error of the server's own"
    BAD_VERSION = "the last conditional operation meets another version"
    FENCED = "another controller was elected, as it seems"
    NO_NODE = "the last operation that needs a znode does not find it"
    HALF = "the last operation is not allowed, nor is the second half of the others"


def refused_at(refusal: Refusal, ops: Sequence[Op]) -> tuple[int, ZkError] | None:
    """Position of the operation that fails, and how; None where none of them can meet this."""
    last = len(ops) - 1
    match refusal:
        case Refusal.NO_AUTH | Refusal.HALF:
            return last, ZkError.NO_AUTH
        case Refusal.FENCE_UNREADABLE:
            return 0, ZkError.NO_AUTH
        case Refusal.SERVER_ERROR:
            return last, ZkError.INVALID_ACL
        case Refusal.FENCED:
            return 0, ZkError.BAD_VERSION
        case Refusal.BAD_VERSION:
            met = [i for i, op in enumerate(ops[1:], 1) if isinstance(op, SetData | Delete) and op.version >= 0]
            return (met[-1], ZkError.BAD_VERSION) if met else None
        case Refusal.NO_NODE:
            # Of a deletion that would be no failure.
            met = [i for i, op in enumerate(ops[1:], 1) if not isinstance(op, Delete)]
            return (met[-1], ZkError.NO_NODE) if met else None


class WriteRefusals:
    """Notes the writes of a controller, and refuses the one with the given number."""

    def __init__(self, refusal: Refusal | None = None, number: int = -1) -> None:
        self._refusal, self._numbers = refusal, {number}
        if refusal is Refusal.HALF:
            # After a refusal the writer sends what else there was in two halves.
            self._numbers.add(number + 2)
        self.writes: list[Sequence[Op]] = []
        self.refused: list[Sequence[Op]] = []

    def __call__(self, ops: Sequence[Op]) -> list[OpResult] | None:
        if not (len(ops) > 1 and isinstance(ops[0], Check)):
            return None
        self.writes.append(ops)
        if self._refusal is None or len(self.writes) - 1 not in self._numbers:
            return None
        refused = refused_at(self._refusal, ops)
        if refused is None:
            return None
        self.refused.append(ops)
        position, error = refused
        answer = [OpResult(ZkError.RUNTIME_INCONSISTENCY) for _ in ops]
        answer[position] = OpResult(error)
        return answer


Step = Callable[[World, RunningController], Awaitable[object]]


class Procedure(NamedTuple):
    """`prepare` runs undisturbed, `run` while a write is refused. `events`: what the controller handles meanwhile.

    `always_ends`: whoever asked is not there to be refused, so in the end the procedure must have come to its end.
    `other_ends`: what items may have then instead of what they have undisturbed.
    """

    name: str
    events: tuple[str, ...]
    prepare: Step
    run: Step
    always_ends: bool = True
    settings: dict[str, Any] = {}
    other_ends: tuple[object, ...] = ()


class Outcome(NamedTuple):
    before: dict[str, object]
    after: dict[str, object]
    writes: list[Sequence[Op]]


async def carry_out(procedure: Procedure, world: World, c: RunningController, refusals: WriteRefusals) -> Outcome:
    """Run a procedure to its end, with what is resumed later; memory is compared with ZooKeeper on the way."""
    await procedure.prepare(world, c)
    await quiesce()
    before = await items(world)
    c.zookeeper.refuse_writes(refusals)
    # Whoever asked may be told that it did not come about.
    with suppress(ApiError):
        await procedure.run(world, c)
    await quiesce(2)
    await until(lambda: c.is_active, "active again")
    await memory_equals_zookeeper(world, c)
    await quiesce(AFTER_RESUMPTION_S)
    await memory_equals_zookeeper(world, c)
    await nothing_is_left_over(world, c)
    return Outcome(before, await items(world), refusals.writes)


async def items(world: World) -> dict[str, object]:
    """What ZooKeeper has of each topic and partition, without the epochs, which count attempts."""
    found: dict[str, object] = {}
    for topic in await world.tool.children(BROKERS_TOPICS) or ():
        assigned = await world.topic(topic)
        assert assigned is not None
        found[topic] = sorted(assigned.partitions)
        for partition, assignment in assigned.partitions.items():
            state = await world.state(topic, partition)
            found[f"{topic}-{partition} replicas"] = assignment
            # Who was refused to leave may be the one that is remembered as the last in sync.
            found[f"{topic}-{partition} ISR"] = None if state is None else (state.leader >= 0, len(state.isr))
    return found


async def memory_equals_zookeeper(world: World, c: RunningController) -> None:
    context, active = c.context, c.controller._active
    assert active is not None
    names = set(await world.tool.children(BROKERS_TOPICS) or ())
    assert set(context.topics.names) == names
    for name in names:
        topic = await world.topic(name)
        assert topic is not None
        assert context.topics.assignments.get(name, {}) == topic.partitions
        # An id that somebody dropped is written back with what is resumed later.
        is_dropped = topic.topic_id is None and name in active.lost_topic_ids.unwritten
        assert is_dropped or context.topics.ids.get(name) == topic.topic_id
        for partition in topic.partitions:
            state, known = (
                await world.state(name, partition),
                context.leaderships.known.get(TopicPartition(name, partition)),
            )
            assert (state is None) == (known is None)
            if state is not None:
                # In memory a leadership that was sent again bears the epoch of who sent it.
                assert (known.leader, known.leader_epoch, known.isr, known.partition_epoch) == (
                    state.leader,
                    state.leader_epoch,
                    state.isr,
                    state.partition_epoch,
                )
    assert recount(context) == (
        context.leaderships.offline_partition_count,
        context.leaderships.preferred_replica_imbalance_count,
    )


async def nothing_is_left_over(world: World, c: RunningController) -> None:
    """Requests in ZooKeeper are answered, moves are what topic nodes say, and brokers were told what is in force."""
    context = c.context
    moving = {
        TopicPartition(topic, p)
        for topic, of_topic in context.topics.assignments.items()
        for p, a in of_topic.items()
        if a.is_being_reassigned
    }
    assert context.topics.being_reassigned == moving
    assert await world.tool.exists(PREFERRED_REPLICA_ELECTION) is None
    if not moving:
        assert await world.tool.exists(REASSIGN_PARTITIONS) is None
    for parent in (DELETE_TOPICS, ISR_CHANGE_NOTIFICATION, LOG_DIR_EVENT_NOTIFICATION):
        assert not await world.tool.children(parent)
    for tp, leadership in context.leaderships.known.items():
        assert set(leadership.isr) <= set(context.topics.assignment(tp).replicas)
        for broker in context.brokers.online_for(tp).intersection(context.topics.assignment(tp).replicas):
            assert _last_received_epoch(c, broker, tp) == leadership.leader_epoch, (tp, broker)


def _last_received_epoch(c: RunningController, broker: BrokerId, tp: TopicPartition) -> int | None:
    """The leader epoch last sent to the broker; None if a StopReplica with deletion was sent after that."""
    last: int | None = None
    for to, request in c.brokers.received:
        match request:
            case LeaderAndIsrRequest() if to == broker:
                for topic in request.topic_states:
                    for state in topic.partition_states:
                        if (topic.topic_name, state.partition_index) == tp:
                            last = state.leader_epoch
            case StopReplicaRequest() if to == broker:
                for stopped in request.partition_states:
                    if (stopped.topic_name, stopped.partition_index) == tp and stopped.delete_partition:
                        last = None
            case _:
                pass
    return last
