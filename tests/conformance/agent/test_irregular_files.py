"""A pipe, socket, device or directory where a partition's file should be: one replica is offline, the start goes on."""

import asyncio
import os
import socket
from contextlib import chdir
from pathlib import Path

import pytest

from cluster.model.errors import StorageError
from cluster.model.partition import TopicPartition
from tests.contract.log_worlds import TP, FileWorld, Node, batch, fill
from tests.timeouts import TIMEOUT_S

OTHER = TopicPartition("other", 0)
SIZE = len(batch(10, size=400))


def replace_by(kind: str, path: Path) -> None:
    path.unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            # The address of a socket has 108 bytes at most.
            with chdir(path.parent), socket.socket(socket.AF_UNIX) as bound:
                bound.bind(path.name)
        case "device":
            path.symlink_to("/dev/zero")
        case "directory":
            path.mkdir()


@pytest.mark.rule("R9.15", "BD-7")
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "directory"])
@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000000.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ],
)
async def test_an_irregular_file_takes_its_replica_offline_at_most(
    name: str, kind: str, clean: bool, tmp_path: Path
) -> None:
    node = Node(FileWorld(), str(tmp_path))
    await node.start()
    for partition in (TP, OTHER):
        fill(await node.log(tp=partition), *[0] * 4, size=400)
    if clean:
        await node.stop()
    else:
        for directory in node.logs.directories.values():
            directory.unlock()
    path = tmp_path / str(TP) / name
    replace_by(kind, path)
    async with asyncio.timeout(TIMEOUT_S):
        await node.start()
    assert not node.failures
    assert (await node.log(tp=OTHER)).log_end_offset == 40
    why = await why_offline(node)
    if why is None:
        # What can be derived from the segments is, and takes the place of what was there.
        assert (await node.log()).log_end_offset == 40
    else:
        assert f"{TP} cannot be loaded" in why
        assert name in why
    await node.stop()


async def why_offline(node: Node) -> str | None:
    try:
        await node.log()
    except StorageError as error:
        return str(error)
    return None
