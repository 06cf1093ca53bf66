"""Work off the event loop: what the locks of its caller can rely on."""

import asyncio
import errno
import os
from pathlib import Path
from threading import Event

import pytest

from broker_agent.log.checkpoints import Replacement, write_together
from broker_agent.log.file_disk import FileDisk

TIMEOUT_S = 20


@pytest.mark.rule("R9.6", "R9.21", "R12.5")
async def test_a_cancelled_task_ends_after_its_work() -> None:
    disk = FileDisk(2)
    began, may_end, ended = Event(), Event(), Event()

    def work() -> None:
        began.set()
        may_end.wait(TIMEOUT_S)
        ended.set()

    task = asyncio.create_task(disk.run(work))
    await disk.run(lambda: began.wait(TIMEOUT_S))
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done(), "whoever holds a lock would release it now, while a thread is at the files"
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    disk.close()


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_regular_file_is_an_error_and_does_not_block(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    disk = FileDisk(1)
    try:
        with pytest.raises(OSError, match="not a regular file.*leader-epoch-checkpoint"):
            disk.read_file(str(path))
    finally:
        disk.close()


@pytest.mark.rule("R9.6")
def test_a_system_that_takes_no_advice_about_files_replaces_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> None:
        raise OSError(errno.ENOSYS, "function not implemented")

    monkeypatch.setattr(os, "posix_fadvise", refused)
    disk = FileDisk(1)
    assert write_together(disk, [Replacement(str(tmp_path), name, name.encode()) for name in ("a", "b")]) == [
        None,
        None,
    ]
    assert [(tmp_path / name).read_bytes() for name in ("a", "b")] == [b"a", b"b"]
    disk.close()
