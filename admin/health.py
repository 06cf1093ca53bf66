"""Health check of a cluster, from what the active controller reports."""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from cluster.broker import NO_LEADER, BrokerId
from cluster.requests.cluster import MALFORMED_ZNODE, UNACCEPTABLE_DIRECTORY, DescribedBroker, Finding
from cluster.requests.plans import DescribedPartition
from cluster.requests.reassignments import DescribedReassignment
from cluster.requests.topics import DescribedTopic, DescribedTopicDeletion

IMBALANCE_MAX: Final = 0.1
"""Share of its preferred partitions that a broker may not lead, as `leader.imbalance.per.broker.percentage`."""


class Trouble(StrEnum):
    """Kinds of health issues, most severe first."""

    MALFORMED_ZNODE = MALFORMED_ZNODE
    OFFLINE = "offline_partition"
    UNDER_MIN_ISR = "under_min_isr"
    DEAD_BROKER = "dead_broker"
    UNDER_REPLICATED = "under_replicated"
    STUCK_REASSIGNMENT = "stuck_reassignment"
    STUCK_DELETION = "stuck_deletion"
    UNACCEPTABLE_DIRECTORY = UNACCEPTABLE_DIRECTORY
    OTHER = "other"
    """Found by a newer process."""
    IMBALANCED_LEADERS = "imbalanced_leaders"


class HealthIssue(Struct, frozen=True):
    """One issue. Where they do not apply, `topic` and `path` are empty, `partition` and `broker` are -1."""

    trouble: Trouble
    detail: str
    topic: str = ""
    partition: int = -1
    broker: BrokerId = BrokerId(-1)
    path: str = ""


def find_trouble(
    topics: Sequence[DescribedTopic],
    brokers: Sequence[DescribedBroker],
    reassignments: Sequence[DescribedReassignment],
    deletions: Sequence[DescribedTopicDeletion],
    findings: Sequence[Finding] = (),
) -> list[HealthIssue]:
    """All health issues, most severe kind first. Topics queued for deletion are skipped.

    `findings`: what the processes themselves found wrong.
    """
    staying = [t for t in topics if not t.queued_for_deletion]
    live = {b.id for b in brokers}
    found = [
        *(issue for topic in staying for p in topic.partitions for issue in _check_partition(topic, p)),
        *_dead_brokers(staying, live),
        *(
            HealthIssue(Trouble.STUCK_REASSIGNMENT, r.stuck_reason, r.topic, r.partition)
            for r in reassignments
            if r.stuck_reason
        ),
        *(HealthIssue(Trouble.STUCK_DELETION, d.reason, d.topic) for d in deletions if d.reason),
        *_imbalance(staying, live),
        *map(_issue_of, findings),
    ]
    order = list(Trouble)
    return sorted(found, key=lambda f: (order.index(f.trouble), f.topic, f.partition, f.broker, f.path, f.detail))


def _issue_of(finding: Finding) -> HealthIssue:
    trouble = Trouble(finding.kind) if finding.kind in set(Trouble) else Trouble.OTHER
    detail = finding.detail if trouble is not Trouble.OTHER else f"{finding.kind}: {finding.detail}"
    return HealthIssue(trouble, detail, finding.topic, finding.partition, finding.broker, finding.path)


def _check_partition(topic: DescribedTopic, p: DescribedPartition) -> Iterator[HealthIssue]:
    in_sync = f"in sync {list(p.isr)} of replicas {list(p.replicas)}"
    if p.leader == NO_LEADER:
        yield HealthIssue(Trouble.OFFLINE, f"no leader; {in_sync}", topic.name, p.partition)
    # min.insync.replicas above the number of replicas counts as that number.
    elif len(p.isr) < (wanted := min(topic.min_insync_replicas, len(p.replicas))):
        yield HealthIssue(
            Trouble.UNDER_MIN_ISR,
            f"{in_sync}, below min.insync.replicas {wanted}: produce with acks=all fails",
            topic.name,
            p.partition,
        )
    # Adding replicas of a reassignment are expected to be out of sync at first.
    if len(p.isr) < len(p.replicas) - len(p.adding_replicas):
        yield HealthIssue(Trouble.UNDER_REPLICATED, in_sync, topic.name, p.partition)


def _dead_brokers(topics: Sequence[DescribedTopic], live: set[BrokerId]) -> Iterator[HealthIssue]:
    hosted = Counter(b for t in topics for p in t.partitions for b in p.replicas)
    for broker in sorted(hosted.keys() - live):
        yield HealthIssue(Trouble.DEAD_BROKER, f"not registered, hosts {hosted[broker]} replicas", broker=broker)


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
