"""State-change records as Arrow columns: one row for each record, of `loaded` records one for each partition.

Decoding is `state_log.record.decode_line`, in bulk: what one accepts the other accepts. No record becomes a row of the
JVM on its way through the audit, only batches of these columns.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy
import pyarrow
import pyarrow.compute
from msgspec.structs import astuple
from numpy.typing import NDArray

from audit.records.vectors import mixed, text_hash
from state_log.record import Kind, LoggedStateChange, MalformedLine, by_partition, decode_line, decode_lines

_TEXT: Final = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
_INT: Final = pyarrow.int32()
_LONG: Final = pyarrow.int64()
_BROKERS: Final = pyarrow.list_(pyarrow.int32())

_OWN_FIELDS: Final[dict[str, pyarrow.DataType]] = {
    "node": _TEXT,
    "incarnation": _TEXT,
    "seq": _LONG,
    "at_ms": _LONG,
    "v": _INT,
    "kind": _TEXT,
    "controller_epoch": _INT,
    "topic": _TEXT,
    "topic_id": _TEXT,
    "partition": _INT,
    "broker": _INT,
    "broker_epoch": _LONG,
    "from_state": _TEXT,
    "to_state": _TEXT,
    "leader": _INT,
    "leader_epoch": _INT,
    "partition_epoch": _INT,
    "isr": _BROKERS,
    "replicas": _BROKERS,
    "adding_replicas": _BROKERS,
    "removing_replicas": _BROKERS,
    "resource": _TEXT,
    "reason": _TEXT,
    "request_id": _TEXT,
    "principal": _TEXT,
    "peer": _TEXT,
    "from_offset": _LONG,
    "to_offset": _LONG,
    "high_watermark": _LONG,
    "log_start_offset": _LONG,
    "log_end_offset": _LONG,
    "min_insync_replicas": _INT,
    "silent_ms": _LONG,
    "boot_id": _TEXT,
    "mono_ms": _LONG,
}
_NESTED: Final[dict[str, tuple[str, str, pyarrow.DataType]]] = {
    "cause_event": ("cause", "event", _TEXT),
    "cause_id": ("cause", "id", _LONG),
    "cause_controller": ("cause", "controller", _INT),
    "cause_controller_epoch": ("cause", "controller_epoch", _INT),
    "witness_node": ("witness", "node", _TEXT),
    "witness_incarnation": ("witness", "incarnation", _TEXT),
    "witness_seq": ("witness", "seq", _LONG),
    "witness_digest": ("witness", "digest", pyarrow.string()),
    "witness_boot_id": ("witness", "boot_id", _TEXT),
    "inputs_live": ("inputs", "live", _BROKERS),
    "inputs_governs": ("inputs", "governs", _TEXT),
    "inputs_offline": ("inputs", "offline", _BROKERS),
    "inputs_held": ("inputs", "held", _BROKERS),
    "inputs_awaited": ("inputs", "awaited", _BROKERS),
    "inputs_unclean": ("inputs", "unclean", _TEXT),
}
RECORDS: Final = pyarrow.schema(
    [*_OWN_FIELDS.items(), *((name, kind) for name, (_, _, kind) in _NESTED.items()), ("key", pyarrow.uint64())]
)
"""The columns. `key`: 64 bits that tell partitions of topics apart (`partition_keys`); 0 if the record is of none."""


def decode_block(lines: Sequence[bytes]) -> list[LoggedStateChange | MalformedLine]:
    """Decode each line into its record, or the reason why it is none."""
    records = decode_lines(lines)
    return [decode_line(line) for line in lines] if records is None else records


def to_columns(records: Sequence[LoggedStateChange]) -> pyarrow.RecordBatch:
    """Make these records a batch of RECORDS, in their order; a `loaded` record has a row for each of its partitions."""
    values = _transposed(list(_by_partition(records)))
    columns = [_column(values[name], kind) for name, kind in _OWN_FIELDS.items()]
    columns += [_column(_parts(values[outer], inner), kind) for outer, inner, kind in _NESTED.values()]
    topic, topic_id, partition = (columns[RECORDS.get_field_index(n)] for n in ("topic", "topic_id", "partition"))
    columns.append(pyarrow.array(partition_keys(topic, topic_id, partition), pyarrow.uint64()))
    return pyarrow.RecordBatch.from_arrays(columns, schema=RECORDS)


def _by_partition(records: Iterable[LoggedStateChange]) -> Iterable[LoggedStateChange]:
    for record in records:
        if record.kind is Kind.LOADED:
            yield from (part for _, part in by_partition(record))
        else:
            yield record


def _transposed(rows: Sequence[LoggedStateChange]) -> dict[str, Sequence[Any]]:
    """The values of each field. All fields at once: one at a time takes twice as long."""
    fields = LoggedStateChange.__struct_fields__
    return dict(zip(fields, zip(*map(astuple, rows), strict=True), strict=True)) if rows else dict.fromkeys(fields, ())


def _parts(whole: Sequence[Any], name: str) -> Sequence[Any]:
    """The attribute of this name for each value; None for None."""
    if not _is_none(whole):
        part = attrgetter(name)
        return [None if value is None else part(value) for value in whole]
    return whole


def _is_none(values: Sequence[Any]) -> bool:
    """Whether all of the values are None."""
    return not values or (values[0] is None and values.count(None) == len(values))


def _column(values: Sequence[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    if _is_none(values):
        return pyarrow.nulls(len(values), kind)
    if kind == _TEXT:
        return pyarrow.array(values, pyarrow.string()).dictionary_encode()
    return pyarrow.array(values, kind)


def partition_keys(
    topic: pyarrow.DictionaryArray, topic_id: pyarrow.DictionaryArray, partition: pyarrow.Array
) -> NDArray[numpy.uint64]:
    """A hash of (topic, topic id, partition) for each row; 0 where there is no partition. Aligned with the three
    columns.
    """
    names, ids = topic.dictionary.to_pylist(), [*topic_id.dictionary.to_pylist(), None]
    rows_topic = topic.indices.fill_null(-1).to_numpy().astype(numpy.int64)
    rows_id = topic_id.indices.fill_null(len(ids) - 1).to_numpy().astype(numpy.int64)
    pairs, row_pair = numpy.unique(rows_topic * len(ids) + rows_id, return_inverse=True)
    hashes = numpy.array(
        [
            0 if pair < 0 else text_hash(f"{names[pair // len(ids)]}\0{ids[pair % len(ids)] or ''}")
            for pair in pairs.tolist()
        ],
        numpy.uint64,
    )
    number = partition.fill_null(-1).to_numpy().astype(numpy.int64)
    keys = mixed(hashes[row_pair] + number.astype(numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15))
    keys[(number < 0) | (rows_topic < 0)] = 0
    return keys
