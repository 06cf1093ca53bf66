"""One file for all that a batch adds to the state of a bucket: each file costs more time than what is in it."""

from typing import Final

import pyarrow

from audit.storage.commits import StoredFile, content_digest
from audit.storage.output_folder import OutputFolder

_ALIGNMENT: Final = 64
"""The alignment in bytes of the tables in a file, so that they are read where they are mapped."""


class StateFile:
    """Collects tables and other state, and writes them one after the other. The file is there once `write` was called.

    A file stays until nothing in it is needed any more.
    """

    def __init__(self, output: OutputFolder, bucket: int, batch: int, kind: str = "") -> None:
        """`kind`: what stays longer than the rest of a batch has a file of its own."""
        self._output = output
        self._name = f"state/{bucket}/{batch:09d}{kind}.arrow"
        self._parts: list[bytes | pyarrow.Buffer] = []
        self._size = 0

    def add_run(self, rows: pyarrow.Table) -> StoredFile:
        """Add a sorted run, or another table."""
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows.unify_dictionaries().combine_chunks())
        return self.add_bytes(sink.getvalue(), rows.num_rows)

    def add_bytes(self, data: bytes | pyarrow.Buffer, rows: int = 0) -> StoredFile:
        """Add state of any form."""
        padding, size = -self._size % _ALIGNMENT, memoryview(data).nbytes
        first = self._size + padding
        self._parts += [b"\0" * padding, data]
        self._size = first + size
        return StoredFile(self._name, content_digest(data), rows, first, size)

    def write(self) -> None:
        """Write the file, if anything was added. Raises OutputError."""
        if self._parts:
            self._output.put(self._name, *self._parts)
