"""`klamm test`: all checks of the project, as CI runs them."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from admin.cli.output import say
from cluster.model.exit_codes import ExitCode
from launcher.installation import ROOT, require_clone

app = typer.Typer()

# Most tests wait for processes or compute in one; two at once take little more than half the time. The deep suite
# measures, and runs alone.
_IN_PARALLEL = ("--numprocesses", "2", "--dist", "loadfile")
# Seconds, so that running them once more under coverage costs little: decisions, and rules of the audit, have no branch
# without a test.
_TESTS_OF_DECISIONS = ("tests/unit/controller", "tests/unit/broker_agent/decisions", "tests/unit/audit/rules")


@app.command("test", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run_checks(
    context: typer.Context,
    deep: Annotated[bool, typer.Option("--deep", help="Include the long tests.")] = False,
) -> None:
    """Run all checks of the repository: format, lint, types, import contracts, coverage of decisions, tests.

    Other arguments go to pytest, and then only tests run:
    klamm test tests/unit -k partitioner
    """
    require_clone("tests", "./klamm test")
    pytest_arguments = list(context.args)
    if not deep and not any(a == "-m" or a.startswith("-m=") for a in pytest_arguments):
        pytest_arguments += ["-m", "not deep"]
    if not deep and not context.args:
        pytest_arguments += _IN_PARALLEL
    pytest = [sys.executable, "-m", "pytest", *pytest_arguments]
    decisions = [sys.executable, "-m", "coverage", "run", "-m", "pytest", "-q", *_TESTS_OF_DECISIONS]
    checks = [
        [sys.executable, "-m", "ruff", "format", "--check", "."],
        [sys.executable, "-m", "ruff", "check", "."],
        [sys.executable, "-m", "mypy"],
        [str(Path(sys.executable).parent / "lint-imports")],
        decisions,
        [sys.executable, "-m", "coverage", "report"],
    ]
    failed = []
    for command in [pytest] if context.args else [*checks, pytest]:
        shown = " ".join(["python" if part == sys.executable else part for part in command])
        say(f"--- {shown}")
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            failed.append(shown)
    for shown in failed:
        say(f"failed: {shown}")
    if not failed:
        say("all checks passed")
    sys.exit(ExitCode.REFUSED if failed else ExitCode.OK)
