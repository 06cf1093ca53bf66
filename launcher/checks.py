"""`klamm test`: all checks of the project, as CI runs them."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Final

import typer

from admin.cli.output import say
from cluster.model.exit_codes import ExitCode
from launcher.changed_tests import changed_files, selected_tests, with_other_imports
from launcher.installation import ROOT, require_clone

app = typer.Typer()

TESTS_OF_DECISIONS: Final = ("tests/unit/controller", "tests/unit/broker_agent/decisions", "tests/unit/audit/rules")
"""Decisions, and rules of the audit, have no branch that these tests do not take."""
# More than there are cores: while some wait for processes, others compute (tests/durations.py mixes them). The deep
# suite measures, and runs alone.
_IN_PARALLEL: Final = ("--numprocesses", "5", "--dist", "loadfile", "--no-loadscope-reorder")
_PYTHON: Final = (sys.executable, "-m")
_STATIC_CHECKS: Final = (
    (*_PYTHON, "ruff", "format", "--check", "."),
    (*_PYTHON, "ruff", "check", "."),
    (*_PYTHON, "mypy"),
    (str(Path(sys.executable).parent / "lint-imports"),),
)


@app.command("test", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run_checks(
    context: typer.Context,
    deep: Annotated[bool, typer.Option("--deep", help="Include the long tests.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only tests that the change can break.")] = False,
    since: Annotated[
        str, typer.Option(metavar="COMMIT", help="With --changed: what the working tree is compared with.")
    ] = "HEAD",
) -> None:
    """Run all checks of the repository: format, lint, types, import contracts, coverage of decisions, tests.

    --changed runs the static checks and the tests that can reach a changed file: 'klamm test --changed' after an
    edit, 'klamm test --changed --since main' for a branch. Tests of processes
    reach the programs of a cluster, and what the commands in their text run.

    Other arguments go to pytest, and then only tests run:
    klamm test tests/unit -k partitioner
    """
    require_clone("tests", "./klamm test")
    # Images of containers set these: without bytecode each of the hundreds of processes of the tests compiles all
    # modules again, and without buffers output is not as in the shells of users.
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
        os.environ.pop(name, None)
    arguments = list(context.args)
    if changed:
        files = changed_files(since)
        selected = selected_tests(files, deep=deep, other_imports=with_other_imports(files, since))
        say(f"{len(files)} files changed since {since}: {len(selected)} files of tests can reach them")
        failed = _run_all([*_marks(deep, arguments), *_IN_PARALLEL, *arguments, *selected] if selected else [])
    elif arguments:
        failed = _run([[*_PYTHON, "pytest", *_marks(deep, arguments), *arguments]])
    else:
        failed = _run([[*_PYTHON, "coverage", "erase"]])
        in_parallel = () if deep else _IN_PARALLEL
        failed += _run_all([*_marks(deep, arguments), *in_parallel, "-p", "tests.decision_coverage"])
        failed += _run([[*_PYTHON, "coverage", "combine", "-q"], [*_PYTHON, "coverage", "report"]])
    for shown in failed:
        say(f"failed: {shown}")
    if not failed:
        say("all checks passed")
    sys.exit(ExitCode.REFUSED if failed else ExitCode.OK)


def _marks(deep: bool, arguments: list[str]) -> list[str]:
    """Leave the long tests out, unless they or other marks are asked for."""
    asked = deep or any(a == "-m" or a.startswith("-m=") for a in arguments)
    return [] if asked else ["-m", "not deep"]


def _run_all(pytest: list[str]) -> list[str]:
    """Run the static checks beside the tests, which often wait; without arguments for pytest, alone."""
    with ThreadPoolExecutor(1) as beside:
        static = beside.submit(lambda: [(command, _captured(command)) for command in _STATIC_CHECKS])
        failed = _run([[*_PYTHON, "pytest", *pytest]] if pytest else [])
        for command, (code, output) in static.result():
            say(f"--- {_shown(command)}")
            say(output)
            if code != 0:
                failed.append(_shown(command))
    return failed


def _captured(command: tuple[str, ...]) -> tuple[int, str]:
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout.strip()


def _run(commands: list[list[str]]) -> list[str]:
    """Run the commands one after the other; the result has those that failed, as they are shown."""
    failed = []
    for command in commands:
        say(f"--- {_shown(command)}")
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            failed.append(_shown(command))
    return failed


def _shown(command: list[str] | tuple[str, ...]) -> str:
    return " ".join("python" if part == sys.executable else part for part in command)
