"""The digests of all lines, eight bytes of each, so that a witness of any line can be compared whenever it arrives.

A row has the digests of consecutive lines of one log within one chunk of numbers: `key` is a hash of the log, `sub` the
chunk, `first` the number of the first line.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy
import pyarrow

from audit.records.orders import sorted_order
from audit.records.sealed_runs import Sealing
from audit.records.sorted_runs import AnyRuns, gather
from audit.records.vectors import keys, longs, text_hash
from state_log.chain import ChainSegment

DIGESTS: Final = "digests"
"""The name of these runs."""
DIGEST_BYTES: Final = 8
_CHUNK: Final = 4096
SEALING: Final = Sealing(times=(), stay=2, share=_CHUNK // 4)
_SCHEMA: Final = pyarrow.schema(
    {"key": pyarrow.uint64(), "sub": pyarrow.int64(), "first": pyarrow.int64(), "digests": pyarrow.binary()}
)
_Row = tuple[int, int, int, bytes]


def packed(digests: Iterable[str]) -> bytes:
    """The first eight bytes of each hexadecimal digest."""
    return bytes.fromhex("".join([digest[: 2 * DIGEST_BYTES] for digest in digests]))


def digests_of(segments: Iterable[tuple[Sequence[ChainSegment], bytes]]) -> pyarrow.Table:
    """The digests of these segments as rows. Each group has the digests of its lines, one after the other."""
    return reduce_digests(_table([row for group, digests in segments for row in _rows(group, digests)]))


def _rows(segments: Sequence[ChainSegment], digests: bytes) -> Iterator[_Row]:
    position = 0
    for segment in segments:
        key, first = text_hash(f"{segment.node}/{segment.incarnation}"), segment.first_seq
        while first <= segment.last_seq:
            count = min(segment.last_seq + 1, (first // _CHUNK + 1) * _CHUNK) - first
            yield key, first // _CHUNK, first, digests[position : position + count * DIGEST_BYTES]
            first, position = first + count, position + count * DIGEST_BYTES


def reduce_digests(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort the rows, drop repeated ones, and join those that continue one another."""
    found: list[_Row] = []
    order = sorted_order((longs(rows["first"]), longs(rows["sub"]), keys(rows["key"])))
    for key, sub, first, digests in zip(*rows.take(order).to_pydict().values(), strict=True):
        if found:
            last = found[-1]
            if last[:2] == (key, sub) and first == last[2] + len(last[3]) // DIGEST_BYTES:
                found[-1] = (key, sub, last[2], last[3] + digests)
                continue
            if last == (key, sub, first, digests):
                continue
        found.append((key, sub, first, digests))
    return _table(found)


def find_digests(runs: AnyRuns, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], set[str]]:
    """The digests of the lines that were read under each (log, number), as hexadecimal digits."""
    found: dict[tuple[str, int], set[str]] = {line: set() for line in wanted}
    by_row: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for log, seq in found:
        by_row.setdefault((text_hash(log), seq // _CHUNK), []).append((log, seq))
    key = numpy.array([key for key, _ in by_row], numpy.uint64)
    sub = numpy.array([sub for _, sub in by_row], numpy.int64)
    for row in gather(runs, key, sub, _SCHEMA.empty_table()).to_pylist():
        for log, seq in by_row[row["key"], row["sub"]]:
            at = (seq - row["first"]) * DIGEST_BYTES
            if 0 <= at < len(row["digests"]):
                found[log, seq].add(row["digests"][at : at + DIGEST_BYTES].hex())
    return found


def _table(rows: Sequence[_Row]) -> pyarrow.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    arrays = [pyarrow.array(column, kind) for column, kind in zip(columns, _SCHEMA.types, strict=True)]
    return pyarrow.Table.from_arrays(arrays, schema=_SCHEMA)
