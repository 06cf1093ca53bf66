"""Spark's view of what goes through the audit: the rows of the source."""

from typing import Final

from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

SOURCE: Final = StructType(
    [StructField("bucket", IntegerType()), StructField("what", StringType()), StructField("data", BinaryType())]
)
"""Rows of the source (see `audit.reading.source`)."""
