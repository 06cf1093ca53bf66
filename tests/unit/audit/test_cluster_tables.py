"""Tables of controllers, brokers, topics and logs: what they say, however the logs are read."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.batches.batch import check_rows, commit_batch
from audit.reading.log_files import Range
from audit.reading.source import read_ranges
from audit.storage.commits import BUCKETS, Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import VERSION
from audit.storage.table_schemas import (
    FAILOVERS_TABLE,
    LEDGERS_TABLE,
    REASSIGNMENTS_TABLE,
    SESSIONS_TABLE,
    TABLES,
    TERMS_TABLE,
    TOPICS_TABLE,
)
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from state_log.record import Boot, Cause, Kind, LoadedPartition, Stamper, StateChange
from state_log.writer import SegmentName
from tests.examples import examples

Step = tuple[str, str, StateChange]
"""Node, incarnation, record."""
Event = tuple[int, int, int]
"""Controller, controller epoch, number."""


class Logs:
    """Records of some nodes in the order in which they were written, a second apart."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def controller(self, id_: int, epoch: int, kind: Kind, to_state: str | None = None, **fields: Any) -> None:
        fields = {"cause": Cause("Test"), **fields}
        change = StateChange(kind=kind, controller_epoch=ControllerEpoch(epoch), to_state=to_state, **fields)
        self.steps.append((f"controller-{id_}", f"170000000{epoch:04d}.1", change))

    def broker(self, id_: int, to_state: str, broker_epoch: int | None) -> None:
        change = StateChange(
            kind=Kind.REGISTRATION,
            broker=id_,
            to_state=to_state,
            broker_epoch=None if broker_epoch is None else BrokerEpoch(broker_epoch),
        )
        self.steps.append((f"broker-{id_}", "1700000000000.7", change))

    def elected(self, by: Event, partition: int, leader: int, leader_epoch: int) -> None:
        """A partition that had no leader has one."""
        id_, epoch, event = by
        self.controller(
            id_,
            epoch,
            Kind.PARTITION,
            "OnlinePartition",
            from_state="OfflinePartition",
            cause=Cause("BrokerChange", event),
            **state(partition, leader, leader_epoch),
        )

    def offline(self, id_: int, epoch: int, event: int, partition: int) -> None:
        self.controller(
            id_,
            epoch,
            Kind.PARTITION,
            "OfflinePartition",
            from_state="OnlinePartition",
            cause=Cause("BrokerChange", event),
            topic="t",
            topic_id=TopicId("T"),
            partition=partition,
        )

    def leads(self, partition: int, leader: int, leader_epoch: int, event: int = 0) -> None:
        change = StateChange(
            kind=Kind.ROLE,
            to_state="leader",
            broker=leader,
            cause=Cause("BrokerChange", event),
            **state(partition, leader, leader_epoch),
        )
        self.steps.append((f"broker-{leader}", "1700000000000.7", change))

    def write(self, folder: Path) -> dict[Path, list[int]]:
        """The lines of each file, as the offsets of their ends."""
        stampers: dict[tuple[str, str], Stamper] = {}
        ends: dict[Path, list[int]] = {}
        folder.mkdir()
        for number, (node, incarnation, change) in enumerate(self.steps):
            stamper = stampers.setdefault((node, incarnation), Stamper(node, incarnation, lambda: Boot(1, "boot")))
            (line,) = stamper.stamp([change], 1_700_000_000_000 + 1000 * number)
            path = folder / str(SegmentName(node, incarnation, 0))
            with path.open("ab") as file:
                file.write(line + b"\n")
                ends.setdefault(path, [0]).append(file.tell())
        return ends


def state(partition: int, leader: int, leader_epoch: int) -> dict[str, Any]:
    return {
        "topic": "t",
        "topic_id": TopicId("T"),
        "partition": partition,
        "leader": BrokerId(leader),
        "leader_epoch": LeaderEpoch(leader_epoch),
        "partition_epoch": PartitionEpoch(leader_epoch),
        "isr": (BrokerId(leader),),
    }


