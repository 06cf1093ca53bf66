"""The checker of the demonstrations and the chaos suites finds each kind of fault in a history."""

from random import Random

import pytest

from admin.consuming.record_history import Acknowledged, Anomaly, HistoryRule, RecordId, Senders, Stored, check
from cluster.model.broker import UNKNOWN_OFFSET

PLAIN, NUMBERED = "plain", "numbered"
PRODUCERS = Senders({PLAIN: 100, NUMBERED: 100}, frozenset({NUMBERED}))


class History:
    """Two partitions that two producers wrote to, without a fault; tests then inject one into partition 0."""

    def __init__(self) -> None:
        self.acks: list[Acknowledged] = []
        self.stored: dict[int, list[Stored]] = {0: [], 1: []}
        for number in range(10):
            for producer in (PLAIN, NUMBERED):
                self.store(RecordId(producer, number), number % 2)

    def store(self, id_: RecordId, partition: int, *, acknowledge: bool = True, resent: bool = False) -> None:
        offset = len(self.stored[partition])
        self.stored[partition].append(Stored(offset, id_))
        if acknowledge:
            self.acks.append(Acknowledged(id_, partition, offset, resent))

    def replace(self, offset: int, id_: RecordId | None) -> None:
        self.stored[0][offset] = Stored(offset, id_)

    def violations(self) -> list[Anomaly]:
        return check(self.acks, self.stored, PRODUCERS)

    def rules(self) -> set[HistoryRule]:
        return {violation.rule for violation in self.violations()}


def test_a_sound_history_has_no_violation() -> None:
    assert History().violations() == []


def test_the_order_in_which_acknowledgements_arrive_does_not_matter() -> None:
    history = History()
    Random(1).shuffle(history.acks)
    assert history.violations() == []


def test_a_record_without_acknowledgement_may_be_stored_or_not() -> None:
    history = History()
    history.store(RecordId(NUMBERED, 10), 0, acknowledge=False)
    history.store(RecordId(NUMBERED, 12), 0)
    assert history.violations() == []


def test_an_acknowledged_record_at_the_end_is_lost() -> None:
    history = History()
    history.stored[0].pop()
    assert [str(v) for v in history.violations()] == [
        "lost in partition 0: numbered:8 was acknowledged at offset 9, where nothing is"
    ]


def test_an_acknowledged_record_under_another_is_lost() -> None:
    history = History()
    history.replace(3, RecordId(NUMBERED, 50))
    assert HistoryRule.LOST in history.rules()


def test_a_whole_partition_is_lost() -> None:
    history = History()
    del history.stored[0]
    assert [v.rule for v in history.violations()] == [HistoryRule.LOST] * 10


def test_a_moved_record_is_found() -> None:
    history = History()
    first, second = history.stored[0][8:10]
    history.stored[0][8:10] = [Stored(8, second.id), Stored(9, first.id)]
    assert [str(v) for v in history.violations()] == [
        "moved in partition 0: plain:8 was acknowledged at offset 8, where numbered:8 is; it is at 9",
        "moved in partition 0: numbered:8 was acknowledged at offset 9, where plain:8 is; it is at 8",
    ]


def test_two_records_acknowledged_at_one_offset_are_found() -> None:
    history = History()
    history.acks.append(Acknowledged(RecordId(PLAIN, 60), 0, 2))
    assert {HistoryRule.OVERWRITTEN, HistoryRule.LOST} <= history.rules()


def test_an_acknowledgement_that_came_twice_is_none() -> None:
    history = History()
    history.acks.append(history.acks[0])
    assert HistoryRule.OVERWRITTEN not in history.rules()


def test_a_duplicate_of_an_idempotent_producer_is_found_even_unacknowledged() -> None:
    history = History()
    history.store(RecordId(NUMBERED, 20), 0, acknowledge=False)
    history.store(RecordId(NUMBERED, 20), 0, acknowledge=False)
    assert history.rules() == {HistoryRule.DUPLICATED}


@pytest.mark.parametrize(("resent", "found"), [(False, {HistoryRule.DUPLICATED}), (True, set())])
def test_without_a_producer_id_only_what_was_sent_again_may_be_stored_twice(
    resent: bool, found: set[HistoryRule]
) -> None:
    history = History()
    history.store(RecordId(PLAIN, 20), 0, acknowledge=False)
    history.store(RecordId(PLAIN, 20), 0, resent=resent)
    assert history.rules() == found


def test_acknowledged_records_out_of_order_are_found() -> None:
    history = History()
    history.store(RecordId(PLAIN, 31), 0)
    history.store(RecordId(PLAIN, 30), 0)
    assert [str(v) for v in history.violations()] == [
        "reordered in partition 0: plain:31 was acknowledged at offset 10, plain:30 before it at 11"
    ]


def test_unacknowledged_records_of_an_idempotent_producer_are_in_order_too() -> None:
    history = History()
    history.store(RecordId(NUMBERED, 31), 0, acknowledge=False)
    history.store(RecordId(NUMBERED, 30), 0, acknowledge=False)
    assert [str(v) for v in history.violations()] == [
        "reordered in partition 0: numbered:30 at offset 11 follows numbered:31"
    ]


@pytest.mark.parametrize("id_", [None, RecordId(PLAIN, 100), RecordId("somebody", 0)])
def test_a_record_that_nobody_sent_is_found(id_: RecordId | None) -> None:
    history = History()
    history.stored[0].append(Stored(10, id_))
    assert history.rules() == {HistoryRule.FOREIGN}


def test_a_gap_in_the_offsets_is_found() -> None:
    history = History()
    history.stored[0].append(Stored(11, RecordId(PLAIN, 40)))
    assert [str(v) for v in history.violations()] == ["gap in partition 0: offset 11 follows 9"]


def test_records_before_the_first_one_read_are_missed() -> None:
    history = History()
    del history.stored[0][0]
    assert {HistoryRule.GAP, HistoryRule.LOST} <= history.rules()


@pytest.mark.parametrize("seed", range(20))
def test_any_single_record_taken_from_any_place_is_missed(seed: int) -> None:
    random, history = Random(seed), History()
    del history.stored[partition := random.randrange(2)][random.randrange(len(history.stored[partition]))]
    assert HistoryRule.LOST in history.rules()


def test_a_record_whose_offset_the_leader_no_longer_knew_may_be_anywhere_but_is_not_lost() -> None:
    history = History()
    history.acks = [ack._replace(offset=UNKNOWN_OFFSET) for ack in history.acks]
    assert history.violations() == []
    history.stored[0].pop()
    assert history.rules() == {HistoryRule.LOST}


@pytest.mark.parametrize("value", [None, b"", b"a", b"a b x", b"a 1 y", b"a 1x"])
def test_the_value_of_another_record_has_no_id(value: bytes | None) -> None:
    id_ = RecordId("a", 1)
    assert RecordId.of(id_.value(b"x"), b"x") == id_
    assert RecordId.of(value, b"x") is None
