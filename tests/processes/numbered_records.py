"""A producer of numbered records that runs while a test does something to the cluster."""

import subprocess
import threading
from collections.abc import Sequence
from typing import Final

from tests.processes.commands import LAUNCHER
from tests.timeouts import TIMEOUT_S

_PAUSE_S: Final = 0.01


class NumberedRecords:
    """`klamm produce` in a process, which gets a line every 10 ms, from `first` on, until it is stopped."""

    def __init__(self, topic: str, where: Sequence[str], first: int) -> None:
        self._numbers = range(first, first)
        self._first, self._ends = first, threading.Event()
        self._process = subprocess.Popen(
            [*LAUNCHER, "produce", topic, *where, "--timeout", str(TIMEOUT_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        stdin, number = self._process.stdin, self._first
        assert stdin is not None
        try:
            while not self._ends.wait(_PAUSE_S):
                stdin.write(f"{number}\n")
                stdin.flush()
                number += 1
        except BrokenPipeError:
            pass  # It has ended, and its exit code and what it said say why.
        self._numbers = range(self._first, number)

    def stop(self) -> range:
        """Let it end; returns the numbers sent, every one of which was acknowledged."""
        self._ends.set()
        self._thread.join(TIMEOUT_S)
        output, errors = self._process.communicate(timeout=TIMEOUT_S)
        assert self._process.returncode == 0, errors
        assert output.split()[-1] == str(len(self._numbers)), errors
        return self._numbers

    def kill(self) -> None:
        """End it, whatever becomes of its records."""
        self._ends.set()
        self._process.kill()
        self._process.wait()
