"""Which files are state-change.logs of Apache Kafka, and which of them are the same one under another name.

log4j renames a file when it begins a new one (`state-change.log.2026-11-22-10`), so a file is named by its first line,
which nothing changes afterwards.
"""

import hashlib
import re
from pathlib import Path
from typing import Final

from cluster.model.printable import path_text
from state_log.writer import SEGMENT_SUFFIX

KAFKA_LOG: Final = "state-change.log"
"""The name of the file that Kafka writes to; those that were rotated have something after it."""
HEAD_BYTES: Final = 4096
_NAME: Final = re.compile(r".*state-change\.log([._-].*)?")
_LINE: Final = re.compile(
    rb"\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d),(\d{3})\] [A-Z]+ +\[(Controller|Broker) id=\d+"
    rb".*\(state\.change\.logger\)\s*"
)
_COMPRESSED: Final = (".gz", ".zip", ".bz2", ".xz", ".zst")


def may_be_kafka_log(name: str) -> bool:
    """Whether the name, or else the first line, can be one of Kafka's."""
    return ".log" in name or name.endswith(SEGMENT_SUFFIX)


def is_kafka_name(name: str) -> bool:
    """Whether Kafka or log4j names a file so."""
    return bool(_NAME.fullmatch(name))


def is_compressed(name: str) -> bool:
    """Whether it is a log, or a klamm segment, that must be unpacked to be read."""
    packed = next((suffix for suffix in _COMPRESSED if name.endswith(suffix)), None)
    return packed is not None and (is_kafka_name(name) or name.removesuffix(packed).endswith(SEGMENT_SUFFIX))


class KafkaFiles:
    """Identifies files by their beginnings. A file is read again only when it has changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int, int], str | None]] = {}

    def identify(self, path: Path) -> str | None:
        """Name a file as `<local time of the first line>-<digest of that line>`; None if it is no Kafka log.

        A file without a first line is named by its path: it is one by its name only.
        """
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        state = (status.st_ino, status.st_mtime_ns, status.st_size)
        known = self._known.get(path)
        if known is None or known[0] != state:
            known = self._known[path] = state, _identity(path)
        return known[1]


def _identity(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return identity_of(file.read(HEAD_BYTES), path_text(path), path.name)
    except OSError:
        return path_text(path) if is_kafka_name(path.name) else None


def identity_of(content: bytes, path: str, name: str) -> str | None:
    """Identify a file that begins with this content, as `KafkaFiles.identify` does."""
    by_name = bool(_NAME.fullmatch(name)) and not is_compressed(name)
    head = content[:HEAD_BYTES]
    line, newline, _ = head.partition(b"\n")
    found = _LINE.fullmatch(line)
    if found is None and not by_name:
        return None
    if not newline and len(head) < HEAD_BYTES:
        return path if by_name else None
    digest = hashlib.blake2b(line, digest_size=4).hexdigest()
    if found is None:
        return f"unknown-{digest}"
    year, month, day, hour, minute, second, ms = (part.decode() for part in found.groups()[:7])
    return f"{year}{month}{day}T{hour}{minute}{second}{ms}-{digest}"
