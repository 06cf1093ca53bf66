"""CreatePartitions, and configs altered key by key: values in, values out."""

import pytest

from cluster.config.settings import Settings
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.requests.configs import DescribedConfig
from cluster.requests.topics import NewPartitions, NewPartitionsAssignment
from controller.decisions.configs.descriptions import BrokerLayers, describe_broker_configs, describe_topic_configs
from controller.decisions.topics.expansion import plan_expansion
from tests.controllers.contexts import assignment, broker, ids

UNCLEAN = "unclean.leader.election.enable"
NO_LAYERS = BrokerLayers({}, {}, Settings())


def topic(*replicas: tuple[int, ...], first: int = 0) -> TopicAssignment:
    return TopicAssignment({first + p: assignment(r) for p, r in enumerate(replicas)})


def wanted(count: int, *assignments: tuple[int, ...]) -> NewPartitions:
    return NewPartitions("t", count, tuple(NewPartitionsAssignment(ids(*a)) for a in assignments) or None)


@pytest.mark.rule("TP-2", "TP-5")
@pytest.mark.parametrize(
    ("present", "live", "added"),
    [
        (((1, 2),), (1, 2, 3), {1: (2, 3), 2: (3, 1)}),
        (((3, 1),), (1, 2, 3), {1: (1, 2), 2: (2, 3)}),
        # The preferred replica has left: the next higher broker stands for it, or the lowest.
        (((2, 1),), (1, 3), {1: (1, 3), 2: (3, 1)}),
        (((9, 1),), (1, 3), {1: (3, 1), 2: (1, 3)}),
    ],
)
def test_new_partitions_follow_on_the_first_ones_preferred_replica(
    present: tuple[tuple[int, ...], ...], live: tuple[int, ...], added: dict[int, tuple[int, ...]]
) -> None:
    plan = plan_expansion(wanted(3), topic(*present), [broker(b) for b in live])
    assert plan == {p: ReplicaAssignment(ids(*replicas)) for p, replicas in added.items()}


@pytest.mark.rule("TP-2")
def test_given_assignments_are_taken_in_order() -> None:
    plan = plan_expansion(wanted(3, (2, 1), (3, 2)), topic((1, 2)), [broker(b) for b in (1, 2, 3)])
    assert plan == {1: assignment((2, 1)), 2: assignment((3, 2))}


@pytest.mark.rule("TP-2", "TP-5")
def test_a_broker_that_shuts_down_gets_new_replicas_only_by_name() -> None:
    brokers, leaving = [broker(b) for b in (1, 2, 3)], {BrokerId(2)}
    assert plan_expansion(wanted(3), topic((1, 3)), brokers, leaving) == {1: assignment((3, 1)), 2: assignment((1, 3))}
    assert plan_expansion(wanted(2, (2, 1)), topic((1, 3)), brokers, leaving) == {1: assignment((2, 1))}


@pytest.mark.rule("TP-2")
@pytest.mark.parametrize(
    ("request_", "present", "code"),
    [
        (wanted(1), topic((1,)), ErrorCode.INVALID_PARTITIONS),
        (wanted(0), topic((1,)), ErrorCode.INVALID_PARTITIONS),
        (wanted(2), topic((1,), first=1), ErrorCode.INVALID_PARTITIONS),
        (wanted(2), topic(()), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted(2), topic((1, 2, 3)), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted(2), TopicAssignment({0: assignment((1, 2), adding=(2,))}), ErrorCode.REASSIGNMENT_IN_PROGRESS),
        (wanted(3, (1,)), topic((1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted(2, (1,), (2,)), topic((1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted(2, (1, 2)), topic((1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted(2, (1, 1)), topic((1, 2)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted(2, (1, 3)), topic((1, 2)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_expansion_that_makes_no_sense_is_refused(
    request_: NewPartitions, present: TopicAssignment, code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as raised:
        plan_expansion(request_, present, [broker(1), broker(2)])
    assert raised.value.code is code


TOPIC_LAYERS: list[tuple[dict[str, str], dict[str, str], Settings, DescribedConfig]] = [
    ({UNCLEAN: "true"}, {UNCLEAN: "false"}, Settings(), DescribedConfig(UNCLEAN, "true", False, 1)),
    ({}, {UNCLEAN: "true"}, Settings(), DescribedConfig(UNCLEAN, "true", False, 3)),
    ({}, {}, Settings(unclean_leader_election_enable=True), DescribedConfig(UNCLEAN, "true", False, 4)),
    ({}, {}, Settings(), DescribedConfig(UNCLEAN, "false", False, 5)),
    ({"retention.ms": "1"}, {}, Settings(), DescribedConfig("retention.ms", "1", False, 1)),
    # Brokers are asked for retention only by their files.
    ({}, {"log.retention.ms": "1"}, Settings(), DescribedConfig("retention.ms", "604800000", False, 5)),
    ({}, {}, Settings(log_retention_ms=9), DescribedConfig("retention.ms", "9", False, 4)),
    ({"a.key.of.theirs": "x"}, {}, Settings(), DescribedConfig("a.key.of.theirs", "x", False, 1)),
]


@pytest.mark.parametrize(("overrides", "of_all", "file", "expected"), TOPIC_LAYERS)
def test_a_topics_setting_comes_from_the_topmost_layer_that_has_it(
    overrides: dict[str, str], of_all: dict[str, str], file: Settings, expected: DescribedConfig
) -> None:
    assert describe_topic_configs(overrides, BrokerLayers({}, of_all, file), [expected.name]) == (expected,)


def test_elections_go_by_the_controllers_own_setting_before_that_of_all() -> None:
    layers = BrokerLayers({UNCLEAN: "true"}, {UNCLEAN: "false"}, Settings())
    assert describe_topic_configs({}, layers, [UNCLEAN]) == (DescribedConfig(UNCLEAN, "true", False, 2),)


def test_all_settings_are_described_by_name_unless_some_are_asked_for() -> None:
    names = [config.name for config in describe_topic_configs({"zz": "1"}, NO_LAYERS, None)]
    assert names == sorted(names)
    assert {"retention.ms", "min.insync.replicas", "zz"} <= set(names)
    assert describe_topic_configs({}, NO_LAYERS, ["unknown"]) == ()


def test_a_brokers_setting_is_its_own_that_of_all_or_that_of_the_file() -> None:
    def described(own: dict[str, str], of_all: dict[str, str]) -> tuple[DescribedConfig, ...]:
        return describe_broker_configs(own, of_all, Settings(), [UNCLEAN, "foreign"])

    assert described({UNCLEAN: "true"}, {UNCLEAN: "false"}) == (DescribedConfig(UNCLEAN, "true", False, 2),)
    assert described({}, {UNCLEAN: "true"}) == (DescribedConfig(UNCLEAN, "true", False, 3),)
    assert described({"foreign": "1"}, {}) == (
        DescribedConfig("foreign", "1", True, 2),
        DescribedConfig(UNCLEAN, "false", False, 5),
    )
    assert describe_broker_configs({"foreign": "1"}, {}, Settings(), [UNCLEAN]) == described({}, {})
