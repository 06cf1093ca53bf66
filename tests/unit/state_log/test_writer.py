import asyncio
import errno
import os
import resource
from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerId
from cluster.model.errors import StorageError
from cluster.requests.control import StateLogHead
from state_log.reader import complete_lines, find_segments, numbered_lines, read_state_changes, verify
from state_log.record import CHAIN_START, Boot, ChainHead, Kind, StateChange, Witness, incarnation_id, line_digest
from state_log.writer import (
    AUDITED_FILE,
    FileStateChangeLog,
    SegmentName,
    StateChangeLogMetrics,
    former_end,
    open_state_change_log,
    parse_segment_name,
    read_audited,
    read_boot,
    write_audited,
)
from tests.timeouts import TIMEOUT_S

CHANGE = StateChange(kind=Kind.ROLE, topic="t", partition=0, to_state="leader", leader=BrokerId(1))


class Clock:
    def __init__(self, at_ms: int = 1_700_000_000_000) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms


def open_log(directory: Path, clock: Clock, **options: object) -> FileStateChangeLog:
    incarnation = incarnation_id(clock.at_ms, 7)
    return FileStateChangeLog(directory, node="broker-1", incarnation=incarnation, clock=clock, **options)  # type: ignore[arg-type]


def test_the_head_of_the_chain_follows_from_the_last_line(tmp_path: Path) -> None:
    log = open_log(tmp_path, Clock())
    assert log.head == ChainHead(0, CHAIN_START)
    log.append([CHANGE, CHANGE])
    [segment] = find_segments([tmp_path])
    assert log.head == ChainHead(2, line_digest(list(complete_lines(segment))[-1]))


def test_the_flushed_head_is_what_was_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, Clock(), boot=lambda: Boot(5, "boot"))
    assert log.flushed_head is None
    log.append([CHANGE, CHANGE])
    assert log.flushed_head is None
    log.sync()
    first = StateLogHead("broker-1", log.incarnation, 1, log.head.digest, "boot")
    assert log.flushed_head == first
    log.append([CHANGE])
    assert log.flushed_head == first
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail_to_sync)
        with pytest.raises(OSError, match="Input/output"):
            log.sync()
    assert log.flushed_head == first
    log.sync()
    assert log.flushed_head == replace(first, seq=2, digest=log.head.digest)


def test_lines_that_could_not_be_written_are_not_in_the_flushed_head(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    log = open_log(folder, Clock())
    log.append([CHANGE])
    log.close()
    folder.rename(tmp_path / "elsewhere")
    folder.write_text("no folder")
    log.append([CHANGE])
    log.close()
    assert (log.head.next_seq, log.flushed_head and log.flushed_head.seq) == (2, 0)


def test_a_sync_in_a_thread_never_claims_more_than_it_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, Clock())
    log.append([CHANGE])
    fsync = os.fsync

    def appending(descriptor: int) -> None:
        fsync(descriptor)
        log.append([CHANGE])

    monkeypatch.setattr(os, "fsync", appending)
    log.sync()
    assert log.head.next_seq > 1
    assert log.flushed_head is not None
    assert log.flushed_head.seq == 0


def test_segment_names_sort_by_age_and_read_back() -> None:
    names = [
        SegmentName("broker-1", incarnation_id(999, 5), 0),
        SegmentName("broker-1", incarnation_id(1_700_000_000_000, 5), 9),
        SegmentName("broker-1", incarnation_id(1_700_000_000_000, 5), 10),
    ]
    assert sorted(map(str, reversed(names))) == list(map(str, names))
    assert [parse_segment_name(str(name)) for name in names] == names
    assert parse_segment_name("notes.jsonl") is None


def test_segments_are_found_however_deep_and_not_through_links(tmp_path: Path) -> None:
    folders = [tmp_path]
    for _ in range(1200):
        folders.append(folders[-1] / "d")
        folders[-1].mkdir()
    try:
        name = str(SegmentName("n", "0000000000001.1", 0))
        (folders[-1] / name).touch()
        (tmp_path / "again").symlink_to(folders[-1])
        (tmp_path / "self").symlink_to("self")
        assert [path.parent for path in find_segments([tmp_path])] == [folders[-1]]
    finally:
        (folders[-1] / name).unlink(missing_ok=True)
        for folder in reversed(folders[1:]):
            folder.rmdir()


def test_an_append_can_be_read_at_once_and_nothing_is_written_for_no_records(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", Clock())
    log.append([])
    assert find_segments([tmp_path]) == []
    log.append([CHANGE, CHANGE])
    log.append([CHANGE])
    assert [r.seq for r in read_state_changes([tmp_path])] == [0, 1, 2]
    assert len(find_segments([tmp_path])) == 1
    log.close()


def test_one_append_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, Clock())
    writes: list[int] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, block: writes.append(len(block)) or write(fd, block))
    log.append([CHANGE] * 500)
    assert len(writes) == 1
    log.close()


