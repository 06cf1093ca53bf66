"""Descriptors of log files: how many there are, when they are closed, and what becomes of errors."""

import errno
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from broker_agent.log.file_disk import FileDisk, FileDiskFile
from broker_agent.log.open_files import SPARE_DESCRIPTORS

TIMEOUT_S = 20
CAPACITY = 8


@pytest.fixture
def disk() -> Iterator[FileDisk]:
    disk = FileDisk(2, CAPACITY)
    yield disk
    disk.close()


def descriptors(root: Path) -> int:
    """Open descriptors of files below `root`."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return sum(os.readlink(link).startswith(f"{root}/") for link in links if os.path.lexists(link))


def open_many(disk: FileDisk, root: Path, count: int, prefix: str = "") -> list[FileDiskFile]:
    return [disk.open_file(f"{root}/{prefix}{number}") for number in range(count)]


def held(root: Path) -> set[str]:
    """Names of the files below `root` that are mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {Path(line.split()[-1]).name for line in lines if f" {root}/" in line}


class Fsyncs:
    """Stands for os.fsync: the descriptors' files by name; fails those in `errors`, each once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: dict[str, int] = {}
        self.names: list[str] = []
        self._fsync = os.fsync
        monkeypatch.setattr("os.fsync", self)

    def __call__(self, descriptor: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        self.names.append(name)
        self._fsync(descriptor)
        if name in self.errors:
            raise OSError(self.errors.pop(name), "fsync failed")


@contextmanager
def no_descriptor_left() -> Iterator[list[int]]:
    """The process is at its limit; yields the descriptors that others took."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 50, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield taken
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.rule("FD-3")
def test_files_are_closed_and_opened_again_as_they_are_used(disk: FileDisk, tmp_path: Path) -> None:
    files = open_many(disk, tmp_path, 40)
    for number, file in enumerate(files):
        file.append([b"%d" % number])
        assert descriptors(tmp_path) <= CAPACITY
    for number, file in enumerate(files):
        assert file.read(0, 10) == b"%d" % number
        assert descriptors(tmp_path) <= CAPACITY
    assert disk.open_files.count <= CAPACITY
    for file in files:
        file.close()
    assert (disk.open_files.count, descriptors(tmp_path)) == (0, 0)


