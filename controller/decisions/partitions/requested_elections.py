"""Requested leader elections: which partitions are refused, which are tried, and the results.

Source: Kafka KafkaController.processReplicaLeaderElection; KIP-183, KIP-460.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests import elections
from controller.decisions.context_view import ContextView
from controller.decisions.partitions.leader_election import ElectionFailure, Offline, Preferred, Strategy

_STRATEGIES: Mapping[int, Strategy] = {elections.PREFERRED: Preferred(), elections.UNCLEAN: Offline(allow_unclean=True)}
_NO_LEADER: Mapping[int, ErrorCode] = {
    elections.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    elections.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}
"""The error for a partition that could not get a leader (EP-5)."""


class RefusedElection(Struct, frozen=True):
    code: ErrorCode
    message: str


class RequestedElections(Struct, frozen=True):
    """Partitions to elect a leader for, their strategy, and the reason for those refused."""

    strategy: Strategy
    partitions: tuple[TopicPartition, ...]
    refusals: dict[TopicPartition, RefusedElection]


def is_election_type(number: int) -> bool:
    return number in _STRATEGIES


def requested_partitions(view: ContextView, request: elections.ElectLeadersRequest) -> list[TopicPartition]:
    """The partitions of the request, each once; all of the cluster if it names none."""
    if request.topic_partitions is None:
        return [TopicPartition(topic, p) for topic, of in sorted(view.topics.assignments.items()) for p in sorted(of)]
    named = (TopicPartition(item.topic, p) for item in request.topic_partitions for p in item.partitions)
    return list(dict.fromkeys(named))


def classify_elections(
    view: ContextView, election_type: int, partitions: Iterable[TopicPartition]
) -> RequestedElections:
    """Separate partitions that need an election from those that cannot have one or do not need one (EP-2)."""
    to_elect: list[TopicPartition] = []
    refusals: dict[TopicPartition, RefusedElection] = {}
    for tp in partitions:
        refusal = _refuse(view, election_type, tp)
        if refusal is None:
            to_elect.append(tp)
        else:
            refusals[tp] = refusal
    return RequestedElections(_STRATEGIES[election_type], tuple(to_elect), refusals)


def _refuse(view: ContextView, election_type: int, tp: TopicPartition) -> RefusedElection | None:
    replicas = view.topics.assignment(tp).replicas
    if not replicas:
        return RefusedElection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if tp.topic in view.deletions.queued:
        return RefusedElection(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    leadership = view.leaderships.known.get(tp)
    if leadership is None:
        # Refused alone; in Kafka it would fail the whole request (D-3).
        return RefusedElection(_NO_LEADER[election_type], "The partition never had a leader")
    if election_type == elections.PREFERRED and leadership.leader == replicas[0]:
        return RefusedElection(ErrorCode.ELECTION_NOT_NEEDED, "The preferred replica leads already")
    if election_type == elections.UNCLEAN and leadership.leader in view.brokers.live_ids:
        return RefusedElection(ErrorCode.ELECTION_NOT_NEEDED, "The partition has a live leader")
    return None


def election_result(
    election_type: int, outcome: LeaderAndIsr | ElectionFailure | None
) -> LeaderAndIsr | RefusedElection:
    """The result for an election outcome (EP-5); None if no election was held for the partition."""
    match outcome:
        case LeaderAndIsr():
            return outcome
        case ElectionFailure(reason, code):
            return RefusedElection(_NO_LEADER[election_type] if code is ErrorCode.NONE else code, reason)
        case None:
            return RefusedElection(
                _NO_LEADER[election_type], "The partition cannot hold an election in its present state"
            )


def answer_elections(
    request: elections.ElectLeadersRequest,
    partitions: Iterable[TopicPartition],
    refusals: Mapping[TopicPartition, RefusedElection],
) -> tuple[elections.ReplicaElectionResult, ...]:
    """Make one result for each partition, by topic; a request for all partitions omits those that needed no election
    (EP-6).
    """
    by_topic: dict[str, list[elections.PartitionElectionResult]] = {}
    for tp in partitions:
        refusal = refusals.get(tp)
        if refusal is None:
            result = elections.PartitionElectionResult(tp.partition, ErrorCode.NONE)
        elif refusal.code is ErrorCode.ELECTION_NOT_NEEDED and request.topic_partitions is None:
            continue
        else:
            result = elections.PartitionElectionResult(tp.partition, refusal.code, refusal.message)
        by_topic.setdefault(tp.topic, []).append(result)
    return tuple(elections.ReplicaElectionResult(topic, tuple(results)) for topic, results in by_topic.items())
