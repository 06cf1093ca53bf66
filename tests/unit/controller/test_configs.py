"""Settings: whose they are, which there are and what values they take, and what an alteration leaves."""

import pytest

from cluster.config.settings import Settings
from cluster.model.broker import ControllerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.configs import (
    BROKER_RESOURCE,
    CLIENT_RESOURCE,
    DELETE_CONFIG,
    SET_CONFIG,
    TOPIC_RESOURCE,
    USER_RESOURCE,
    AlterableConfig,
)
from cluster.znodes.configs import ConfigEntity
from controller.decisions.configs.changes import altered, check_alterations, check_broker_is_klamms, config_entity
from controller.decisions.configs.descriptions import BrokerLayers, describe_overrides, describe_topic_configs
from controller.decisions.configs.topic_configs import check_topic_configs, parse_unclean_override

E = ErrorCode


@pytest.mark.parametrize(
    ("resource", "name", "path"),
    [
        (TOPIC_RESOURCE, "t", "/config/topics/t"),
        (BROKER_RESOURCE, "7", "/config/brokers/7"),
        (BROKER_RESOURCE, "007", "/config/brokers/7"),
        (BROKER_RESOURCE, "2147483647", "/config/brokers/2147483647"),
        (BROKER_RESOURCE, "", "/config/brokers/<default>"),
    ],
)
def test_whose_settings_a_resource_means(resource: int, name: str, path: str) -> None:
    assert config_entity(resource, name, ["t"]).path == path


