"""Which heads of other nodes' logs a node records."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from cluster.requests.control import StateLogHead
from state_log.record import Witness
from state_log.witnessed_heads import HEADS_KEPT, Recorded, heads_to_keep, why_malformed, witness_to_record

NODE, INCARNATION, DIGEST, BOOT = "broker-1", "1700000000000.7", "ab" * 32, "0f1f4c0e-8f0a"
HEAD = StateLogHead(NODE, INCARNATION, 41, DIGEST, BOOT)
LATER = replace(HEAD, seq=57)
WITNESS = Witness(NODE, INCARNATION, 41, DIGEST, BOOT)
INTERVAL_S = 10.0


def recorded(head: StateLogHead | None, last: Recorded | None = None, now_s: float = 100.0) -> Witness | None:
    return witness_to_record(NODE, head, last, now_s=now_s, interval_s=INTERVAL_S)


def test_the_first_head_of_a_node_is_recorded_at_once() -> None:
    assert recorded(HEAD) == WITNESS


def test_a_peer_that_sends_none_leaves_no_record() -> None:
    assert recorded(None) is None


@pytest.mark.parametrize(("later_s", "due"), [(0.0, False), (9.9, False), (10.0, True), (500.0, True)])
def test_a_changed_head_is_recorded_once_in_an_interval(later_s: float, due: bool) -> None:
    found = recorded(LATER, Recorded(WITNESS, 100.0), 100.0 + later_s)
    assert found == (replace(WITNESS, seq=57) if due else None)


def test_a_head_that_has_not_changed_is_not_recorded_again() -> None:
    assert recorded(HEAD, Recorded(WITNESS, 0.0), 1e9) is None


def test_a_new_incarnation_is_recorded_at_once() -> None:
    assert recorded(replace(HEAD, incarnation="1700000000001.7"), Recorded(WITNESS, 100.0), 100.1) is not None


MALFORMED: list[dict[str, Any]] = [
    {"node": "broker-2"},
    {"node": ""},
    {"node": "x" * 100_000},
    {"incarnation": ""},
    {"incarnation": "../../etc"},
    {"incarnation": "1" * 100_000},
    {"seq": -1},
    {"seq": (1 << 63) - 1},
    {"digest": ""},
    {"digest": "AB" * 32},
    {"digest": "ab" * 33},
    {"boot_id": "x" * 65},
    {"boot_id": "a\nb"},
]


@pytest.mark.rule("D-50")
@pytest.mark.parametrize("change", MALFORMED, ids=str)
def test_a_malformed_head_or_one_of_another_node_is_ignored(change: dict[str, Any]) -> None:
    assert recorded(replace(HEAD, **change)) is None


@given(st.builds(StateLogHead, st.text(), st.text(), st.integers(-(1 << 63), (1 << 63) - 1), st.text(), st.text()))
def test_no_head_raises(head: StateLogHead) -> None:
    assert recorded(head) is None


def test_every_field_of_a_head_has_a_bound() -> None:
    for name in (field.name for field in fields(StateLogHead)):
        value = -5 if name == "seq" else "\0"
        assert (why_malformed(replace(HEAD, **{name: value})) or "").startswith(f"{name}: ")
    assert why_malformed(HEAD) is None


def test_a_znode_keeps_the_heads_of_the_newest_incarnations() -> None:
    known = tuple(replace(HEAD, incarnation=f"17000000000{n:02}.7") for n in range(HEADS_KEPT + 3))
    own = replace(HEAD, incarnation="1800000000000.7")
    kept = heads_to_keep(known, own)
    assert (len(kept), kept[0]) == (HEADS_KEPT, own)
    assert list(kept) == sorted(kept, key=lambda head: head.incarnation, reverse=True)
    assert heads_to_keep(kept, replace(own, seq=99))[0].seq == 99
