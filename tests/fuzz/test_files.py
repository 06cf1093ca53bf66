"""The files of a log directory, several damaged at once and some with the right checksum: it opens, or names a file."""

import asyncio
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from broker_agent.log.checkpoints import (
    DAMAGED_REPLICAS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
)
from broker_agent.log.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from broker_agent.log.record_batch import crc32c, walk
from tests.conformance.agent.test_damaged_files import (
    DISK,
    FOLDER,
    SMALL,
    exercise,
    files_of_a_log,
    start_or_say_why,
)
from tests.contract.log_worlds import TP, InMemoryWorld, Node
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.cluster_under_fire import no_error_is_logged
from tests.fuzz.damage import damaged
from tests.fuzz.messages import Draw
from tests.fuzz.test_batches import with_header_changed

_NUMBERS: Final = ("-1", "0", "1", "2", "5", "40", "239", "240", "2147483647", "2147483648", "9223372036854775807", "٣")
_VALUES: Final = (
    *_NUMBERS,
    "orders-eu",
    "orders-eu 3",
    "x",
    "",
    " ",
    "../x",
    "a" * 300,
    "AAAAAAAAAAAAAAAAAAAAAQ",
    "\x85",
    "\u2028",
)
_NAMES: Final = (
    f"{FOLDER}/00000000000000000007.log",
    f"{FOLDER}/00000000000000000100.log",
    f"{FOLDER}/09223372036854775807.log",
    f"{FOLDER}/00000000000000000000.log.swap",
    f"{FOLDER}/00000000000000000000.log.deleted",
    f"{FOLDER}/00000000000000000050.snapshot",
    f"{FOLDER}/00000000000000000240.snapshot",
    f"{FOLDER}/99999999999999999999.snapshot",
    f"{FOLDER}/00000000000000000030.truncated",
    f"{FOLDER}/00000000000000000030.index",
    f"{FOLDER}/{PARTITION_METADATA}.tmp",
    f"{DISK}/{HIGH_WATERMARKS}.tmp",
    f"{DISK}/{TP}-future",
    f"{DISK}/other-0/00000000000000000000.log",
    f"{DISK}/other-0/{LEADER_EPOCHS}",
    f"{DISK}/{TP.topic}-3.{'0' * 32}-delete/00000000000000000000.log",
    f"{DISK}/.kafka_cleanshutdown",
)
_TEXT_FILES: Final = (
    DAMAGED_REPLICAS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    LOG_START_OFFSETS,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    META_PROPERTIES,
)


@st.composite
def changes_of_files(draw: Draw) -> tuple[bool, dict[str, bytes | None]]:
    """Whether the broker was stopped cleanly; up to four of its files with other contents or without any, and some
    that do not belong there.
    """
    clean = draw(st.booleans())
    files = files_of_a_log(clean=clean)
    changes: dict[str, bytes | None] = {}
    for path in draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=4, unique=True)):
        changes[path] = None if draw(st.integers(0, 9)) == 0 else draw(_changed(path, files[path]))
    for path in draw(st.lists(st.sampled_from(_NAMES), max_size=2, unique=True)):
        changes[path] = draw(st.sampled_from(sorted(files.values())) | st.binary(max_size=80))
    return clean, changes


@st.composite
def _changed(draw: Draw, path: str, content: bytes) -> bytes:
    """What gets past the first check of such a file, or anything."""
    name = path.rpartition("/")[2]
    if draw(st.integers(0, 3)) == 0:
        return draw(damaged(content))
    if name in _TEXT_FILES:
        return draw(_changed_text(content))
    if name.endswith(".log"):
        return draw(_changed_segment(content))
    if name.endswith(".snapshot") and len(content) > 6:
        body = draw(damaged(content[6:]))
        return content[:2] + crc32c(body).to_bytes(4, "big") + body
    if name.endswith("index"):
        return draw(_changed_entries(content, TIME_ENTRY_SIZE if "time" in name else OFFSET_ENTRY_SIZE))
    return draw(damaged(content))


@st.composite
def _changed_text(draw: Draw, content: bytes) -> bytes:
    """Lines with other entries, more lines or fewer; mostly with the right count."""
    rows = [line.split(" ") for line in content.decode().split("\n")]
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.integers(0, len(rows) - 1))
        at = draw(st.integers(0, len(rows[row]) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                rows.insert(row, rows[row])
            case 1 if len(rows) > 1:
                del rows[row]
            case _:
                rows[row][at : at + 1] = [draw(st.sampled_from(_VALUES))]
    if len(rows) > 2 and draw(st.booleans()):
        rows[1] = [str(len(rows) - 3)]
    return "\n".join(" ".join(row) for row in rows).encode()


@st.composite
def _changed_segment(draw: Draw, content: bytes) -> bytes:
    """A segment in which one batch has another header and the right checksum, is twice there, or is left out."""
    extents = [(position, position + header.size) for position, header in walk(content)]
    if not extents:
        return draw(damaged(content))
    start, end = draw(st.sampled_from(extents))
    batch = content[start:end]
    replaced = draw(st.sampled_from((b"", batch + batch)) | with_header_changed(batch) | with_header_changed(batch))
    return content[:start] + replaced + content[end:]


@st.composite
def _changed_entries(draw: Draw, content: bytes, size: int) -> bytes:
    """An index with other entries."""
    entries = [content[at : at + size] for at in range(0, len(content), size)]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(entries)))
        entries[at : at + draw(st.integers(0, 1))] = [draw(st.binary(min_size=size, max_size=size))]
    return b"".join(entries if draw(st.booleans()) else sorted(entries))


@fuzz(examples=120)
@given(changes_of_files())
def test_log_directories(damage: tuple[bool, dict[str, bytes | None]]) -> None:
    """The broker starts, uses the log and starts again, or it says which file keeps it from that."""
    count_case("log directories")
    clean, changes = damage
    files = {path: content for path, content in (files_of_a_log(clean=clean) | changes).items() if content is not None}

    async def use_it() -> None:
        world = InMemoryWorld()
        for path, content in files.items():
            world.disk.make_directory(path.rpartition("/")[0])
            file = world.disk.open_file(path)
            file.append([content])
            file.flusher()()
            world.disk.sync_directory(path.rpartition("/")[0])
        world.disk.sync_directory(DISK)
        node = Node(world, DISK, config=SMALL)
        refused = await start_or_say_why(node)
        if refused is not None:
            # So that an operator knows where to look.
            assert DISK in refused
            return
        log = node.logs.get(TP)
        if log is not None:
            await exercise(log)
            await node.logs.write_high_watermarks(DISK, lambda: {TP: log.high_watermark})
        await node.crash_and_restart()
        log = node.logs.get(TP)
        if log is not None:
            await exercise(log)
        await node.restart()
        await node.stop()

    with no_error_is_logged():
        asyncio.run(use_it())