def test_segments_roll_by_size_and_by_age_and_their_names_say_where_they_begin(tmp_path: Path) -> None:
    clock = Clock()
    log = open_log(tmp_path, clock, segment_bytes=300, segment_ms=60_000)
    log.append([CHANGE])
    log.append([CHANGE])  # The first segment is full from here on.
    log.append([CHANGE])
    clock.at_ms += 60_000
    log.append([CHANGE])
    log.close()
    names = [parse_segment_name(path.name) for path in find_segments([tmp_path])]
    assert [name.first_seq for name in names if name is not None] == [0, 2, 3]
    assert verify([tmp_path]) == []


def test_a_restart_leaves_the_torn_tail_and_begins_an_incarnation_of_its_own(tmp_path: Path) -> None:
    clock = Clock()
    log = open_log(tmp_path, clock)
    log.append([CHANGE, CHANGE])
    log.close()
    segment = find_segments([tmp_path])[0]
    os.truncate(segment, segment.stat().st_size - 5)
    clock.at_ms += 1
    log = open_log(tmp_path, clock)
    log.append([CHANGE])
    log.close()
    records = list(read_state_changes([tmp_path]))
    assert [(r.incarnation, r.seq) for r in records] == [("1700000000000.7", 0), ("1700000000001.7", 0)]
    assert verify([tmp_path]) == []


def test_records_that_cannot_be_written_are_reported_and_leave_a_gap_in_the_numbers(tmp_path: Path) -> None:
    failures: list[StorageError] = []
    log = open_log(tmp_path, Clock(), on_failure=failures.append)
    log.append([CHANGE])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        size = find_segments([tmp_path])[0].stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))  # A full disk: the line is torn, then refused.
        log.append([CHANGE])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.append([CHANGE])
    log.close()
    assert log.failures == 1
    assert failures[0].directory == str(tmp_path)
    assert [r.seq for r in read_state_changes([tmp_path])] == [0, 2]
    assert [b.rule for b in verify([tmp_path])] == ["sequence-gap"]


def fail_to_sync(descriptor: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_a_failed_sync_is_reported_and_logging_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[StorageError] = []
    log = open_log(tmp_path, Clock(), on_failure=failures.append)
    log.append([CHANGE])
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail_to_sync)
        log.close()
    assert [failure.directory for failure in failures] == [str(tmp_path)]
    log.append([CHANGE])
    log.close()
    assert log.failures == 1
    assert verify([tmp_path]) == []


async def test_a_failed_sync_does_not_end_the_timer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = asyncio.Event()
    log = open_log(tmp_path, Clock(), fsync_interval_ms=1, on_failure=lambda _: failed.set())
    monkeypatch.setattr(os, "fsync", fail_to_sync)
    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(log.run())
        for _ in range(2):
            failed.clear()
            log.append([CHANGE])
            await failed.wait()
        running.cancel()
    log.close()


async def test_the_timer_syncs_what_was_appended_sealed_segments_included(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()
    wanted: set[str] = set()
    all_synced, loop = asyncio.Event(), asyncio.get_running_loop()
    fsync = os.fsync

    def recording(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)
        if wanted and wanted <= synced:
            loop.call_soon_threadsafe(all_synced.set)

    monkeypatch.setattr(os, "fsync", recording)
    log = open_log(tmp_path, Clock(), segment_bytes=1, fsync_interval_ms=1)
    log.append([CHANGE])
    log.append([CHANGE])
    assert synced == set()
    wanted |= {str(tmp_path), *map(str, find_segments([tmp_path]))}
    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(log.run())
        await all_synced.wait()
        running.cancel()
    log.close()


@pytest.mark.parametrize(
    ("audited_share", "spare_unaudited", "left"), [(0.5, True, 2), (1.0, True, 1), (0.0, True, 2), (0.0, False, 1)]
)
def test_retention_deletes_what_audits_have_taken_or_what_it_is_configured_to(
    tmp_path: Path, audited_share: float, spare_unaudited: bool, left: int
) -> None:
    clock = Clock()
    log = open_log(tmp_path, clock, segment_bytes=1, retention_ms=1000, spare_unaudited=spare_unaudited)
    log.append([CHANGE])
    log.append([CHANGE])
    old, _ = find_segments([tmp_path])
    for path in find_segments([tmp_path]):
        os.utime(path, (clock.at_ms / 1000 - 10, clock.at_ms / 1000 - 10))
    write_audited(tmp_path, {old.name: int(old.stat().st_size * audited_share)})
    log.delete_expired()
    assert len(find_segments([tmp_path])) == left
    log.close()


def test_young_segments_and_those_of_other_nodes_are_kept(tmp_path: Path) -> None:
    clock = Clock()
    other = FileStateChangeLog(tmp_path, node="broker-2", incarnation=incarnation_id(1, 1), clock=clock)
    other.append([CHANGE])
    other.close()
    os.utime(find_segments([tmp_path])[0], (1, 1))
    log = open_log(tmp_path, clock, segment_bytes=1, retention_ms=10**15, spare_unaudited=False)
    log.append([CHANGE])
    log.append([CHANGE])
    log.delete_expired()
    assert len(find_segments([tmp_path])) == 3
    log.close()


def test_audits_only_ever_raise_what_was_taken_and_forget_deleted_segments(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"x\n")
    write_audited(tmp_path, {"a.jsonl": 2, "gone.jsonl": 5})
    write_audited(tmp_path, {"a.jsonl": 1})
    assert read_audited(tmp_path) == {"a.jsonl": 2}


@pytest.mark.parametrize("content", [b"{", b'{"\xff":1}', b"[" * 5000])
def test_a_damaged_file_of_an_audit_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / AUDITED_FILE).write_bytes(content)
    assert read_audited(tmp_path) == {}
    (tmp_path / AUDITED_FILE).write_bytes(b"{torn")
    assert read_audited(tmp_path) == {}
    (tmp_path / AUDITED_FILE).unlink()
    (tmp_path / AUDITED_FILE).mkdir()
    assert read_audited(tmp_path) == {}


