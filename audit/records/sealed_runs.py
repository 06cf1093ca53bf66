"""Old rows of a table that is kept, sealed: written once more, compressed, and neither merged nor read any more.

Below a floor of each key are the rows that records of today do not touch. They are moved out of the open runs into a
segment, which stays as it is. What asks for rows above the floors reads open runs alone, so that a batch, and the start
of an audit, cost as much after years as on the first day. A late record asks for rows below them: the blocks that have
them are read then, and checked as ever. So the floors decide what is quick, and never what is found.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy
import pyarrow

from audit.records.sorted_runs import FLOORS, HIGHEST, SortedRun, expand, floors_of
from audit.records.vectors import Flags, Keys, Longs, group_starts, keys, longs

OPEN_ROWS: Final = 1 << 19
"""Rows of a table in a bucket above which the older half is sealed."""
_BLOCK_ROWS: Final = 1 << 12
_BLOCKS: Final = b"klamm.blocks"


class Sealing(NamedTuple):
    """Says which rows of a table are old. Of each key the rows are sealed in the order of `sub`, but the last `stay`.

    `times`: the columns whose greatest value is the time of a row in ms; none: all rows are old. `whole`: `sub` is no
    order, so that a key is sealed with all of its rows. `share`: a table with large rows seals at so many times fewer.
    """

    times: tuple[str, ...] = ("at_ms",)
    whole: bool = False
    stay: int = 8
    share: int = 1


class Divided(NamedTuple):
    """The rows that stay open, those to be sealed, and the floors of all keys that have sealed rows."""

    open: pyarrow.Table
    sealed: pyarrow.Table
    floors: pyarrow.Table


class SealedSegment:
    """Rows that were sealed together, sorted by (key, sub), in compressed blocks. `read`: gives what was encoded."""

    def __init__(self, read: Callable[[], pyarrow.Buffer]) -> None:
        self._read = read

    def between(self, key: Keys, low: Longs, high: Longs, reach: int) -> SortedRun | None:
        """Read the rows of each key from `low` to `high`, and `reach` rows on either side; these are aligned."""
        with pyarrow.ipc.open_file(self._read()) as file:
            first_keys = numpy.frombuffer(file.schema.metadata[_BLOCKS], numpy.uint64)
            first = numpy.maximum(numpy.searchsorted(first_keys, key, "left") - 1, 0)
            blocks = expand(first.astype(numpy.int64), numpy.searchsorted(first_keys, key, "right").astype(numpy.int64))
            if not len(blocks):
                return None
            rows = pyarrow.Table.from_batches([file.get_batch(block) for block in blocks.tolist()])
        run = SortedRun(rows)
        bottom, top = run.find(key, low), run.find(key, high)
        places = expand(numpy.maximum(bottom.start, bottom.first - reach), numpy.minimum(top.stop, top.end + reach))
        return SortedRun(rows.take(places)) if len(places) else None

    def whole(self) -> SortedRun:
        """Read all rows."""
        with pyarrow.ipc.open_file(self._read()) as file:
            return SortedRun(file.read_all())


def divided(rows: pyarrow.Table, floors: pyarrow.Table, by: Sealing, open_rows: int) -> Divided | None:
    """Divide all open rows of a table, sorted, if there are too many and enough of them are old; else None.

    `floors`: those so far.
    """
    if rows.num_rows <= max(1, open_rows // by.share):
        return None
    key, sub = keys(rows["key"]), longs(rows["sub"])
    starts = group_starts(key)
    ends = numpy.append(starts[1:], len(key))
    is_old = _are_old(rows, by)
    known = floors_of(floors, key[starts])
    if by.whole:
        floor = numpy.where(numpy.logical_and.reduceat(is_old, starts), HIGHEST, known)
    else:
        # From the first row that is not old, or of the last few, on.
        first = numpy.minimum.reduceat(numpy.where(is_old, len(key), numpy.arange(len(key))), starts)
        first = numpy.minimum(first, numpy.maximum(ends - by.stay, starts))
        floor = numpy.maximum(sub[first], known)
    sealed = sub < numpy.repeat(floor, ends - starts)
    if 4 * numpy.count_nonzero(sealed) < len(key):
        return None
    has_some = numpy.logical_or.reduceat(sealed, starts)
    others = floors.filter(pyarrow.array(~numpy.isin(keys(floors["key"]), key[starts][has_some])))
    now = pyarrow.concat_tables([others, pyarrow.table([key[starts][has_some], floor[has_some]], schema=FLOORS)])
    return Divided(
        rows.filter(pyarrow.array(~sealed)), rows.filter(pyarrow.array(sealed)), now.sort_by([("key", "ascending")])
    )


def _are_old(rows: pyarrow.Table, by: Sealing) -> Flags:
    """Whether a row is of the older half by time; aligned with the rows."""
    if not by.times:
        return numpy.ones(rows.num_rows, bool)
    time = numpy.maximum.reduce([longs(rows[name]) for name in by.times])
    return numpy.asarray(time < numpy.partition(time, len(time) // 2)[len(time) // 2], bool)


def to_segment(rows: pyarrow.Table, share: int = 1) -> pyarrow.Buffer:
    """Encode sorted rows as a segment. `share`: see `Sealing`."""
    size = max(1, _BLOCK_ROWS // share)
    rows = rows.unify_dictionaries().combine_chunks()
    first_keys = keys(rows["key"])[::size]
    described = rows.replace_schema_metadata({_BLOCKS: first_keys.tobytes()})
    sink = pyarrow.BufferOutputStream()
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.ipc.new_file(sink, described.schema, options=options) as writer:
        writer.write_table(described, max_chunksize=size)
    return sink.getvalue()
