"""Checks the health of a cluster, from what the active controller reports."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from enum import StrEnum
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from admin.moving.partition_filters import is_under_replicated, wanted_in_sync
from cluster.model.broker import NO_LEADER, BrokerId
from cluster.model.printable import counted
from cluster.requests.cluster import DescribedBroker, Finding
from cluster.requests.plans import DescribedPartition
from cluster.requests.reassignments import DescribedReassignment
from cluster.requests.topics import DescribedTopic, DescribedTopicDeletion

IMBALANCE_MAX: Final = 0.1
"""The share of its preferred partitions that a broker may not lead, as `leader.imbalance.per.broker.percentage`."""
_ANSWERS_HERE: Final = (
    "; it answers this command: see the network between the active controller and its control listener"
)


class Severity(StrEnum):
    """Names the severity of an issue as alerts do, most severe first.

    Critical: clients fail, the controller cannot govern a broker, or records may be lost. Warning: all is served, but
    redundancy or control is reduced. Info: nothing is at risk.
    """

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Trouble(StrEnum):
    """Lists the kinds of health issues with their severity, most severe first.

    `remedy`: what to do; "" if the detail of each issue says it.
    """

    severity: Severity
    remedy: str

    def __new__(cls, kind: str, severity: Severity, remedy: str = "") -> Self:
        member = str.__new__(cls, kind)
        member._value_, member.severity, member.remedy = kind, severity, remedy
        return member

    NO_ACTIVE_CONTROLLER = (
        "no_active_controller",
        Severity.CRITICAL,
        "start a controller; if one runs, do what it waits for, or see its log, and whether ZooKeeper serves: "
        "'klamm doctor'",
    )
    OFFLINE = (
        "offline_partition",
        Severity.CRITICAL,
        "start a broker that is in sync; only if none can be started: 'klamm elect unclean', which loses records",
    )
    UNREACHABLE_LEADER = (
        "unreachable_leader",
        Severity.CRITICAL,
        "start the broker, or wait: when its session ends, replicas that are in sync lead instead",
    )
    DAMAGED_REPLICA_WAITS = "damaged_replica_waits", Severity.CRITICAL
    REFUSES_CONTROLLER = "refuses_controller", Severity.CRITICAL
    REQUESTS_NOT_UNDERSTOOD = "requests_not_understood", Severity.CRITICAL
    REQUESTS_NOT_AUTHORIZED = "requests_not_authorized", Severity.CRITICAL
    REQUESTS_FAIL = "requests_fail", Severity.CRITICAL
    NO_LEADER_EPOCH_LEFT = "no_leader_epoch_left", Severity.CRITICAL
    UNDER_MIN_ISR = "under_min_isr", Severity.CRITICAL, "start the brokers that are not in sync"
    DEAD_BROKER = (
        "dead_broker",
        Severity.CRITICAL,
        "start the broker; if it does not come back, move its replicas: 'klamm reassign generate'",
    )
    EXPIRED_CERTIFICATE = "expired_certificate", Severity.CRITICAL
    BROKER_NOT_ADMITTED = "broker_not_admitted", Severity.CRITICAL
    FAILED_LOG_DIRECTORY = "failed_log_directory", Severity.CRITICAL
    FULL_LOG_DIRECTORY = "full_log_directory", Severity.CRITICAL
    UNFIT_CONTROLLER = "unfit_controller", Severity.WARNING
    STANDBY_DIFFERED = "standby_differed", Severity.WARNING
    MALFORMED_ZNODE = "malformed_znode", Severity.WARNING
    OPEN_ZNODE = "open_znode", Severity.WARNING
    TOPIC_ID_CONFLICT = "topic_id_conflict", Severity.WARNING
    TOPIC_ID_LOST = "topic_id_lost", Severity.WARNING
    ENDPOINT_CONFLICT = "endpoint_conflict", Severity.WARNING
    AUTHORIZER_ON_BROKER = "authorizer_on_broker", Severity.WARNING
    FEW_CONTROLLER_EPOCHS_LEFT = "few_controller_epochs_left", Severity.WARNING
    DAMAGED_REPLICA = "damaged_replica", Severity.WARNING
    SINGLE_CONTROLLER = "single_controller", Severity.WARNING
    MISSING_CONTROLLER = "missing_controller", Severity.WARNING
    UNREPORTED_DAMAGE = "unreported_damage", Severity.WARNING
    OFFLINE_REPLICA = "offline_replica", Severity.WARNING
    SILENT_BROKER = "silent_broker", Severity.WARNING
    ZOOKEEPER_DISCONNECTED = "zookeeper_disconnected", Severity.WARNING
    UNANSWERED_FETCHES = "unanswered_fetches", Severity.WARNING
    STUCK_FOLLOWER = "stuck_follower", Severity.WARNING
    FEW_OPEN_FILES_LEFT = "few_open_files_left", Severity.WARNING
    UNCLEANABLE_PARTITION = "uncleanable_partition", Severity.WARNING
    OPEN_TRANSACTION = "open_transaction", Severity.WARNING
    DEAD_LOG_CLEANER = "dead_log_cleaner", Severity.WARNING
    EXPIRING_CERTIFICATE = "expiring_certificate", Severity.WARNING
    UNUSABLE_TLS_FILES = "unusable_tls_files", Severity.WARNING
    STUCK_ISR_CHANGE = "stuck_isr_change", Severity.WARNING
    UNDER_REPLICATED = (
        "under_replicated",
        Severity.WARNING,
        "start the brokers that are not in sync; those that run catch up by themselves",
    )
    STUCK_REASSIGNMENT = "stuck_reassignment", Severity.WARNING
    STUCK_DELETION = "stuck_deletion", Severity.WARNING
    STUCK_SHUTDOWN = "stuck_shutdown", Severity.WARNING
    FORGOTTEN_THROTTLE = "forgotten_throttle", Severity.WARNING
    STUCK_DIRECTORY_MOVE = "stuck_directory_move", Severity.INFO
    LEFT_REPLICAS = "left_replicas", Severity.INFO
    SHUTTING_DOWN = "shutting_down", Severity.INFO
    REFUSED_HANDSHAKES = "refused_handshakes", Severity.INFO
    UNACCEPTABLE_DIRECTORY = "unacceptable_directory", Severity.INFO
    IMBALANCED_LEADERS = (
        "imbalanced_leaders",
        Severity.INFO,
        "wait for the automatic balance, or 'klamm elect preferred --all-topic-partitions'",
    )


_KINDS: Final = {str(kind): kind for kind in Trouble}
_RANK: Final = {severity: rank for rank, severity in enumerate(Severity)}


class HealthIssue(Struct, frozen=True):
    """Describes one issue. Where they do not apply, `topic` is empty, `partition` and `broker` are -1.

    `trouble`: a `Trouble`, or the name that a process of a later version gives it.
    """

    trouble: str
    detail: str
    topic: str = ""
    partition: int = -1
    broker: BrokerId = BrokerId(-1)

    @property
    def severity(self) -> Severity:
        """The severity of its kind; a kind that only a later version knows is a warning."""
        kind = _KINDS.get(self.trouble)
        return Severity.WARNING if kind is None else kind.severity

    @property
    def remedy(self) -> str:
        kind = _KINDS.get(self.trouble)
        return "" if kind is None else kind.remedy

    def is_at_least(self, severity: Severity) -> bool:
        return _RANK[self.severity] <= _RANK[severity]


def find_trouble(
    topics: Sequence[DescribedTopic],
    brokers: Sequence[DescribedBroker],
    reassignments: Sequence[DescribedReassignment],
    deletions: Sequence[DescribedTopicDeletion],
    findings: Iterable[Finding] = (),
    *,
    answering: Set[BrokerId] = frozenset(),
) -> list[HealthIssue]:
    """Find all health issues, the most severe kind first. Topics queued for deletion are skipped.

    `findings`: what the controller and the brokers themselves know to be wrong. If the controller and the command both
    report that a broker does not respond, one of the two findings is kept; a throttle is forgotten only while nothing
    is being reassigned. `answering`: brokers that answered the command; if the controller says that one of them does
    not respond, the way between the two is at fault.
    """
    staying = [t for t in topics if not t.queued_for_deletion]
    findings = [finding for finding in findings if finding.kind != Trouble.FORGOTTEN_THROTTLE or not reassignments]
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
        *(
            HealthIssue(f.kind, f.detail, f.topic, f.partition, f.broker)
            for f in _distinct([_with_consequence(finding, topics) for finding in findings], answering)
        ),
    ]
    order = {str(kind): place for place, kind in enumerate(Trouble)}
    return sorted(
        found,
        key=lambda f: (_RANK[f.severity], order.get(f.trouble, len(order)), f.topic, f.partition, f.broker),
    )


def _with_consequence(finding: Finding, topics: Iterable[DescribedTopic]) -> Finding:
    """Add to a finding what it means to clients.

    A broker that refuses connections is only silent if it leads nothing, as after a controlled shutdown.
    """
    if finding.kind != Trouble.UNREACHABLE_LEADER:
        return finding
    led = sum(p.leader == finding.broker for topic in topics for p in topic.partitions)
    if not led:
        return replace(finding, kind=Trouble.SILENT_BROKER, detail=f"{finding.detail}; start it")
    return replace(finding, detail=f"{finding.detail}; it leads {counted(led, 'partition')}, whose clients fail")


def _distinct(findings: Sequence[Finding], answering: Set[BrokerId]) -> Iterator[Finding]:
    silent = {finding.broker for finding in findings if finding.kind == Trouble.UNREACHABLE_LEADER}
    throttled: set[str] = set()
    for finding in findings:
        if finding.kind == Trouble.FORGOTTEN_THROTTLE and finding.topic:
            # Every broker that leads a partition of the topic says so.
            if finding.topic in throttled:
                continue
            throttled.add(finding.topic)
        if finding.kind == Trouble.SILENT_BROKER:
            if finding.broker in silent:
                continue
            silent.add(finding.broker)
            if finding.broker in answering:
                yield replace(finding, detail=finding.detail + _ANSWERS_HERE)
                continue
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
    """The brokers that are to host replicas, registered or not."""
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
