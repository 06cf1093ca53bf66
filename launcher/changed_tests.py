"""Which files of tests a change can reach: `klamm test --changed`.

A test reaches what it imports, and what that imports: the import graph has no cycles, and contracts hold its layers.
A test of processes also reaches what they run, which no import shows. It is presumed to run the programs of a cluster,
and every other package that its text names; what only tests of the deep suite name does not count.
"""

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from cluster.model.errors import StartupError
from launcher.installation import ROOT

_OF_A_CLUSTER: Final = frozenset(
    {"klamm", "launcher", "proto", "cluster", "state_log", "controller", "broker_agent", "admin", "deploy"}
)
"""Packages that run wherever a test starts a cluster."""
_LAZY: Final = ("launcher/", "klamm/")
"""Imports inside the functions of these run only with the command that needs them: the test's text names it."""
_EVERYTHING: Final = frozenset({"pyproject.toml", "klamm", ".ci/run"})
_WHOLE_TREE: Final = "tests/unit/test_"
"""Tests that read every file of the repository."""
_PROCESSES: Final = re.compile(r"\bmark\.real\b|\bsubprocess\b")
_DEEP: Final = "pytest.mark.deep"
_WORD: Final = re.compile(r"\w+")


def changed_files(since: str) -> list[str]:
    """List the files, relative to the repository, that differ from a commit, and those that Git does not know yet.

    Raises:
        StartupError: there is no such commit.
    """
    tracked = _git("diff", "--name-only", "--no-renames", since, "--", problem=f"--since {since}")
    return sorted({*tracked, *_git("ls-files", "--others", "--exclude-standard", problem="--changed")})


def selected_tests(changed: Iterable[str], *, deep: bool = False) -> list[str]:
    """List the files of tests that can reach one of the changed files, which may be there no longer.

    `deep`: the tests of the deep suite count too.
    """
    changed = list(changed)
    tests = [file for file in _python_files() if _is_test(file)]
    if _EVERYTHING.intersection(changed):
        return tests
    reached = _reaching(changed)
    return [file for file in tests if file in reached or _can_break(file, changed, deep=deep)]


def _can_break(test: str, changed: list[str], *, deep: bool) -> bool:
    """Whether one of the files can break the test though no chain of imports leads there."""
    if test.startswith(_WHOLE_TREE):
        return bool(changed)
    names = _names_in(test, deep=deep)
    for file in changed:
        path = Path(file)
        package = path.parts[0]
        if path.name == "conftest.py" and test.startswith(f"{path.parent}/"):
            return True
        if path.suffix != ".py" and path.name in _text(test):
            return True
        if package == "docs" and path.suffix != ".py" and test.startswith("tests/documents/"):
            return True
        runs = package in _OF_A_CLUSTER or package in names
        if package != "tests" and path.suffix != ".md" and runs and _starts_processes(test):
            return True
    return False


def _reaching(changed: list[str]) -> set[str]:
    """The changed files and all that import them, directly or not."""
    importers = _importers()
    reached: set[str] = set()
    waiting = list(changed)
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += importers[file]
    return reached


@cache
def _importers() -> defaultdict[str, set[str]]:
    """The files that import each file."""
    files = frozenset(_python_files())
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for file in files:
        for module in _imported(file):
            path = module.replace(".", "/")
            for imported in (f"{path}.py", f"{path}/__init__.py"):
                importers[imported].add(file)
    return importers


@cache
def _imported(file: str) -> tuple[str, ...]:
    """The modules that a file imports; names imported from a package may be modules too."""
    tree = ast.parse(_text(file))
    return tuple(_modules(tree.body if file.startswith(_LAZY) else ast.walk(tree)))


def _modules(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _starts_processes(test: str) -> bool:
    return any(_starts_process(file) for file in _with_helpers(test))


@cache
def _starts_process(file: str) -> bool:
    return _PROCESSES.search(_text(file)) is not None


@cache
def _names_in(test: str, *, deep: bool) -> frozenset[str]:
    """The names in a test and in the helpers that it imports from the tests."""
    return frozenset[str]().union(*(_names_in_file(file, deep=deep) for file in _with_helpers(test)))


@cache
def _names_in_file(file: str, *, deep: bool) -> frozenset[str]:
    return frozenset(_WORD.findall(_text(file) if deep else _text_at_once(file)))


def _text_at_once(file: str) -> str:
    """The text of a file without its tests of the deep suite."""
    lines = _text(file).splitlines()
    for node in reversed(ast.parse(_text(file)).body):
        marks = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
        if any(ast.unparse(mark) == _DEEP for mark in marks):
            del lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(lines)


@cache
def _with_helpers(test: str) -> frozenset[str]:
    found: set[str] = set()
    waiting = [test]
    while waiting:
        file = waiting.pop()
        if file in found or not (ROOT / file).is_file():
            continue
        found.add(file)
        waiting += (f"{module.replace('.', '/')}.py" for module in _imported(file) if module.startswith("tests."))
    return frozenset(found)


def _is_test(file: str) -> bool:
    return file.startswith("tests/") and Path(file).name.startswith("test_")


@cache
def _python_files() -> tuple[str, ...]:
    listed = {*_git("ls-files", "*.py", problem="git"), *_git("ls-files", "--others", "--exclude-standard", "*.py")}
    return tuple(sorted(file for file in listed if (ROOT / file).is_file()))


@cache
def _text(file: str) -> str:
    return (ROOT / file).read_text("utf-8", errors="replace")


def _git(*arguments: str, problem: str = "git") -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S607 - PATH says which.
    if done.returncode != 0:
        raise StartupError(f"{problem}: {done.stderr.strip().splitlines()[0] if done.stderr else 'git failed'}")
    return done.stdout.splitlines()
