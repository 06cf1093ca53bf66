"""Which files of tests a change can reach: `klamm test --changed`.

A test reaches what it imports, and what that imports: the import graph has no cycles, and contracts hold its layers.
A test of processes also reaches what they run, which no import shows: it is presumed to run the programs of a cluster,
and it reaches what the commands run whose arguments stand in its text, from the function of the command on
(`launcher.commands_of_tests`). What only tests of the deep suite name does not count. A test that installs klamm from
its wheel reaches a module by its name and its imports, not by what it does: other tests hold that.
"""

import re
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Final

from launcher.commands_of_tests import reached_by_running
from launcher.import_graph import git, imported, importers, imports_in, is_file, paths_of, python_files, text_of

_OF_A_CLUSTER: Final = frozenset(
    {"klamm", "launcher", "proto", "cluster", "state_log", "controller", "broker_agent", "admin", "deploy"}
)
"""Packages that run wherever a test starts a cluster."""
_INSTALLING: Final = frozenset({"klamm", "launcher", "deploy", "tests"})
"""Packages that a test of an installation tries themselves."""
_EVERYTHING: Final = frozenset({"pyproject.toml", "klamm", ".ci/run"})
_WHOLE_TREE: Final = "tests/unit/test_"
"""Tests that read every file of the repository."""
_PROCESSES: Final = re.compile(r"\bmark\.real\b|\bsubprocess\b")
_INSTALLS: Final = "tests.processes.installations.build_wheel"


def changed_files(since: str) -> list[str]:
    """List the files, relative to the repository, that differ from a commit, and those that Git does not know yet.

    Raises:
        StartupError: there is no such commit.
    """
    tracked = git("diff", "--name-only", "--no-renames", since, "--", problem=f"--since {since}")
    return sorted({*tracked, *git("ls-files", "--others", "--exclude-standard", problem="--changed")})


def with_other_imports(changed: Iterable[str], since: str) -> frozenset[str]:
    """Find the changed files that were not there at a commit, are there no longer, or import other modules."""
    known = frozenset(git("ls-tree", "-r", "--name-only", since, problem=f"--since {since}"))
    return frozenset(file for file in changed if file not in known or not _imports_as(file, since))


def _imports_as(file: str, since: str) -> bool:
    if not file.endswith(".py") or not is_file(file):
        return False
    return imports_in("\n".join(git("show", f"{since}:{file}"))) == imports_in(text_of(file))


def selected_tests(changed: Iterable[str], *, deep: bool = False, other_imports: Collection[str] = ()) -> list[str]:
    """List the files of tests that can reach one of the changed files, which may be there no longer.

    `deep`: the tests of the deep suite count too; `other_imports`: those of the changed files that are new, or that
    import other modules than they did.
    """
    changed = list(changed)
    tests = [file for file in python_files() if _is_test(file)]
    if _EVERYTHING.intersection(changed):
        return tests
    # The installed ones are there or not, and import what they import: more is not tried where klamm is installed.
    installed = [
        file
        for file in changed
        if file in other_imports or not file.endswith(".py") or not is_file(file) or _package(file) in _INSTALLING
    ]
    reached = {of_installations: _reaching(files) for of_installations, files in ((False, changed), (True, installed))}
    return [
        test
        for test in tests
        if test in reached[_installs(test)] or _can_break(test, installed if _installs(test) else changed, deep=deep)
    ]


def _can_break(test: str, changed: list[str], *, deep: bool) -> bool:
    """Whether one of the files can break the test though no chain of imports leads there."""
    if test.startswith(_WHOLE_TREE):
        return bool(changed)
    for file in changed:
        path = Path(file)
        if path.name == "conftest.py" and test.startswith(f"{path.parent}/"):
            return True
        if path.suffix != ".py" and path.name in text_of(test):
            return True
        if _package(file) == "docs" and path.suffix != ".py" and test.startswith("tests/documents/"):
            return True
        if _package(file) != "tests" and path.suffix != ".md" and _runs(test, file, deep=deep):
            return True
    return False


def _runs(test: str, file: str, *, deep: bool) -> bool:
    """Whether processes that the test starts run a file, or may read it."""
    if not _starts_processes(test):
        return False
    if _package(file) in _OF_A_CLUSTER:
        return True
    reached = _reached_by_running(test, deep=deep)
    if is_file(file) and file.endswith(".py"):
        return file in reached
    # Data, and modules that are gone: whoever runs a module of their package.
    return any(each.startswith(f"{_package(file)}/") for each in reached)


def _package(file: str) -> str:
    return Path(file).parts[0]


def _reaching(changed: Iterable[str]) -> set[str]:
    """Find the changed files and all that import them, directly or not."""
    reached: set[str] = set()
    waiting = list(changed)
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += importers()[file]
    return reached


def _starts_processes(test: str) -> bool:
    return any(_starts_process(file) for file in _with_helpers(test))


@cache
def _starts_process(file: str) -> bool:
    return _PROCESSES.search(text_of(file)) is not None


def _installs(test: str) -> bool:
    return _INSTALLS in imported(test)


@cache
def _reached_by_running(test: str, *, deep: bool) -> frozenset[str]:
    """Find what the commands run that the test and its helpers name."""
    return frozenset[str]().union(*(reached_by_running(file, deep=deep) for file in _with_helpers(test)))


@cache
def _with_helpers(test: str) -> frozenset[str]:
    """Find the test and the helpers that it imports from the tests, directly or not."""
    found: set[str] = set()
    waiting = [test]
    while waiting:
        file = waiting.pop()
        if file in found or not is_file(file):
            continue
        found.add(file)
        waiting += (paths_of(module)[0] for module in imported(file) if module.startswith("tests."))
    return frozenset(found)


def _is_test(file: str) -> bool:
    return file.startswith("tests/") and Path(file).name.startswith("test_")
