"""The mutants that measure the tests of decisions: each is one change, seen wherever the function is held."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutation.mutants import Mutant, Mutants, apply

_SOURCE = """\
from functools import lru_cache

LIMIT = 1 + 1

def larger(value: int, limit: int = 7) -> bool:
    return value > limit

class Box:
    def __init__(self, value):
        self.value = value

    @property
    def twice(self):
        def double(value):
            return value * 2
        return double(self.value)

@lru_cache
def text(box):
    return "a box of " + str(box.value)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "mutated_boxes.py").write_text(_SOURCE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mutated_boxes", raising=False)
    return import_module("mutated_boxes")


def _mutant(line: str) -> Mutant:
    (found,) = [mutant for mutant in Mutants(_SOURCE) if f"+{line}" in mutant.diff(_SOURCE).splitlines()]
    return found


def test_each_mutant_changes_one_line_of_a_function_and_none_a_module() -> None:
    found = list(Mutants(_SOURCE))
    functions = {range(5, 7), range(9, 11), range(12, 17), range(18, 21)}
    assert {mutant.lines for mutant in found} == functions
    assert all(mutant.line in mutant.lines for mutant in found)
    assert {len(mutant.diff(_SOURCE).splitlines()) for mutant in found} == {2}
    assert len({mutant.source for mutant in found}) == len(found)


def test_a_mutant_is_seen_by_those_who_hold_the_function(module: ModuleType) -> None:
    larger, text, box = module.larger, module.text, module.Box(3)
    assert (larger(7), box.twice, text(box)) == (False, 6, "a box of 3")
    apply(_mutant("    return value >= limit"), module)
    assert larger(7)
    apply(_mutant("            return value * 3"), module)
    assert box.twice == 9
    apply(_mutant('    return "A BOX OF " + str(box.value)'), module)
    text.cache_clear()
    assert text(box) == "A BOX OF 3"


def test_a_mutant_of_a_default_is_seen(module: ModuleType) -> None:
    larger = module.larger
    apply(_mutant("def larger(value: int, limit: int = 8) -> bool:"), module)
    assert not larger(8)
    assert larger(9)


def test_what_is_not_in_the_process_cannot_be_changed(module: ModuleType) -> None:
    mutant = Mutants(_SOURCE)[0]
    another = ModuleType("another")
    another.__file__ = module.__file__
    with pytest.raises(LookupError, match="no function of another is changed by a mutant of line 5"):
        apply(mutant, another)