@pytest.mark.parametrize(
    ("resource", "name", "code", "message", "field", "value"),
    [
        (TOPIC_RESOURCE, "x", E.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic x", "resource_name", None),
        (
            BROKER_RESOURCE,
            "one",
            E.INVALID_REQUEST,
            "a broker is named by its number, all of them by an empty name, not by 'one'",
            "resource_name",
            "one",
        ),
        (BROKER_RESOURCE, "²", E.INVALID_REQUEST, None, "resource_name", "²"),
        (BROKER_RESOURCE, "-1", E.INVALID_REQUEST, None, "resource_name", "-1"),
        (BROKER_RESOURCE, "2147483648", E.INVALID_REQUEST, None, "resource_name", "2147483648"),
        (BROKER_RESOURCE, "9" * 5000, E.INVALID_REQUEST, None, "resource_name", "9" * 5000),
        (99, "t", E.INVALID_REQUEST, "resource type 99 has no settings here", "resource_type", 99),
    ],
)
def test_resources_without_settings_are_refused(
    *, resource: int, name: str, code: ErrorCode, message: str | None, field: str, value: object
) -> None:
    with pytest.raises(ApiError) as refused:
        config_entity(resource, name, ["t"])
    assert (refused.value.code, refused.value.field, refused.value.value) == (code, field, value)
    assert message in (None, refused.value.message)


RETENTION, UNCLEAN_KEY = "retention.ms", "unclean.leader.election.enable"


FETCHERS_KEY = "num.replica.fetchers"


@pytest.mark.parametrize(
    ("resource", "configs", "code", "message", "field", "value"),
    [
        (
            TOPIC_RESOURCE,
            [(RETENTION, SET_CONFIG, "1"), (UNCLEAN_KEY, SET_CONFIG, "true"), (RETENTION, DELETE_CONFIG, None)],
            E.INVALID_REQUEST,
            "retention.ms is altered twice",
            RETENTION,
            None,
        ),
        (
            TOPIC_RESOURCE,
            [(RETENTION, 7, "1")],
            E.INVALID_REQUEST,
            "retention.ms: operation 7 is neither set nor delete",
            RETENTION,
            7,
        ),
        (
            TOPIC_RESOURCE,
            [(RETENTION, SET_CONFIG, None)],
            E.INVALID_REQUEST,
            "retention.ms needs a value",
            RETENTION,
            None,
        ),
        (
            BROKER_RESOURCE,
            [(UNCLEAN_KEY, SET_CONFIG, "true"), (RETENTION, SET_CONFIG, "1")],
            E.INVALID_CONFIG,
            "unknown config 'retention.ms'; those that can be changed:"
            " follower.replication.throttled.rate, leader.replication.throttled.rate,"
            " log.level, num.replica.fetchers, replica.alter.log.dirs.io.max.bytes.per.second,"
            " unclean.leader.election.enable",
            RETENTION,
            "1",
        ),
        (
            BROKER_RESOURCE,
            [(FETCHERS_KEY, SET_CONFIG, "0")],
            E.INVALID_CONFIG,
            f"num.replica.fetchers='0': must be between 1 and {2**31 - 1}",
            FETCHERS_KEY,
            "0",
        ),
        (
            BROKER_RESOURCE,
            [(FETCHERS_KEY, SET_CONFIG, str(2**31))],
            E.INVALID_CONFIG,
            f"num.replica.fetchers='{2**31}': must be between 1 and {2**31 - 1}",
            FETCHERS_KEY,
            str(2**31),
        ),
        (
            TOPIC_RESOURCE,
            [(FETCHERS_KEY, SET_CONFIG, "2")],
            E.INVALID_CONFIG,
            "unknown topic config num.replica.fetchers",
            FETCHERS_KEY,
            "2",
        ),
        (
            TOPIC_RESOURCE,
            [(RETENTION, SET_CONFIG, "soon")],
            E.INVALID_CONFIG,
            "retention.ms='soon': must be a whole number",
            RETENTION,
            "soon",
        ),
    ],
)
def test_alterations_that_make_no_sense_are_refused(
    *,
    resource: int,
    configs: list[tuple[str, int, str | None]],
    code: ErrorCode,
    message: str,
    field: str,
    value: object,
) -> None:
    entity = config_entity(resource, "1", ["1"])
    with pytest.raises(ApiError) as refused:
        check_alterations(entity, [AlterableConfig(*each) for each in configs])
    assert (refused.value.code, refused.value.message) == (code, message)
    assert (refused.value.field, refused.value.value) == (field, value)


def test_alterations_leave_what_they_do_not_name() -> None:
    configs = [AlterableConfig(RETENTION, DELETE_CONFIG), AlterableConfig(UNCLEAN_KEY, SET_CONFIG, "true")]
    for resource in (TOPIC_RESOURCE, BROKER_RESOURCE):
        check_alterations(config_entity(resource, "1", ["1"]), configs)
    check_alterations(config_entity(BROKER_RESOURCE, "1", []), [AlterableConfig("from.elsewhere", DELETE_CONFIG)])
    check_alterations(config_entity(BROKER_RESOURCE, "1", []), [AlterableConfig(FETCHERS_KEY, SET_CONFIG, "1")])
    # What is taken away needs no good value, nor a known name.
    check_alterations(config_entity(TOPIC_RESOURCE, "t", ["t"]), [AlterableConfig("no.such", DELETE_CONFIG, "bad")])
    before = {RETENTION: "1", "other": "x"}
    assert altered(before, configs) == {"other": "x", UNCLEAN_KEY: "true"}
    assert altered(before, [AlterableConfig("absent", DELETE_CONFIG)]) == before
    assert before == {RETENTION: "1", "other": "x"}


@pytest.mark.parametrize(
    ("name", "path"),
    [("", "/config/clients/<default>"), ("app", "/config/clients/app"), ("my app/1", "/config/clients/my%20app%2F1")],
)
def test_a_client_is_named_in_its_path_as_kafka_names_it(name: str, path: str) -> None:
    assert config_entity(CLIENT_RESOURCE, name, []).path == path


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("producer_byte_rate", "0", "must be between 1"),
        ("consumer_byte_rate", "fast", "must be a whole number"),
        ("request_percentage", "0", "must be above 0"),
        ("request_percentage", "half", "must be a number"),
        ("controller_mutation_rate", "-1", "must be above 0"),
        ("controller_mutation_rate", "nan", "must be above 0"),
        ("controller_mutation_rate", "inf", "must be above 0"),
        ("connection_creation_rate", "50", "unknown client config"),
    ],
)
def test_what_is_no_quota_of_a_client_is_refused(key: str, value: str, why: str) -> None:
    entity = config_entity(CLIENT_RESOURCE, "app", [])
    check_alterations(entity, [AlterableConfig("producer_byte_rate", SET_CONFIG, "1")])
    with pytest.raises(ApiError, match=why):
        check_alterations(entity, [AlterableConfig(key, SET_CONFIG, value)])


