"""The files of an audit in an object store or in HDFS, through Arrow's file systems."""

import uuid
from collections.abc import Iterable
from typing import Final

import pyarrow
import pyarrow.fs

_OBJECT_STORES: Final = ("s3", "gcs", "abfs")
"""They show a file only when it is complete. Elsewhere it is written under another name and renamed."""


class RemoteFiles:
    """A `audit.storage.file_store.FileStore`. `top`: without the scheme, as the file system takes it."""

    def __init__(self, location: str, system: pyarrow.fs.FileSystem, top: str) -> None:
        self.location = location
        self._system, self._top = system, top.rstrip("/")

    def sizes(self, folder: str) -> dict[str, int]:
        base = f"{self._top}/{folder}"
        selector = pyarrow.fs.FileSelector(base, recursive=True, allow_not_found=True)
        found = self._system.get_file_info(selector)
        return {f.path.removeprefix(f"{self._top}/"): f.size for f in found if f.type == pyarrow.fs.FileType.File}

    def read(self, name: str, first: int = 0, size: int | None = None) -> pyarrow.Buffer:
        with self._system.open_input_file(f"{self._top}/{name}") as file:
            file.seek(first)
            return file.read_buffer(size)

    def write(self, name: str, *parts: bytes | pyarrow.Buffer) -> None:
        path = f"{self._top}/{name}"
        if self._system.type_name in _OBJECT_STORES:
            self._put(path, parts)
            return
        temporary = f"{path.rpartition('.')[0]}.{uuid.uuid4().hex}.tmp"
        self._system.create_dir(path.rpartition("/")[0], recursive=True)
        self._put(temporary, parts)
        # HDFS renames only to names that are free.
        self.remove(name)
        self._system.move(temporary, path)

    def remove(self, name: str) -> None:
        path = f"{self._top}/{name}"
        # Object stores delete what is not there; others refuse to.
        if self._system.get_file_info(path).type != pyarrow.fs.FileType.NotFound:
            self._system.delete_file(path)

    def _put(self, path: str, parts: Iterable[bytes | pyarrow.Buffer]) -> None:
        with self._system.open_output_stream(path) as stream:
            for part in parts:
                stream.write(part)
