"""What the soak's producer of a compacted topic finds wrong in what was read."""

from typing import Final, cast

import pytest

from admin.consuming.record_batches import Record
from admin.consuming.record_history import Acknowledged, HistoryRule, RecordId
from admin.describing.topology import Topology
from tests.chaos.keyed import KEYS, KeyedLoad, is_tombstone, key_of
from tests.chaos.producers import PARTITIONS, Acknowledgements, value_of

KEY: Final = next(k for k in range(KEYS) if not any(map(is_tombstone, (k, k + KEYS, k + 2 * KEYS))))
DELETED: Final = next(k for k in range(KEYS) if is_tombstone(k + 2 * KEYS))
LAST: Final = {KEY: KEY + 2 * KEYS, DELETED: DELETED + 2 * KEYS}


def load(acks: Acknowledgements) -> KeyedLoad:
    """One that has sent each key three times; the topology is not asked for anything."""
    loaded = KeyedLoad("keyed", "states", cast(Topology, None), acks)
    acks.sent["keyed"] = 3 * KEYS
    return loaded


def record(number: int, offset: int = 0) -> Record:
    value = None if is_tombstone(number) else value_of(RecordId("keyed", number))
    return Record(offset, 0, key_of(number), value)


def wrong(records: list[Record], known: dict[int, int]) -> list[str]:
    return load(Acknowledgements()).wrong_values({0: records}, known)


def test_the_last_value_of_a_key_and_a_tombstone_or_nothing_are_right() -> None:
    assert not wrong([record(KEY), record(LAST[KEY], 1), record(DELETED, 2), record(LAST[DELETED], 3)], LAST)
    assert not wrong([record(LAST[KEY])], LAST)


@pytest.mark.parametrize(
    ("records", "key"),
    [
        ([record(LAST[KEY]), record(DELETED, 1)], DELETED),
        ([record(LAST[KEY]), record(KEY, 1)], KEY),
        ([record(KEY + KEYS)], KEY),
        ([], KEY),
        ([record(LAST[KEY] + KEYS)], KEY),
    ],
    ids=["back though deleted", "an older one after it", "an older one", "gone", "never sent"],
)
def test_another_value_is_wrong(records: list[Record], key: int) -> None:
    [found] = wrong(records, LAST)
    assert found.startswith(f"{key_of(key).decode()} is ")


def test_while_it_sends_whatever_was_sent_after_the_acknowledged_record_is_right() -> None:
    for number in (KEY, KEY + KEYS, LAST[KEY]):
        assert not wrong([record(number)], {KEY: KEY})
    assert not wrong([], {DELETED: DELETED})


def test_a_record_that_is_lost_twice_there_or_elsewhere_is_an_anomaly() -> None:
    acks, partition = Acknowledgements(), KEY % PARTITIONS
    loaded = load(acks)
    last = RecordId("keyed", LAST[KEY])
    acks.records += [
        Acknowledged(RecordId("keyed", KEY), partition, 3),
        Acknowledged(last, partition, 900),
    ]

    def rules(*records: Record) -> list[HistoryRule]:
        return [found.rule for found in loaded.anomalies({partition: records})]

    assert rules(record(LAST[KEY], 900)) == []
    assert rules(record(KEY, 3), record(LAST[KEY], 900)) == []
    assert rules() == [HistoryRule.LOST]
    assert rules(record(LAST[KEY], 901)) == [HistoryRule.MOVED]
    assert rules(record(KEY, 5), record(LAST[KEY], 900)) == [HistoryRule.MOVED]
    assert rules(record(LAST[KEY], 900), record(LAST[KEY], 901))[-1] == HistoryRule.DUPLICATED
