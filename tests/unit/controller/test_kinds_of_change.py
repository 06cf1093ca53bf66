"""No kind of change is without a part of the context that takes it, or without its records."""

import runpy
from typing import get_args

import pytest
from msgspec import Struct

from controller import changes, state_change_records
from controller.context import controller_context


class TopicsRenamed(Struct, frozen=True):
    """A kind of change that somebody adds."""

    topics: tuple[str, ...]


def test_a_kind_that_is_added_without_its_records_is_refused_on_import(monkeypatch: pytest.MonkeyPatch) -> None:
    runpy.run_path(state_change_records.__file__)
    monkeypatch.setattr(changes, "Change", changes.Change | TopicsRenamed)
    with pytest.raises(AssertionError, match="TopicsRenamed"):
        runpy.run_path(state_change_records.__file__)


def test_records_of_a_kind_that_is_no_change_any_more_are_refused_on_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "Change", changes.DeletionsChange)
    with pytest.raises(AssertionError, match="LeadersElected"):
        runpy.run_path(state_change_records.__file__)


def test_each_kind_changes_the_context_or_is_only_recorded() -> None:
    untaken = {kind for kind, parts in controller_context._TAKERS.items() if not parts}
    assert untaken == set(get_args(changes.RecordedOnly))
