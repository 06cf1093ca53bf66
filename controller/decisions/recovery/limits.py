"""What a recovery refuses to write, although a broker names it: numbers that no elections or allocations lead to.

One control request or one producer can make a broker name any number of its type. Written to ZooKeeper it would be the
last: nothing could follow it.
"""

from collections.abc import Iterator
from typing import Final

from cluster.model.broker import BrokerId, ControllerEpoch
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.znodes.paths import state_path
from controller.decisions.recovery.evidence import Answers

EPOCH_MAX: Final = 1 << 30
"""Of controllers and leaders: an election each second takes 34 years to it, and as many can follow."""
WRITES_MAX: Final = 1_000_000
"""Of one state znode, whose version rises by one with each: as many as an ISR that changes each second for 11 days."""
PRODUCER_ID_MAX: Final = 1 << 62
_FORGET: Final = (
    "restart the broker, which then forgets what it was only sent; if it names it again, stop it, and move its"
    " directory state-change-log elsewhere"
)


def credible_epoch(active: ControllerEpoch, answers: Answers) -> ControllerEpoch:
    """The highest controller epoch that was used: of the active controller, or known to a broker."""
    limit = max(EPOCH_MAX, active)
    return max((active, *(a.controller_epoch for a in answers.values() if a.controller_epoch <= limit)))


def incredible_epochs(active: ControllerEpoch, answers: Answers) -> Iterator[str]:
    """Brokers that know a controller epoch which no controller can have had."""
    for broker, answer in sorted(answers.items()):
        if answer.controller_epoch > max(EPOCH_MAX, active):
            yield (
                f"broker {broker} knows controller epoch {answer.controller_epoch}, more than elections lead to"
                f" (at most {EPOCH_MAX}): {_FORGET}"
            )


def credible_producer_id(last: int, answers: Answers) -> int:
    """The highest producer id that was allocated: up to `last`, or known to a broker; -1 none."""
    return max((last, *(a.producer_id for a in answers.values() if a.producer_id <= PRODUCER_ID_MAX)))


def incredible_producer_ids(answers: Answers) -> Iterator[str]:
    """Brokers with records of a producer id which no controller can have allocated."""
    for broker, answer in sorted(answers.items()):
        if answer.producer_id > PRODUCER_ID_MAX:
            yield (
                f"broker {broker} has records of producer id {answer.producer_id}, which no controller allocated; if"
                " loss is accepted, it is ignored, and ids below it that are in use there may be allocated again"
            )


def unwritable(tp: TopicPartition, before: LeaderAndIsr | None, after: LeaderAndIsr, answers: Answers) -> str | None:
    """Say why the state of a partition is not raised to this one; None if it may be."""
    version = -1 if before is None else before.partition_epoch
    if after.leader_epoch > EPOCH_MAX:
        seen = after.leader_epoch - 1
        known = f"leader epoch {seen} of {tp}, more than elections lead to (at most {EPOCH_MAX})"
        brokers = [b for b in sorted(answers) if seen in _leader_epochs(tp, b, answers)]
        if not brokers:
            return f"{state_path(tp)} has {known}: create the topic again, under another name, and delete this one"
        return f"{_named(brokers)} {known}: {_FORGET}, or, if it is in its log, the directory {tp}"
    if after.partition_epoch - version > WRITES_MAX:
        seen = after.partition_epoch - 1
        brokers = [b for b in sorted(answers) if seen in _partition_epochs(tp, b, answers)]
        return (
            f"{_named(brokers)} partition epoch {seen} of {tp}, more than {WRITES_MAX} above the {version} of"
            f" {state_path(tp)}: {_FORGET}"
        )
    return None


def _leader_epochs(tp: TopicPartition, broker: BrokerId, answers: Answers) -> Iterator[int]:
    own = (replica for replica in answers[broker].replicas if (replica.topic, replica.partition) == tp)
    for replica in own:
        yield from (replica.leader_epoch, replica.log_epoch)
    yield from (k.leader_epoch for k in answers[broker].leaderships if (k.topic, k.partition) == tp)


def _partition_epochs(tp: TopicPartition, broker: BrokerId, answers: Answers) -> Iterator[int]:
    return (k.partition_epoch for k in answers[broker].leaderships if (k.topic, k.partition) == tp)


def _named(brokers: list[BrokerId]) -> str:
    names = ", ".join(map(str, brokers))
    return f"broker {names} knows" if len(brokers) == 1 else f"brokers {names} know"
