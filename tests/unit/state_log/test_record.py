import json

import pytest

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from simulator.memory_state_log import MemoryStateChangeLog
from state_log.causes import utc_text
from state_log.record import (
    CHAIN_START,
    Boot,
    Cause,
    Kind,
    LoadedPartition,
    LoggedStateChange,
    MalformedLine,
    Stamper,
    StateChange,
    by_partition,
    decode_line,
    line_digest,
)


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


ELECTED = StateChange(
    kind=Kind.PARTITION,
    cause=Cause("BrokerChange", 7),
    controller_epoch=ControllerEpoch(3),
    topic="orders",
    partition=0,
    from_state="OfflinePartition",
    to_state="OnlinePartition",
    leader=BrokerId(2),
    leader_epoch=LeaderEpoch(1),
    partition_epoch=PartitionEpoch(4),
    isr=(BrokerId(2), BrokerId(3)),
    replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
)
WENT = StateChange(kind=Kind.BROKER, broker=1, to_state="dead")


def test_a_line_holds_the_stamp_and_only_the_fields_that_mean_something() -> None:
    line = Stamper("controller-1001", "1700000000000.42").stamp([ELECTED], 1_700_000_000_123)[0]
    assert json.loads(line) == {
        "v": 2,
        "seq": 0,
        "prev": CHAIN_START,
        "node": "controller-1001",
        "incarnation": "1700000000000.42",
        "at_ms": 1_700_000_000_123,
        "kind": "partition",
        "cause": {"event": "BrokerChange", "id": 7},
        "controller_epoch": 3,
        "topic": "orders",
        "partition": 0,
        "from_state": "OfflinePartition",
        "to_state": "OnlinePartition",
        "leader": 2,
        "leader_epoch": 1,
        "partition_epoch": 4,
        "isr": [2, 3],
        "replicas": [1, 2, 3],
    }


def test_numbers_and_chain_run_on_over_calls() -> None:
    stamper = Stamper("n", "1700000000000.1")
    lines = stamper.stamp([WENT, ELECTED], 1) + stamper.stamp([], 2) + stamper.stamp([WENT], 3)
    records = [json.loads(line) for line in lines]
    assert [r["seq"] for r in records] == [0, 1, 2]
    assert [r["prev"] for r in records] == [CHAIN_START, line_digest(lines[0]), line_digest(lines[1])]


def test_the_first_line_of_an_incarnation_names_the_boot_and_its_time() -> None:
    times = iter((86_400_123,))
    stamper = Stamper("n", "1700000000000.1", lambda: Boot(next(times), "0f1f4c0e"))
    lines = stamper.stamp([], 1) + stamper.stamp([WENT, ELECTED], 2) + stamper.stamp([WENT], 3)
    records = [decode_line(line) for line in lines]
    assert all(isinstance(record, LoggedStateChange) for record in records)
    assert [(r.boot_id, r.mono_ms) for r in records if isinstance(r, LoggedStateChange)] == [
        ("0f1f4c0e", 86_400_123),
        (None, None),
        (None, None),
    ]
    assert b"boot_id" not in Stamper("n", "1700000000000.1", lambda: Boot(1)).stamp([WENT], 1)[0]


def test_the_memory_log_stamps_as_the_files_do() -> None:
    log = MemoryStateChangeLog("broker-1", "1700000000000.1", FixedClock())
    log.append([ELECTED])
    assert log.lines == Stamper("broker-1", "1700000000000.1").stamp([ELECTED], FixedClock().now_ms())
    record = log.records()[0]
    assert (record.node, record.seq, record.leader, record.isr) == ("broker-1", 0, 2, (2, 3))
    assert record.reference == "broker-1/1700000000000.1/0"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b'{"kind":"partition"}',
        b'{"v":3,"seq":0,"node":"n","incarnation":"i","at_ms":1,"kind":"broker"}',
        b'{"v":1,"seq":0,"node":"n","incarnation":"i","at_ms":1,"kind":"never heard of"}',
        b'{"v":1,"seq":"0","node":"n","incarnation":"i","at_ms":1,"kind":"broker"}',
        b"\xff\xfe",
        b'{"v":1,"seq":0,"node":"n","incarnation":"i","at_ms":1,"kind":"broker","colour":"\xff"}',
    ],
)
def test_what_is_no_record_of_our_version_is_distinguished_with_a_reason(line: bytes) -> None:
    decoded = decode_line(line)
    assert isinstance(decoded, MalformedLine)
    assert decoded.line == line
    assert decoded.why


def test_fields_of_a_later_writer_are_ignored() -> None:
    line = b'{"v":1,"seq":0,"node":"n","incarnation":"i","at_ms":1,"kind":"broker","colour":"blue"}'
    assert isinstance(decode_line(line), LoggedStateChange)


def test_a_loaded_record_speaks_of_each_of_its_partitions_as_any_other_record_would() -> None:
    one, two = BrokerId(1), BrokerId(2)
    led = LoadedPartition(0, one, LeaderEpoch(5), PartitionEpoch(9), (one,), (one, two), ControllerEpoch(2))
    blank = LoadedPartition(1, BrokerId(-1), LeaderEpoch(-1), PartitionEpoch(-1), (), (two,), ControllerEpoch(0))
    log = MemoryStateChangeLog("controller-1001", "1700000000000.1", FixedClock())
    log.append([StateChange(kind=Kind.LOADED, topic="t", controller_epoch=ControllerEpoch(3), partitions=(led, blank))])
    (tp0, first), (tp1, second) = by_partition(log.records()[0])
    assert [str(tp0), str(tp1)] == ["t-0", "t-1"]
    assert (first.leader, first.leader_epoch, first.partition_epoch, first.isr) == (1, 5, 9, (1,))
    assert (second.leader, second.isr, second.replicas) == (None, None, (2,))


@pytest.mark.parametrize(
    "field",
    [
        '"x":' + "[" * 100_000,
        f'"leader_epoch":{2**64}',
        f'"seq":{10**40}',
        f'"isr":[1,{2**63}]',
    ],
    ids=["nested", "epoch", "seq", "isr"],
)
def test_a_line_that_nobody_can_keep_is_malformed(field: str) -> None:
    line = '{"v":2,"seq":0,"prev":"","node":"n","incarnation":"i","at_ms":1,"kind":"isr",' + field + "}"
    assert isinstance(decode_line(line.encode()), MalformedLine)


def test_why_a_line_is_malformed_is_shorter_than_the_line() -> None:
    malformed = decode_line(b'{"kind":"%b"}' % (b"a" * 100_000))
    assert isinstance(malformed, MalformedLine)
    assert len(malformed.why) < 300


def test_a_time_that_no_calendar_has_is_shown_as_it_is() -> None:
    assert utc_text(0) == "1970-01-01 00:00:00.000"
    assert utc_text(10**18) == f"{10**18} ms"
    assert utc_text(-(10**18)) == f"{-(10**18)} ms"
