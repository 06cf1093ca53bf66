"""Logs that are loaded several at a time: one that has no room takes no descriptors of the others with it."""

import errno
import os
from pathlib import Path

import pytest

from broker_agent.log.file_disk import FileDisk, FileDiskFile
from tests.contract.log_worlds import FileWorld, Node
from tests.contract.test_epoch_journal import create


class FullDisk(FileDisk):
    """No file with this end of its path can be opened."""

    refused = "?"

    def open_file(self, path: str) -> FileDiskFile:
        if path.endswith(self.refused):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().open_file(path)


class FullWorld(FileWorld):
    def __init__(self) -> None:
        super().__init__()
        self.disk = FullDisk(2)

    def new_disk(self) -> FullDisk:
        self.disk, refused = FullDisk(2), self.disk.refused
        self.disk.refused = refused
        return self.disk


@pytest.mark.rule("FD-10")
async def test_logs_that_are_loaded_with_one_without_room_are_closed_with_their_directory(tmp_path: Path) -> None:
    world = FullWorld()
    node = Node(world, str(tmp_path))
    await node.start()
    await create(node)
    await node.stop()
    world.disk.refused = "t-7/00000000000000000000.log"
    await node.start()
    assert [error.errno for _, error in node.failures] == [errno.ENOSPC]
    assert not node.logs.all_logs()
    assert world.disk.open_files.count == 0
    world.disk.close()
