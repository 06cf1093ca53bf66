"""The health check finds every kind of issue, and no others."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from admin.describing.health import HealthIssue, Severity, Trouble, find_trouble
from cluster.model.broker import BrokerEpoch, BrokerId, Endpoint, LeaderEpoch, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.requests.cluster import DescribedBroker, Finding
from cluster.requests.plans import DescribedPartition
from cluster.requests.reassignments import DescribedReassignment
from cluster.requests.topics import DescribedTopic, DescribedTopicDeletion
from tests.controllers.contexts import ids

BROKERS = [DescribedBroker(BrokerId(b), Endpoint("h", b), BrokerEpoch(b)) for b in (1, 2, 3)]


def partition(
    number: int, leader: int, isr: Iterable[int], replicas: Iterable[int], adding: Iterable[int] = ()
) -> DescribedPartition:
    return DescribedPartition(
        number, BrokerId(leader), LeaderEpoch(0), PartitionEpoch(0), ids(*isr), ids(*replicas), ids(*adding)
    )


def topic(*partitions: DescribedPartition, min_isr: int = 1, leaving: bool = False) -> DescribedTopic:
    return DescribedTopic(
        "t", ErrorCode.NONE, partitions=partitions, queued_for_deletion=leaving, min_insync_replicas=min_isr
    )


def kinds(*topics: DescribedTopic, brokers: list[DescribedBroker] = BROKERS) -> list[tuple[str, int, int]]:
    return [(f.trouble, f.partition, f.broker) for f in find_trouble(topics, brokers, [], [])]


def test_a_healthy_cluster_has_no_issues() -> None:
    assert kinds(topic(partition(0, 1, [1, 2, 3], [1, 2, 3]), partition(1, 2, [2], [2]), min_isr=2)) == []


def test_a_partition_without_a_leader_is_offline_and_not_also_under_min_isr() -> None:
    assert kinds(topic(partition(0, -1, [1], [1, 2]), min_isr=2)) == [
        (Trouble.OFFLINE, 0, -1),
        (Trouble.UNDER_REPLICATED, 0, -1),
    ]


def test_too_few_in_sync_replicas_refuse_writes() -> None:
    assert kinds(topic(partition(0, 1, [1], [1, 2]), min_isr=2)) == [
        (Trouble.UNDER_MIN_ISR, 0, -1),
        (Trouble.UNDER_REPLICATED, 0, -1),
    ]


def test_replicas_that_are_being_added_are_not_missed() -> None:
    assert kinds(topic(partition(0, 1, [1], [1, 2], adding=[2]))) == []


def test_a_dead_broker_is_named_once_with_what_it_hosts() -> None:
    topics = [topic(partition(0, 1, [1, 3], [1, 3]), partition(1, 1, [1, 3], [3, 1]))]
    found = find_trouble(topics, BROKERS[:2], [], [])
    assert [(f.trouble, f.broker, f.detail) for f in found] == [
        (Trouble.DEAD_BROKER, 3, "not registered, hosts 2 replicas")
    ]


def test_leaderships_elsewhere_count_from_more_than_a_tenth() -> None:
    fine = [partition(n, 1 if n else 2, [1, 2], [1, 2]) for n in range(10)]
    assert kinds(topic(*fine)) == []
    assert kinds(topic(*fine[:9])) == [(Trouble.IMBALANCED_LEADERS, -1, 1)]


def test_of_a_topic_queued_for_deletion_only_the_deletion_is_checked() -> None:
    leaving = topic(partition(0, -1, [1], [1, 2]), leaving=True)
    held = DescribedTopicDeletion("t", "on hold", "replicas are offline", 1, 2)
    under_way = DescribedTopicDeletion("u", "in progress", "", 1, 2)
    assert find_trouble([leaving], BROKERS, [], [held, under_way]) == [
        HealthIssue(Trouble.STUCK_DELETION, "replicas are offline", "t")
    ]


def test_only_stuck_reassignments_are_issues() -> None:
    going_on = DescribedReassignment("t", 0, BrokerId(1), (), (), (), (), ())
    stuck = DescribedReassignment("t", 1, BrokerId(1), (), (), (), (), (), "target 9 is not alive")
    assert find_trouble([], BROKERS, [going_on, stuck], []) == [
        HealthIssue(Trouble.STUCK_REASSIGNMENT, "target 9 is not alive", "t", 1)
    ]


def test_the_most_severe_issue_comes_first() -> None:
    topics = [topic(partition(0, 2, [2], [1, 2]), partition(1, -1, [], [1]))]
    assert [f.trouble for f in find_trouble(topics, BROKERS, [], [])] == [
        Trouble.OFFLINE,
        Trouble.UNDER_REPLICATED,
        Trouble.UNDER_REPLICATED,
        Trouble.IMBALANCED_LEADERS,
    ]


def test_findings_of_processes_are_sorted_among_the_others_and_a_silent_broker_is_named_once() -> None:
    findings = [
        Finding("silent_broker", "has not responded for 40 s", broker=BrokerId(2)),
        Finding("of a later version", "?", "t", 1),
        Finding("refuses_controller", "broker 3 refuses", broker=BrokerId(3)),
        Finding("silent_broker", "does not respond", broker=BrokerId(2)),
    ]
    found = find_trouble([topic(partition(0, -1, [1], [1]))], BROKERS, [], [], findings)
    assert [(f.trouble, f.broker) for f in found] == [
        (Trouble.OFFLINE, -1),
        (Trouble.REFUSES_CONTROLLER, 3),
        (Trouble.SILENT_BROKER, 2),
        ("of a later version", -1),
    ]


def test_a_broker_that_only_the_controller_does_not_reach_is_named_with_what_that_says() -> None:
    """The one way is cut or filtered, and the other is not."""
    silent = [Finding("silent_broker", "no answer", broker=BrokerId(b)) for b in (1, 2)]
    found = find_trouble((), (), (), (), silent, answering={BrokerId(2)})
    way = "see the network between the active controller and its control listener"
    assert [(f.broker, f.detail) for f in found] == [
        (1, "no answer"),
        (2, f"no answer; it answers this command: {way}"),
    ]


def test_a_broker_that_refuses_connections_is_critical_only_while_it_leads() -> None:
    """One that was shut down orderly leads nothing any more: a rolling restart is no alarm."""
    refuses = Finding("unreachable_leader", "broker 2 refuses connections", broker=BrokerId(2))
    silent = Finding("silent_broker", "has not responded for 4 s", broker=BrokerId(2))
    (issue,) = find_trouble([topic(partition(0, 2, [1, 2], [2, 1]))], BROKERS, [], [], [silent, refuses])
    assert (issue.trouble, issue.severity) == (Trouble.UNREACHABLE_LEADER, Severity.CRITICAL)
    assert "leads 1 partition, whose clients fail" in issue.detail
    (issue,) = find_trouble([topic(partition(0, 1, [1, 2], [1, 2]))], BROKERS, [], [], [silent, refuses])
    assert (issue.trouble, issue.severity) == (Trouble.SILENT_BROKER, Severity.WARNING)


def test_what_the_client_finds_itself_says_what_to_do() -> None:
    found_here = (
        Trouble.NO_ACTIVE_CONTROLLER,
        Trouble.OFFLINE,
        Trouble.UNREACHABLE_LEADER,
        Trouble.UNDER_MIN_ISR,
        Trouble.DEAD_BROKER,
        Trouble.UNDER_REPLICATED,
        Trouble.IMBALANCED_LEADERS,
    )
    assert all(HealthIssue(kind, "").remedy for kind in found_here)
    assert HealthIssue("what_comes_later", "").remedy == ""


@pytest.mark.rule("BD-4", "BD-5")
def test_a_malformed_znode_is_the_first_issue_and_a_directory_that_is_left_alone_one_of_the_last() -> None:
    directory = Finding("unacceptable_directory", "/data: '-0' cannot be a partition", broker=BrokerId(3))
    znode = Finding("malformed_znode", "/brokers/topics/t/partitions/0/state: not JSON", "t", 0)
    assert [(f.trouble, f.topic, f.partition, f.broker) for f in find_trouble((), (), (), (), (directory, znode))] == [
        (Trouble.MALFORMED_ZNODE, "t", 0, -1),
        (Trouble.UNACCEPTABLE_DIRECTORY, "", -1, 3),
    ]


@pytest.mark.rule("D-41", "D-42")
def test_damage_that_stops_a_partition_comes_before_what_only_may() -> None:
    findings = [
        Finding("silent_broker", "does not respond", broker=BrokerId(2)),
        Finding("unreported_damage", "has not joined", broker=BrokerId(9)),
        Finding("damaged_replica", "are damaged", "t", 0, BrokerId(1)),
        Finding("damaged_replica_waits", "is elected at", "t", 0, BrokerId(1)),
    ]
    found = find_trouble([topic(partition(0, -1, [9], [9]))], BROKERS, [], [], findings)
    assert [issue.trouble for issue in found] == [
        "offline_partition",
        "damaged_replica_waits",
        "damaged_replica",
        "unreported_damage",
        "silent_broker",
    ]


def kinds_in_sources() -> set[str]:
    """The kinds of all findings that controllers, brokers and clients make."""
    found: set[str] = set()
    for path in (
        path for package in ("cluster", "controller", "broker_agent", "admin") for path in Path(package).rglob("*.py")
    ):
        tree = ast.parse(path.read_text())
        named = dict(_constants(tree))
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
        for kind in (call.args[0] for call in calls if ast.unparse(call.func).rpartition(".")[2] == "Finding"):
            if isinstance(kind, ast.Constant):
                found.add(kind.value)
            elif isinstance(kind, ast.Name) and kind.id in named:
                found.add(named[kind.id])
            elif isinstance(kind, ast.Name):
                # A variable: one of those that the module has.
                found |= {value for value in named.values() if value in set(Trouble)}
    return found


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(node.value.value, str):
                yield ast.unparse(target), node.value.value


def test_every_kind_of_finding_has_a_severity() -> None:
    own = {
        Trouble.NO_ACTIVE_CONTROLLER,
        Trouble.OFFLINE,
        Trouble.UNDER_MIN_ISR,
        Trouble.DEAD_BROKER,
        Trouble.UNDER_REPLICATED,
        Trouble.STUCK_REASSIGNMENT,
        Trouble.IMBALANCED_LEADERS,
    }
    assert kinds_in_sources() | own == set(Trouble)


def test_the_severity_of_each_kind_is_as_documented() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \| (critical|warning|info) \|", Path("docs/operating.md").read_text(), re.M)
    documented = {kind: severity for kinds, severity in rows for kind in re.findall(r"`([a-z_]+)`", kinds)}
    assert documented == {str(kind): str(kind.severity) for kind in Trouble}


def test_issues_come_in_the_order_of_their_severity() -> None:
    assert [kind.severity for kind in Trouble] == sorted((kind.severity for kind in Trouble), key=list(Severity).index)
    known = [Finding(kind, "") for kind in reversed(Trouble)]
    found = find_trouble([], BROKERS, [], [], [*known, Finding("what_comes_later", "")])
    ranks = [list(Severity).index(issue.severity) for issue in found]
    assert ranks == sorted(ranks)
    assert {issue.severity for issue in found if issue.trouble == "what_comes_later"} == {Severity.WARNING}


@pytest.mark.parametrize(
    ("kind", "severities"),
    [
        (Trouble.OFFLINE, [Severity.CRITICAL, Severity.WARNING, Severity.INFO]),
        (Trouble.UNDER_REPLICATED, [Severity.WARNING, Severity.INFO]),
        (Trouble.IMBALANCED_LEADERS, [Severity.INFO]),
    ],
)
def test_an_issue_is_at_least_of_each_severity_below_its_own(kind: Trouble, severities: list[Severity]) -> None:
    assert [severity for severity in Severity if HealthIssue(kind, "").is_at_least(severity)] == severities


def test_a_throttle_is_forgotten_while_nothing_is_being_reassigned_and_a_topic_is_named_once() -> None:
    of_broker = Finding("forgotten_throttle", "a rate", broker=BrokerId(1))
    of_topic = Finding("forgotten_throttle", "a list", "t")
    found = find_trouble([], BROKERS, [], [], [of_broker, of_topic, of_topic])
    assert [(f.trouble, f.topic, f.broker, f.severity) for f in found] == [
        (Trouble.FORGOTTEN_THROTTLE, "", 1, Severity.WARNING),
        (Trouble.FORGOTTEN_THROTTLE, "t", -1, Severity.WARNING),
    ]
    move = DescribedReassignment("u", 0, BrokerId(1), ids(1), ids(1, 2), ids(2), (), ())
    assert find_trouble([], BROKERS, [move], [], [of_broker, of_topic]) == []
