"""Runs `klamm …` in this process: whatever it is given, it ends with a message, never with a traceback."""

import os
import sys
from collections.abc import Sequence
from unittest.mock import patch

from launcher.__main__ import main
from tests.fuzz.cluster_under_fire import FuzzError

NOBODY_THERE = ("--bootstrap", "127.0.0.1:1", "--timeout", "0.1")


def run_command(arguments: Sequence[str]) -> None:
    """Run a command without input, as a process with these arguments would. Raises FuzzError for a traceback."""
    with (
        open(os.devnull) as stdin,
        open(os.devnull, "w", encoding="utf-8") as stdout,
        open(os.devnull, "w", encoding="utf-8", errors="backslashreplace") as stderr,
        patch.multiple(sys, argv=["klamm", *arguments], stdin=stdin, stdout=stdout, stderr=stderr),
    ):
        try:
            main()
        except SystemExit:
            return
        except BaseException as error:
            raise FuzzError(f"klamm {arguments}: {type(error).__name__}: {error}") from error