@pytest.mark.parametrize(
    "name",
    ["ann", "<default>", "CN%3Dann%2CO%3Dx", "ann/clients/app", "<default>/clients/<default>", "a%2Fb/clients/c"],
)
def test_a_user_is_named_as_its_znode(name: str) -> None:
    assert config_entity(USER_RESOURCE, name, []).path == f"/config/users/{name}"


@pytest.mark.parametrize(
    "name",
    ["", "CN=ann", "ann/", "ann/clients", "ann/clients/", "ann/topics/x", "../brokers", "ann/clients/a/b", "a~b"],
)
def test_what_is_no_name_of_a_users_znode_is_refused(name: str) -> None:
    with pytest.raises(ApiError, match="a user is named as its znode below /config/users") as refused:
        config_entity(USER_RESOURCE, name, [])
    assert refused.value.field == "resource_name"


@pytest.mark.parametrize("operation", [SET_CONFIG, DELETE_CONFIG])
def test_credentials_are_not_altered_as_quotas(operation: int) -> None:
    entity = config_entity(USER_RESOURCE, "ann", [])
    check_alterations(entity, [AlterableConfig("producer_byte_rate", SET_CONFIG, "1")])
    with pytest.raises(ApiError, match="SCRAM-SHA-512 is no quota of a user"):
        check_alterations(entity, [AlterableConfig("SCRAM-SHA-512", operation, "x")])


def test_values_of_a_file_keep_their_case_unless_they_are_booleans() -> None:
    described = describe_topic_configs({}, BrokerLayers({}, {}, Settings()), None)
    values = {config.name: config.value for config in described}
    assert (values["message.timestamp.type"], values["unclean.leader.election.enable"]) == ("CreateTime", "false")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("retention.ms", "soon", "must be a whole number"),
        ("retention.ms", "-2", f"must be between -1 and {2**63 - 1}"),
        ("segment.bytes", "13", f"must be between 14 and {2**31 - 1}"),
        ("min.cleanable.dirty.ratio", "much", "must be a number"),
        ("min.cleanable.dirty.ratio", "1.01", "must be between 0 and 1"),
        ("min.cleanable.dirty.ratio", "-0.01", "must be between 0 and 1"),
        ("preallocate", "maybe", "must be true or false"),
        ("cleanup.policy", "delete,burn", "must be delete, compact, or compact,delete"),
        ("cleanup.policy", "compacted", "must be delete, compact, or compact,delete"),
        ("message.timestamp.type", "Never", "must be one of CreateTime, LogAppendTime"),
        ("leader.replication.throttled.replicas", "1", "must be * or partition:broker, separated by commas"),
    ],
)
def test_a_refused_setting_gets_a_reason(key: str, value: str, why: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_topic_configs({key: value})
    assert (refused.value.message, refused.value.field) == (f"{key}={value!r}: {why}", key)
    assert refused.value.value == value


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ApiError) as refused:
        check_topic_configs({"zz": "2", "no.such": "1"})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.message == "unknown topic config no.such; unknown topic config zz"
    assert [violation.field for violation in refused.value.violations] == ["no.such", "zz"]
    assert (refused.value.field, refused.value.value) == ("no.such", "1")


def test_a_setting_that_is_nearly_known_is_suggested() -> None:
    with pytest.raises(ApiError) as refused:
        check_topic_configs({"retention.mss": "1"})
    assert refused.value.message == "unknown topic config retention.mss: did you mean retention.ms?"
    with pytest.raises(ApiError) as refused:
        check_topic_configs({"retention.ms" * 1000: "1"})
    assert "did you mean" not in refused.value.message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("min.cleanable.dirty.ratio", "0"),
        ("min.cleanable.dirty.ratio", "1"),
        ("segment.bytes", "14"),
        ("segment.bytes", str(2**31 - 1)),
        ("retention.ms", str(2**63 - 1)),
        ("cleanup.policy", "delete"),
    ],
)
def test_settings_at_their_bounds_are_accepted(key: str, value: str) -> None:
    check_topic_configs({key: value})


