"""The files of Python in the repository, and what each imports: by itself, or only where a command needs it."""

import ast
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from cluster.model.errors import StartupError
from launcher.installation import ROOT

_LAZY: Final = ("launcher/", "klamm/")
"""Imports inside the functions of these run only with the command that needs them (`launcher.commands_of_tests`)."""
_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")


@cache
def python_files() -> tuple[str, ...]:
    """List the files of Python, relative to the repository, also those that Git does not know yet."""
    listed = {*git("ls-files", "*.py"), *git("ls-files", "--others", "--exclude-standard", "*.py")}
    return tuple(sorted(file for file in listed if (ROOT / file).is_file()))


@cache
def text_of(file: str) -> str:
    """Read a file of the repository."""
    return (ROOT / file).read_text("utf-8", errors="replace")


@cache
def tree_of(file: str) -> ast.Module:
    """Parse a file of the repository."""
    return ast.parse(text_of(file))


@cache
def importers() -> defaultdict[str, set[str]]:
    """Find the files that import each file."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for file in python_files():
        for module in imported(file):
            for path in paths_of(module):
                found[path].add(file)
    return found


@cache
def imported(file: str) -> tuple[str, ...]:
    """List the modules that a file imports; names imported from a package may be modules too."""
    return tuple(modules(tree_of(file).body, within=not file.startswith(_LAZY)))


def modules(statements: Iterable[ast.AST], *, within: bool, checked: bool = True) -> Iterator[str]:
    """List the modules that statements import.

    `within`: those in functions and other blocks count too; `checked`: also what only type checkers import.
    """
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif within and (checked or not _is_for_checkers(node)):
            for block in _BLOCKS:
                yield from modules(getattr(node, block, ()), within=True, checked=checked)


def _is_for_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def paths_of(module: str) -> tuple[str, str]:
    """Name the two files, relative to the repository, of which one is the module."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def imports_in(text: str) -> frozenset[str]:
    """Find the modules that a text of Python imports, whichever line it does so on."""
    return frozenset(modules(ast.parse(text).body, within=True))


def git(*arguments: str, problem: str = "git") -> list[str]:
    """Run Git in the repository, and return the lines that it prints.

    Raises:
        StartupError: it fails; the message begins with `problem`.
    """
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S607 - PATH says which.
    if done.returncode != 0:
        raise StartupError(f"{problem}: {done.stderr.strip().splitlines()[0] if done.stderr else 'git failed'}")
    return done.stdout.splitlines()


def is_file(path: str) -> bool:
    """Whether the repository has this file now."""
    return Path(ROOT / path).is_file()
