"""Which files a test reaches by the commands that it runs, such as `run_klamm("audit", "verify", …)`.

A command imports what it needs when it runs: its module, and within functions. So the way begins at the function of
the command, and follows names from function to function through the modules that import lazily. From any other module
on, everything counts that it imports.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from launcher.import_graph import imported, is_file, modules, paths_of, python_files, tree_of

_LAYER: Final = (
    "launcher/",
    "klamm/",
    "admin/cli/",
    "adoption/commands.py",
    "audit/cli.py",
    "audit/commands/",
    "audit/report/report_text.py",
)
"""The modules of commands, which import lazily."""
_BEFORE: Final = frozenset({"-P", "-m", "klamm"})
"""What stands before a command where it is started as a process."""
_UNKNOWN: Final = "*"
"""Stands for an argument that is no constant: which part of a group is run is not known."""
_MODULE: Final = re.compile(r"\b[a-z_]\w*(?:\.[a-z_]\w*)+\b")
_DEEP: Final = "pytest.mark.deep"
Place = tuple[str, str | None]
"""A file and a function of it; None: the file as far as an import runs it."""


@cache
def reached_by_running(file: str, *, deep: bool) -> frozenset[str]:
    """Find the files that run because a test or a helper runs commands, or names a module in a string."""
    strings = _Strings(deep=deep)
    strings.visit(tree_of(file))
    found: frozenset[str] = frozenset()
    for command in strings.commands:
        found |= _reached_by(command)
    for text in strings.texts:
        for module in _MODULE.findall(text):
            found |= _reached_from(module)
    return found


class _Strings(ast.NodeVisitor):
    """The strings of a file: those in lists of arguments, as commands, and all, for the names of modules."""

    def __init__(self, *, deep: bool) -> None:
        self._deep = deep
        self.commands: set[tuple[str, str | None]] = set()
        self.texts: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if self._deep or not any(ast.unparse(mark) == _DEEP for mark in node.decorator_list):
            self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Expr(self, node: ast.Expr) -> None:
        # A docstring runs nothing.
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self._add_command(node.args)
        self.generic_visit(node)

    def visit_List(self, node: ast.List) -> None:
        self._add_command(node.elts)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        """Leave out a set: arguments have an order."""

    def visit_Tuple(self, node: ast.Tuple) -> None:
        if any(isinstance(each, ast.Constant) and each.value in _BEFORE for each in node.elts):
            # The beginning of commands that are written elsewhere.
            self._add_command([*node.elts, ast.Starred(node)])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.texts.append(node.value)
            if " " in node.value:
                self._add_arguments(node.value.split())

    def _add_command(self, expressions: Sequence[ast.expr]) -> None:
        arguments = [each.value if isinstance(each, ast.Constant) else _UNKNOWN for each in expressions]
        begins = next((n for n, argument in enumerate(arguments) if argument in _modules_of_commands()), len(arguments))
        self._add_arguments([argument for argument in arguments[begins:] if isinstance(argument, str)])

    def _add_arguments(self, arguments: Sequence[str]) -> None:
        arguments = [argument for argument in arguments if argument not in _BEFORE]
        if arguments and arguments[0] in _modules_of_commands():
            self.commands.add((arguments[0], arguments[1] if len(arguments) > 1 else None))


@cache
def _modules_of_commands() -> dict[str, str]:
    from launcher.__main__ import MODULES

    return {command: module for group in MODULES.values() for command, module in group.items()}


@cache
def _reached_by(command: tuple[str, str | None]) -> frozenset[str]:
    """Find what runs with a command, such as ("audit", "verify"), or with a group that only shows its help."""
    name, part = command
    module, _ = paths_of(_modules_of_commands()[name])
    layer = {module, *(path for each in imported(module) for path in paths_of(each) if path.startswith(_LAYER))}
    defined = {(file, function) for file in layer for function in _definitions(file)}
    named = {each.replace("-", "_") for each in (name, part) if each is not None}
    places = {(file, function) for file, function in defined if part == _UNKNOWN or function in named}
    return _reached(frozenset({*places, (module, None)}))


@cache
def _reached_from(module: str) -> frozenset[str]:
    """Find what runs with a module that a string names, whatever of it is called."""
    return _reached(frozenset(_whole(module)))


def _whole(module: str) -> Iterator[Place]:
    files = [path for path in paths_of(module) if is_file(path)]
    return ((file, function) for file in files for function in (None, *_definitions(file)))


@cache
def _reached(places: frozenset[Place]) -> frozenset[str]:
    done: set[Place] = set()
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        if place not in done:
            done.add(place)
            waiting += _next(place)
    return frozenset(file for file, _ in done)


@cache
def _next(place: Place) -> frozenset[Place]:
    """Find where the way leads from a place."""
    file, function = place
    at_import = tree_of(file).body
    if not file.startswith(_LAYER):
        return frozenset(_places(modules(at_import, within=True, checked=False)))
    if function is None:
        return frozenset(_places(modules(at_import, within=False)))
    node = _definitions(file)[function]
    used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    found: set[Place] = {(file, None)}
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and _MODULE.fullmatch(each.value):
            # A process that is started with `-m`.
            found.update(_whole(each.value))
    found |= {(file, name) for name in used & _definitions(file).keys()}
    own = frozenset(modules([node], within=True))
    found.update(_places(own))
    for module in {*own, *modules(at_import, within=False)}:
        owner, _, name = module.rpartition(".")
        if name in used or module in own:
            found |= {(path, name) for path in paths_of(owner) if name in _definitions(path)}
    return frozenset(found)


def _places(imports: Iterable[str]) -> Iterator[Place]:
    known = frozenset(python_files())
    return ((path, None) for module in imports for path in paths_of(module) if path in known)


@cache
def _definitions(file: str) -> dict[str, ast.AST]:
    """Find what a module of the layer defines by name: functions, classes, and values such as options."""
    if not file.startswith(_LAYER) or not is_file(file):
        return {}
    found: dict[str, ast.AST] = {}
    for node in tree_of(file).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = node
            case _:
                pass
    return found
