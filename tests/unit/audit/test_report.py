"""What the report says of findings: the causes of their records, also where the tables are of an earlier version."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pyarrow.parquet

from audit.report import read_findings
from cluster.broker import BrokerId, ControllerEpoch, ControllerId, LeaderEpoch
from state_log.record import Cause, Kind, LoggedStateChange

FINDING = {"rule": "one-leader-per-epoch", "message": "brokers 1 and 2 lead", "topic": "orders", "partition": 0}
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
OF_VERSION_1 = ("node", "incarnation", "seq", "at_ms", "kind", "controller_epoch", "v", "topic", "partition", "leader")


def write_batch(output: Path, table: str, number: int, rows: list[dict[str, Any]]) -> None:
    folder = output / table / f"batch={number:09d}"
    folder.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "part-0.parquet")
    (folder / "_SUCCESS").touch()


def columns(record: LoggedStateChange) -> dict[str, Any]:
    """All columns, as Spark writes them: null where a field is absent."""
    row = {name: getattr(record, name) for name in LoggedStateChange.__struct_fields__}
    cause = None if record.cause is None else msgspec.structs.asdict(record.cause)
    return {**row, "kind": record.kind.value, "cause": cause}


def test_a_finding_names_the_request_that_its_records_go_back_to(tmp_path: Path) -> None:
    write_batch(tmp_path, "findings", 0, [{**FINDING, "records": [ELECTED.reference, LEADS.reference]}])
    write_batch(tmp_path, "timelines", 0, [columns(LEADS)])
    write_batch(tmp_path, "timelines", 1, [columns(ELECTED)])
    (found,) = read_findings(tmp_path, 10)
    request = "ElectLeaders, request id r-1, from ipv4:127.0.0.1:5555, at 2023-11-14 22:13:20.500"
    assert found["causes"] == [
        f"controller-1001/1700000000000.1/3: {request}",
        f"broker-1/1700000000000.1/0: {request}",
    ]


def test_tables_that_an_earlier_version_wrote_have_fewer_columns(tmp_path: Path) -> None:
    old = {
        **{name: columns(LEADS)[name] for name in OF_VERSION_1},
        "v": 1,
        "cause": {"event": "LeaderAndIsr", "id": None},
    }
    write_batch(tmp_path, "findings", 0, [{**FINDING, "records": [LEADS.reference]}])
    write_batch(tmp_path, "timelines", 0, [old])
    (found,) = read_findings(tmp_path, 10)
    assert found["causes"] == ["broker-1/1700000000000.1/0: LeaderAndIsr"]


def test_a_finding_about_no_partition_has_no_causes(tmp_path: Path) -> None:
    write_batch(tmp_path, "findings", 0, [{**FINDING, "topic": None, "partition": None, "records": ["n/i/0"]}])
    (found,) = read_findings(tmp_path, 10)
    assert found["causes"] == []