def audit(ranges: Sequence[Sequence[Range]], output: Path) -> OutputFolder:
    """One batch after the other."""
    folder = OutputFolder(output)
    for part in ranges:
        rows = [row for batch in read_ranges(part, BUCKETS) for row in batch.to_pylist()]
        before = folder.last_commit() or Commit(VERSION, -1, "", {})
        commit_batch(folder, before, list(check_rows(folder, before, rows)))
    return folder


def tables(folder: OutputFolder) -> dict[str, list[dict[str, Any]]]:
    return {name: folder.current_rows(name) for name, table in TABLES.items() if table.is_revised}


def read_whole(logs: Logs, tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    files = logs.write(tmp_path / "logs")
    return tables(audit([[Range(path.stem, path, 0, ends[-1]) for path, ends in files.items()]], tmp_path / "output"))


def split(files: dict[Path, list[int]], random: Random) -> list[list[Range]]:
    """Ranges of whole lines; those of one file in order, files in any order."""
    waiting = {
        path: list(pairwise([0, *sorted(random.sample(ends[1:-1], min(len(ends) - 2, random.randrange(3)))), ends[-1]]))
        for path, ends in files.items()
    }
    batches: list[list[Range]] = []
    while waiting:
        chosen = random.sample(sorted(waiting), random.randint(1, len(waiting)))
        batches.append([Range(path.stem, path, *waiting[path].pop(0)) for path in chosen])
        waiting = {path: parts for path, parts in waiting.items() if parts}
    return batches


def drawn(seed: int) -> Logs:
    """Controllers that see brokers come and go and topics made and deleted, each with what precedes it."""
    random, logs = Random(seed), Logs()
    epochs = {broker: (broker if random.random() < 0.8 else None) for broker in (1, 2, 3)}
    for epoch in range(1, random.randrange(2, 5)):
        id_ = random.choice([1001, 1002])
        logs.controller(id_, epoch, Kind.CONTROLLER, "active", broker=id_)
        loaded = tuple(
            LoadedPartition(p, BrokerId(1), LeaderEpoch(0), PartitionEpoch(0), (BrokerId(1),), (BrokerId(1),),
                            ControllerEpoch(epoch))
            for p in range(random.randrange(1, 4))
        )  # fmt: skip
        logs.controller(id_, epoch, Kind.LOADED, topic="t", topic_id=TopicId("T"), partitions=loaded)
        for _ in range(random.randrange(8)):
            broker = random.choice([1, 2, 3])
            known = epochs[broker]
            match random.randrange(9):
                case 0:
                    epochs[broker] = known = None if known is None else known + 10
                    logs.broker(broker, "registered", known)
                case 1 | 2:
                    state = random.choice(["live", "bounced", "changed", "shutting_down"])
                    logs.controller(id_, epoch, Kind.BROKER, state, broker=broker, broker_epoch=known)
                case 3:
                    logs.controller(id_, epoch, Kind.BROKER, "dead", broker=broker)
                case 4:
                    logs.broker(broker, "expired", known)
                case 5:
                    _fail(logs, random, id_, epoch)
                case 6 | 7:
                    logs.controller(
                        id_,
                        epoch,
                        Kind.ASSIGNMENT,
                        random.choice(["started", "completed", "cancelled"]),
                        topic="t",
                        partition=random.randrange(2),
                        replicas=(1, 2, 3),
                        adding_replicas=(3,),
                        removing_replicas=(1,),
                    )
                case _:
                    step = random.choice([(Kind.TOPIC, "created"), (Kind.TOPIC, "deleted"), (Kind.DELETION, "started")])
                    logs.controller(id_, epoch, step[0], step[1], topic=random.choice(["a", "b"]))
        if random.random() < 0.5:
            logs.controller(id_, epoch, Kind.CONTROLLER, "resigned", broker=id_)
    return logs


def _fail(logs: Logs, random: Random, id_: int, epoch: int) -> None:
    """A broker dies, and some of the partitions without a leader get one."""
    event = len(logs.steps)
    logs.controller(id_, epoch, Kind.BROKER, "dead", broker=1, cause=Cause("BrokerChange", event))
    for partition in range(random.randrange(4)):
        logs.offline(id_, epoch, event, partition)
        if random.random() < 0.8:
            leader, leader_epoch = random.choice([2, 3]), len(logs.steps)
            logs.elected((id_, epoch, event), partition, leader, leader_epoch)
            if random.random() < 0.8:
                # The cause of a role may be a later event whose request took the earlier one along.
                logs.leads(partition, leader, leader_epoch, event + random.randrange(2))


@examples(8, deep=20)
@given(seed=st.integers(0, 2**32))
def test_tables_do_not_depend_on_batches_or_the_order_in_which_logs_arrive(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, random = tmp_path_factory.mktemp("logs"), Random(seed)
    files = drawn(seed).write(folder / "logs")
    whole = audit([[Range(path.stem, path, 0, ends[-1]) for path, ends in files.items()]], folder / "whole")
    parts = audit(split(files, random), folder / "parts")
    assert tables(parts) == tables(whole)
    assert any(tables(whole).values())


def rows(logs: Logs, tmp_path: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    found = read_whole(logs, tmp_path)[table]
    return [
        tuple((row[c] - 1_700_000_000_000) // 1000 if c.endswith("_ms") and row[c] else row[c] for c in columns)
        for row in found
    ]


def test_a_term_ends_when_the_controller_resigns_or_another_one_becomes_active(tmp_path: Path) -> None:
    logs = Logs()
    logs.controller(1001, 4, Kind.CONTROLLER, "active", broker=1001)  # 0
    logs.controller(1001, 4, Kind.BROKER, "live", broker=1)  # 1
    logs.controller(1002, 6, Kind.CONTROLLER, "active", broker=1002)  # 2
    loaded = LoadedPartition(
        0, BrokerId(1), LeaderEpoch(0), PartitionEpoch(0), (BrokerId(1),), (BrokerId(1),), ControllerEpoch(4)
    )
    logs.controller(1002, 6, Kind.LOADED, topic="t", partitions=(loaded,))  # 3
    state = {"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 1, "partition_epoch": 1, "isr": (1,)}
    logs.controller(1002, 6, Kind.ISR, **state)  # 4
    logs.controller(1002, 6, Kind.CONTROLLER, "resigned", broker=1002)  # 5
    logs.controller(1001, 7, Kind.CONTROLLER, "active", broker=1001)  # 6
    columns = ("controller_epoch", "controller", "from_ms", "until_ms", "ended", "previous_last_ms", "loaded_ms")
    assert rows(logs, tmp_path, TERMS_TABLE, *columns, "first_write_ms", "records") == [
        (4, 1001, 0, 2, "replaced", None, None, None, 2),
        (6, 1002, 2, 5, "resigned", 1, 3, 4, 4),
        (7, 1001, 6, None, None, 5, None, None, 1),
    ]


def test_a_session_ends_by_death_shutdown_bounce_or_a_successor(tmp_path: Path) -> None:
    logs = Logs()
    logs.broker(1, "registered", 11)  # 0
    logs.controller(1001, 1, Kind.BROKER, "live", broker=1, broker_epoch=11)  # 1
    logs.controller(1001, 1, Kind.BROKER, "dead", broker=1)  # 2
    logs.controller(1001, 1, Kind.BROKER, "live", broker=1, broker_epoch=12)  # 3
    logs.controller(1001, 1, Kind.BROKER, "bounced", broker=1, broker_epoch=13)  # 4
    logs.controller(1001, 1, Kind.BROKER, "shutting_down", broker=1, broker_epoch=13)  # 5
    logs.controller(1001, 1, Kind.BROKER, "dead", broker=1)  # 6
    logs.controller(1001, 1, Kind.BROKER, "live", broker=1, broker_epoch=14)  # 7
    logs.controller(1002, 2, Kind.BROKER, "live", broker=1, broker_epoch=14)  # 8
    logs.controller(1002, 2, Kind.BROKER, "live", broker=1, broker_epoch=15)  # 9
    logs.broker(1, "expired", 15)  # 10
    columns = ("broker_epoch", "from_ms", "seen_ms", "until_ms", "ended")
    assert rows(logs, tmp_path, SESSIONS_TABLE, *columns) == [
        (11, 0, 1, 2, "died"),
        (12, 3, 3, 4, "bounced"),
        (13, 4, 4, 6, "shut down"),
        (14, 7, 7, 9, "replaced"),
        (15, 9, 9, 10, "expired"),
    ]


def test_a_broker_that_no_controller_saw_come_dies_all_the_same(tmp_path: Path) -> None:
    """A controller that becomes active loads who is live, and does not record it."""
    logs = Logs()
    logs.broker(1, "registered", 11)
    logs.broker(1, "registered", 12)
    logs.controller(1001, 1, Kind.BROKER, "dead", broker=1)
    logs.controller(1001, 1, Kind.BROKER, "dead", broker=2)
    columns = ("broker", "broker_epoch", "from_ms", "seen_ms", "until_ms", "ended")
    assert rows(logs, tmp_path, SESSIONS_TABLE, *columns) == [
        (1, 11, 0, None, 1, "replaced"),
        (1, 12, 1, None, 2, "died"),
        (2, None, None, None, 3, "died"),
    ]


def test_sessions_without_an_epoch_are_numbered(tmp_path: Path) -> None:
    logs = Logs()
    for state in ("live", "dead", "live", "changed", "dead"):
        logs.controller(1001, 1, Kind.BROKER, state, broker=2)
    columns = ("broker_epoch", "number", "from_ms", "until_ms", "ended")
    assert rows(logs, tmp_path, SESSIONS_TABLE, *columns) == [(None, 0, 0, 1, "died"), (None, 1, 2, 4, "died")]


def test_a_topic_is_created_and_deleted_and_without_an_id_created_anew(tmp_path: Path) -> None:
    logs = Logs()
    for kind, state in (
        (Kind.TOPIC, "created"),
        (Kind.TOPIC, "queued for deletion"),
        (Kind.DELETION, "started"),
        (Kind.TOPIC, "deleted"),
        (Kind.DELETION, "completed"),
        (Kind.TOPIC, "created"),
        (Kind.TOPIC, "removed"),
    ):
        logs.controller(1001, 1, kind, state, topic="t")
    columns = ("number", "created_ms", "queued_ms", "deletion_started_ms", "until_ms", "ended")
    assert rows(logs, tmp_path, TOPICS_TABLE, *columns) == [
        (0, 0, 1, 2, 3, "deleted"),
        (1, 5, None, None, 6, "removed"),
    ]


def test_a_ledger_counts_records_bytes_gaps_and_lines_that_are_none(tmp_path: Path) -> None:
    logs = Logs()
    for _ in range(4):
        logs.broker(1, "registered", 11)
    ((path, _),) = logs.write(tmp_path / "logs").items()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:1], b"not a record\n", *lines[2:]]))
    size = path.stat().st_size
    folder = audit([[Range(path.stem, path, 0, size)]], tmp_path / "output")
    (row,) = folder.current_rows(LEDGERS_TABLE)
    assert row == {
        "node": "broker-1",
        "incarnation": "1700000000000.7",
        "boot_id": "boot",
        "records": 3,
        "bytes": size,
        "first_seq": 0,
        "last_seq": 3,
        "first_ms": 1_700_000_000_000,
        "last_ms": 1_700_000_003_000,
        "missing": 1,
        "quarantined": 1,
        "status": "holds",
    }


def test_a_failover_has_its_phases_and_how_long_partitions_had_no_leader(tmp_path: Path) -> None:
    logs = Logs()
    dead = {"cause": Cause("BrokerChange", 7)}
    logs.controller(1001, 3, Kind.BROKER, "dead", broker=1, **dead)  # 0
    logs.controller(1001, 3, Kind.BROKER, "dead", broker=2, **dead)  # 1
    for partition in range(4):
        logs.offline(1001, 3, 7, partition)  # 2 to 5
    for partition in range(3):
        logs.elected((1001, 3, 7), partition, 3, 5)  # 6 to 8
    logs.leads(0, 3, 5, event=7)  # 9
    logs.leads(1, 3, 5, event=8)  # 10
    logs.controller(1001, 3, Kind.BROKER, "dead", broker=3, cause=Cause("BrokerChange", 9))  # 11
    found = rows(
        logs, tmp_path, FAILOVERS_TABLE, "cause_id", "brokers", "detected_ms", "partitions", "first_written_ms",
        "last_written_ms", "first_taken_ms", "last_taken_ms", "not_elected", "not_taken",
    )  # fmt: skip
    assert found == [(7, [1, 2], 0, 4, 6, 8, 9, 10, 1, 1), (9, [3], 11, 0, None, None, None, None, 0, 0)]
    (first, _) = OutputFolder(tmp_path / "output").current_rows(FAILOVERS_TABLE)
    assert [first[f"leaderless_{name}_ms"] for name in ("p50", "p95", "p99", "max")] == [9000, 10000, 10000, 10000]


def test_a_controller_that_finds_partitions_without_leader_makes_a_failover_of_its_own(tmp_path: Path) -> None:
    logs = Logs()
    startup = Cause("Startup")
    logs.controller(1001, 3, Kind.CONTROLLER, "active", broker=1001, cause=startup)  # 0
    logs.controller(
        1001, 3, Kind.PARTITION, "OnlinePartition", from_state="OfflinePartition", cause=startup, **state(0, 2, 4)
    )  # 1
    logs.leads(0, 2, 4)  # 2
    logs.controller(1002, 4, Kind.CONTROLLER, "active", broker=1002, cause=startup)  # 3
    columns = ("controller_epoch", "cause_event", "brokers", "detected_ms", "partitions", "last_taken_ms")
    assert rows(logs, tmp_path, FAILOVERS_TABLE, *columns) == [(3, "Startup", [], 0, 1, 2)]


def test_a_reassignment_is_completed_cancelled_or_replaced(tmp_path: Path) -> None:
    logs = Logs()

    def assign(to_state: str, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]) -> None:
        logs.controller(
            1001, 1, Kind.ASSIGNMENT, to_state, topic="t", partition=0, replicas=replicas, adding_replicas=adding,
            removing_replicas=removing,
        )  # fmt: skip

    assign("completed", (1, 2), (), ())
    assign("started", (3, 1, 2), (3,), (1,))
    assign("completed", (3, 2), (), ())
    assign("started", (3, 2, 4), (4,), ())
    assign("started", (3, 2, 5), (5,), (2,))
    assign("cancelled", (3, 2), (), ())
    assign("started", (3, 2, 1), (1,), (3, 2))
    columns = ("started_ms", "until_ms", "ended", "duration_ms", "replicas_before", "replicas_after")
    found = OutputFolder(tmp_path / "output")
    read_whole(logs, tmp_path)
    listed = sorted(found.current_rows(REASSIGNMENTS_TABLE), key=lambda row: int(row["record"].rpartition("/")[2]))
    assert [tuple((v - 1_700_000_000_000) // 1000 if c in columns[:2] and v else v for c in columns for v in [row[c]])
            for row in listed] == [
        (None, 0, "completed", None, None, [1, 2]),
        (1, 2, "completed", 1000, [1, 2], [3, 2]),
        (3, 4, "replaced", 1000, [3, 2], [3, 2, 4]),
        (4, 5, "cancelled", 1000, [3, 2], [3, 2]),
        (6, None, None, None, [3, 2], [1]),
    ]  # fmt: skip