def test_only_complete_lines_are_read_and_a_range_of_bytes_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [b"x" * 700_000, b"y" * 700_000, b"z"]
    path.write_bytes(b"\n".join(lines) + b"\n\ntorn")
    assert list(complete_lines(path)) == lines
    assert list(numbered_lines(path, start=700_001, end=1_400_002)) == [(700_001, lines[1])]
    assert list(complete_lines(tmp_path / "vanished.jsonl")) == []


def test_metrics_count_what_was_written_flushed_and_lost(tmp_path: Path) -> None:
    metrics, directory = Metrics(), tmp_path / "log"
    log = open_log(directory, Clock(), metrics=StateChangeLogMetrics(metrics))

    def counted(name: str) -> int:
        return metrics.meter("klamm.statelog", "StateChangeLog", name).count

    log.append([CHANGE, CHANGE])
    assert counted("RecordsPerSec") == 2
    assert counted("BytesPerSec") == sum(path.stat().st_size for path in directory.iterdir())
    log.close()
    assert metrics.gauge("klamm.statelog", "StateChangeLog", "LastSyncTimestampMs").value == Clock().at_ms
    directory.rename(tmp_path / "aside")
    directory.write_text("not a folder")
    log.append([CHANGE])
    assert (counted("RecordsPerSec"), counted("FailuresPerSec"), counted("LostRecordsPerSec")) == (2, 1, 1)


def test_the_log_of_a_process_begins_with_the_boot_of_its_machine(tmp_path: Path) -> None:
    log = open_state_change_log(Settings(), [str(tmp_path)], "broker-1", Clock(), Metrics())
    log.append([CHANGE])
    log.close()
    (record,) = read_state_changes([log.directory])
    assert record.mono_ms is not None
    assert 0 < record.mono_ms <= read_boot().mono_ms
    assert (record.boot_id or "") == read_boot().boot_id


def open_as_broker(folder: Path, at_ms: int) -> FileStateChangeLog:
    return open_state_change_log(Settings(), [str(folder)], "broker-1", Clock(at_ms), Metrics())


@pytest.mark.parametrize("torn", [b"", b'{"v":2,"seq":'])
def test_a_run_begins_with_the_end_of_the_run_before(tmp_path: Path, torn: bytes) -> None:
    first = open_as_broker(tmp_path, 1_700_000_000_000)
    first.append([replace(CHANGE, reason="x" * 100_000), CHANGE])
    first.close()
    [segment] = find_segments([first.directory])
    segment.write_bytes(segment.read_bytes() + torn)
    open_as_broker(tmp_path, 1_700_000_000_500).close()
    assert find_segments([first.directory]) == [segment], "a process that writes nothing leaves nothing"
    second = open_as_broker(tmp_path, 1_700_000_001_000)
    second.append([CHANGE])
    second.close()
    end = Witness("broker-1", first.incarnation, 1, first.head.digest)
    assert former_end(first.directory, "broker-2") is None
    *_, begun, _ = read_state_changes([second.directory])
    assert (begun.seq, begun.kind, begun.witness) == (0, Kind.WITNESS, end)


def test_a_run_that_wrote_no_line_is_passed_over_and_a_malformed_end_is_not_named(tmp_path: Path) -> None:
    first = open_as_broker(tmp_path, 1_700_000_000_000)
    first.append([CHANGE])
    first.close()
    [segment] = find_segments([first.directory])
    empty = segment.with_name(segment.name.replace("1700000000000", "1700000000500"))
    empty.write_bytes(b'{"v":2')
    found = former_end(first.directory, "broker-1")
    assert found is not None
    assert found.seq == 0
    empty.write_bytes(b"no record\n")
    assert former_end(first.directory, "broker-1") is None
