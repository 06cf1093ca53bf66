"""What brokers refuse of the controller's requests, from the epochs that their refusals name.

A broker that knows newer epochs than the controller has obeyed another one: mostly ZooKeeper was restored from a
backup. Until `klamm cluster recover` it stays so, because no request is answered differently the next time.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from cluster.model.broker import (
    UNKNOWN_BROKER_EPOCH,
    UNKNOWN_CONTROLLER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import Finding
from cluster.requests.control import ControlRequest, ControlResponse, LeaderAndIsrRequest, LeaderAndIsrResponse
from controller.decisions.brokers.failures import Failure
from controller.decisions.recovery.limits import EPOCH_MAX

REFUSES_CONTROLLER: Final = "refuses_controller"
_NAMED: Final = 3
"""Partitions named in one finding."""


class Epochs(NamedTuple):
    """A leader epoch of the controller, and the higher one that the broker knows."""

    requested: LeaderEpoch
    known: LeaderEpoch


class Refusals(Struct, frozen=True):
    """Holds what one broker refuses, by its last response to each kind of request.

    `controller_epoch`, `broker_epoch`: known to the broker and newer than those of the request, else -1.
    `is_stale`: it refuses requests as an earlier controller's, and does not name the epoch that it knows.
    """

    controller_epoch: ControllerEpoch = UNKNOWN_CONTROLLER_EPOCH
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    leader_epochs: Mapping[TopicPartition, Epochs] = {}
    topic_ids: frozenset[TopicPartition] = frozenset()
    """Partitions whose log has another topic id."""
    is_stale: bool = False


NO_REFUSALS: Final = Refusals()


class ChannelState(Struct, frozen=True):
    """One broker as the sender of its requests knows it. `silent_s`: for how long it has owed a response.

    `failure`: of the last attempt to send that request. `errors`: see `failures.errors_after`.
    """

    refusals: Refusals = NO_REFUSALS
    silent_s: float = 0
    failure: Failure | None = None
    errors: Mapping[str, ErrorCode] = {}


def refusals_after(before: Refusals, request: ControlRequest, response: ControlResponse) -> Refusals:
    """Compute what the broker refuses after one more response. A request that it obeys clears what it refused
    before.
    """
    if response.error_code in (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH):
        newer_controller = response.controller_epoch > request.controller_epoch
        newer_broker = response.broker_epoch > request.broker_epoch
        return Refusals(
            response.controller_epoch if newer_controller else UNKNOWN_CONTROLLER_EPOCH,
            response.broker_epoch if newer_broker else UNKNOWN_BROKER_EPOCH,
            before.leader_epochs,
            before.topic_ids,
            is_refused_without_epoch(response),
        )
    leader_epochs, topic_ids = before.leader_epochs, before.topic_ids
    if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
        leader_epochs, topic_ids = _refused_partitions(before, request, response)
    if not leader_epochs and not topic_ids:
        return NO_REFUSALS
    return Refusals(leader_epochs=leader_epochs, topic_ids=topic_ids)


def is_refused_without_epoch(response: ControlResponse) -> bool:
    """Whether it refuses the request as an earlier controller's, as Kafka's brokers do, which name no epoch."""
    is_stale = response.error_code is ErrorCode.STALE_CONTROLLER_EPOCH
    return is_stale and response.controller_epoch == UNKNOWN_CONTROLLER_EPOCH


def _refused_partitions(
    before: Refusals, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> tuple[Mapping[TopicPartition, Epochs], frozenset[TopicPartition]]:
    topics: dict[TopicId, str] = {t.topic_id: t.topic_name for t in request.topic_states if t.topic_id is not None}
    newer: dict[TopicPartition, LeaderEpoch] = {}
    other_ids: set[TopicPartition] = set()
    for error in response.partition_errors:
        topic = error.topic_name or topics.get(error.topic_id or TopicId(""), "")
        if error.error_code is ErrorCode.INCONSISTENT_TOPIC_ID:
            other_ids.add(TopicPartition(topic, error.partition_index))
        elif error.leader_epoch >= 0:
            newer[TopicPartition(topic, error.partition_index)] = error.leader_epoch
    if not (newer or other_ids or before.leader_epochs or before.topic_ids):
        return {}, frozenset()
    requested = {
        TopicPartition(topic.topic_name, state.partition_index): state.leader_epoch
        for topic in request.topic_states
        for state in topic.partition_states
    }
    kept = {tp: epochs for tp, epochs in before.leader_epochs.items() if tp not in requested}
    kept |= {tp: Epochs(requested[tp], known) for tp, known in newer.items() if tp in requested}
    return kept, frozenset(before.topic_ids - requested.keys() | other_ids)


def refusal_findings(
    broker: BrokerId, refusals: Refusals, controller_epoch: ControllerEpoch, broker_epoch: BrokerEpoch
) -> Iterator[Finding]:
    """Say what the broker refuses. The epochs are those of the controller's requests."""
    if refusals.controller_epoch > controller_epoch:
        newer = f"its epoch {refusals.controller_epoch} is newer than {controller_epoch}"
        is_absurd = refusals.controller_epoch > EPOCH_MAX
        advice = f", more than elections lead to (at most {EPOCH_MAX}): restart the broker, which then forgets it"
        yield _finding(broker, "requests", newer + (advice if is_absurd else ""))
    if refusals.is_stale:
        why = f"it knows a newer epoch than {controller_epoch}, and does not say which"
        is_high = controller_epoch >= EPOCH_MAX
        advice = "; the epoch is not raised any further: restart the broker, which then forgets the one it knows"
        yield _finding(broker, "requests", why + (advice if is_high else ""))
    if refusals.broker_epoch > broker_epoch:
        yield _finding(broker, "requests", f"its broker epoch {refusals.broker_epoch} is newer than {broker_epoch}")
    if refusals.leader_epochs:
        tp, epochs = min(refusals.leader_epochs.items())
        yield _finding(
            broker,
            f"requests for {_listed(refusals.leader_epochs)}",
            f"its leader epochs are newer, {epochs.known} against {epochs.requested} of {tp}",
        )
    if refusals.topic_ids:
        yield _finding(
            broker, f"requests for {_listed(refusals.topic_ids)}", "its logs are of another topic of that name"
        )


def _finding(broker: BrokerId, what: str, why: str) -> Finding:
    return Finding(REFUSES_CONTROLLER, f"broker {broker} refuses the controller's {what}: {why}", broker=broker)


def _listed(partitions: Mapping[TopicPartition, object] | frozenset[TopicPartition]) -> str:
    names = [str(tp) for tp in sorted(partitions)[:_NAMED]]
    rest = len(partitions) - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest else "")
