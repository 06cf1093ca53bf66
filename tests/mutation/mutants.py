"""Mutants of modules: mutmut's operators, one change at a time, put into the functions of this process."""

import difflib
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode


@dataclass(frozen=True)
class Mutant:
    """One change inside of one function: `line` and `lines`, of the change and of the function, count from 1."""

    line: int
    lines: range
    source: str

    def diff(self, before: str) -> str:
        """Show what is changed, without context."""
        lines = difflib.unified_diff(before.splitlines(), self.source.splitlines(), lineterm="", n=0)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


class _Visitor(MutationVisitor):
    """Finds the changes that mutmut makes, and those of decorated functions, which it has to leave as they are."""

    def __init__(self) -> None:
        super().__init__(mutation_operators, IgnoredCode(set(), set(), set()))

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        return not isinstance(node, cst.FunctionDef) and super()._skip_node_and_children(node)


class Mutants:
    """All mutants of one source, in a fixed order; each is made when it is asked for.

    What stands outside of functions has none: it runs once, when it is imported.
    """

    def __init__(self, source: str) -> None:
        visitor = _Visitor()
        wrapper = MetadataWrapper(cst.parse_module(source))
        self._module = wrapper.visit(visitor)
        self._places = wrapper.resolve(PositionProvider)
        self._found = [m for m in visitor.mutations if isinstance(m.contained_by_top_level_function, cst.FunctionDef)]

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, number: int) -> Mutant:
        mutation = self._found[number]
        function = mutation.contained_by_top_level_function
        assert function is not None
        first, last = self._places[(*function.decorators, function)[0]].start.line, self._places[function].end.line
        place = self._places.get(mutation.original_node)
        changed: Any = self._module.deep_replace(mutation.original_node, mutation.mutated_node)
        return Mutant(place.start.line if place else first, range(first, last + 1), changed.code)


def apply(mutant: Mutant, module: ModuleType) -> None:
    """Change the function in every place that holds it: names that other modules imported, tables, caches, partials.

    Raises:
        LookupError: no function of this process is changed.
    """
    codes = {code.co_qualname: code for code in _codes(compile(mutant.source, str(module.__file__), "exec"))}
    changed = False
    for function in _functions(vars(module)):
        code = codes.get(function.__code__.co_qualname, function.__code__)
        if code != function.__code__ and code.co_freevars == function.__code__.co_freevars:
            function.__code__ = code
            changed = True
    if not changed and not _change_defaults(mutant, module):
        raise LookupError(f"no function of {module.__name__} is changed by a mutant of line {mutant.line}")


def _change_defaults(mutant: Mutant, module: ModuleType) -> bool:
    """Run the mutated module for the defaults of the function, which are no part of its code."""
    namespace = {"__name__": module.__name__, "__file__": module.__file__}
    exec(compile(mutant.source, "mutant", "exec"), namespace)
    defaults = {each.__code__.co_qualname: (each.__defaults__, each.__kwdefaults__) for each in _functions(namespace)}
    changed = [each for each in _functions(vars(module)) if each.__code__.co_firstlineno in mutant.lines]
    for each in changed:
        each.__defaults__, each.__kwdefaults__ = defaults[each.__code__.co_qualname]
    return bool(changed)


def _functions(namespace: dict[str, Any]) -> list[FunctionType]:
    return [each for each in gc.get_objects() if type(each) is FunctionType and each.__globals__ is namespace]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
