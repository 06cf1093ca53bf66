"""The promises of the Disk port, on files with few descriptors and on the simulated disk alike."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from broker_agent.log.disk import Disk, DiskFile
from broker_agent.log.file_disk import FileDisk
from simulator.disk import SimulatedDisk
from tests.contract.log_worlds import TestClock

OPEN_FILES = 3
STEPS = 1500


class Place(NamedTuple):
    disk: Disk
    root: str


@pytest.fixture(params=["files", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    is_real = request.param == "files"
    disk = FileDisk(2, OPEN_FILES) if is_real else SimulatedDisk(TestClock(), Random(1))
    root = str(tmp_path / "disk") if is_real else "/disk"
    disk.make_directory(root)
    yield Place(disk, root)
    disk.close()


class Model:
    """Many files in a few directories: what they should hold, and what is done to them at random."""

    def __init__(self, place: Place, random: Random) -> None:
        self.disk, self.root, self.random = place.disk, place.root, random
        self.contents: dict[str, bytes] = {}
        self.open: list[tuple[str, DiskFile]] = []
        self.flushers: list[Callable[[], None]] = []
        self.names = 0
        for number in range(3):
            self.disk.make_directory(f"{self.root}/{number}")

    def open_one(self) -> None:
        path = f"{self.root}/{self.random.randrange(3)}/{self.random.randrange(8)}"
        if all(path != opened for opened, _ in self.open):
            file = self.disk.open_file(path)
            assert file.size == len(self.contents.setdefault(path, b""))
            self.open.append((path, file))

    def append(self) -> None:
        path, file = self.random.choice(self.open)
        content = self.random.randbytes(self.random.randrange(1, 30))
        file.append([content[:5], memoryview(content)[5:]])
        self.contents[path] += content

    def read(self) -> None:
        path, file = self.random.choice(self.open)
        start, length = self.random.randrange(40), self.random.randrange(200)
        assert file.read(start, length) == self.contents[path][start : start + length]
        assert file.size == len(self.contents[path])

    def truncate(self) -> None:
        path, file = self.random.choice(self.open)
        size = self.random.randint(0, file.size)
        file.truncate(size)
        self.contents[path] = self.contents[path][:size]

    def begin_flush(self) -> None:
        self.flushers.append(self.random.choice(self.open)[1].flusher())

    def end_flush(self) -> None:
        if self.flushers:
            self.flushers.pop(self.random.randrange(len(self.flushers)))()

    def close(self) -> None:
        path, file = self.open.pop(self.random.randrange(len(self.open)))
        file.close()
        file.close()
        if self.random.random() < 0.3:
            self.disk.remove_file(path)
            del self.contents[path]

    def rename_file(self) -> None:
        index = self.random.randrange(len(self.open))
        path, file = self.open[index]
        self.names += 1
        new = f"{path.rpartition('/')[0]}/new-{self.names}"
        self.disk.rename(path, new)
        self.open[index] = (new, file)
        self.contents[new] = self.contents.pop(path)

    def rename_directory(self) -> None:
        self.names += 1
        old, new = f"{self.root}/{self.random.randrange(3)}", f"{self.root}/new-{self.names}"
        self.disk.rename(old, new)
        self.disk.make_directory(old)

        def moved(path: str) -> str:
            return new + path.removeprefix(old) if path.startswith(f"{old}/") else path

        self.open = [(moved(path), file) for path, file in self.open]
        self.contents = {moved(path): content for path, content in self.contents.items()}

    def run(self, steps: int) -> None:
        for _ in range(5):
            self.open_one()
        often = [self.append, self.read, self.read, self.open_one, self.begin_flush, self.end_flush]
        rarely = [self.truncate, self.close, self.rename_file, self.rename_directory]
        for _ in range(steps):
            if not self.open:
                self.open_one()
            self.random.choice(often if self.random.random() < 0.9 else rarely)()


@pytest.mark.rule("FD-3")
@pytest.mark.parametrize("seed", range(5))
def test_files_hold_what_was_written_however_many_are_open(place: Place, seed: int) -> None:
    model = Model(place, Random(seed))
    model.run(STEPS)
    assert len(model.open) > 2 * OPEN_FILES
    while model.flushers:
        model.end_flush()
    for path, file in model.open:
        assert file.read(0, file.size) == model.contents[path]
        file.close()
    for path, content in model.contents.items():
        assert place.disk.read_file(path) == content


@pytest.mark.rule("FD-3")
def test_a_flusher_may_be_called_after_its_file_was_closed_or_removed(place: Place) -> None:
    files = [place.disk.open_file(f"{place.root}/{number}") for number in range(2 * OPEN_FILES)]
    for file in files[1:]:
        file.append([b"content"])
    flushers = [file.flusher() for file in files]
    for number, file in enumerate(files):
        file.close()
        if number % 2:
            place.disk.remove_file(f"{place.root}/{number}")
    for flush in flushers:
        flush()
    assert place.disk.read_file(f"{place.root}/2") == b"content"


def test_a_file_is_made_by_the_first_open_and_kept_by_the_second(place: Place) -> None:
    path = f"{place.root}/file"
    assert place.disk.read_file(path) is None
    first = place.disk.open_file(path)
    assert (first.size, place.disk.read_file(path)) == (0, b"")
    first.append([b"ab", memoryview(b"cd")])
    first.close()
    second = place.disk.open_file(path)
    assert (second.size, second.read(1, 10), second.read(4, 1)) == (4, b"bcd", b"")
    with pytest.raises(FileNotFoundError):
        place.disk.open_file(f"{place.root}/nowhere/file")
    with pytest.raises(FileNotFoundError):
        place.disk.list_directory(f"{place.root}/nowhere")


@pytest.mark.rule("FD-9")
def test_whether_there_is_room_is_tried_without_a_trace(place: Place) -> None:
    place.disk.open_file(f"{place.root}/a").append([b"x"])
    place.disk.check_room(place.root, 1 << 16)
    assert place.disk.list_directory(place.root) == ["a"]
    with pytest.raises(FileNotFoundError):
        place.disk.check_room(f"{place.root}/missing", 1)
