"""Benchmarks the state of the audit as it grows: CPU time a record of one bucket, batch by batch, without Spark.

Run as `python -m benchmarks.audit_state_growth [--open-rows N…] [--records N]`. Each event is a state that a controller
writes and the role that its leader takes. By sixths of the records it says what a record cost, and then what a start
has to read. With more open rows than there are records nothing is sealed. CPU time, so that other work disturbs little.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy
import pyarrow

from audit.batches.bucket import BucketPlace, check_bucket
from audit.records.columns import RECORDS
from audit.records.vectors import Longs
from audit.storage.commits import BucketState, Commit
from audit.storage.committed_state import open_files, sealed_files
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import VERSION

_PARTITIONS: Final = 2_500
_EVENTS: Final = 18_000
"""Events of a batch: as many as a quarter of 128 MB of logs has."""
_MS: Final = 240
"""Between events: each partition has one in ten minutes."""
_START_MS: Final = 1_795_356_181_000
_PARTS: Final = 6


def batches() -> Iterator[pyarrow.Table]:
    """Yield records of one batch after the other, without end."""
    random, epochs = numpy.random.default_rng(1), numpy.zeros(_PARTITIONS, numpy.int64)
    key = random.integers(1, 1 << 63, _PARTITIONS, dtype=numpy.uint64)
    first = 0
    while True:
        partition = random.integers(0, _PARTITIONS, _EVENTS)
        order = numpy.argsort(partition, kind="stable")
        in_order = partition[order]
        place, begins = numpy.arange(_EVENTS), numpy.ones(_EVENTS, bool)
        begins[1:] = in_order[1:] != in_order[:-1]
        epoch = numpy.empty(_EVENTS, numpy.int64)
        epoch[order] = epochs[in_order] + place - numpy.maximum.accumulate(numpy.where(begins, place, 0))
        numpy.add.at(epochs, partition, 1)
        yield _records(key[partition], partition, epoch, _START_MS + (first + place) * _MS)
        first += _EVENTS


def _records(key: numpy.ndarray, partition: Longs, epoch: Longs, at_ms: Longs) -> pyarrow.Table:
    """The controllers' records of these events, and those of the leaders."""
    leader, count = epoch // 2 % 3 + 1, 2 * len(epoch)
    brokers = pyarrow.ListArray.from_arrays(
        numpy.arange(count + 1, dtype=numpy.int32) * 3, numpy.tile([1, 2, 3], count)
    )
    both = {
        **{"key": key, "partition": partition, "partition_epoch": epoch, "leader": leader, "at_ms": at_ms},
        **{"leader_epoch": epoch // 2, "high_watermark": epoch, "log_end_offset": epoch},
        **{name: numpy.ones(len(epoch), numpy.int64) for name in ("controller_epoch", "cause_controller_epoch")},
        **{"seq": at_ms, "cause_id": at_ms, "cause_controller": numpy.full(len(epoch), 1001)},
    }
    halves = {
        "kind": ("partition", "role"),
        "node": ("controller-1001", "broker-1"),
        "to_state": ("OnlinePartition", "leader"),
        "from_state": ("OnlinePartition", "follower"),
        **{name: (text, text) for name, text in (("incarnation", "1.1"), ("topic", "t"), ("topic_id", "id"))},
        "cause_event": ("BrokerChange", "BrokerChange"),
    }
    columns = {name: pyarrow.array(numpy.concatenate((values, values))) for name, values in both.items()}
    columns |= {
        n: pyarrow.array([a] * len(epoch) + [b] * len(epoch)).dictionary_encode() for n, (a, b) in halves.items()
    }
    columns |= {"isr": brokers, "replicas": brokers}
    columns["broker"] = pyarrow.array(numpy.concatenate((numpy.full(len(epoch), -1), leader)))
    absent = (pyarrow.nulls(count, field.type) for field in RECORDS)
    whole = [columns.get(field.name, nothing) for field, nothing in zip(RECORDS, absent, strict=True)]
    return pyarrow.table([c.cast(f.type) for c, f in zip(whole, RECORDS, strict=True)], schema=RECORDS)


def measure(top: Path, open_rows: int, records: int) -> str:
    """Check so many records; returns what that took."""
    folder, state, done = OutputFolder(top), BucketState(), 0
    settings = Commit(VERSION, -1, "", {}, open_rows=open_rows)
    taken: list[float] = []
    for number, rows in enumerate(batches()):
        began = time.process_time()
        state = check_bucket(folder, BucketPlace(0, number), state, rows, settings).state
        taken.append(time.process_time() - began)
        done += rows.num_rows
        _remove_others(top, state)
        if done >= records:
            break
    per = len(taken) // _PARTS
    costs = [sum(taken[part * per : (part + 1) * per]) / (per * 2 * _EVENTS) * 1e6 for part in range(_PARTS)]
    began = time.process_time()
    for stored in open_files(state):
        folder.read_stored(stored)
    check = time.process_time() - began
    total, sealed = (sum(p.stat().st_size for p in top.rglob(name)) / 2**20 for name in ("*.arrow", "*-sealed.arrow"))
    by_part = " ".join(f"{cost:.1f}" for cost in costs)
    return (
        f"{open_rows:>13,} open rows, {done:,} records: {by_part} us; dearest batch {max(taken):.2f} s; "
        f"state {total:.0f} MB, {sealed:.0f} of it sealed; a start reads for {check:.2f} s"
    )


def _remove_others(top: Path, state: BucketState) -> None:
    """Remove state that is not needed, as a commit does."""
    needed = {stored.file for stored in (*open_files(state), *sealed_files(state))}
    for path in (top / "state").rglob("*.arrow"):
        if path.relative_to(top).as_posix() not in needed:
            path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_state_growth", description=__doc__)
    parser.add_argument("--open-rows", type=int, nargs="+", default=[1 << 16, 1 << 40])
    parser.add_argument("--records", type=int, default=1_000_000)
    given = parser.parse_args()
    for open_rows in given.open_rows:
        with tempfile.TemporaryDirectory() as name:
            print(measure(Path(name), open_rows, given.records), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
