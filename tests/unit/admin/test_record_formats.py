"""Records as text and as JSON."""

import json

import pytest

from admin.cli.record_formats import NewRecord, Part, json_lines, parse_json_line, text_lines
from admin.consuming.record_batches import Record
from cluster.model.broker import Offset
from cluster.model.errors import ConfigError

FULL = Record(Offset(7), 1_700_000_000_000, b"k", b"v", (("a", b"1"), ("a", None)))
EMPTY = Record(Offset(8), 5, None, None)


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ([], [b"v", b""]),
        ([Part.KEY], [b"k|v", b"|"]),
        ([Part.KEY, Part.OFFSET], [b"Offset:7|k|v", b"Offset:8||"]),
        (
            list(Part),
            [
                b"CreateTime:1700000000000|Partition:3|Offset:7|a:1,a:|k|v",
                b"CreateTime:5|Partition:3|Offset:8|NO_HEADERS||",
            ],
        ),
    ],
)
def test_a_line_has_the_parts_that_were_asked_for_in_the_order_of_kafka(parts: list[Part], lines: list[bytes]) -> None:
    assert text_lines(3, [FULL, EMPTY], parts, b"|") == b"".join(line + b"\n" for line in lines)


def test_nothing_is_no_line() -> None:
    assert text_lines(0, [], [], b"\t") == json_lines("t", 0, []) == b""


def test_json_has_the_keys_that_programs_read() -> None:
    assert json.loads(json_lines("t", 3, [FULL])) == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp": 1_700_000_000_000,
        "key": "k",
        "value": "v",
        "headers": [{"key": "a", "value": "1"}, {"key": "a", "value": None}],
    }


@pytest.mark.parametrize("value", [b"", b"\xff\x00", "ü\n{}".encode(), None])
def test_what_is_written_can_be_produced_again(value: bytes | None) -> None:
    record = Record(Offset(7), 9, value, value, (("h", value),))
    (line,) = json_lines("t", 0, [record]).splitlines()
    assert parse_json_line(1, line) == NewRecord(value, value, (("h", value),), 9)


def test_fields_of_a_line_may_be_absent() -> None:
    assert parse_json_line(1, b'{"value": "v"}') == NewRecord(None, b"v")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"v",
        b"[]",
        b'{"key": 1}',
        b'{"value": {"base64": "%"}}',
        b'{"value": {"other": "x"}}',
        b'{"value": "\xff"}',
    ],
)
def test_a_line_that_is_no_record_is_named_by_its_number(line: bytes) -> None:
    with pytest.raises(ConfigError, match="line 12: "):
        parse_json_line(12, line)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "is empty: each line must be an object"),
        (b" \r", "is empty: each line must be an object"),
        (b'{"value": "\\ud800"}', r"\\ud800 is half of a character"),
        (b'{"value": "a\\udc00"}', r"\\udc00 is half of a character"),
        (b'{"value": "\\ud83d\\ude00\\uD83D"}', r"\\uD83D is half of a character"),
        (b'{"value": "\xff"}', "is not UTF-8: give other bytes as"),
        (b'{"value": "a"', "ends before the object does"),
        (b'{"valu": "a"}', "unknown key `valu`"),
    ],
)
def test_what_is_wrong_with_a_line_is_named(line: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=f"line 3: {why}"):
        parse_json_line(3, line)
