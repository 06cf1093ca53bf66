"""Files that are missing, cannot be read, are no files, or have changed since they were read."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.logs import BROKER, CONTROLLER, EARLIER_CONTROLLER, Logs

WITHOUT_LOG: Final = ("no log of this node",)
UNDECIDED: Final = "not decided"


def replace(make: Callable[[Path], object], prefix: str = BROKER) -> Callable[[Logs], object]:
    """Something else in the place of the largest log of such a node."""

    def change(logs: Logs) -> None:
        path = logs.largest(prefix)
        path.unlink()
        make(path)

    return change


def add(make: Callable[[Path], object]) -> Callable[[Logs], object]:
    """Something under the name of a log of a run that no other node has seen."""
    return lambda logs: make(logs.folder / "broker-4" / f"broker-4-1700000099000.7-{0:020}.jsonl")


def rename(path: Path, to: str) -> None:
    path.rename(path.with_name(to))


def swap_segments(logs: Logs) -> None:
    first, second, _ = logs.split(CONTROLLER)
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)


def take_end_of_middle(logs: Logs) -> None:
    """A segment that was cut, though others follow it."""
    path = logs.split(CONTROLLER)[1]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-5]))


def cut_and_append(logs: Logs) -> None:
    path = logs.largest(CONTROLLER)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:50], *lines[60:]]))


def copy_segment(logs: Logs) -> None:
    """The second segment once more, under a name that is not its own."""
    _, second, _ = logs.split(CONTROLLER)
    shutil.copy(second, second.with_name("saved.jsonl"))


def copy_under_other_number(logs: Logs) -> None:
    _, second, third = logs.split(CONTROLLER)
    shutil.copy(second, third.with_name(f"{third.name[:-26]}{10_000:020}.jsonl"))


def interleave(logs: Logs) -> None:
    """The lines of two runs of a broker in the file of one, in turn."""
    first, second = logs.all("broker-1-")
    lines = [path.read_bytes().splitlines(keepends=True) for path in (first, second)]
    count = len(lines[1])
    pairs = [line for pair in zip(lines[0][:count], lines[1], strict=True) for line in pair]
    first.write_bytes(b"".join([*pairs, *lines[0][count:]]))
    second.unlink()


def shorten(path: Path, size: int) -> None:
    os.truncate(path, size)


def altered(path: Path) -> None:
    """The same size, and another content."""
    path.write_bytes(path.read_bytes().replace(b'"reason":"', b'"Reason":"'))


def forbid(path: Path) -> None:
    """A file that cannot be read, also by root."""
    path.symlink_to("/proc/self/mem")


def link_to_moved(logs: Logs) -> None:
    path = logs.largest(BROKER)
    path.rename(logs.folder / "moved")
    path.symlink_to(logs.folder / "moved")


def link_to_folder(logs: Logs) -> None:
    elsewhere = logs.folder.with_name("elsewhere")
    (logs.folder / "broker-4").rename(elsewhere)
    (logs.folder / "broker-4").symlink_to(elsewhere)


FAULTS_OF_FILES: Final[dict[str, Fault]] = {
    "no log at all": Fault(lambda logs: [path.unlink() for path in logs.all()], incomplete=("no record was read",)),
    "a folder named as no log of a node": Fault(lambda logs: (logs.folder / "x.jsonl").mkdir()),
    "a copy of all logs": Fault(lambda logs: shutil.copytree(logs.folder, logs.folder / "copy")),
    "all logs in one folder": Fault(lambda logs: [path.rename(logs.folder / path.name) for path in logs.all()]),
    "a broker without a log": Fault(lambda logs: shutil.rmtree(logs.folder / "broker-4"), incomplete=WITHOUT_LOG),
    "a controller without a log": Fault(
        lambda logs: shutil.rmtree(logs.folder / "controller-1003"), incomplete=(*WITHOUT_LOG, UNDECIDED)
    ),
    "a run of a broker without a log": Fault(
        lambda logs: logs.all("broker-3-")[0].unlink(), incomplete=("no log of this incarnation",)
    ),
    "a broker's logs empty": Fault(
        lambda logs: logs.largest(BROKER).write_bytes(b""), incomplete=("is empty", *WITHOUT_LOG)
    ),
    "a log without a complete line": Fault(
        lambda logs: logs.largest(BROKER).write_bytes(b'{"v":2'), incomplete=("no complete line", *WITHOUT_LOG)
    ),
    "a log that nobody has seen, empty": Fault(add(Path.touch), incomplete=("is empty",)),
    "a log under another name": Fault(lambda logs: rename(logs.largest(BROKER), "b4.jsonl")),
    "a log under a name that is no log's": Fault(
        lambda logs: rename(logs.largest(BROKER), "b4.txt"), incomplete=WITHOUT_LOG
    ),
    "segments": Fault(lambda logs: logs.split(CONTROLLER)),
    "segments swapped": Fault(swap_segments, {"records-out-of-order": 1}),
    "a segment in the middle missing": Fault(
        lambda logs: logs.split(CONTROLLER)[1].unlink(), {"sequence-gap": 1}, (UNDECIDED,)
    ),
    "the first segment missing": Fault(
        lambda logs: logs.split(CONTROLLER)[0].unlink(), incomplete=("the log begins later", UNDECIDED)
    ),
    "the last segment missing": Fault(lambda logs: logs.split(CONTROLLER)[2].unlink(), {"log-cut": 1}, (UNDECIDED,)),
    "the end of a segment in the middle missing": Fault(take_end_of_middle, {"sequence-gap": 1}, (UNDECIDED,)),
    "a log cut and appended to": Fault(cut_and_append, {"sequence-gap": 1}, (UNDECIDED,)),
    "a segment twice, once under another name": Fault(copy_segment, {"duplicate-sequence": 1}),
    "a segment twice, once under another number": Fault(copy_under_other_number, {"duplicate-sequence": 1}),
    "two runs of a broker in one file": Fault(interleave),
    "a FIFO in the place of a log": Fault(replace(os.mkfifo), incomplete=("is no file", *WITHOUT_LOG)),
    "a FIFO named as a log": Fault(add(os.mkfifo), incomplete=("is no file",)),
    "a folder in the place of a log": Fault(replace(Path.mkdir), incomplete=("is no file", *WITHOUT_LOG)),
    "a folder named as a log": Fault(add(Path.mkdir), incomplete=("is no file",)),
    "a link to nothing named as a log": Fault(add(lambda path: path.symlink_to("nowhere")), incomplete=("is no file",)),
    "a link to itself named as a log": Fault(add(lambda path: path.symlink_to(path.name)), incomplete=("is no file",)),
    "a link to a folder above": Fault(lambda logs: (logs.folder / "above").symlink_to(logs.folder)),
    "a link in the place of a log, to it": Fault(link_to_moved),
    "a log that cannot be read": Fault(replace(forbid), incomplete=("cannot be read", *WITHOUT_LOG)),
    "a log that nobody has seen, and that cannot be read": Fault(add(forbid), incomplete=("cannot be read",)),
    "an unreadable log of a name of its own": Fault(
        lambda logs: forbid(logs.folder / "x.jsonl"), incomplete=("cannot be read",)
    ),
    "a link to a folder of logs": Fault(link_to_folder, incomplete=("is a link to a folder", *WITHOUT_LOG)),
    "a link to a folder that nobody has seen": Fault(
        lambda logs: (logs.folder / "broker-9").symlink_to("/proc"), incomplete=("is a link to a folder",)
    ),
    "a compressed log": Fault(
        lambda logs: rename(logs.largest(BROKER), f"{logs.largest(BROKER).name}.gz"),
        incomplete=("is compressed", *WITHOUT_LOG),
    ),
    "a compressed log that nobody has seen": Fault(
        add(lambda path: path.with_name(f"{path.name}.gz").touch()), incomplete=("is compressed",)
    ),
    "a file named like what is wrong with one": Fault(
        lambda logs: (logs.folder / "!empty\tx.jsonl").write_bytes(b"x\n"), incomplete=("1 malformed lines",)
    ),
    "a file with an exclamation mark": Fault(
        lambda logs: (logs.folder / "!x.jsonl").write_bytes(b"x\n"), incomplete=("1 malformed lines",)
    ),
    "a file whose name is no UTF-8": Fault(
        lambda logs: (logs.folder / os.fsdecode(b"\xff.jsonl")).write_bytes(b"x\n"),
        incomplete=("1 malformed lines",),
    ),
    "an empty file whose name has a tab": Fault(
        lambda logs: (logs.folder / "a\tb\n.jsonl").touch(), incomplete=("a\\tb\\n.jsonl: is empty",)
    ),
    "a log of a name of its own that vanished": Fault(
        lambda logs: rename(logs.largest(BROKER), "b4.jsonl"),
        {"log-vanished": 1},
        later=lambda logs: logs.all("b4")[0].unlink(),
    ),
    "a log that shrank": Fault(
        lambda _: None, {"log-shrank": 1}, later=lambda logs: shorten(logs.largest(CONTROLLER), 5_000)
    ),
    "a log emptied after it was read": Fault(
        lambda _: None, {"log-shrank": 1}, later=lambda logs: shorten(logs.largest(CONTROLLER), 0)
    ),
    "a log that vanished": Fault(lambda _: None, {"log-vanished": 1}, later=lambda logs: logs.largest(BROKER).unlink()),
    "a closed segment altered after it was read": Fault(
        lambda logs: logs.split(CONTROLLER), {"log-changed": 1}, later=lambda logs: altered(logs.all(CONTROLLER)[0])
    ),
    "a log replaced by a FIFO after it was read": Fault(
        lambda _: None, {"log-vanished": 1}, ("is no file",), later=replace(os.mkfifo)
    ),
    "a log that could not be read any more": Fault(
        lambda _: None, {"log-shrank": 1}, later=replace(forbid, EARLIER_CONTROLLER)
    ),
    "a log that continues": Fault(
        lambda logs: logs.split(CONTROLLER)[2].rename(logs.folder / "later"),
        later=lambda logs: (logs.folder / "later").rename(logs.all(CONTROLLER)[0].with_name("later.jsonl")),
    ),
}
"""Name -> fault."""
