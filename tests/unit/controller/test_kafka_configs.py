"""Topic configs are taken and refused as by each release of Kafka."""

import json
from zlib import crc32

import msgspec
import pytest

from controller.kafka_configs.make_tables import answers, as_text, jars_of, made_table
from controller.kafka_configs.tables import JARS, TABLE, TopicConfigTable, release_of, topic_config_table
from controller.kafka_configs.validation import refused_topic_configs
from deploy.local.java import find_java

NUMBERS = "-9223372036854775809 -131073 -131072 -3 -2 -1 0 1 3 4 9 10 13 14 17 18 22 23 2147483647 2147483648"
OTHER_NUMBERS = "9223372036854775807 9223372036854775808 +5 1_000 0x10 1.5 .5 1. 0.00001 -0.00001"
LARGE = "1e10 12345678 NaN 1f x1 Infinity -Infinity 1e400"
TEXTS = "true TRUE yes delete Delete compact delete,compact delete,x delete,,compact gzip none zstd producer CreateTime"
REPLICAS = "* 0:1 0:1,1:2 0:1,x 1:2:3 0:1,* *, 0:1,,1:2 :"
VERSIONS = "2.4 2.4.7 2.4-IV1 2.4-IV9 3.0-IV1 3.9 4.0 4.0-IV1 9.9 0.8.2 0.10.2-IV0 0.10 2 2. 3.0-IV"
VALUES = [
    *(value for values in (NUMBERS, OTHER_NUMBERS, LARGE, TEXTS, REPLICAS, VERSIONS) for value in values.split()),
    "",
    " ",
    " 7 ",
    " true ",
    "delete , compact",
    "0:1 , 1:2",
    "9" * 200,
    "été",
]
COMBINATIONS = [
    {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
    {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"},
    {"min.compaction.lag.ms": "9223372036854775807"},
    {"retention.ms": "x", "segment.bytes": "1"},
    {"retention.ms": "x", "no.such.key": "1"},
    {"remote.storage.enable": "true", "retention.ms": "x"},
    {"cleanup.policy": "compact", "min.insync.replicas": "2", "compression.type": "zstd"},
]

CHECKSUMS = {
    "2.4": 278220662,
    "2.5": 2396592014,
    "2.6": 2084844163,
    "2.7": 2014942903,
    "2.8": 866508909,
    "3.0": 4263054438,
    "3.1": 4144263630,
    "3.2": 1657822001,
    "3.3": 3571177527,
    "3.4": 2139796123,
    "3.5": 473827781,
    "3.6": 3594506996,
    "3.7": 375668690,
    "3.8": 1255816979,
    "3.9": 3995453465,
}


def first_message(configs: dict[str, str], release: str) -> str:
    refused = refused_topic_configs(configs, release)
    return refused[0].message if refused else ""


@pytest.mark.parametrize(
    ("release", "configs", "message"),
    [
        ("2.4", {"segment.bytes": "13"}, "Invalid value 13 for configuration segment.bytes: Value must be at least 14"),
        ("2.4", {"flush.messages": "0"}, ""),
        ("3.9", {"flush.messages": "0"}, "Invalid value 0 for configuration flush.messages: Value must be at least 1"),
        ("2.8", {"local.retention.ms": "5"}, "Unknown topic config name: local.retention.ms"),
        ("3.9", {"local.retention.ms": "5"}, ""),
        (
            "3.9",
            {"cleanup.policy": "delete, x"},
            "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "3.9",
            {"preallocate": "1"},
            "Invalid value 1 for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "3.9",
            {"min.cleanable.dirty.ratio": "1e10"},
            "Invalid value 1.0E10 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "3.8",
            {"compression.gzip.level": "0"},
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "3.6",
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
        (
            "2.4",
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        (
            "2.8",
            {"message.format.version": "3.0"},
            "Invalid value 3.0 for configuration message.format.version: Version `3.0` is not a valid version",
        ),
        ("3.0", {"message.format.version": "3.0"}, ""),
    ],
)
def test_messages_are_those_of_kafka(release: str, configs: dict[str, str], message: str) -> None:
    assert first_message(configs, release) == message


def test_every_refused_override_is_named() -> None:
    refused = refused_topic_configs({"no.such.key": "1", "retention.ms": "x", "segment.bytes": "1"}, "3.9")
    assert [(one.key, one.value) for one in refused] == [
        ("no.such.key", "1"),
        ("segment.bytes", "1"),
        ("retention.ms", "x"),
    ]


def test_a_release_without_a_table_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"4\.0"):
        refused_topic_configs({}, "4.0")


def test_each_release_is_as_its_own_classes_described_it() -> None:
    """By checksums of the tables as they were made release by release, before one table held all."""
    assert {release: crc32(msgspec.json.encode(_sorted(topic_config_table(release)))) for release in JARS} == CHECKSUMS


def _sorted(table: TopicConfigTable) -> list[object]:
    return [table.keys, table.refused, sorted(table.formats), table.unknown_format, sorted(table.apis)]


def test_the_one_table_is_as_its_tool_writes_it() -> None:
    known = json.loads(TABLE.read_text())
    tables = {
        release: {
            field: [entry for since, until, entry in known[field] if since <= release <= until] for field in known
        }
        for release in JARS
    }
    assert as_text(tables) == TABLE.read_text()


@pytest.mark.parametrize("release", JARS)
def test_defaults_are_taken(release: str) -> None:
    table = topic_config_table(release)
    assert refused_topic_configs({key.name: key.default or "" for key in table.keys}, release) == []


def test_the_release_of_a_broker_follows_from_its_apis() -> None:
    for release in JARS:
        apis = dict(topic_config_table(release).apis)
        assert release_of(apis) == release
    assert release_of({**apis, 0: 99, 99: 1}) == "3.9"
    assert release_of({0: 3, 1: 4}) == "2.4"


def class_path_of(release: str) -> str:
    """Skips the test, visibly, where the jars cannot be had."""
    pytest.importorskip("jgo", reason="needs jgo, for the jars of Apache Kafka")
    try:
        return jars_of(release)
    except Exception as error:
        pytest.skip(f"the jars of Apache Kafka {JARS[release]} cannot be had: {error}")


@pytest.mark.deep
@pytest.mark.real
@pytest.mark.parametrize("release", JARS)
def test_each_release_says_the_same(release: str) -> None:
    """Every value for every key, and values that only together are refused, by the classes of that release."""
    class_path, java = class_path_of(release), str(find_java().executable)
    assert msgspec.convert(made_table(class_path, java), TopicConfigTable) == topic_config_table(release)
    keys = [key.name for key in topic_config_table(release).keys]
    asked = [{key: value} for key in keys for value in VALUES] + COMBINATIONS
    said = answers(asked, class_path, java)
    differ = [
        (configs, message, ours)
        for configs, message in zip(asked, said, strict=True)
        if (ours := first_message(configs, release)) != message
    ]
    assert differ == []
