"""Texts with anything in them, as they can be printed."""

import os

from hypothesis import given
from hypothesis import strategies as st

from cluster.process.printable import path_text, printable


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
