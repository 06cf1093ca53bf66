"""Whatever a file of settings or partitions contains, it is read or refused by a ConfigError that names it."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.moving import partition_files
from cluster.config.config import host_and_port, load_config
from cluster.model.errors import ConfigError

DIGITS = "9" * 5000
NESTED = "[" * 5000
CONFIG = 'zookeeper = "127.0.0.1:2181"\nlisten = "127.0.0.1:0"\ndata = "data"\n'


def refused(path: Path, content: bytes) -> list[str]:
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert all(len(line) < 600 for line in caught.value.errors)
    return caught.value.errors


@pytest.mark.rule("BD-7")
@pytest.mark.parametrize(
    "content",
    [
        f"x = {NESTED}",
        f"x = {NESTED}{']' * 5000}",
        "x = " + "{a=" * 5000,
        f"id = {DIGITS}",
        "id = 0x" + "f" * 5000,
        f'[settings]\n"log.dirs" = {DIGITS}',
        "x.".join(["a"] * 5000) + " = 1",
        "\0",
        "id = 1\nid = 2",
        "é".encode("latin-1"),
        CONFIG.replace(":2181", f":{DIGITS}"),
        CONFIG.replace(":0", f":{DIGITS}"),
        CONFIG.replace(":0", ":٣"),
        CONFIG.replace("data =", f'rack = "{"x" * 100_000}"\nunknown ='),
        f"{CONFIG}id = {'9' * 4000}",
        CONFIG + 'settings = \'{"x": ' + NESTED + "}'",
        CONFIG + 'settings = \'{"x": ' + DIGITS + "}'",
        CONFIG + 'settings = \'{"x": ' + "[" * 200_000 + "}'",
    ],
    ids=lambda content: repr(content[:20]),
)
def test_a_hostile_configuration_is_refused_by_name(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "broker.toml"
    data = content if isinstance(content, bytes) else content.encode()
    assert refused(path, data)


@pytest.mark.rule("BD-7")
def test_an_endless_configuration_is_refused() -> None:
    with pytest.raises(ConfigError, match="/dev/zero: has more than"):
        load_config("/dev/zero")


@pytest.mark.parametrize("address", ["h:²", f"h:{DIGITS}", "h:65536", "h:-1", "h:+1", "h:1_0"])
def test_a_port_is_a_number_of_16_bits(address: str) -> None:
    with pytest.raises(ValueError, match="must be host:port"):
        host_and_port(address)


PARSERS: tuple[Callable[[bytes, str], Any], ...] = (
    partition_files.parse_topics,
    partition_files.parse_reassignment,
    partition_files.parse_partitions,
    partition_files.parse_offsets,
)
ITEM: dict[str, Any] = {"topic": "t", "partition": 0, "replicas": [1], "offset": 0}
HOSTILE_ITEMS: tuple[dict[str, Any], ...] = (
    {"topic": "../../x"},
    {"topic": ""},
    {"topic": "a" * 300},
    {"topic": "\ud800"},
    {"topic": "x\0"},
)


@pytest.mark.rule("BD-7")
@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    "content",
    [
        NESTED.encode(),
        ("[" * 200_000).encode(),
        (NESTED + "]" * 5000).encode(),
        ('{"partitions":' + NESTED).encode(),
        DIGITS.encode(),
        b'{"version":' + DIGITS.encode() + b"}",
        b'{"partitions":[{"topic":"t","partition":' + DIGITS.encode() + b"}]}",
        b'{"topics":[{"topic":"\xff"}]}',
        b'{"partitions":[{"topic":"\xff"}]}',
        b"\xff\xfe",
        b"",
    ],
    ids=lambda content: repr(content[:24]),
)
def test_a_hostile_file_of_the_command_line_is_refused_by_name(
    parse: Callable[[bytes, str], Any], content: bytes
) -> None:
    with pytest.raises(ConfigError, match=r"^moves\.json: ") as caught:
        parse(content, "moves.json")
    assert len(str(caught.value)) < 500


@pytest.mark.rule("BD-7")
@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("item", HOSTILE_ITEMS, ids=repr)
def test_a_topic_that_cannot_exist_is_refused_by_name(parse: Callable[[bytes, str], Any], item: dict[str, Any]) -> None:
    items = [{**ITEM, **item}]
    content = json.dumps({"version": 1, "topics": items, "partitions": items}).encode()
    with pytest.raises(ConfigError, match=r"^moves\.json: "):
        parse(content, "moves.json")


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,0123456789parti', max_size=60).map(str.encode))
@pytest.mark.parametrize("parse", PARSERS)
def test_random_files_of_the_command_line_are_no_traceback(parse: Callable[[bytes, str], Any], content: bytes) -> None:
    with contextlib.suppress(ConfigError):
        parse(content, "f")
