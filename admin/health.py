"""Health check of a cluster, from what the active controller reports."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from admin.partition_filters import is_under_replicated, wanted_in_sync
from cluster.broker import NO_LEADER, BrokerId
from cluster.counted import counted
from cluster.requests.cluster import DescribedBroker, Finding
from cluster.requests.plans import DescribedPartition
from cluster.requests.reassignments import DescribedReassignment
from cluster.requests.topics import DescribedTopic, DescribedTopicDeletion

IMBALANCE_MAX: Final = 0.1
"""Share of its preferred partitions that a broker may not lead, as `leader.imbalance.per.broker.percentage`."""


class Trouble(StrEnum):
    """Kinds of health issues, most severe first."""

    NO_ACTIVE_CONTROLLER = "no_active_controller"
    UNFIT_CONTROLLER = "unfit_controller"
    MALFORMED_ZNODE = "malformed_znode"
    OFFLINE = "offline_partition"
    DAMAGED_REPLICA_WAITS = "damaged_replica_waits"
    REFUSES_CONTROLLER = "refuses_controller"
    REQUESTS_NOT_UNDERSTOOD = "requests_not_understood"
    REQUESTS_NOT_AUTHORIZED = "requests_not_authorized"
    REQUESTS_FAIL = "requests_fail"
    AUTHORIZER_ON_BROKER = "authorizer_on_broker"
    NO_LEADER_EPOCH_LEFT = "no_leader_epoch_left"
    FEW_CONTROLLER_EPOCHS_LEFT = "few_controller_epochs_left"
    DAMAGED_REPLICA = "damaged_replica"
    UNDER_MIN_ISR = "under_min_isr"
    DEAD_BROKER = "dead_broker"
    BROKER_NOT_ADMITTED = "broker_not_admitted"
    SINGLE_CONTROLLER = "single_controller"
    MISSING_CONTROLLER = "missing_controller"
    UNREPORTED_DAMAGE = "unreported_damage"
    FAILED_LOG_DIRECTORY = "failed_log_directory"
    OFFLINE_REPLICA = "offline_replica"
    SILENT_BROKER = "silent_broker"
    STUCK_ISR_CHANGE = "stuck_isr_change"
    UNDER_REPLICATED = "under_replicated"
    STUCK_REASSIGNMENT = "stuck_reassignment"
    STUCK_DELETION = "stuck_deletion"
    LEFT_REPLICAS = "left_replicas"
    STUCK_SHUTDOWN = "stuck_shutdown"
    UNACCEPTABLE_DIRECTORY = "unacceptable_directory"
    IMBALANCED_LEADERS = "imbalanced_leaders"


class HealthIssue(Struct, frozen=True):
    """One issue. Where they do not apply, `topic` is empty, `partition` and `broker` are -1.

    `trouble`: a `Trouble`, or what a process of a later version calls it.
    """

    trouble: str
    detail: str
    topic: str = ""
    partition: int = -1
    broker: BrokerId = BrokerId(-1)


def find_trouble(
    topics: Sequence[DescribedTopic],
    brokers: Sequence[DescribedBroker],
    reassignments: Sequence[DescribedReassignment],
    deletions: Sequence[DescribedTopicDeletion],
    findings: Iterable[Finding] = (),
) -> list[HealthIssue]:
    """All health issues, most severe kind first. Topics queued for deletion are skipped.

    `findings`: what the controller and the brokers know to be wrong themselves; for each broker and kind one is kept
    where the controller and the broker both report that the broker does not respond.
    """
    staying = [t for t in topics if not t.queued_for_deletion]
    findings = list(findings)
    live = {b.id for b in brokers}
    # These are registered, and say so.
    waiting = {finding.broker for finding in findings if finding.kind == Trouble.UNREPORTED_DAMAGE}
    found = [
        *(issue for topic in staying for p in topic.partitions for issue in _check_partition(topic, p)),
        *_dead_brokers(staying, live | waiting),
        *(
            HealthIssue(Trouble.STUCK_REASSIGNMENT, r.stuck_reason, r.topic, r.partition)
            for r in reassignments
            if r.stuck_reason
        ),
        *(HealthIssue(Trouble.STUCK_DELETION, d.reason, d.topic) for d in deletions if d.reason),
        *_imbalance(staying, live),
        *(HealthIssue(f.kind, f.detail, f.topic, f.partition, f.broker) for f in _distinct(findings)),
    ]
    order = {str(kind): place for place, kind in enumerate(Trouble)}
    return sorted(found, key=lambda f: (order.get(f.trouble, len(order)), f.topic, f.partition, f.broker))


def _distinct(findings: Iterable[Finding]) -> Iterator[Finding]:
    silent: set[BrokerId] = set()
    for finding in findings:
        if finding.kind == Trouble.SILENT_BROKER:
            if finding.broker in silent:
                continue
            silent.add(finding.broker)
        yield finding


def _check_partition(topic: DescribedTopic, p: DescribedPartition) -> Iterator[HealthIssue]:
    in_sync = f"in sync {list(p.isr)} of replicas {list(p.replicas)}"
    if p.leader == NO_LEADER:
        yield HealthIssue(Trouble.OFFLINE, f"no leader; {in_sync}", topic.name, p.partition)
    elif len(p.isr) < (wanted := wanted_in_sync(topic, p)):
        yield HealthIssue(
            Trouble.UNDER_MIN_ISR,
            f"{in_sync}, below min.insync.replicas {wanted}: produce with acks=all fails",
            topic.name,
            p.partition,
        )
    if is_under_replicated(p):
        yield HealthIssue(Trouble.UNDER_REPLICATED, in_sync, topic.name, p.partition)


def hosting_brokers(topics: Iterable[DescribedTopic]) -> set[BrokerId]:
    """Those that have replicas to host, registered or not."""
    return {broker for topic in topics for p in topic.partitions for broker in p.replicas}


def _dead_brokers(topics: Sequence[DescribedTopic], live: set[BrokerId]) -> Iterator[HealthIssue]:
    hosted = Counter(b for t in topics for p in t.partitions for b in p.replicas)
    for broker in sorted(hosted.keys() - live):
        detail = f"not registered, hosts {counted(hosted[broker], 'replica')}"
        yield HealthIssue(Trouble.DEAD_BROKER, detail, broker=broker)


def _imbalance(topics: Sequence[DescribedTopic], live: set[BrokerId]) -> Iterator[HealthIssue]:
    preferred: Counter[BrokerId] = Counter()
    elsewhere: Counter[BrokerId] = Counter()
    for topic in topics:
        for p in topic.partitions:
            if p.replicas and p.leader != NO_LEADER:
                preferred[p.replicas[0]] += 1
                elsewhere[p.replicas[0]] += p.leader != p.replicas[0]
    for broker in sorted(preferred.keys() & live):
        if elsewhere[broker] > IMBALANCE_MAX * preferred[broker]:
            detail = f"does not lead {elsewhere[broker]} of its {preferred[broker]} preferred partitions"
            yield HealthIssue(Trouble.IMBALANCED_LEADERS, detail, broker=broker)
