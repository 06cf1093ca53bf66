"""The Spark schema and the record are one interface written twice; this keeps them the same."""

import types
import typing

import msgspec
import pytest
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StringType, StructType

from audit.report import IncarnationProgress
from audit.schema import FINDING, INCARNATION, QUARANTINED, RECORD
from audit.source import QuarantinedLine
from state_log.invariants import Finding
from state_log.record import LoggedStateChange

LONGS = {"seq", "at_ms", "mono_ms", "id", "last_seq", "records", "offset", "high_watermark"}
LONGS |= {"from_offset", "to_offset", "log_start_offset", "log_end_offset"}


def spark_type(name: str, hint: object) -> DataType:
    if typing.get_origin(hint) in {types.UnionType, typing.Union}:
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    if name == "partitions":
        return ArrayType(ArrayType(StringType()))
    if typing.get_origin(hint) is tuple:
        return ArrayType(spark_type("", typing.get_args(hint)[0]))
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    assert isinstance(hint, type)
    if issubclass(hint, msgspec.Struct):
        return struct_type(hint)
    if issubclass(hint, str):
        return StringType()
    assert hint is int, f"{name}: {hint}"
    return LongType() if name in LONGS else IntegerType()


def struct_type(struct: type[msgspec.Struct]) -> StructType:
    schema = StructType()
    hints = typing.get_type_hints(struct)
    for name in struct.__struct_fields__:
        schema.add(name, spark_type(name, hints[name]))
    return schema


def fields(schema: StructType) -> dict[str, DataType]:
    return {field.name: field.dataType for field in schema.fields}


@pytest.mark.parametrize(
    ("schema", "struct"),
    [
        (RECORD, LoggedStateChange),
        (FINDING, Finding),
        (INCARNATION, IncarnationProgress),
        (QUARANTINED, QuarantinedLine),
    ],
)
def test_every_field_of_a_value_is_a_column_of_its_type(schema: StructType, struct: type[msgspec.Struct]) -> None:
    assert fields(schema) == fields(struct_type(struct))
