"""Reads lines from a terminal, a pipe or a file, in chunks, without blocking the event loop on a slow writer."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from cluster.model.errors import ConfigError

CHUNK_BYTES: Final = 1 << 17


async def read_lines(path: Path | None) -> AsyncIterator[list[bytes]]:
    """Read the lines of a file, or of stdin with None, without their newlines; the last line may lack its newline.

    Raises ConfigError if the input cannot be read.
    """
    # What the next line has so far: joined once, since a line may be many chunks long.
    begun: list[bytes] = []
    async for chunk in _file_chunks(path) if path is not None else _stdin_chunks():
        first, *others = chunk.split(b"\n")
        begun.append(first)
        if others:
            lines = [b"".join(begun), *others]
            begun = [lines.pop()]
            yield lines
    if rest := b"".join(begun):
        yield [rest]


async def _file_chunks(path: Path) -> AsyncIterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
                # Reading a file never waits, so this is where the sender gets its turn.
                await asyncio.sleep(0)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error


async def _stdin_chunks() -> AsyncIterator[bytes]:
    descriptor = sys.stdin.fileno()
    try:
        async for chunk in _waited_for(descriptor) if _may_wait(descriptor) else _at_once(descriptor):
            yield chunk
            await asyncio.sleep(0)
    except OSError as error:
        raise ConfigError([f"standard input: cannot be read: {error.strerror}"]) from error


def _may_wait(descriptor: int) -> bool:
    """Whether the input is a terminal, pipe or socket, whose writer may be slow.

    The event loop cannot wait for any other kind of file; /dev/null, the input under cron and systemd, is one of them.
    """
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def _at_once(descriptor: int) -> AsyncIterator[bytes]:
    while chunk := os.read(descriptor, CHUNK_BYTES):
        yield chunk


async def _waited_for(descriptor: int) -> AsyncIterator[bytes]:
    if os.isatty(descriptor):
        # A separate open file description: making the shell's non-blocking would make stdout non-blocking too.
        descriptor = os.open(os.ttyname(descriptor), os.O_RDONLY | os.O_NOCTTY)
    else:
        descriptor = os.dup(descriptor)
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            yield chunk
    finally:
        transport.close()
