"""Records as columns: nothing of a record is lost, and what is no record never becomes one."""

import json
import types
import typing
from typing import Any

import msgspec
import numpy
import pyarrow
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from audit.records.columns import RECORDS, decode_block, partition_keys, to_columns
from audit.records.vectors import ABSENT
from state_log.record import (
    Cause,
    DecisionInputs,
    Kind,
    LoadedPartition,
    LoggedStateChange,
    MalformedLine,
    Witness,
    by_partition,
    decode_line,
)
from tests.audits.state_change_histories import draw, stamped, write_logs
from tests.examples import examples
from tests.fuzz.damage import damaged, documents

NOT_KEPT = {"prev", "partitions", "moves"}
"""The source has checked the chain; start states and their moves become rows of their own."""
NESTED: dict[str, type[msgspec.Struct]] = {"cause": Cause, "witness": Witness, "inputs": DecisionInputs}
LONGS = {"seq", "at_ms", "mono_ms", "cause_id", "witness_seq", "high_watermark"}
LONGS |= {"from_offset", "to_offset", "log_start_offset", "log_end_offset", "broker_epoch", "silent_ms"}


def arrow_type(name: str, hint: object) -> pyarrow.DataType:
    while (origin := typing.get_origin(hint)) in {types.UnionType, typing.Union, typing.Annotated}:
        arguments = typing.get_args(hint)
        hint = arguments[0] if origin is typing.Annotated else next(a for a in arguments if a is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        return pyarrow.list_(arrow_type(name, typing.get_args(hint)[0]))
    while hasattr(hint, "__supertype__"):
        hint = getattr(hint.__supertype__, "__origin__", hint.__supertype__)
    assert isinstance(hint, type)
    if issubclass(hint, str):
        return pyarrow.string()
    assert hint is int, f"{name}: {hint}"
    return pyarrow.int64() if name in LONGS else pyarrow.int32()


def fields(struct: type[msgspec.Struct], prefix: str = "") -> dict[str, pyarrow.DataType]:
    found = {}
    hints = typing.get_type_hints(struct, include_extras=True)
    for name in set(struct.__struct_fields__) - NOT_KEPT:
        if name in NESTED:
            found |= fields(NESTED[name], f"{name}_")
        else:
            found[prefix + name] = arrow_type(prefix + name, hints[name])
    return found


def test_every_field_of_a_record_is_a_column_of_its_type() -> None:
    columns = {
        field.name: field.type.value_type if pyarrow.types.is_dictionary(field.type) else field.type
        for field in RECORDS
    }
    assert columns.pop("key") == pyarrow.uint64()
    assert columns == fields(LoggedStateChange)


def row_of(record: LoggedStateChange) -> dict[str, Any]:
    """What the columns must hold of a record of one partition."""
    row: dict[str, Any] = {}
    for name in set(LoggedStateChange.__struct_fields__) - NOT_KEPT:
        value = getattr(record, name)
        if name in NESTED:
            for inner in NESTED[name].__struct_fields__:
                row[f"{name}_{inner}"] = None if value is None else getattr(value, inner)
        else:
            row[name] = list(value) if isinstance(value, tuple) else value
    return row


@examples(12, deep=30)
@given(seed=st.integers(0, 1000))
def test_a_row_has_what_the_record_of_its_partition_has(seed: int) -> None:
    records = [record for stream in stamped(draw(seed, steps=15, partitions=2).logs) for record in stream]
    rows = to_columns(records).to_pylist()
    parts = [part for record in records for part in (dict(by_partition(record)).values() or [record])]
    assert [{name: value for name, value in row.items() if name != "key"} for row in rows] == list(map(row_of, parts))


BOUNDS = {
    pyarrow.int32(): (-(1 << 31), (1 << 31) - 1, -(1 << 31) - 1, 1 << 31),
    pyarrow.int64(): (-(1 << 63) + 1, (1 << 63) - 1, -(1 << 63), 1 << 63),
}
NUMBERS = {name: kind for name, kind in fields(LoggedStateChange).items() if kind in BOUNDS and name != "v"}


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_a_number_that_its_column_cannot_hold_is_no_record_and_no_null(name: str) -> None:
    outer, _, inner = name.partition("_") if name.partition("_")[0] in NESTED else (name, "", "")
    document: dict[str, Any] = {"kind": "isr", "v": 2, "seq": 1, "node": "n", "incarnation": "i", "at_ms": 1}
    whole = {"cause": {"event": "E"}, "witness": {"node": "n", "incarnation": "i", "seq": 1, "digest": "d"}}
    low, high, below, above = BOUNDS[NUMBERS[name]]
    for value in (low, high, below, above):
        changed = {**whole[outer], inner: value} if inner else value
        (decoded,) = decode_block([json.dumps({**document, outer: changed}).encode()])
        if value in {below, above}:
            assert isinstance(decoded, MalformedLine)
            assert f"$.{name}" in decoded.why or f"$.{outer}.{inner}" in decoded.why
        else:
            assert isinstance(decoded, LoggedStateChange)
            assert to_columns([decoded]).column(name).to_pylist() == [value]


def test_no_number_that_a_record_can_have_stands_for_a_missing_one() -> None:
    """Rules fill ABSENT in for nulls, of epochs and brokers: all of them have 32 bits."""
    assert abs(ABSENT) > 1 << 32


@pytest.fixture(scope="module")
def sound_lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    paths = write_logs(draw(5, steps=30, partitions=2).logs, tmp_path_factory.mktemp("logs"))
    return [line for path in paths.values() for line in path.read_bytes().splitlines()]


SOUND = [
    {
        **{"kind": "loaded", "v": 2, "seq": 1, "prev": "0" * 64, "node": "n", "incarnation": "1.1", "at_ms": 1},
        **{"topic": "t", "partitions": [[0, 1, 2, 3, [1, 2], [1, 2], 4]]},
    },
    {
        **{"kind": "role", "v": 1, "seq": 1, "node": "n", "incarnation": "1.1", "at_ms": 1, "topic": "t"},
        **{"partition": 0, "leader": 1, "leader_epoch": 1, "isr": [1, 2], "to_state": "leader"},
        **{"cause": {"event": "E", "id": 1, "controller": 1001, "controller_epoch": 1}},
        **{"witness": {"node": "n", "incarnation": "i", "seq": 1, "digest": "d"}},
    },
]
ANY_LINE = documents(SOUND) | st.sampled_from([json.dumps(d).encode() for d in SOUND]) | st.binary(max_size=40)


@examples(120, deep=300)
@given(lines=st.lists(ANY_LINE.map(lambda line: line.replace(b"\n", b"")), max_size=5))
@example(lines=[b""])
@example(lines=[b"", json.dumps(SOUND[0]).encode()])
@example(lines=[json.dumps(SOUND[0]).encode() + b" ", b"\r", b"{}\r"])
@example(lines=[json.dumps(SOUND[0]).encode()[:-1], b"}"])
@example(lines=[json.dumps(SOUND[0]).encode() * 2])
def test_a_block_of_lines_decodes_as_each_line_does(lines: list[bytes]) -> None:
    decoded = decode_block(lines)
    assert decoded == [decode_line(line) for line in lines]
    records = [record for record in decoded if isinstance(record, LoggedStateChange)]
    rows = to_columns(records)
    assert rows.num_rows >= sum(record.kind is not Kind.LOADED for record in records)
    for name in ("node", "incarnation", "seq", "at_ms", "kind", "v"):
        assert rows.column(name).null_count == 0


@examples(80, deep=200)
@given(data=st.data())
def test_damaged_blocks_decode_as_their_lines_do(data: st.DataObject, sound_lines: list[bytes]) -> None:
    first = data.draw(st.integers(0, len(sound_lines) - 1))
    block = b"\n".join(sound_lines[first : first + data.draw(st.integers(1, 6))])
    lines = data.draw(damaged(block)).split(b"\n")
    assert decode_block(lines) == [decode_line(line) for line in lines]


def test_the_keys_of_partitions_tell_topics_and_their_ids_apart() -> None:
    start = LoadedPartition(0, 1, 1, 1, (1,), (1,), 1)  # type: ignore[arg-type]
    one = LoggedStateChange(kind=Kind.ISR, v=2, seq=0, node="n", incarnation="i", at_ms=1, topic="t", partition=0)
    others = [
        msgspec.structs.replace(one, topic="u"),
        msgspec.structs.replace(one, partition=1),
        msgspec.structs.replace(one, topic_id="a"),
        msgspec.structs.replace(one, topic_id="b"),
        msgspec.structs.replace(one, topic="ta"),
    ]
    same = msgspec.structs.replace(one, kind=Kind.LOADED, partition=None, partitions=(start,), seq=9)
    keys = to_columns([one, *others, same]).column("key").to_pylist()
    assert len(set(keys)) == len(keys) - 1
    assert keys[-1] == keys[0] != 0
    of_none = [msgspec.structs.replace(one, partition=None), msgspec.structs.replace(one, topic=None)]
    assert to_columns(of_none).column("key").to_pylist() == [0, 0]


def test_a_key_does_not_depend_on_the_other_records_of_its_block() -> None:
    names = ["a", "b", None, "c"]

    def keys(order: list[int]) -> dict[tuple[str | None, str | None, int], int]:
        topic, topic_id = (
            pyarrow.array([names[(n + shift) % 4] for n in order], pyarrow.string()).dictionary_encode()
            for shift in (0, 1)
        )
        found = partition_keys(topic, topic_id, pyarrow.array(order, pyarrow.int32()))
        assert found.dtype == numpy.uint64
        rows = zip(topic.to_pylist(), topic_id.to_pylist(), order, strict=True)
        return dict(zip(rows, found.tolist(), strict=True))

    assert keys([0, 1, 2, 3]) == keys([3, 1, 0, 2])
