"""Garbage collection is paused for a block where the program allows it, and comes back after the last of them."""

import gc
from collections.abc import Iterator

import pytest

from cluster.aio import garbage


@pytest.fixture(autouse=True)
def collection(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    monkeypatch.setattr(garbage, "_collection", garbage._Collection())
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_without_permission_nothing_is_paused() -> None:
    with garbage.paused():
        assert gc.isenabled()


def test_collections_come_back_after_the_last_of_several_blocks() -> None:
    first, second = garbage.paused(), garbage.paused()
    with garbage.pauses_allowed():
        with first:
            with second:
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled()


def test_they_come_back_after_an_error() -> None:
    with garbage.pauses_allowed(), pytest.raises(ValueError, match="why"), garbage.paused():
        raise ValueError("why")
    assert gc.isenabled()
