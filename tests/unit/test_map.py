"""The map from Kafka's classes to modules is true: its table is that of the docstrings, and its functions are there."""

import ast
import re
from pathlib import Path

import pytest

from docs import make_map

ROOT = Path(__file__).resolve().parents[2]
_PLACE = re.compile(r"`([\w/]+\.py)`: `(\w+)`")


def places() -> list[tuple[str, str]]:
    return sorted(set(_PLACE.findall(make_map.PAGE.read_text("utf-8"))))


def test_the_table_is_that_of_the_docstrings() -> None:
    page = make_map.PAGE.read_text("utf-8")
    assert page == make_map.with_table(page), "run docs/make_map.py"


@pytest.mark.parametrize(("file", "name"), places())
def test_a_step_names_what_its_file_has(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, definitions)}
    constants = (t for node in tree.body if isinstance(node, ast.AnnAssign) for t in [node.target])
    assert name in defined | {target.id for target in constants if isinstance(target, ast.Name)}
