"""Runs the commands of a page as a reader would: one after the other, in a folder that looks like a clone."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.documents.pages import ROOT, Block
from tests.timeouts import TIMEOUT_S

INTERRUPTED_AFTER_S: Final = 8
"""How long a command that goes on is left alone."""
_SHIM: Final = '#!/bin/sh\nexec "{program}" "$@"\n'
_LEFT_OUT: Final = {".git", ".klamm", "klamm", "build", "dist", "scratch"}


@contextmanager
def reader_folder(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of a reader whose clone this is; a cluster that is left running is stopped."""
    programs = folder.parent / "programs"
    programs.mkdir(parents=True)
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name not in _LEFT_OUT:
            (folder / path.name).symlink_to(path)
    for place, program in (
        (programs / "klamm", ROOT / "klamm"),
        (folder / "klamm", ROOT / "klamm"),
        (programs / "python", ROOT / ".venv/bin/python"),
    ):
        place.write_text(_SHIM.format(program=program))
        place.chmod(0o755)
    configuration = {"XDG_CONFIG_HOME": str(folder.parent / "configuration")}
    environment = {**os.environ, **configuration, "PATH": f"{programs}:{os.environ['PATH']}"}
    try:
        yield environment
    finally:
        _run_shell("klamm down", folder, environment)


def run(blocks: Iterable[Block], folder: Path, environment: dict[str, str]) -> Iterator[tuple[Block, str]]:
    """Run each block; yields it with what was wrong, empty if nothing was."""
    for block in blocks:
        wrong = next(filter(None, (_run_shell(text, folder, environment) for text in block.first)), "")
        if not wrong and block.not_run is None:
            wrong = _run_shell(block.text, folder, environment, block.exit_code, interrupted=block.interrupted)
        yield block, wrong


def _run_shell(
    text: str, folder: Path, environment: dict[str, str], exit_code: int = 0, *, interrupted: bool = False
) -> str:
    process = subprocess.Popen(
        ["bash", "-e", "-o", "pipefail", "-c", text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    timer = threading.Timer(INTERRUPTED_AFTER_S, _interrupt, [process.pid]) if interrupted else None
    if timer is not None:
        timer.start()
    try:
        output, _ = process.communicate(timeout=4 * TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"{text}\nhas not ended within {4 * TIMEOUT_S} s:\n{process.communicate()[0]}"
    finally:
        if timer is not None:
            timer.cancel()
    expected = {0, 130} if interrupted else {exit_code}
    return "" if process.returncode in expected else f"{text}\nended with {process.returncode}:\n{output}"


def _interrupt(group: int) -> None:
    os.killpg(group, signal.SIGINT)
