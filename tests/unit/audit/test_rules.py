"""The rules over columns: they find what the reference model finds row by row, and depend on the records alone."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from audit.batches.cluster_state import ClusterState, _controllers
from audit.records.findings import AuditFinding
from audit.rules import committed_records, elected_brokers, machine_steps, moves, offline_leaders
from audit.rules.applied_states import UNTAKEN, UNWRITTEN
from audit.rules.rule import Awaited
from audit.rules.unclean_elections import UNCLEAN_ELECTION
from cluster.model.broker import ControllerEpoch, TopicId
from state_log import decision_histories
from state_log.causes import READ_FROM_LEADER, is_written_isr
from state_log.histories import NO_EPOCH, WRITTEN_BY_CONTROLLERS
from state_log.invariants import ONE_CONTROLLER_PER_EPOCH, RECORD_RULES, check_all, check_record
from state_log.record import Cause, Kind, LoggedStateChange, by_partition
from tests.audits.columnar_audits import ColumnarAudit, audit_batches, table_of
from tests.audits.state_change_histories import draw, shuffled, stamped
from tests.examples import examples

SEEDS = st.integers(0, 2**32)
Streams = list[list[LoggedStateChange]]
Name = tuple[str, str, int]
"""Rule, what it is about, partition."""
PAIR_RULES = {
    *("leader-epoch-never-back", "leader-epoch-by-one", "controller-epoch-never-back", "leader-from-isr"),
    *decision_histories.MESSAGES,
}
SHARED = {*PAIR_RULES, "partition-epoch-never-back", "one-state-per-partition-epoch", "one-leader-per-epoch"} - {
    decision_histories.ELECTION_CHANGES_LEADER
}
"""The rules between records that `state_log.histories` has too, and that drawn histories break: these elect nobody who
leads, for the reasons that do not allow it; the corpus does.
"""


def contradicted(record: LoggedStateChange, random: Random) -> LoggedStateChange:
    """The record with one of its facts changed, or a role that has ended instead."""
    if record.leader_epoch is None:
        return record
    if record.kind is Kind.ROLE and random.random() < 0.2:
        nothing = dict.fromkeys(("leader", "leader_epoch", "partition_epoch", "isr", "replicas"))
        return replace(record, to_state="deleted", **nothing)
    step = random.choice([-2, -1, 1, 3])
    epochs = {
        "leader_epoch": max(0, record.leader_epoch + step),
        "partition_epoch": max(0, (record.partition_epoch or 0) + step),
        "controller_epoch": max(1, (record.controller_epoch or 1) + random.choice([-1, 1])),
    }
    lists = {"leader": random.choice([1, 2, 3, -1]), "isr": tuple(random.sample([1, 2, 3], random.randrange(1, 3)))}
    decided = {
        "broker": random.choice([1, 2, 3]),
        "reason": random.choice(["Offline", "Preferred", "Reassign", "asked by broker 1", "replica offline"]),
    }
    changed = epochs | lists | decided
    name = random.choice(list(changed))
    return replace(record, **{name: changed[name]})


def histories(seed: int, *, leaders_write: bool = False) -> tuple[Streams, Random]:
    """The records of each incarnation, a few of them contradicting others; those of odd seeds have a topic id."""
    random = Random(seed)
    steps, partitions = random.randrange(5, 80), random.randrange(1, 4)
    cluster = draw(seed, steps, partitions, leaders_write=leaders_write)
    streams = [stream for stream in stamped(cluster.logs) if stream]
    for stream in streams:
        for _ in range(random.randrange(3)):
            at = random.randrange(len(stream))
            stream[at] = contradicted(stream[at], random)
    if seed % 2:
        streams = [[replace(r, topic_id=TopicId("id") if r.topic else None) for r in stream] for stream in streams]
    return streams, random


def in_batches(records: Sequence[LoggedStateChange], random: Random) -> list[Sequence[LoggedStateChange]]:
    cuts = sorted(random.randrange(len(records) + 1) for _ in range(random.randrange(1, 12)))
    return [records[first:end] for first, end in pairwise([0, *cuts, len(records)])]


def everything(streams: Streams) -> list[LoggedStateChange]:
    return [record for stream in streams for record in stream]


@examples(24, deep=60)
@given(seed=SEEDS, leaders_write=st.booleans())
def test_a_correct_history_has_no_findings_and_what_waits_at_its_end_does_not_depend_on_batches(
    seed: int, leaders_write: bool
) -> None:
    random = Random(seed)
    steps, partitions = random.randrange(5, 80), random.randrange(1, 4)
    streams = stamped(draw(seed, steps, partitions, leaders_write=leaders_write).logs)
    whole, parts = ColumnarAudit(), ColumnarAudit()
    whole.check(everything(streams))
    for batch in in_batches(shuffled(streams, random), random):
        parts.check(batch)
    for audit in (whole, parts):
        assert {rule for rule, _ in audit.findings} <= {UNCLEAN_ELECTION}
    for table in (UNWRITTEN, UNTAKEN):
        assert waiting(parts, table) == waiting(whole, table)


@examples(12, deep=150)
@given(seed=SEEDS, leaders_write=st.booleans())
def test_findings_depend_on_the_records_and_not_on_batches_or_the_order_of_incarnations(
    seed: int, leaders_write: bool
) -> None:
    streams, random = histories(seed, leaders_write=leaders_write)
    whole, parts = ColumnarAudit(), ColumnarAudit()
    whole.check(everything(streams))
    for batch in in_batches(shuffled(streams, random), random):
        parts.check(batch)
    assert parts.findings == whole.findings
    assert waiting(parts, UNWRITTEN) == waiting(whole, UNWRITTEN)


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, leaders_write=st.booleans(), open_rows=st.sampled_from([1, 12]))
def test_findings_do_not_depend_on_what_is_sealed(seed: int, leaders_write: bool, open_rows: int) -> None:
    """Records that arrive late, below the floors, are judged with what is sealed."""
    streams, random = histories(seed, leaders_write=leaders_write)
    streams = [[replace(r, at_ms=r.at_ms + 10 * (r.partition_epoch or 0)) for r in stream] for stream in streams]
    whole, parts = ColumnarAudit(), ColumnarAudit(open_rows=open_rows)
    records = everything(streams)
    whole.check(records)
    for batch in in_batches(shuffled(streams, random), random)[:5]:
        parts.check(batch)
        records = [record for record in records if record not in batch]
    event(f"{sum(len(runs.segments) for runs in parts.runs.values()) // 10 * 10} segments or more")
    parts.check(records)
    assert parts.findings == whole.findings
    assert parts.timelines == whole.timelines
    assert waiting(parts, UNWRITTEN) == waiting(whole, UNWRITTEN)


def waiting(audit: ColumnarAudit, table: Awaited) -> list[str]:
    rows = audit.waiting[table.name]
    assert rows.schema.names == table.schema.names
    return sorted({str((row["key"], row["sub"], row["content"])) for row in rows.to_pylist()})


def by_checker(streams: Streams) -> set[Name]:
    """What the reference model finds about partitions, where each rule has its records in its own order."""
    records = everything(streams)
    by_place = sorted(records, key=lambda r: (first_known(r), r.at_ms, r.node, r.incarnation, r.seq))
    parts = [part for record in by_place for _, part in by_partition(record)]
    states = [part for part in parts if part.kind in WRITTEN_BY_CONTROLLERS or is_written_isr(part)]
    by_epoch = sorted(states, key=lambda part: -1 if part.partition_epoch is None else part.partition_epoch)
    found = set()
    for finding in check_all(by_epoch):
        if finding.rule in PAIR_RULES and " showed " not in finding.message:
            epochs = [known_epoch(parts, reference, finding.partition) for reference in finding.records]
            found.add((finding.rule, f"partition-epoch {max(epochs)}", finding.partition or 0))
        if finding.rule == "one-state-per-partition-epoch":
            found.add((finding.rule, f"partition-epoch {finding.message.split()[2]}", finding.partition or 0))
    for finding in check_all(records):
        if finding.rule == "one-leader-per-epoch":
            found.add((finding.rule, f"leader-epoch {finding.message.split()[2]}", finding.partition or 0))
        if " showed " in finding.message or finding.rule in RECORD_RULES:
            found.add((finding.rule, f"record {finding.records[-1]}", finding.partition or 0))
    return found


def first_known(record: LoggedStateChange) -> int:
    """The controller epoch in which a state was known first, as both have it: none for what a leader wrote, whoever
    read it.
    """
    of_leader = record.reason == READ_FROM_LEADER or is_written_isr(record)
    return NO_EPOCH if of_leader or record.controller_epoch is None else record.controller_epoch


def known_epoch(parts: Iterable[LoggedStateChange], reference: str, partition: int | None) -> int:
    (epoch,) = {p.partition_epoch for p in parts if p.reference == reference and p.partition == partition}
    assert epoch is not None
    return epoch


_WITH_MODELS_OF_THEIR_OWN = {
    "agent-disagrees-with-controller",
    UNCLEAN_ELECTION,
    *elected_brokers.RULE.explains,
    *committed_records.RULE.explains,
    *machine_steps.RULE.explains,
    *moves.RULE.explains,
    *offline_leaders.RULE.explains,
}


def by_columns(findings: Iterable[AuditFinding]) -> set[Name]:
    return {
        (finding.rule, finding.subject.partition(" ")[2].removeprefix("(id) "), finding.partition or 0)
        for finding in findings
        if finding.rule not in _WITH_MODELS_OF_THEIR_OWN
    }


@examples(24, deep=150)
@given(seed=SEEDS, leaders_write=st.booleans())
# Here a controller read, as a leader's, another state than a controller had written at that partition epoch.
@example(seed=43588339, leaders_write=True)
def test_rules_over_columns_find_what_the_reference_model_finds_and_the_same_batch_again_changes_nothing(
    seed: int, leaders_write: bool
) -> None:
    streams, _ = histories(seed, leaders_write=leaders_write)
    audit = ColumnarAudit()
    audit.check(everything(streams))
    assert by_columns(audit.findings.values()) == by_checker(streams)
    before = dict(audit.findings)
    changed = [f for f in audit.check(everything(streams)) if f.name not in before or before[f.name] != f]
    assert [f.rule for f in changed if not f.rule.endswith("never-back")] == []


@examples(24, deep=60)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 4), st.sampled_from(["active", "resigned"])),
        unique=True,
        max_size=12,
    ),
    st.integers(0, 12),
)
def test_a_second_controller_of_an_epoch_is_found_by_rows_and_by_the_bucket_of_the_cluster(
    said: list[tuple[int, int, str]], cut: int
) -> None:
    records = [
        LoggedStateChange(
            v=2, kind=Kind.CONTROLLER, node=f"controller-{node}", incarnation="1.1", seq=seq, at_ms=seq,
            controller_epoch=ControllerEpoch(epoch), broker=node, to_state=state,
        )
        for seq, (node, epoch, state) in enumerate(said)
    ]  # fmt: skip
    known = ClusterState()
    found = [f for part in (records[:cut], records[cut:]) if part for f in _controllers(known, table_of(part))]
    by_row = {f.message.rpartition(" ")[2] for f in check_all(records) if f.rule == ONE_CONTROLLER_PER_EPOCH}
    assert {f.subject.rpartition(" ")[2] for f in found if f.rule == ONE_CONTROLLER_PER_EPOCH} == by_row


STRANGE = [
    *(("isr", value) for value in ((), (1, 1), (9,), None)),
    *(("replicas", value) for value in ((2,), (), None)),
    *(("leader", value) for value in (None, -1, -2, 9)),
    *(("from_state", value) for value in ("x", None, "OnlinePartition")),
    *(("to_state", value) for value in ("OfflinePartition", "OnlineReplica", "deleted", None)),
    *(("leader_epoch", value) for value in (None, -1)),
    *(("partition_epoch", value) for value in (None, -1)),
    *(("to_offset", value) for value in (4, 5, None)),
    *(("reason", value) for value in ("scrub", "recovery", "leader epoch")),
    *(("cause", cause) for cause in (Cause("LogScrub"), Cause("LogRecovery"), Cause("Fetch"), None)),
    *(
        ("reason", value)
        for value in ("Preferred", "Offline", "asked by broker 2", "replica offline", "replica removed")
    ),
    *(("broker", value) for value in (None, 1, 2, 9, -2)),
    *(("controller_epoch", value) for value in (None, 0, 99)),
    *(("min_insync_replicas", value) for value in (None, 0, 1)),
    *((name, value) for name in ("from_offset", "high_watermark", "log_start_offset") for value in (None, -1, 3)),
    *(("cause", Cause("Fetch", 1, controller_epoch=epoch)) for epoch in (ControllerEpoch(0), ControllerEpoch(99))),
    *(("node", value) for value in ("broker-x", "broker--2", "kafka-broker-1", "broker-01", "x")),
    *(("kind", kind) for kind in (Kind.ROLE, Kind.TRUNCATION, Kind.PARTITION, Kind.REPLICA, Kind.ISR)),
]


@examples(30, deep=150)
@given(seed=SEEDS)
def test_rules_on_single_records_find_what_the_row_by_row_rules_find(seed: int) -> None:
    streams, random = histories(seed)
    records = [
        replace(record, **dict([random.choice(STRANGE)]))
        if record.partition is not None and random.random() < 0.3
        else record
        for record in everything(streams)
    ]
    found = audit_batches([records]).values()
    of_records = {(f.rule, f.message, f.records) for f in found if f.rule in RECORD_RULES}
    parts = [part for record in records for _, part in by_partition(record)]
    assert of_records == {(rule, why, (part.reference,)) for part in parts for rule, why in check_record(part)}


@pytest.mark.parametrize("count", [300, pytest.param(3000, marks=pytest.mark.deep)])
def test_a_contradiction_of_an_old_epoch_is_found_however_many_came_after(count: int) -> None:
    cluster = draw(1, steps=0)
    cluster.step()
    for _ in range(count):
        cluster._elect(cluster.partitions[0])
    (drawn,) = (s for s in stamped(cluster.logs) if s and s[0].node.startswith("controller"))
    # So far apart that a leader that changes often is none that flaps.
    stream = [replace(record, at_ms=record.at_ms + 120_000 * number) for number, record in enumerate(drawn)]
    audit = ColumnarAudit()
    for first in range(0, len(stream), 100):
        audit.check(stream[first : first + 100])
    assert audit.findings == {}
    old = next(record for record in stream if record.partition_epoch == 20)
    assert old.leader is not None
    other = replace(old, node="controller-9", seq=0, leader=old.leader % 3 + 1)
    audit.check([other])
    assert {rule for rule, _ in audit.findings} >= {"one-leader-per-epoch", "one-state-per-partition-epoch"}
