"""`heads.json`: written and read back; what is wrong in one is named with its field and value."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_log.heads_file import GivenHead, HeadsError, encode_heads_file, read_heads_file

HEAD = GivenHead("broker-1", "1700000000000.7", 41, "ab" * 32, "0f1f4c0e", 1_700_000_000_500)
OTHER = GivenHead("controller-1001", "1700000000001.8", 0, "cd" * 32)


def test_heads_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "heads.json"
    path.write_bytes(encode_heads_file([HEAD, OTHER]))
    assert read_heads_file(path) == (HEAD, OTHER)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"node": "x"}, ["heads[0].node", "'x'", "must be controller-<id> or broker-<id>"]),
        ({"seq": -4}, ["heads[0].seq", "-4"]),
        ({"seq": "7"}, ["seq", "'7'"]),
        ({"seq": 1 << 70}, ["seq"]),
        ({"digest": "12"}, ["heads[0].digest", "'12'"]),
        ({"incarnation": "../x"}, ["heads[0].incarnation", "'../x'"]),
        ({"boot_id": "a b"}, ["heads[0].boot_id", "'a b'"]),
        ({"at_ms": "now"}, ["at_ms", "'now'"]),
    ],
)
def test_a_malformed_head_is_named_by_field_and_value(tmp_path: Path, change: dict[str, Any], says: list[str]) -> None:
    path = tmp_path / "heads.json"
    head = {"node": "broker-1", "incarnation": "1700000000000.7", "seq": 41, "digest": "ab" * 32} | change
    path.write_text(json.dumps({"version": 1, "heads": [head]}))
    with pytest.raises(HeadsError) as raised:
        read_heads_file(path)
    assert str(path) in str(raised.value)
    assert all(part in str(raised.value) for part in says), raised.value


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "b''"),
        (b"[]", "[]"),
        (b"{}", "heads"),
        (b'{"heads": 7}', "7"),
        (b'{"heads": [], "version": 9}', "version: 9"),
        (b'{"heads": [], "extra": 1}', "extra"),
        (b"\xff\xfe", "xff"),
        (b"[" * 100_000, "[["),
    ],
)
def test_what_is_no_file_of_heads_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "heads.json"
    path.write_bytes(content)
    with pytest.raises(HeadsError) as raised:
        read_heads_file(path)
    assert says in str(raised.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["heads", "node", "seq"]), inner),
    max_leaves=8,
)


@given(JSON | st.builds(lambda heads: {"version": 1, "heads": heads}, JSON))
def test_no_document_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, document: object) -> None:
    path = tmp_path_factory.mktemp("heads") / "heads.json"
    path.write_text(json.dumps(document))
    with contextlib.suppress(HeadsError):
        read_heads_file(path)
