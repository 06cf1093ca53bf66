"""Adds the rows of a batch to the tables that a bucket keeps, and seals what has become old."""

from collections.abc import Callable
from typing import Final

import pyarrow

from audit.records.sealed_runs import Sealing, divided, to_segment
from audit.records.sorted_runs import Runs, joined_runs
from audit.storage.commits import BucketState, Sealed, StoredFile
from audit.storage.output_folder import OutputFolder
from audit.storage.state_files import StateFile

_KINDS: Final = ("-sealed", "-floors")
_Reduce = Callable[[pyarrow.Table], pyarrow.Table]


class KeptTables:
    """Reads the tables of one bucket as earlier batches left them, and writes what a batch adds.

    `file`: that of the batch; sealed rows have another one, which stays, and floors a third. The files are there once
    `write` was called.
    """

    def __init__(self, output: OutputFolder, place: tuple[int, int], before: BucketState, open_rows: int) -> None:
        """Keep tables at a place: bucket and batch. `open_rows`: rows of a table above which old ones are sealed."""
        self._output, self._before, self._open_rows = output, before, open_rows
        self._runs, self._sealed = dict(before.runs), dict(before.sealed)
        self.file = StateFile(output, *place)
        self._segments, self._floors = (StateFile(output, *place, kind) for kind in _KINDS)

    def known(self, table: str) -> Runs:
        """The runs that earlier batches left of a table. Raises OutputError."""
        return self._output.table_runs(self._before, table)

    def add(
        self, table: str, known: Runs, added: pyarrow.Table, reduce: _Reduce, sealing: Sealing | None = None
    ) -> None:
        """Add rows, reduced, to a table whose runs are `known`. What is old is sealed when all open runs are merged."""
        if not added.num_rows:
            return
        kept, run = joined_runs(known.open, added, reduce)
        if sealing is not None and not kept:
            run = self._without_old(table, known, run, sealing)
        self._runs[table] = (*self._runs.get(table, ())[:kept], *self._run(run))

    def _without_old(self, table: str, known: Runs, rows: pyarrow.Table, sealing: Sealing) -> pyarrow.Table:
        found = divided(rows, known.floor_rows, sealing, self._open_rows)
        if found is None:
            return rows
        segment = self._segments.add_bytes(to_segment(found.sealed, sealing.share), found.sealed.num_rows)
        before = self._sealed[table].segments if table in self._sealed else ()
        self._sealed[table] = Sealed(self._floors.add_run(found.floors), (*before, segment))
        return found.open

    def replace(self, table: str, rows: pyarrow.Table) -> None:
        """Keep these rows of a table, and no others."""
        self._runs[table] = self._run(rows)

    def _run(self, rows: pyarrow.Table) -> tuple[StoredFile, ...]:
        return (self.file.add_run(rows),) if rows.num_rows else ()

    def write(self, file: StoredFile | None = None) -> BucketState:
        """Write the files; returns the state of the bucket, with this file of its own. Raises OutputError."""
        for each in (self._segments, self._floors, self.file):
            each.write()
        return BucketState(self._runs, file, self._sealed)


def copied_state(
    source: OutputFolder, state: BucketState, output: OutputFolder, bucket: int, batch: int
) -> BucketState:
    """Write the tables of a bucket in one output to another, as of this batch. Raises OutputError."""
    file, segments, floors = (StateFile(output, bucket, batch, kind) for kind in ("", *_KINDS))

    def copy(stored: StoredFile, to: StateFile) -> StoredFile:
        return to.add_bytes(source.read_state(stored), stored.rows)

    runs = {name: tuple(copy(stored, file) for stored in of) for name, of in state.runs.items()}
    sealed = {
        name: Sealed(copy(of.floors, floors), tuple(copy(stored, segments) for stored in of.segments))
        for name, of in state.sealed.items()
    }
    for each in (segments, floors, file):
        each.write()
    return BucketState(runs, sealed=sealed)
