"""The public format: the document names every field, type and kind, its examples are valid, and old files are read."""

import ast
import re
import types
import typing
from pathlib import Path

import msgspec
import pytest

from state_log.chain import ChainSegment, extend
from state_log.reader import complete_lines, find_segments, read_state_changes, verify
from state_log.record import STATE_CHANGE_VERSION, Kind, LoggedStateChange, decode_line

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = (ROOT / "docs" / "state-change-log.md").read_text("utf-8")
VERSION_1 = Path(__file__).with_name("version_1")
WRITERS = (
    "controller/state_change_records.py",
    "state_log/witnessed_heads.py",
    *(str(p.relative_to(ROOT)) for p in (ROOT / "broker_agent").glob("*.py")),
)
MAKING_RECORDS = {"StateChange", "record", "Boot", "update"}


def table(heading: str) -> dict[str, list[str]]:
    """Rows of the first table below a heading that begin with a name in backquotes, by that name."""
    part = DOCUMENT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = ([c.strip() for c in line.strip("|").split(" | ")] for line in part.splitlines() if line.startswith("| `"))
    return {row[0].strip("`| "): row[1:] for row in cells}


def type_name(hint: object) -> str:
    if typing.get_origin(hint) in {types.UnionType, typing.Union}:
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    while hasattr(hint, "__supertype__"):
        hint = getattr(hint.__supertype__, "__origin__", hint.__supertype__)
    if typing.get_origin(hint) is tuple:
        return "array of integers" if type_name(typing.get_args(hint)[0]) == "integer" else "array of arrays"
    assert isinstance(hint, type)
    if issubclass(hint, msgspec.Struct):
        return "object"
    return "string" if issubclass(hint, str) else "integer"


def fields(struct: type[msgspec.Struct], prefix: str = "") -> dict[str, str]:
    """Dotted name of each field of a record, and of the objects in it -> type as the document calls it."""
    found: dict[str, str] = {}
    for name, hint in typing.get_type_hints(struct).items():
        if name not in struct.__struct_fields__:
            continue
        found[prefix + name] = type_name(hint)
        if found[prefix + name] == "object":
            inner = next(part for part in typing.get_args(hint) if part is not types.NoneType)
            found |= fields(inner, f"{prefix}{name}.")
    return found


def names_in(value: dict[str, typing.Any], prefix: str = "") -> set[str]:
    nested = (names_in(item, f"{prefix}{name}.") for name, item in value.items() if isinstance(item, dict))
    return {prefix + name for name in value}.union(*nested)


def example_lines() -> list[list[bytes]]:
    return [block.encode().splitlines() for block in re.findall(r"```json\n(.*?)\n```", DOCUMENT, re.DOTALL)]


def old_lines() -> list[bytes]:
    return [line for path in find_segments([VERSION_1]) for line in complete_lines(path)]


def test_the_document_has_every_field_with_its_type() -> None:
    assert {name: row[0] for name, row in table("Fields").items()} == fields(LoggedStateChange)


def test_the_document_has_every_kind() -> None:
    assert set(table("Kinds")) == {kind.value for kind in Kind}


def test_the_document_says_which_fields_and_kinds_nobody_writes_yet() -> None:
    calls = [
        node
        for name in WRITERS
        for node in ast.walk(ast.parse((ROOT / name).read_text("utf-8")))
        if isinstance(node, ast.Call)
    ]
    made = [c for c in calls if getattr(c.func, "id", getattr(c.func, "attr", "")) in MAKING_RECORDS]
    keywords = {keyword.arg for call in made for keyword in call.keywords}
    text = "".join((ROOT / name).read_text("utf-8") for name in WRITERS)
    later = {name for name, row in table("Fields").items() if row[-1].startswith("not written yet") and "." not in name}
    assert later == {"log_start_offset"}
    assert not later & keywords
    assert {"from_offset", "to_offset", "high_watermark", "request_id", "principal", "peer"} <= keywords
    kinds = {name for name, row in table("Kinds").items() if row[-1].startswith("not written yet")}
    assert kinds == {kind.value for kind in Kind if f"Kind.{kind.name}" not in text}


def test_the_document_has_an_example_of_each_kind_that_is_read_as_it_stands() -> None:
    for block in example_lines():
        segment: ChainSegment | None = None
        for line in block:
            record = decode_line(line)
            assert isinstance(record, LoggedStateChange), record
            assert record.v == STATE_CHANGE_VERSION
            segment = extend(segment, record, line)
            assert segment is not None, f"numbers and chain of the examples break at {record.reference}"
    shown = [msgspec.json.decode(line, type=LoggedStateChange) for block in example_lines() for line in block]
    assert {record.kind for record in shown} == set(Kind)


def test_files_of_version_1_are_read_whole() -> None:
    lines = old_lines()
    assert len(lines) > 50
    assert {msgspec.json.decode(line)["v"] for line in lines} == {1}
    assert verify([VERSION_1]) == []
    records = list(read_state_changes([VERSION_1]))
    assert len(records) == len(lines)
    assert {record.kind for record in records} >= {Kind.CONTROLLER, Kind.PARTITION, Kind.ISR, Kind.ROLE}
    assert all(record.cause is None or record.cause.controller is None for record in records)


@pytest.mark.parametrize("where", ["old files", "table"])
def test_fields_of_version_1_are_marked_so(where: str) -> None:
    since = {name: row[1] for name, row in table("Fields").items()}
    if where == "table":
        assert set(since.values()) == {"1", "2"}
        return
    used = set().union(*(names_in(msgspec.json.decode(line)) for line in old_lines()))
    assert {since[name] for name in used} == {"1"}
