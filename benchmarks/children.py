"""A process of a benchmark that answers commands: one line of JSON each way, on its standard input and output."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")
_C = TypeVar("_C")
_LINE_MAX = 2**26


class ProcessFailedError(Exception):
    """A process of the benchmark ended by itself; the message has the end of its log."""


class Child:
    """A module of `benchmarks` that runs as a process of its own, so that its work does not slow what is measured."""

    def __init__(self, module: str, process: asyncio.subprocess.Process) -> None:
        self._module, self._process = module, process

    @classmethod
    async def start(cls, module: str, *arguments: str) -> "Child":
        """Start a module."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", module, *arguments,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=_LINE_MAX,
        )  # fmt: skip
        return cls(module, process)

    async def ask(self, command: Any, answer: type[_T]) -> _T:
        """Send a command and wait for its answer. Raises ProcessFailedError if the process ends first."""
        assert self._process.stdin is not None, "stdin is a pipe"
        assert self._process.stdout is not None, "stdout is a pipe"
        self._process.stdin.write(msgspec.json.encode(command) + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise ProcessFailedError(f"a process of {self._module} ended during {command}")
        return msgspec.json.decode(line, type=answer)

    async def stop(self) -> None:
        """Kill it, unless it has ended."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


async def answer_commands(command: type[_C], answer: Callable[[_C], Awaitable[Any]]) -> None:
    """Answer commands from standard input, one after the other, until it is closed."""
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        found = await answer(msgspec.json.decode(line, type=command))
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        sys.stdout.buffer.flush()
