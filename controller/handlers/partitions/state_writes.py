"""Conditional writes of partition state znodes: decides again and retries where the znode has changed.

Source: Kafka ZkPartitionStateMachine.doElectLeaderForPartitions, ZkReplicaStateMachine.removeReplicasFromIsr,
KafkaController.updateLeaderEpoch, each of which has this loop.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import structlog

from cluster.aio.tasks import Backoff
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from controller.active_controller import ActiveController
from controller.decisions.partitions.leader_election import ElectionFailure
from controller.fenced_writes import Conflict, Outcome, Written

_ROUNDS_WITHOUT_PAUSE: Final = 10
_PAUSE_MS: Final = (65, 800)  # 50 ms to 1 s with the jitter (D-25).
_log = structlog.stdlib.get_logger()

Leaderships = Mapping[TopicPartition, LeaderAndIsr]
Current = Mapping[TopicPartition, LeaderAndIsr | None]
"""The leadership that a decision is based on; None for a partition without a state znode."""
Failures = Mapping[TopicPartition, ElectionFailure]


class WritePlan(Protocol):
    """`writes`: leaderships, written only if the partition epoch in ZooKeeper is one less. `failures`: not retried."""

    @property
    def writes(self) -> Leaderships: ...

    @property
    def failures(self) -> Failures: ...


async def write_in_rounds(
    active: ActiveController,
    partitions: Iterable[TopicPartition],
    decide: Callable[[Current], Awaitable[WritePlan]],
    apply: Callable[[Leaderships], None],
) -> tuple[dict[TopicPartition, LeaderAndIsr], dict[TopicPartition, ElectionFailure]]:
    """Decide, write, apply; repeat for the partitions whose znode changed meanwhile (PS-10, RM-8, RA-14).

    Returns the leaderships written and the failures. `apply` is called with the writes of each round at once, so that
    an error in a later round does not leave memory behind ZooKeeper. ZooKeeper errors are raised.
    """
    written: dict[TopicPartition, LeaderAndIsr] = {}
    failures: dict[TopicPartition, ElectionFailure] = {}
    pauses = Backoff(*_PAUSE_MS, active.random)
    rounds = 0
    current = await _current_leaderships(active, partitions)
    while current:
        plan = await decide(current)
        writes = plan.writes
        outcomes = await active.store.write_states(writes)
        acknowledged = {tp: writes[tp] for tp, outcome in outcomes.items() if isinstance(outcome, Written)}
        apply(acknowledged)
        written |= acknowledged
        moved_on = {tp: None for tp, o in outcomes.items() if isinstance(o, Conflict) and not o.exists}
        failures |= plan.failures
        failures |= {tp: failure for tp, failure in refusals(outcomes).items() if tp not in moved_on}
        rounds += 1
        if moved_on and rounds >= _ROUNDS_WITHOUT_PAUSE:
            _log.warning("Partition state znodes keep changing; retrying", partitions=len(moved_on), rounds=rounds)
            await pauses.pause()
        current = await _read(active, list(moved_on))
    return written, failures


def refusals(outcomes: Mapping[TopicPartition, Outcome]) -> dict[TopicPartition, ElectionFailure]:
    """The failure of every write that ZooKeeper refused."""
    return {
        tp: ElectionFailure(f"the state node cannot be written: {outcome}", ErrorCode.UNKNOWN_SERVER_ERROR)
        for tp, outcome in outcomes.items()
        if not isinstance(outcome, Written)
    }


async def _current_leaderships(active: ActiveController, partitions: Iterable[TopicPartition]) -> Current:
    """Leaderships for the first round: from the context, or from ZooKeeper where agents may have written (D-23)."""
    if not active.config.protocol_version.has_alter_partition:
        return await _read(active, list(partitions))
    known = active.context.leaderships.known
    current: dict[TopicPartition, LeaderAndIsr | None] = {tp: known.get(tp) for tp in partitions}
    return {**current, **await _read(active, [tp for tp, leadership in current.items() if leadership is None])}


async def _read(active: ActiveController, partitions: Sequence[TopicPartition]) -> Current:
    if not partitions:
        return {}
    found = await active.store.read_states(partitions)
    return {tp: found.get(tp) for tp in partitions}
