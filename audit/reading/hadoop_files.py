"""Logs in any file system that Spark reads (`s3a://`, `hdfs://`, `file://`): whole files, each once.

For sealed segments: Spark's file source reads a file when it first sees it, and never again, so that what is appended
later is not read. A file is one row of the JVM, as bytes; its lines are decoded in the tasks, as those of local files.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote

import pyarrow
from pyspark.sql import DataFrame, SparkSession

from audit.reading.changed_files import FaultKind, FileFault
from audit.reading.log_files import FileContent, Range
from audit.reading.schema import SOURCE
from audit.reading.source import ReadPlan, faults_row, read_ranges
from state_log.kafka.files import identity_of
from state_log.writer import SEGMENT_SUFFIX, parse_segment_name

_FILES: Final = "path string, modificationTime timestamp, length long, content binary"
_NAMES: Final = "{*.jsonl,*state-change.log*}"


def stream_files(spark: SparkSession, folders: Sequence[str], plan: ReadPlan) -> DataFrame:
    """The rows of `audit.reading.source` of the files in these folders, searched in depth, as a stream."""
    reader = spark.readStream.format("binaryFile").schema(_FILES).option("recursiveFileLookup", "true")
    reader = reader.option("pathGlobFilter", _NAMES).option("maxBytesPerTrigger", str(plan.max_bytes))
    files = reduce(DataFrame.union, [reader.load(folder) for folder in folders])
    return files.repartition(plan.tasks).mapInArrow(_decoder(plan), SOURCE)


def _decoder(plan: ReadPlan) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def decode(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for row in range(batch.num_rows):
                path, modified, _, content = (batch[name][row] for name in batch.schema.names)
                yield from read_file(path.as_py(), content.as_py(), modified.cast("int64").as_py() * 1000, plan)

    return decode


def read_file(url: str, content: bytes, modified_ns: int, plan: ReadPlan) -> Iterator[pyarrow.RecordBatch]:
    """The rows of one file. A line without an end is left out, as in a local file."""
    name = PurePosixPath(unquote(url)).name
    segment = parse_segment_name(name)
    kafka_log = None if segment is not None else identity_of(content, url, name)
    if segment is None and kafka_log is None and not name.endswith(SEGMENT_SUFFIX):
        return
    log = kafka_log or (name if segment is None else f"{segment.node}-{segment.incarnation}")
    end = content.rfind(b"\n") + 1
    if not end:
        yield faults_row(plan.buckets, [FileFault(FaultKind.EMPTY, log, url, 0, len(content))])
        return
    wanted = Range(log, FileContent(url, content, modified_ns), 0, end, kafka_log is not None)
    yield from read_ranges([wanted], plan.buckets, plan.zone)