@pytest.mark.rule("FD-3")
def test_the_file_that_was_not_used_for_longest_is_closed(
    disk: FileDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = open_many(disk, tmp_path, CAPACITY)
    files[0].read(0, 1)
    opened: list[str] = []
    original = os.open

    def record(path: str, flags: int, mode: int = 0o777) -> int:
        opened.append(Path(path).name)
        return original(path, flags, mode)

    monkeypatch.setattr("os.open", record)
    disk.open_file(f"{tmp_path}/new")
    for number in (0, 2, 3, 1):
        files[number].read(0, 1)
    assert opened == ["new", "1"]


@pytest.mark.rule("FD-4")
def test_a_file_closed_with_unflushed_writes_is_held_in_memory_until_they_are_flushed(
    disk: FileDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsyncs = Fsyncs(monkeypatch)
    files = open_many(disk, tmp_path, 5 * CAPACITY)
    for file in files:
        file.append([b"x"])
    closed = {str(number) for number in range(4 * CAPACITY)}
    assert (held(tmp_path), fsyncs.names) == (closed, [])
    files[0].flusher()()
    files[0].flusher()()
    assert fsyncs.names == ["0"]
    assert "0" not in held(tmp_path)
    files[1].flusher()()
    files[1].append([b"z"])
    files[2].close()
    more = open_many(disk, tmp_path, CAPACITY, "other-")
    assert held(tmp_path) >= closed - {"0", "2"}
    for file in (*files, *more):
        file.close()
    assert held(tmp_path) == set()


@pytest.mark.rule("FD-4")
def test_a_failed_flush_stays_with_its_file(disk: FileDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsyncs = Fsyncs(monkeypatch)
    fsyncs.errors["0"] = errno.EIO
    files = open_many(disk, tmp_path, 3 * CAPACITY)
    for file in files:
        file.append([b"x"])
    waiting = files[0].flusher()
    calls = (files[0].flusher(), waiting, lambda: files[0].append([b"y"]), files[0].flusher())
    for call in calls:
        with pytest.raises(OSError, match="fsync failed") as caught:
            call()
        assert (caught.value.errno, caught.value.filename) == (errno.EIO, f"{tmp_path}/0")
    assert fsyncs.names == ["0"], "a second fsync would succeed"
    assert files[0].read(0, 10) == b"x"
    for file in files[1:]:
        file.append([b"y"])
        file.flusher()()


@pytest.mark.rule("FD-4", "FD-9")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_flush_without_room_has_lost_what_was_written(
    disk: FileDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    fsyncs = Fsyncs(monkeypatch)
    fsyncs.errors["0"] = number
    [file] = open_many(disk, tmp_path, 1)
    file.append([b"x"])
    for call in (file.flusher(), lambda: file.append([b"y"])):
        with pytest.raises(OSError, match="could not be flushed: fsync failed") as caught:
            call()
        assert (caught.value.errno, caught.value.filename) == (errno.EIO, f"{tmp_path}/0")


@pytest.mark.rule("FD-1", "FD-4")
def test_a_flush_that_was_refused_is_made_by_the_next(
    disk: FileDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsyncs = Fsyncs(monkeypatch)
    fsyncs.errors["0"] = errno.ENOMEM
    [file] = open_many(disk, tmp_path, 1)
    file.append([b"x"])
    with pytest.raises(OSError, match="fsync failed"):
        file.flusher()()
    file.append([b"y"])
    file.flusher()()
    assert fsyncs.names == ["0", "0"]


@pytest.mark.rule("FD-4")
@pytest.mark.parametrize("number", [None, errno.EIO])
def test_a_file_that_cannot_be_held_is_flushed_before_it_is_closed(
    disk: FileDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None
) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.ENOMEM, "too many mappings")

    monkeypatch.setattr("broker_agent.log.open_files.hold_inode", refuse)
    fsyncs = Fsyncs(monkeypatch)
    fsyncs.errors |= {} if number is None else {"0": number}
    files = open_many(disk, tmp_path, CAPACITY)
    files[0].append([b"x"])
    more = open_many(disk, tmp_path, CAPACITY, "other-")
    assert fsyncs.names == ["0"]
    if number is None:
        files[0].flusher()()
    else:
        with pytest.raises(OSError, match="fsync failed"):
            files[0].append([b"y"])
    assert fsyncs.names == ["0"]
    for file in (*files, *more):
        file.close()


@pytest.mark.rule("FD-4")
def test_what_an_earlier_process_wrote_is_flushed_although_this_one_wrote_nothing(
    disk: FileDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsyncs = Fsyncs(monkeypatch)
    (tmp_path / "0").write_bytes(b"left")
    files = open_many(disk, tmp_path, 3 * CAPACITY)
    files[0].flusher()()
    files[0].flusher()()
    assert fsyncs.names == ["0"]


@pytest.mark.rule("FD-3")
async def test_threads_never_read_or_flush_by_a_closed_descriptor(disk: FileDisk, tmp_path: Path) -> None:
    files = open_many(disk, tmp_path, 30)
    for number, file in enumerate(files):
        file.append([b"%03d" % number * 10])
    ends = threading.Event()
    failures: list[BaseException] = []

    def use(seed: int) -> None:
        random = Random(seed)
        try:
            while not ends.is_set():
                number = random.randrange(30)
                assert files[number].read(3 * random.randrange(10), 3) == b"%03d" % number
                if random.random() < 0.1:
                    files[number].flusher()()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for number in range(2000):
        files[number % 30].append([b"%03d" % (number % 30)])
        if number % 100 == 0:
            os.makedirs(f"{tmp_path}/d{number}")
            moved = disk.open_file(f"{tmp_path}/d{number}/f")
            disk.rename(f"{tmp_path}/d{number}", f"{tmp_path}/e{number}")
            moved.close()
    ends.set()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert failures == []


@pytest.mark.rule("FD-3")
def test_without_a_free_descriptor_files_are_closed_for_what_needs_one(tmp_path: Path) -> None:
    disk = FileDisk(2, 1000)
    files = open_many(disk, tmp_path, 20)
    for file in files:
        file.append([b"x"])
    with no_descriptor_left():
        more = open_many(disk, tmp_path, 30, "other-")
        assert [file.read(0, 1) for file in files] == [b"x"] * 20
        os.mkdir(tmp_path / "folder")
        disk.sync_directory(str(tmp_path))
        assert len(disk.list_directory(str(tmp_path))) == 51
        assert disk.read_file(f"{tmp_path}/0") == b"x"
        disk.remove_tree(f"{tmp_path}/folder")
    for file in (*files, *more):
        file.close()
    disk.close()


@pytest.mark.rule("FD-3")
def test_connections_cannot_take_the_last_descriptors_from_the_logs(tmp_path: Path) -> None:
    disk = FileDisk(2, 1000)
    with no_descriptor_left() as taken:
        files = open_many(disk, tmp_path, 2 * SPARE_DESCRIPTORS)
        for file in files:
            file.append([b"x"])
        assert [file.read(0, 1) for file in files] == [b"x"] * len(files)
        for file in files:
            file.close()
        for _ in range(3):
            os.close(taken.pop())
        disk.open_file(f"{tmp_path}/again").close()
    disk.close()


@pytest.mark.rule("FD-3")
@pytest.mark.parametrize(
    ("change", "number"), [("remove", errno.ENOENT), ("replace", errno.ESTALE), ("grow", errno.ESTALE)]
)
def test_a_file_that_another_program_changed_is_not_opened_again(
    disk: FileDisk, tmp_path: Path, change: str, number: int
) -> None:
    file, path = disk.open_file(f"{tmp_path}/0"), tmp_path / "0"
    file.append([b"mine"])
    file.flusher()()
    others = open_many(disk, tmp_path, CAPACITY, "other-")
    if change == "grow":
        path.write_bytes(b"mine and others'")
    elif change == "replace":
        (tmp_path / "new").write_bytes(b"mine")
        (tmp_path / "new").replace(path)
    else:
        path.unlink()
    with pytest.raises(OSError, match=str(path)) as caught:
        file.read(0, 4)
    assert caught.value.errno == number
    for other in others:
        other.close()


@pytest.mark.rule("FD-1")
def test_a_torn_write_is_taken_back(disk: FileDisk, tmp_path: Path) -> None:
    file = disk.open_file(f"{tmp_path}/0")
    file.append([b"12345678"])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12, hard))
    try:
        with pytest.raises(OSError, match=str(tmp_path)) as caught:
            file.append([b"abc", b"defgh"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert (file.size, file.read(0, 100)) == (8, b"12345678")
    file.append([b"abc"])
    assert file.read(0, 100) == b"12345678abc"


@pytest.mark.rule("R11.1")
def test_a_torn_write_that_cannot_be_taken_back_is_an_error_of_the_disk(
    disk: FileDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open_file(f"{tmp_path}/0")

    def refuse(*_: object) -> int:
        raise OSError(errno.EFBIG, "no more")

    monkeypatch.setattr("os.writev", lambda descriptor, _: os.pwrite(descriptor, b"a", 0))
    monkeypatch.setattr("os.write", refuse)
    monkeypatch.setattr("os.ftruncate", refuse)
    for _ in range(2):
        with pytest.raises(OSError, match="taken back") as caught:
            file.append([b"abc"])
        assert caught.value.errno == errno.EIO
