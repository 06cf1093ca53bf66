"""Spark's view of the values that go through the audit: rows of the source, records, and findings of the rules."""

from typing import Final

from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructField, StructType


def _struct(**fields: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])  # type: ignore[arg-type]


_STRING, _INT, _LONG = StringType(), IntegerType(), LongType()

SOURCE: Final = _struct(key=_STRING, value=BinaryType())
"""Rows of the source: a key, which names the subject, and the value as JSON (see `audit.source`)."""

OUTCOME: Final = _struct(what=_STRING, value=_STRING)
"""Results of the rules: the name of one of `TABLES`, and a row of it as JSON."""

RECORD: Final = _struct(
    kind=_STRING,
    cause=_struct(event=_STRING, id=_LONG, controller=_INT, controller_epoch=_INT),
    controller_epoch=_INT,
    topic=_STRING,
    topic_id=_STRING,
    partition=_INT,
    broker=_INT,
    from_state=_STRING,
    to_state=_STRING,
    leader=_INT,
    leader_epoch=_INT,
    partition_epoch=_INT,
    isr=ArrayType(_INT),
    replicas=ArrayType(_INT),
    partitions=ArrayType(ArrayType(_STRING)),
    reason=_STRING,
    request_id=_STRING,
    principal=_STRING,
    peer=_STRING,
    from_offset=_LONG,
    to_offset=_LONG,
    high_watermark=_LONG,
    log_start_offset=_LONG,
    log_end_offset=_LONG,
    min_insync_replicas=_INT,
    witness=_struct(node=_STRING, incarnation=_STRING, seq=_LONG, digest=_STRING),
    v=_INT,
    seq=_LONG,
    node=_STRING,
    incarnation=_STRING,
    at_ms=_LONG,
    prev=_STRING,
    boot_id=_STRING,
    mono_ms=_LONG,
)
"""A line of a state-change log, field by field as in `state_log.record.LoggedStateChange`.

The start states in `partitions` are JSON arrays of unlike things, so their elements stay text.
"""

FINDING: Final = _struct(rule=_STRING, message=_STRING, records=ArrayType(_STRING), topic=_STRING, partition=_INT)

INCARNATION: Final = _struct(node=_STRING, incarnation=_STRING, last_seq=_LONG, records=_LONG)
"""How far one incarnation was read; the newest row of an incarnation holds."""

QUARANTINED: Final = _struct(file=_STRING, offset=_LONG, line=_STRING, why=_STRING)

TABLES: Final = {"findings": FINDING, "timelines": RECORD, "incarnations": INCARNATION, "quarantine": QUARANTINED}
"""The Parquet tables under the output folder."""
