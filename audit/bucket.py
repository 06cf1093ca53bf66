"""Judges the records of one bucket of a batch, in a Python process of Spark's: state in, state and tables out."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
import pyarrow

from audit.applied_states import WAITING, Applied, Waiting, applied_of, check_applied, reduce_taken, taken_of, wait
from audit.columns import RECORDS
from audit.findings import Finding
from audit.leader_claims import check_claims, claims_of, reduce_claims
from audit.node_views import check_views, reduce_views
from audit.output_folder import BucketResult, BucketState, OutputFolder
from audit.partition_states import check_states, reduce_states, states_of
from audit.record_rules import check_records
from audit.sorted_runs import Run, merge_plan, merged
from audit.subjects import Subjects

FINDINGS_TABLE, RECORDS_TABLE = "findings", "records"
_TEXT: Final = pyarrow.string()
FINDINGS: Final = pyarrow.schema(
    {
        "rule": _TEXT,
        "subject": _TEXT,
        "message": _TEXT,
        "records": pyarrow.list_(_TEXT),
        "status": _TEXT,
        "topic": _TEXT,
        "topic_id": _TEXT,
        "partition": pyarrow.int32(),
        "at_ms": pyarrow.int64(),
    }
)
_REDUCE: Final[dict[str, Callable[[pyarrow.Table], pyarrow.Table]]] = {
    "states": reduce_states,
    "claims": reduce_claims,
    "views": reduce_views,
    "applied": reduce_states,
    "taken": reduce_taken,
}


class Place(NamedTuple):
    """Which bucket of which batch."""

    bucket: int
    batch: int


def check_bucket(output: OutputFolder, place: Place, state: BucketState, rows: pyarrow.Table) -> BucketResult:
    """Judge the records of partitions in one bucket, write its tables, and return its new state."""
    runs = {name: output.runs(state.runs.get(name, ())) for name in _REDUCE}
    subjects = Subjects(rows)
    states, claims = states_of(rows), claims_of(rows)
    views = check_views(runs["views"], rows, subjects)
    new = Applied(states, applied_of(rows), taken_of(rows))
    findings = [
        *check_records(rows, subjects),
        *check_states(runs["states"], states, subjects),
        *check_claims(runs["claims"], claims, subjects),
        *check_applied(runs["states"], runs["applied"], new, subjects),
        *views.findings,
    ]
    write_findings(output, place, findings)
    output.write_rows(RECORDS_TABLE, rows.drop_columns(["key"]), place.batch, place.bucket)
    tables = {"states": states, "claims": claims, "views": views.views, "applied": new.applied, "taken": new.taken}
    kept = {}
    for name, added in tables.items():
        stored = state.runs.get(name, ())
        count = len(stored) - merge_plan([run.rows for run in stored], added.num_rows)
        if added.num_rows:
            table = _joined(name, runs[name][count:], added)
            stored = (*stored[:count], output.write_run(place.bucket, name, place.batch, table))
        kept[name] = stored
    before = Waiting(*(_whole(output, state, name) for name in Waiting._fields))
    waiting = wait(runs["states"], runs["taken"], new, before, subjects)
    for name, rows_waiting in zip(Waiting._fields, waiting, strict=True):
        kept[name] = (output.write_run(place.bucket, name, place.batch, rows_waiting),)
    return BucketResult(place.bucket, BucketState(kept), controllers=controllers_named(rows))


def controllers_named(rows: pyarrow.Table) -> tuple[int, ...]:
    """The controllers whose events these records follow from."""
    return tuple(sorted(rows["cause_controller"].drop_null().unique().to_pylist()))


def write_findings(output: OutputFolder, place: Place, findings: list[Finding]) -> None:
    """Write a table of findings, if there are any."""
    if findings:
        rows = pyarrow.Table.from_pylist([msgspec.to_builtins(finding) for finding in findings], FINDINGS)
        output.write_rows(FINDINGS_TABLE, rows, place.batch, place.bucket)


def _whole(output: OutputFolder, state: BucketState, name: str) -> pyarrow.Table:
    """A table that each batch writes anew."""
    return pyarrow.concat_tables([WAITING.empty_table(), *(run.rows for run in output.runs(state.runs.get(name, ())))])


def _joined(name: str, runs: Sequence[Run], added: pyarrow.Table) -> pyarrow.Table:
    """These runs, the oldest first, and the new rows as one run."""
    return merged([*(run.rows for run in runs), added], _REDUCE[name]) if runs else added


def concatenated(streams: list[pyarrow.Table]) -> pyarrow.Table:
    """The records of several tasks as one table."""
    whole = pyarrow.concat_tables([RECORDS.empty_table(), *streams])
    return whole.unify_dictionaries().combine_chunks()
