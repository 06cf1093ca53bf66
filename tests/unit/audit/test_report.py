"""The verdict on an output folder, and what the report says of findings."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from audit.batches.bucket import BucketPlace, write_findings
from audit.batches.cluster_state import ClusterState
from audit.chains.incarnations import Span
from audit.records.columns import to_columns
from audit.records.findings import CLEAN, FINDINGS, INCOMPLETE, WITHDRAWN, AuditFinding
from audit.report.report import read_findings, read_result
from audit.storage.commits import BUCKETS, BucketState, Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.state_files import StateFile
from audit.storage.state_versions import VERSION
from audit.storage.table_schemas import RECORDS_TABLE
from cluster.model.broker import BrokerId, ControllerEpoch, ControllerId, LeaderEpoch
from state_log.chain import IncarnationLog
from state_log.record import Cause, Kind, LoggedStateChange
from tests.audits.columnar_audits import table_of
from tests.controllers.contexts import ids

ELECTED = LoggedStateChange(
    kind=Kind.PARTITION,
    v=2,
    seq=3,
    node="controller-1001",
    incarnation="1700000000000.1",
    at_ms=1_700_000_000_500,
    cause=Cause("ElectLeadersReceived", 17),
    controller_epoch=ControllerEpoch(5),
    topic="orders",
    partition=0,
    leader=BrokerId(2),
    leader_epoch=LeaderEpoch(4),
    request_id="r-1",
    principal="ANONYMOUS",
    peer="ipv4:127.0.0.1:5555",
)
LEADS = LoggedStateChange(
    kind=Kind.ROLE,
    v=2,
    seq=0,
    node="broker-1",
    incarnation="1700000000000.1",
    at_ms=1_700_000_000_600,
    cause=Cause("ElectLeadersReceived", 17, ControllerId(1001), ControllerEpoch(5)),
    topic="orders",
    partition=0,
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(4),
)


def finding(*records: str, subject: str = "orders-0 leader-epoch 4", **fields: object) -> AuditFinding:
    given = {"topic": "orders", "partition": 0, "at_ms": 1, **fields}
    return AuditFinding("one-leader-per-epoch", subject, "brokers 1 and 2 lead", records, **given)  # type: ignore[arg-type]


def commit(output: Path, batch: int = 0, state: ClusterState | None = None, **fields: object) -> OutputFolder:
    folder = OutputFolder(output)
    known = state or ClusterState(incarnations={"broker-1/1700000000000.1": IncarnationLog(1, "", 1)})
    file = StateFile(folder, BUCKETS, batch)
    stored = file.add_bytes(msgspec.msgpack.encode(known))
    file.write()
    given = {"records": 1, **fields}
    folder.commit(Commit(VERSION, batch, "", {str(BUCKETS): BucketState(file=stored)}, **given))  # type: ignore[arg-type]
    return folder


def write_batch(
    output: Path, batch: int, findings: Sequence[AuditFinding], records: Sequence[LoggedStateChange]
) -> None:
    folder = commit(output, batch)
    write_findings(folder, BucketPlace(0, batch), list(findings))
    folder.write_rows(RECORDS_TABLE, table_of(records).drop_columns(["key"]), batch, 0)


def test_a_finding_names_the_request_that_its_records_go_back_to(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, [finding(ELECTED.reference, LEADS.reference)], [LEADS])
    write_batch(tmp_path, 1, [], [ELECTED])
    (found,) = read_findings(tmp_path, 10)
    request = "ElectLeaders, request id r-1, from ipv4:127.0.0.1:5555, at 2023-11-14 22:13:20.500"
    assert found["causes"] == [
        f"controller-1001/1700000000000.1/3: {request}",
        f"broker-1/1700000000000.1/0: {request}",
    ]


def test_a_finding_about_no_partition_has_no_causes(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, [finding("n/i/0", topic=None, partition=None)], [])
    (found,) = read_findings(tmp_path, 10)
    assert found["causes"] == []


@pytest.mark.parametrize(("replicas", "named"), [((1, 2), True), ((1, 3), False)])
def test_a_truncation_names_the_other_replicas_whose_machine_was_started_anew_before(
    replicas: tuple[int, ...], named: bool, tmp_path: Path
) -> None:
    runs = ("1700000000000.1", "1700000000100.2", "1700000000200.3")
    boots = {("broker-2", run): boot for run, boot in zip(runs, "abc", strict=True)}
    boots |= {("broker-1", run): boot for run, boot in zip(runs, "xyz", strict=True)}
    spans = {f"{node}/{run}": Span(node, run, 1, 2, boot_id=boot) for (node, run), boot in boots.items()}
    truncated = replace(LEADS, kind=Kind.TRUNCATION, seq=1)
    found = finding(truncated.reference, at_ms=truncated.at_ms)
    found = replace(found, rule="no-truncation-below-high-watermark")
    records = [replace(LEADS, replicas=ids(*replicas)), truncated]
    folder = commit(tmp_path, 0, ClusterState(spans=spans))
    write_findings(folder, BucketPlace(0, 0), [found])
    folder.write_rows(RECORDS_TABLE, table_of(records).drop_columns(["key"]), 0, 0)
    (shown,) = read_findings(tmp_path, 10)
    last = "broker-2/1700000000200.3: its machine was restarted before (boot c, earlier b)"
    assert [cause for cause in shown["causes"] if "machine was restarted" in cause] == (
        [f"{last}: what was not flushed to its disk is lost"] if named else []
    )


def test_a_later_version_of_a_finding_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, [finding("n/i/0"), finding("n/i/9", subject="other")], [])
    write_batch(tmp_path, 1, [finding("n/i/0", "m/i/0"), finding("n/i/9", subject="other", status=WITHDRAWN)], [])
    assert [found["records"] for found in read_findings(tmp_path, 10)] == [["n/i/0", "m/i/0"]]
    assert read_result(tmp_path).findings == {"one-leader-per-epoch": 1}


def test_the_most_severe_findings_come_first(tmp_path: Path) -> None:
    broken = AuditFinding("chain-break", "log n/i", "the chain is broken", ("n/i/3",))
    write_batch(tmp_path, 0, [broken, finding("n/i/0")], [])
    assert [found["severity"] for found in read_findings(tmp_path, 10)] == ["critical", "log"]
    assert [found["rule"] for found in read_findings(tmp_path, 1)] == ["one-leader-per-epoch"]


def test_what_a_batch_wrote_that_did_not_commit_does_not_count(tmp_path: Path) -> None:
    commit(tmp_path)
    write_findings(OutputFolder(tmp_path), BucketPlace(0, 1), [finding("n/i/0")])
    assert read_findings(tmp_path, 10) == []
    assert read_result(tmp_path).verdict == CLEAN


def gaps(output: Path, *expected_nodes: str) -> dict[str, str]:
    result = read_result(output, expected_nodes)
    assert (result.verdict == INCOMPLETE) == bool(result.incomplete)
    return {gap.what: gap.why for gap in result.incomplete}


def test_an_audit_that_read_nothing_is_incomplete(tmp_path: Path) -> None:
    assert "no record was read" in gaps(tmp_path)["records"]
    commit(tmp_path, records=0)
    assert list(gaps(tmp_path)) == ["records"]


def test_nodes_without_a_log_make_it_incomplete(tmp_path: Path) -> None:
    known = ClusterState(
        incarnations={"broker-1/1700000000000.1": IncarnationLog(1, "", 1)}, brokers={1: "c/i/0", 2: "c/i/1"}
    )
    commit(tmp_path, state=known, controllers=(1001,))
    missing = gaps(tmp_path, "broker-1", "broker-9")
    assert sorted(missing) == ["broker-2", "broker-9", "controller-1001"]
    assert "c/i/1 names it as live" in missing["broker-2"]


def test_a_log_that_begins_later_makes_it_incomplete(tmp_path: Path) -> None:
    log = IncarnationLog(10, "", 6, missing=((0, 3),))
    commit(tmp_path, state=ClusterState(incarnations={"broker-1/1700000000000.1": log}))
    assert gaps(tmp_path) == {"broker-1/1700000000000.1": "records 0 to 3 were not there: the log begins later"}
    assert read_result(tmp_path).expected == 10


@pytest.mark.parametrize("incomplete", [False, True])
def test_findings_outweigh_what_was_missing_which_is_named_all_the_same(tmp_path: Path, incomplete: bool) -> None:
    commit(tmp_path)
    write_findings(OutputFolder(tmp_path), BucketPlace(0, 0), [finding("n/i/0")])
    result = read_result(tmp_path, ["broker-9"] if incomplete else [])
    assert result.verdict == FINDINGS
    assert bool(result.incomplete) == incomplete


def test_a_table_holds_what_a_record_had(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, [], [ELECTED, LEADS])
    expected = [{n: v for n, v in row.items() if n != "key"} for row in to_columns([ELECTED, LEADS]).to_pylist()]
    assert list(OutputFolder(tmp_path).rows(RECORDS_TABLE)) == expected


def test_what_two_sides_of_a_rule_say_of_the_same_records_is_one_finding(tmp_path: Path) -> None:
    by_state = finding("n/i/0", "n/i/1", subject="orders-0 partition-epoch 4")
    same = finding("n/i/0", "n/i/1", subject="orders-0 record n/i/1")
    other = finding("n/i/1", "n/i/2", subject="orders-0 record n/i/2")
    elsewhere = finding("n/i/0", "n/i/1", subject="orders-1 record n/i/1", partition=1)
    write_batch(tmp_path, 0, [by_state, same, other, elsewhere], [])
    found = {each["subject"] for each in read_findings(tmp_path, 20)}
    assert found == {each.subject for each in (by_state, other, elsewhere)}
