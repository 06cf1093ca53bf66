"""What the lines of one range of a file were: the source's account of them for the rules about logs."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

import msgspec

from audit.chains.incarnations import Span
from audit.reading.kafka.log_state import KafkaLines
from audit.reading.log_files import FileContent, Range, file_text
from audit.reading.node_work import TopicSize, Work
from audit.reading.topic_steps import TopicStep
from audit.reading.unclear_records import Unclear
from state_log.chain import ChainSegment
from state_log.writer import parse_segment_name

_BLOCK_BYTES: Final = 4 << 20
"""Bytes decoded at a time: what fits into the processor's cache is decoded in half the time."""
_SHOWN_BYTES: Final = 1000
QUARANTINED_MAX: Final = 1000
"""Malformed lines of one range that are kept one by one; the others are counted."""


class QuarantinedLine(msgspec.Struct, frozen=True):
    """A line that is no record. `offset`: where it begins in the file; `line`: its beginning, bytes that are no text
    escaped.
    """

    file: str
    offset: int
    size: int
    line: str
    why: str


class ReadRange(msgspec.Struct, frozen=True):
    """The lines of a range of a file, up to byte `end`.

    `lines`: the first of the `quarantined` (malformed) ones. `kafka`: for a log of Apache Kafka, which has no chained
    segments. `converted`: lines that end with CR LF. `modified_ns`: when the file was changed last, since 1970.
    `digests`: those of the lines of the segments, one after the other, as `audit.chains.line_digests` packs them.
    `size`: bytes of the range. `work`, `sizes`, `topic_steps`: of its records. `unclear`: by node/incarnation.
    """

    log: str
    file: str
    end: int
    records: int
    quarantined: int
    segments: tuple[ChainSegment, ...]
    spans: tuple[Span, ...]
    lines: tuple[QuarantinedLine, ...]
    kafka: KafkaLines | None = None
    converted: int = 0
    modified_ns: int = 0
    digests: bytes = b""
    size: int = 0
    work: tuple[Work, ...] = ()
    sizes: tuple[TopicSize, ...] = ()
    topic_steps: tuple[TopicStep, ...] = ()
    unclear: dict[str, Unclear] = {}

    @property
    def retained_from(self) -> int | None:
        """The first number that the name of the file states; None if it states none."""
        name = parse_segment_name(Path(self.file).name)
        return None if name is None else name.first_seq

    @property
    def starts_early(self) -> bool:
        """Whether the file begins with a number before that in its name."""
        named = self.retained_from
        return (
            named is not None and self.end == self.size and bool(self.segments) and self.segments[0].first_seq < named
        )


class Quarantine:
    """The malformed lines of one range: all are counted, the first are kept."""

    def __init__(self, path: Path | FileContent) -> None:
        self._path = path
        self.count = 0
        self.lines: list[QuarantinedLine] = []

    def add(self, offset: int, line: bytes, why: str) -> None:
        self.count += 1
        if len(self.lines) < QUARANTINED_MAX:
            text = line[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
            self.lines.append(QuarantinedLine(file_text(self._path), offset, len(line), text, why[:_SHOWN_BYTES]))


def modified_ns(path: Path | FileContent) -> int:
    """The time when a file was changed last; 0 if it is gone."""
    if isinstance(path, FileContent):
        return path.modified_ns
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def line_blocks(part: Range) -> Iterator[tuple[int, Sequence[bytes]]]:
    """Yield (byte offset, complete lines without newlines) for each block of a range; nothing if the file cannot be
    read.
    """
    try:
        file = BytesIO(part.path.data) if isinstance(part.path, FileContent) else part.path.open("rb")
    except OSError:
        return
    with file:
        file.seek(part.first)
        position, rest = part.first, b""
        while position + len(rest) < part.end:
            size = min(_BLOCK_BYTES, part.end - position - len(rest))
            read = file.read(size)
            if not read:
                break
            block = rest + read
            end = block.rfind(b"\n") + 1
            if end:
                yield position, block[: end - 1].split(b"\n")
            position, rest = position + end, block[end:]
        if rest:
            yield position, [rest]
