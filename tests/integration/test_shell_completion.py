"""Completion in real shells: commands, options, and the names of a cluster that answers."""

import os
import pty
import select
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controllers.scripted_cluster import served_cluster
from tests.processes.commands import run_klamm
from tests.timeouts import TIMEOUT_S


@pytest.fixture
def shell_environment(tmp_path: Path) -> dict[str, str]:
    """A home without settings, and `klamm` on the path."""
    command = tmp_path / "bin" / "klamm"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m klamm "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    left_out = ("KLAMM_", "XDG_")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(left_out)},
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "dumb",
    }


@pytest.fixture
async def addresses() -> AsyncIterator[str]:
    async with served_cluster() as cluster:
        yield ",".join(server.address for server in cluster.servers.values())


def script(shell: str, folder: Path) -> Path:
    """The file with the script for this shell. Skips where the shell is not installed."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = folder / f"completion.{shell}"
    file.write_text(run_klamm("completion", shell).stdout)
    return file


def in_bash(line: str, environment: dict[str, str], folder: Path) -> list[str]:
    parts = line.split(" ")
    # As bash splits the line: a word that is not begun is an empty one.
    split = line if parts[-1] else f"{line}''"
    asked = f"COMP_WORDS=({split}); COMP_CWORD={len(parts) - 1}; _klamm_completion klamm"
    command = f'source {script("bash", folder)}; {asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return shell_output(["bash", "--norc", "-c", command], environment)


def in_fish(line: str, environment: dict[str, str], folder: Path) -> list[str]:
    command = f'source {script("fish", folder)}; complete --do-complete "{line}"'
    found = shell_output(["fish", "--no-config", "--command", command], environment)
    return [name.partition("\t")[0] for name in found]


def shell_output(command: list[str], environment: dict[str, str]) -> list[str]:
    ended = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
    assert ended.stderr == ""
    return ended.stdout.split("\n")[:-1]


SHELLS = pytest.mark.parametrize("complete", [in_bash, in_fish], ids=["bash", "fish"])


@SHELLS
def test_commands_and_options_are_completed(complete, shell_environment: dict[str, str], tmp_path: Path) -> None:
    assert complete("klamm pro", shell_environment, tmp_path) == ["produce"]
    assert {"topics", "brokers", "up", "completion"} <= set(complete("klamm ", shell_environment, tmp_path))
    assert {"create", "describe"} <= set(complete("klamm topics ", shell_environment, tmp_path))
    assert complete("klamm topics create x --repl", shell_environment, tmp_path) == [
        "--replication-factor",
        "--replica-assignment",
    ]
    assert complete("klamm produce x --acks ", shell_environment, tmp_path) == ["0", "1", "all"]


@SHELLS
async def test_topics_of_the_cluster_are_completed(
    complete, addresses: str, shell_environment: dict[str, str], tmp_path: Path
) -> None:
    import asyncio

    def found(line: str, **variables: str) -> list[str]:
        return complete(line, {**shell_environment, **variables}, tmp_path)

    assert await asyncio.to_thread(found, f"klamm topics describe --bootstrap {addresses} o") == ["orders"]
    assert await asyncio.to_thread(found, "klamm consume o", KLAMM_BOOTSTRAP=addresses) == ["orders"]


def test_without_a_cluster_there_are_no_names_and_no_messages(
    shell_environment: dict[str, str], tmp_path: Path
) -> None:
    environment = {**shell_environment, "KLAMM_BOOTSTRAP": "127.0.0.1:1"}
    assert in_bash("klamm consume or", environment, tmp_path) == [""]
    assert in_bash("klamm consume or", {**environment, "KLAMM_BOOTSTRAP": "no address"}, tmp_path) == [""]


@pytest.mark.parametrize("autoloaded", [False, True])
def test_zsh_completes_what_is_typed(shell_environment: dict[str, str], tmp_path: Path, autoloaded: bool) -> None:
    completion = script("zsh", tmp_path)
    initialise = "autoload -U compinit; compinit -u"
    if autoloaded:
        (tmp_path / "functions").mkdir()
        completion.rename(tmp_path / "functions" / "_klamm")
        settings = f"fpath=({tmp_path / 'functions'} $fpath)\n{initialise}"
    else:
        settings = f"{initialise}\nsource {completion}"
    (tmp_path / ".zshrc").write_text(f"PS1='ready> '\n{settings}\n")
    process, terminal = pty.fork()
    if process == 0:
        os.execve(shutil.which("zsh") or "", ["zsh", "-i"], shell_environment)
    try:
        shown_until(terminal, "ready> ")
        os.write(terminal, b"echo klamm; klamm topics descr\t")
        shown_until(terminal, "klamm topics describe ")
        os.write(terminal, b"--under-r\t")
        shown_until(terminal, "--under-replicated ")
    finally:
        os.close(terminal)
        os.waitpid(process, 0)


def shown_until(terminal: int, text: str) -> None:
    shown, deadline = "", time.monotonic() + TIMEOUT_S
    while text not in shown:
        assert time.monotonic() < deadline, repr(shown)
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 65_536).decode(errors="replace")
