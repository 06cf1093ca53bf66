"""Texts with anything in them, as they can be printed."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.printable import path_text, printable, printable_json


def test_what_is_no_visible_character_is_escaped() -> None:
    assert printable("orders-ö 0") == "orders-ö 0"
    assert printable("a\nb\x1b[2J\u202e\x9b\udcff") == r"a\nb\x1b[2J\u202e\x9b\udcff"


@given(st.text(max_size=100))
def test_any_text_is_one_printable_line(text: str) -> None:
    assert printable(text).isprintable()


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_different_names_of_files_have_different_texts(names: list[bytes]) -> None:
    paths = {os.fsdecode(name) for name in names}
    texts = {path_text(path) for path in paths}
    assert len(texts) == len(paths)
    assert all(text.encode().decode() == text and "\t" not in text for text in texts)


HOSTILE = "\x1b[2J\x7f\x9b31m\u202e\u2028\ud800é日\U0001f600 \n"


@pytest.mark.parametrize("indent", [None, 2])
def test_json_says_all_and_controls_no_terminal(indent: int | None) -> None:
    text = printable_json({"key": HOSTILE, HOSTILE: [1, None]}, indent)
    assert json.loads(text) == {"key": HOSTILE, HOSTILE: [1, None]}
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "é日\U0001f600 " in text


@given(st.text())
def test_any_text_comes_back_from_json(text: str) -> None:
    assert json.loads(printable_json(text)) == text
