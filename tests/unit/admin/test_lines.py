"""What `klamm produce` reads as its standard input."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from admin.cli.lines import read_lines
from cluster.model.errors import ConfigError
from tests.timeouts import TIMEOUT_S


@contextmanager
def stdin(monkeypatch: pytest.MonkeyPatch, descriptor: int) -> Iterator[None]:
    with os.fdopen(descriptor, "rb") as file:
        monkeypatch.setattr("sys.stdin", file)
        yield


async def all_lines() -> list[bytes]:
    async with asyncio.timeout(TIMEOUT_S):
        return [line async for lines in read_lines(None) for line in lines]


async def test_nothing_is_read_where_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with stdin(monkeypatch, os.open(os.devnull, os.O_RDONLY)):
        assert await all_lines() == []


async def test_a_file_a_pipe_and_a_socket_are_read_to_their_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb")
    read_end, write_end = os.pipe()
    os.write(write_end, b"a\nb")
    os.close(write_end)
    ours, theirs = socket.socketpair()
    theirs.sendall(b"a\nb")
    theirs.close()
    for descriptor in (os.open(path, os.O_RDONLY), read_end, ours.detach()):
        with stdin(monkeypatch, descriptor):
            assert await all_lines() == [b"a", b"b"]


async def test_what_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.touch()
    with stdin(monkeypatch, os.open(path, os.O_RDONLY)):
        monkeypatch.setattr("os.read", lambda *_: os.open(tmp_path / "absent", os.O_RDONLY))
        with pytest.raises(ConfigError, match="standard input: cannot be read: No such file"):
            await all_lines()


async def test_a_line_of_many_chunks_is_put_together_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Put together at each of them, 64 MiB would be 17 GB to copy, and take longer than this waits."""
    path = tmp_path / "line"
    path.write_bytes(b"x" * (64 << 20) + b"\n\nb\n")
    with stdin(monkeypatch, os.open(path, os.O_RDONLY)):
        lines = await all_lines()
    assert [len(line) for line in lines] == [64 << 20, 0, 1]