@pytest.mark.rule("D-52")
@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("min.insync.replicas", "1", ["0", "x", "2147483648"]),
        ("retention.ms", "-1", ["-2", "", "1_000"]),
        ("cleanup.policy", "delete", ["keep", "delete,keep", "compacted", "compact,,delete", ""]),
        ("cleanup.policy", "compact", ["Compact"]),
        ("cleanup.policy", "compact,delete", ["compact;delete"]),
        ("cleanup.policy", "delete, compact", ["none"]),
        ("message.timestamp.type", "LogAppendTime", ["logappendtime"]),
        ("min.cleanable.dirty.ratio", "0.5", ["1.5", "much", "0_0"]),
        ("unclean.leader.election.enable", "TRUE", ["yes"]),
        ("leader.replication.throttled.replicas", "0:1,1:2", ["0", "a:b"]),
        ("follower.replication.throttled.replicas", "*", ["*:1"]),
    ],
)
def test_topic_settings_are_checked_by_value(key: str, good: str, bad: list[str]) -> None:
    check_topic_configs({key: good})
    for value in bad:
        with pytest.raises(ApiError) as refused:
            check_topic_configs({key: value})
        assert (refused.value.code, refused.value.field, refused.value.value) == (E.INVALID_CONFIG, key, value)


@pytest.mark.rule("D-52")
def test_records_may_be_compacted_before_they_must_be() -> None:
    least, most = "min.compaction.lag.ms", "max.compaction.lag.ms"
    for configs in ({least: "5", most: "5"}, {least: "5"}, {most: "1"}):
        check_topic_configs(configs)
    with pytest.raises(ApiError) as refused:
        check_topic_configs({least: "6", most: "5"})
    assert (refused.value.code, refused.value.field, refused.value.value) == (E.INVALID_CONFIG, least, "6")
    assert refused.value.message == "min.compaction.lag.ms='6': must not exceed max.compaction.lag.ms (5)"


@pytest.mark.rule("PS-20", "D-18")
def test_the_unclean_override_is_a_boolean_or_nothing() -> None:
    key = "unclean.leader.election.enable"
    assert [parse_unclean_override(c) for c in ({}, {key: "true"}, {key: "False"})] == [None, True, False]
    with pytest.raises(ValueError, match="maybe"):
        parse_unclean_override({key: "maybe"})


@pytest.mark.rule("D-90")
def test_configs_of_topics_as_a_release_of_kafka_accepts_them() -> None:
    check_topic_configs({"cleanup.policy": "compact"}, "3.9")
    with pytest.raises(ApiError) as caught:
        check_topic_configs({"remote.storage.enable": "false", "retention.ms": "-2"}, "2.4")
    assert [violation.field for violation in caught.value.violations] == ["remote.storage.enable", "retention.ms"]
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.rule("D-90")
def test_of_kafkas_brokers_only_the_controller_has_configs_here() -> None:
    controller = ControllerId(1001)
    for alters in (False, True):
        check_broker_is_klamms(ConfigEntity("brokers", "1001"), controller, alters=alters)
        check_broker_is_klamms(ConfigEntity("topics", "1"), controller, alters=alters)
        with pytest.raises(ApiError, match=r"kafka-configs\.sh"):
            check_broker_is_klamms(ConfigEntity("brokers", "1"), controller, alters=alters)


@pytest.mark.rule("D-90")
@pytest.mark.parametrize("entity", [ConfigEntity("clients", "app"), ConfigEntity("users", "ann")])
def test_quotas_at_kafkas_brokers_are_described_and_not_altered(entity: ConfigEntity) -> None:
    check_broker_is_klamms(entity, ControllerId(1001), alters=False)
    with pytest.raises(ApiError, match=r"alter quotas with kafka-configs\.sh"):
        check_broker_is_klamms(entity, ControllerId(1001), alters=True)


@pytest.mark.rule("D-90")
def test_overrides_are_described_sorted_by_name() -> None:
    found = describe_overrides({"b": "2", "a": "1"}, None)
    assert [(config.name, config.value, config.config_source) for config in found] == [("a", "1", 1), ("b", "2", 1)]
    assert [config.name for config in describe_overrides({"b": "2", "a": "1"}, ["b", "c"])] == ["b"]
