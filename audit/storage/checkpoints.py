"""Spark's checkpoint in a folder of this machine: written to the disk before a commit rests on it, and made again.

Spark does not wait until its files are on the disk, but commits of the audit are: after a power failure the checkpoint
may lack the batches that the tables have. A commit has the offsets of its batch, so that what Spark needs to continue
behind it can be written again. Source of the files: Spark's HDFSMetadataLog, OffsetSeqLog and CommitLog.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from audit.storage.commits import Commit
from audit.storage.file_store import is_remote, open_store
from audit.storage.local_files import LocalFiles, sync_folder

_COMMITTED: Final = 'v1\n{"nextBatchWatermarkMs":0}'
_CHECKSUM: Final = b"crc\0"
_CHECKSUM_BLOCK: Final = 512


class LocalCheckpoint:
    """Reads and writes Spark's checkpoint."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._files = folder, LocalFiles(folder)

    @classmethod
    def at(cls, location: str) -> "LocalCheckpoint | None":
        """The checkpoint in this place; None if it is no folder of this machine, but such as an object store."""
        return None if is_remote(location) else cls(Path(open_store(location).location))

    def synced_offsets(self, batch: int) -> str:
        """Write to the disk what Spark continues from behind this batch, and return the offsets of the batch; "" where
        there are none.
        """
        files = [self._folder / "metadata", self._folder / "offsets" / str(batch), *self._of_sources()]
        for path in files:
            with suppress(FileNotFoundError), path.open("rb") as file:
                os.fsync(file.fileno())
        for folder in {path.parent for path in files}:
            with suppress(FileNotFoundError):
                sync_folder(folder)
        return self._text(f"offsets/{batch}")

    def repair(self, commit: Commit) -> list[str]:
        """Write again what Spark needs to continue behind a commit, where it is missing or damaged; returns the names.

        Does nothing where the commit has no offsets, as those of older versions, or the checkpoint is of another query.
        """
        if not commit.offsets or self._query() not in {"", commit.query}:
            return []
        self._remove_sums_without_files()
        last = commit.spark_batch
        needed = {
            "metadata": json.dumps({"id": commit.query}, separators=(",", ":")),
            f"offsets/{last}": commit.offsets,
        }
        if last:
            # Spark looks at the batch before too; that one is done, whatever its offsets were.
            needed[f"offsets/{last - 1}"] = commit.offsets
        found = {name: text for name, text in needed.items() if self._is_damaged(name)}
        if f"offsets/{last}" not in found and self._text(f"offsets/{last}") != commit.offsets:
            found[f"offsets/{last}"] = commit.offsets
        if found or self._is_damaged(f"commits/{last}", required=False):
            found[f"commits/{last}"] = _COMMITTED
        for name in self._damaged_beside(found):
            self._remove(name)
        for name, text in found.items():
            self._remove(name)
            self._files.write(name, text.encode())
        return sorted(found)

    def _of_sources(self) -> Iterator[Path]:
        """The newest files of what sources note for themselves, which may grow with each batch."""
        for folder in sorted((self._folder / "sources").glob("*")):
            newest_first = sorted(folder.glob("[0-9]*"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
            yield from newest_first[:2]

    def _remove_sums_without_files(self) -> None:
        """Remove check sums of files that are missing: where they stand Spark could not write the file."""
        for sums in self._folder.rglob(".*.crc"):
            if not sums.with_name(sums.name.removeprefix(".").removesuffix(".crc")).exists():
                sums.unlink()

    def _query(self) -> str:
        """The query that the checkpoint is of; "" if it does not say."""
        with suppress(ValueError):
            found = json.loads(self._text("metadata"))
            return str(found.get("id", "")) if isinstance(found, dict) else ""
        return ""

    def _damaged_beside(self, needed: dict[str, str]) -> Iterator[str]:
        """The damaged files of other batches: of the next one, which Spark plans again, or of those long done."""
        for log in ("offsets", "commits"):
            for path in sorted((self._folder / log).glob("[0-9]*")):
                name = f"{log}/{path.name}"
                if name not in needed and self._is_damaged(name):
                    yield name

    def _is_damaged(self, name: str, *, required: bool = True) -> bool:
        """Whether a file of Spark's is not whole, or is missing though it is required."""
        path = self._folder / name
        if not path.exists():
            return required
        try:
            lines = path.read_text().splitlines()
            version = [] if name == "metadata" else [lines.pop(0)]
            parsed = [json.loads(line) for line in lines if line != "-"]
        except (OSError, ValueError, IndexError):
            return True
        fewest = 2 if name.startswith("offsets") else 1
        return len(parsed) < fewest or any(not text.startswith("v") for text in version) or not self._has_sums(path)

    def _has_sums(self, path: Path) -> bool:
        """Whether the file with the check sums is as long as it must be, or there is none: Spark does without."""
        try:
            sums = self._sums(path).read_bytes()
        except FileNotFoundError:
            return True
        blocks = -(-path.stat().st_size // _CHECKSUM_BLOCK)
        return sums.startswith(_CHECKSUM) and len(sums) == len(_CHECKSUM) + 4 + 4 * blocks

    @staticmethod
    def _sums(path: Path) -> Path:
        return path.with_name(f".{path.name}.crc")

    def _text(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except (OSError, ValueError):
            return ""

    def _remove(self, name: str) -> None:
        path = self._folder / name
        for each in (path, self._sums(path)):
            each.unlink(missing_ok=True)
