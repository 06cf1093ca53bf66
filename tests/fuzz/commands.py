"""Runs `klamm …` in this process: whatever it is given, it ends with a message, never with a traceback."""

import os
from collections.abc import Sequence

from typer.testing import CliRunner, Result

from cluster.errors import ClusterError
from launcher.__main__ import app
from tests.fuzz.cluster_under_fire import FuzzError

NOBODY_THERE = ("--bootstrap", "127.0.0.1:1", "--timeout", "0.1")


def run_command(arguments: Sequence[str]) -> Result:
    """Run a command without input. Raises FuzzError if it ends with an exception for which `klamm` has no message."""
    with open(os.devnull, "rb") as stdin:
        result = CliRunner().invoke(app, list(arguments), input=stdin)
    error = result.exception
    expected = isinstance(error, SystemExit | ClusterError) or (isinstance(error, OSError) and error.errno is not None)
    if error is not None and not expected:
        raise FuzzError(f"klamm {arguments}: {type(error).__name__}: {error}") from error
    return result
