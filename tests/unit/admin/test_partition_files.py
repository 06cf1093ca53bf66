"""Kafka's JSON files are accepted unchanged, and errors in them are named."""

import json

import pytest

from admin.moving.partition_files import (
    parse_offsets,
    parse_partitions,
    parse_reassignment,
    parse_replica_dirs,
    parse_topics,
    reassignment_document,
)
from cluster.model.errors import ConfigError
from cluster.model.partition import TopicPartition

# As kafka-reassign-partitions --generate and the documentation of Kafka write them.
TOPICS = b'{"topics": [{"topic": "foo1"}, {"topic": "foo2"}, {"topic": "foo1"}], "version": 1}'
MOVES = (
    b'{"version":1,"partitions":[{"topic":"foo1","partition":2,"replicas":[5,6],"log_dirs":["any","any"]},'
    b'{"topic":"foo1","partition":0,"replicas":[5,6]}]}'
)
ELECTIONS = b'{"partitions": [{"topic": "test", "partition": 1}, {"topic": "test", "partition": 1}]}'


# As the help of kafka-delete-records says.
OFFSETS = (
    b'{"partitions": [{"topic": "foo", "partition": 1, "offset": 1},'
    b' {"topic": "foo", "partition": 2, "offset": -1}], "version": 1}'
)


def test_the_files_of_the_original_tools_are_read() -> None:
    assert parse_topics(TOPICS, "f") == ["foo1", "foo2"]
    assert parse_reassignment(MOVES, "f") == {TopicPartition("foo1", 2): (5, 6), TopicPartition("foo1", 0): (5, 6)}
    assert parse_partitions(ELECTIONS, "f") == [TopicPartition("test", 1)]
    assert parse_offsets(OFFSETS, "f") == {TopicPartition("foo", 1): 1, TopicPartition("foo", 2): -1}


def test_what_is_written_can_be_read_again() -> None:
    moves = parse_reassignment(MOVES, "f")
    document = reassignment_document(moves)
    assert [p["partition"] for p in document["partitions"]] == [0, 2]
    assert document["version"] == 1
    assert parse_reassignment(json.dumps(document).encode(), "f") == moves


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "f: not a valid file: Input data was truncated"),
        (b"not json", "malformed"),
        (b'{"partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]}', r"\$.partitions\[0\].partition"),
        (b'{"partitions": [{"topic": "t", "partition": 0}]}', "replicas"),
        (b'{"partitions": []}', "partitions: must list at least one partition"),
        (b'{"version": 2, "partitions": []}', "version 2: must be 1"),
        (
            b'{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}',
            "t-0: replicas: must name at least one broker",
        ),
        (b'{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}', "a broker is listed more than once"),
        (
            b'{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["d"]}]}',
            "must each be 'any' or an absolute path",
        ),
        (
            b'{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any"]}]}',
            r"t-0: log_dirs \['any'\]: must have one entry per replica of \[1, 2\]",
        ),
        (b'{"partitions": [{"topic": "t", "partition": 2147483648, "replicas": [1]}]}', r"<= 2147483647.*partition`"),
        (b'{"partitions": [{"topic": "t", "partition": 0, "replicas": [2147483648]}]}', r"<= 2147483647.*replicas"),
    ],
)
def test_an_error_in_a_reassignment_file_is_named(data: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_reassignment(data, "f")


def test_all_errors_are_reported_at_once() -> None:
    moves = [{"topic": "t", "partition": 0, "replicas": r} for r in ([1], [], [2, 2])]
    with pytest.raises(ConfigError) as caught:
        parse_reassignment(json.dumps({"partitions": moves}).encode(), "moves.json")
    assert len(caught.value.errors) == 4
    assert all(error.startswith("moves.json: t-0: ") for error in caught.value.errors)


def test_every_item_that_is_not_of_its_form_is_named() -> None:
    data = b'{"partitions": [{"topic": "t", "partition": "0", "replicas": [1]}, 7, {"topic": "t", "partition": 1}]}'
    with pytest.raises(ConfigError) as caught:
        parse_reassignment(data, "f")
    assert caught.value.errors == [
        "f: not a valid file: Expected `int`, got `str` - at `$.partitions[0].partition`",
        "f: not a valid file: Expected `object`, got `int` - at `$.partitions[1]`",
        "f: not a valid file: Object missing required field `replicas` - at `$.partitions[2]`",
    ]


def test_a_hundred_errors_are_named_and_the_others_counted() -> None:
    moves = [{"topic": "t", "partition": number, "replicas": []} for number in range(250)]
    with pytest.raises(ConfigError) as caught:
        parse_reassignment(json.dumps({"partitions": moves}).encode(), "f")
    assert len(caught.value.errors) == 101
    assert caught.value.errors[-1] == "and 150 more errors"


@pytest.mark.parametrize(("parse", "data"), [(parse_partitions, b'{"partitions": []}'), (parse_topics, b"[]")])
def test_files_of_another_kind_are_refused(parse: object, data: bytes) -> None:
    with pytest.raises(ConfigError):
        parse(data, "f")  # type: ignore[operator]


@pytest.mark.parametrize(
    ("data", "errors"),
    [
        (b'{"partitions": []}', ["f: partitions: must list at least one partition"]),
        (b'{"partitions": [], "version": 2}', ["f: version 2: must be 1"]),
        (
            b'{"partitions": [{"topic":"t","partition":0,"offset":3}, {"topic":"t","partition":0,"offset":-2}]}',
            ["f: t-0: listed more than once", "f: t-0: offset -2 must be at least -1, which means the high watermark"],
        ),
        (
            b'{"partitions": [{"topic":"t","partition":0,"offset":9223372036854775808}]}',
            ["f: not a valid file: Expected `int` <= 9223372036854775807 - at `$.partitions[0].offset`"],
        ),
    ],
)
def test_all_errors_in_a_file_of_offsets_are_reported(data: bytes, errors: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_offsets(data, "f")
    assert caught.value.errors == errors


def test_the_log_directories_of_a_reassignment_file_are_read_by_broker() -> None:
    data = (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["/a","any"]},'
        b'{"topic":"t","partition":1,"replicas":[2,1],"log_dirs":["/b","/c"]},'
        b'{"topic":"t","partition":2,"replicas":[3]}]}'
    )
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    assert parse_replica_dirs(data, "f") == {1: {first: "/a", second: "/c"}, 2: {second: "/b"}}
