"""Where the files of an audit are: a folder of this machine or a mounted one, or a place in an object store.

Files are written once, whole, and removed; nothing is appended to them, and nothing is renamed by the audit.
"""

from functools import cache
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow
import pyarrow.fs

from audit.storage.local_files import LocalFiles
from audit.storage.remote_files import RemoteFiles
from cluster.config.files import first_line
from cluster.model.errors import ConfigError

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names for S3, and Arrow's."""
Location = Path | str
"""A folder, or the URI of one."""


class FileStore(Protocol):
    """Names are relative to the top, with `/` between their parts. All methods raise OSError."""

    @property
    def location(self) -> str:
        """The top, as `open_store` takes it."""

    def sizes(self, folder: str) -> dict[str, int]:
        """The files in a folder and those below, with their sizes in bytes; none if there is no such folder.

        Beside those that were written whole there may be some that end with `.tmp`, left where a process was killed.
        """

    def read(self, name: str, first: int = 0, size: int | None = None) -> pyarrow.Buffer:
        """The content, or `size` bytes of it from the byte `first` on, mapped into memory where that can be done.

        What is beyond the end is left out.
        """

    def write(self, name: str, *parts: bytes | pyarrow.Buffer) -> None:
        """Write a file, these parts one after the other, so that it is there as a whole or not at all, also after a
        crash; one of this name is replaced.

        Several processes on several machines may write the same file at a time.
        """

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""


def open_store(location: Location) -> FileStore:
    """The store of a folder, or of a URI: `s3://`, `s3a://` (the same), `hdfs://`, and what else Arrow knows.

    Reads nothing yet, but S3 may be asked for the region of a bucket. Raises ConfigError if the URI names no file
    system, or has a password in it, which would be seen in messages and by whoever lists processes.
    """
    if is_remote(location):
        return _open_uri(str(location))
    path = Path(url2pathname(urlsplit(str(location)).path)) if "://" in str(location) else Path(location)
    return LocalFiles(path.resolve())


def is_remote(location: Location) -> bool:
    """Whether it is a URI of a file system other than those of this machine."""
    scheme, separator, _ = str(location).partition("://")
    return bool(separator) and scheme != "file"


@cache
def _open_uri(uri: str) -> RemoteFiles:
    scheme, _, rest = uri.partition("://")
    if "@" in urlsplit(uri).netloc:
        raise ConfigError([f"{scheme}://…: has credentials in it: put them into the environment (AWS_ACCESS_KEY_ID …)"])
    try:
        system, top = pyarrow.fs.FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}://{rest}")
    except (OSError, ValueError) as error:
        raise ConfigError([f"{uri}: cannot be opened: {first_line(error)}"]) from error
    if not top.strip("/"):
        raise ConfigError([f"{uri}: names no bucket or folder"])
    return RemoteFiles(uri, system, top)
