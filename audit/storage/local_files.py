"""The files of an audit in a folder: of this machine, or a file system that all workers have mounted at one path."""

import contextlib
import os
import uuid
from pathlib import Path

import pyarrow


class LocalFiles:
    """A `audit.storage.file_store.FileStore`."""

    def __init__(self, top: Path) -> None:
        self._top = top

    @property
    def location(self) -> str:
        return str(self._top)

    def sizes(self, folder: str) -> dict[str, int]:
        found = {}
        for directory, _, names in os.walk(self._top / folder):
            for name in names:
                path = Path(directory, name)
                # Another process may have renamed or removed it meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    found[path.relative_to(self._top).as_posix()] = path.stat().st_size
        return found

    def read(self, name: str, first: int = 0, size: int | None = None) -> pyarrow.Buffer:
        path = self._top / name
        if not path.stat().st_size:
            return pyarrow.py_buffer(b"")  # Nothing cannot be mapped.
        with pyarrow.memory_map(str(path)) as file:
            file.seek(first)
            return file.read_buffer(size)

    def write(self, name: str, *parts: bytes | pyarrow.Buffer) -> None:
        path = self._top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Unique over machines: a task that Spark believes lost may still write the file of its successor.
        temporary = path.with_name(f"{path.stem}.{uuid.uuid4().hex}.tmp")
        with temporary.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)

    def remove(self, name: str) -> None:
        (self._top / name).unlink(missing_ok=True)


def sync_folder(directory: Path) -> None:
    """Write to the disk which files are in a directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
