"""One batch of the stream: its buckets are judged in Spark's tasks, then the driver commits what they wrote.

A batch that Spark repeats after a crash finds its commit, or does the same again on the state of the commit before.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow
from pyspark.sql import DataFrame

from audit.bucket import Place, check_bucket, concatenated
from audit.cluster_state import check_cluster
from audit.output_folder import VERSION, BucketResult, BucketState, Commit, OutputError, OutputFolder
from audit.source import LINES_ROW, RECORDS_ROW, ReadRange, from_stream

BUCKETS: Final = 16
"""Parts of the state, judged independently of one another; fixed for an output folder."""
_RESULT: Final = "result binary"


def check_batch(frame: DataFrame, number: int, output: OutputFolder, tasks: int) -> None:
    """Judge the rows of `audit.source` and commit. Raises OutputError."""
    before = output.last_commit() or Commit(VERSION, -1, "", {})
    if number <= before.batch:
        if number < before.batch:
            raise OutputError(
                f"{output.top}: batch {number} after {before.batch}: its checkpoint is not the one of its tables; "
                "audit into a new --output"
            )
        return
    check = _checker(str(output.top), number, msgspec.json.encode(before.buckets))
    rows = frame.repartition(tasks, "bucket").mapInArrow(check, _RESULT).collect()
    results = [msgspec.json.decode(bytes(row["result"]), type=BucketResult) for row in rows]
    output.commit(_next(before, number, results))


def _next(before: Commit, number: int, results: list[BucketResult]) -> Commit:
    return Commit(
        version=VERSION,
        batch=number,
        query=before.query,
        buckets=before.buckets | {str(result.bucket): result.state for result in results},
        records=before.records + sum(result.records for result in results),
        quarantined=before.quarantined + sum(result.quarantined for result in results),
        controllers=tuple(sorted({*before.controllers, *(c for result in results for c in result.controllers)})),
        taken=before.taken | {log: taken for result in results for log, taken in result.taken.items()},
    )


def _checker(
    top: str, number: int, buckets: bytes
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def check(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        output = OutputFolder(Path(top))
        known = msgspec.json.decode(buckets, type=dict[str, BucketState])
        streams: dict[int, list[pyarrow.Table]] = {}
        read: list[ReadRange] = []
        for batch in batches:
            for row in batch.to_pylist():
                tables = streams.setdefault(row["bucket"], [])
                if row["what"] == RECORDS_ROW:
                    tables.append(from_stream(row["data"]))
                else:
                    assert row["what"] == LINES_ROW, row["what"]
                    read.append(msgspec.json.decode(row["data"], type=ReadRange))
        for bucket in sorted(streams):
            rows = concatenated(streams.pop(bucket))
            place, state = Place(bucket, number), known.get(str(bucket), BucketState())
            if bucket == BUCKETS:
                result = check_cluster(output, place, state, rows, read)
            else:
                result = check_bucket(output, place, state, rows)
            yield pyarrow.record_batch({"result": pyarrow.array([msgspec.json.encode(result)], pyarrow.binary())})

    return check
