"""Ships the lines of state-change logs to a Kafka topic: each at least once, those of an incarnation in their order.

How far each log was published is in a file beside the logs, written after the brokers have acknowledged the lines. A
publisher that was killed repeats those of its last block, which an audit knows by their digests.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from msgspec import Struct, field

from audit.reading.changed_files import ReadFiles
from audit.reading.file_faults import why_unread
from audit.reading.log_files import LogFiles, Position, Range, advance, ends, ranges
from audit.storage.local_files import LocalFiles
from audit.topic.topics import REQUEST_TIMEOUT_MS, Topic, TopicError
from cluster.model.errors import DECODE_ERRORS
from cluster.model.printable import path_text
from state_log.reader import numbered_lines
from state_log.record import LINE_BYTES_MAX
from state_log.writer import parse_segment_name

_BLOCK_LINES: Final = 10_000
_BATCH_BYTES: Final = 256 << 10
_POLL_S: Final = 1.0
_CLIENT: Final = "klamm-audit-publish"


class Published(Struct):
    """Says how far the logs were published to a topic. `positions`: by log; `ends`: by partition, one after the last
    offset that a line was given there.
    """

    topic: str
    positions: dict[str, tuple[int, int]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


class PublishedFile:
    """Keeps a `Published` in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, topic: str) -> Published:
        """Read the file; nothing if there is none. Raises TopicError if it is of another topic, or damaged."""
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=Published)
        except FileNotFoundError:
            return Published(topic)
        except DECODE_ERRORS as error:
            raise TopicError(f"{self.path}: {error}; delete it to publish everything again") from error
        if found.topic != topic:
            raise TopicError(f"{self.path}: is of the topic {found.topic}, not {topic}; pass another --state")
        return found

    def write(self, published: Published) -> None:
        """Write the file. Raises OSError."""
        LocalFiles(self.path.parent).write(self.path.name, msgspec.json.encode(published))


def is_of_another_topic(published: Published, ends_now: Mapping[int, int]) -> bool:
    """Whether the topic has fewer records than were published: it was created again, or is of other brokers."""
    return any(ends_now.get(partition, 0) < end for partition, end in published.ends.items())


class Publisher:
    """Publishes what is new in some folders. `lines`: the number published so far."""

    def __init__(self, directories: Sequence[Path], topic: Topic, file: PublishedFile, published: Published) -> None:
        self._files, self._topic, self._file, self._published = LogFiles(directories), topic, file, published
        self.lines = 0

    def left_out(self) -> list[str]:
        """Name what lies beside the segments and stays here, file by file with the reason."""
        logs = self._files.logs()
        faults = ReadFiles(0).faults(logs, self._files.ignored, {}, everything=False)
        unnamed = [s.path for log in logs.values() for s in log if parse_segment_name(s.path.name) is None]
        return [
            *(f"{fault.file}: was not published: it {why_unread(fault)}" for fault in faults),
            *(f"{path_text(path)}: was not published: it is not named like a klamm segment" for path in unnamed),
        ]

    async def publish(self) -> None:
        """Publish what is there now. Raises TopicError; what was acknowledged before is not published again."""
        async with self._producer() as producer:
            await self._publish(producer)

    async def follow(self, stop: asyncio.Event, failed: Callable[[TopicError], None]) -> None:
        """Publish what is there and what is added until `stop`; report an error to `failed`, and continue."""
        while not stop.is_set():
            try:
                async with self._producer() as producer:
                    while not stop.is_set():
                        await self._publish(producer)
                        await _wait(stop)
            except TopicError as error:
                failed(error)
                await _wait(stop)

    def _producer(self) -> "_Producer":
        return _Producer(self._topic)

    async def _publish(self, producer: "_Producer") -> None:
        for part in self._unpublished():
            assert isinstance(part.path, Path), "these files are local"
            name = parse_segment_name(part.path.name)
            assert name is not None, "only segments are published"
            lines = numbered_lines(part.path, part.first, part.end)
            while block := list(islice(lines, _BLOCK_LINES)):
                ends_now = await producer.send(f"{name.node}/{name.incarnation}".encode(), block, part.path)
                self.lines += len(block)
                offset, line = block[-1]
                self._published.positions[part.log] = (name.first_seq, offset + len(line) + 1)
                self._published.ends |= ends_now
                self._file.write(self._published)

    def _unpublished(self) -> Iterator[Range]:
        """Yield the new lines of each log in its order."""
        logs = {
            log: [segment for segment in segments if parse_segment_name(segment.path.name) is not None]
            for log, segments in self._files.logs().items()
        }
        start = {log: Position(*position) for log, position in self._published.positions.items()}
        yield from ranges(logs, start, advance(start, ends(logs, start), None))


class _Producer:
    """A producer that loses nothing and keeps the order."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    async def __aenter__(self) -> "_Producer":
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._topic.bootstrap,
            client_id=_CLIENT,
            acks="all",
            enable_idempotence=True,
            compression_type="gzip",
            max_batch_size=_BATCH_BYTES,
            max_request_size=2 * LINE_BYTES_MAX,
            linger_ms=5,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        try:
            await self._producer.start()
        except (KafkaError, OSError) as error:
            await self._producer.stop()
            raise TopicError(f"{self._topic}: {error}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()

    async def send(self, key: bytes, lines: Sequence[tuple[int, bytes]], path: Path) -> dict[int, int]:
        """Send these (offset in the file, line); return, once all are acknowledged, the partition and its end."""
        try:
            sent = [await self._producer.send(self._topic.name, line, key) for _, line in lines]
            done = await asyncio.gather(*sent)
        except MessageSizeTooLargeError as error:
            longest = max(len(line) for _, line in lines)
            raise TopicError(
                f"{self._topic}: {path} has a line of {longest} bytes, more than it takes: set its max.message.bytes"
            ) from error
        except (KafkaError, OSError) as error:
            raise TopicError(f"{self._topic}: {type(error).__name__}: {error}") from error
        return {done[-1].partition: done[-1].offset + 1}


async def _wait(stop: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(stop.wait(), _POLL_S)
    except TimeoutError:
        return
