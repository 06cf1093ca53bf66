"""Judges the records of one bucket of a batch, in a Python process of Spark's: state in, state and tables out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy
import pyarrow

from audit.applied_states import (
    TAKEN,
    WAITING,
    Applied,
    Waiting,
    applied_of,
    check_applied,
    reduce_taken,
    taken_of,
    wait,
)
from audit.columns import RECORDS
from audit.findings import Finding, changes
from audit.leader_claims import CLAIMS, check_claims, claims_of, reduce_claims
from audit.node_views import check_views, reduce_views
from audit.output_folder import BucketResult, BucketState, OutputFolder
from audit.partition_states import STATES, check_states, reduce_states, states_of
from audit.record_rules import check_records
from audit.recreations import (
    CreatedAnew,
    compared,
    created_anew,
    earlier_rows,
    not_compared,
    recreations_of,
    reduce_recreations,
)
from audit.sorted_runs import Run, merge_plan, merged
from audit.subjects import Subjects
from audit.tables import FINDINGS, FINDINGS_TABLE, RECORDS_TABLE

REDUCE: Final[dict[str, Callable[[pyarrow.Table], pyarrow.Table]]] = {
    "states": reduce_states,
    "claims": reduce_claims,
    "views": reduce_views,
    "applied": reduce_states,
    "taken": reduce_taken,
    "recreations": reduce_recreations,
}
"""The runs of a bucket, and how each joins the rows that belong together."""


class Place(NamedTuple):
    """Which bucket of which batch."""

    bucket: int
    batch: int


class CheckedPartitions(NamedTuple):
    """What the rules found, by run what the rows add to it, and what waits now."""

    findings: list[Finding]
    added: dict[str, pyarrow.Table]
    waiting: Waiting


def check_partitions(runs: Mapping[str, Sequence[Run]], waiting: Waiting, rows: pyarrow.Table) -> CheckedPartitions:
    """Judge the records of partitions in one bucket against what its runs hold of earlier ones."""
    subjects = Subjects(rows)
    recreations = recreations_of(rows)
    anew = created_anew(runs["recreations"], recreations, rows)
    comparable = compared(rows, anew)
    claims = claims_of(comparable)
    new = Applied(states_of(comparable), applied_of(comparable), taken_of(comparable))
    views = check_views(runs["views"], rows, subjects)
    findings = [
        *check_records(rows, subjects),
        *check_states(runs["states"], new.written, subjects),
        *check_claims(runs["claims"], claims, subjects),
        *check_applied(runs["states"], runs["applied"], new, subjects),
        *_withdrawn(runs, anew, subjects),
        *not_compared(anew, subjects),
        *views.findings,
    ]
    added = {"states": new.written, "claims": claims, "views": views.views, "applied": new.applied, "taken": new.taken}
    waiting = Waiting(*(compared(table, anew) for table in waiting))
    waiting = wait(runs["states"], runs["taken"], new, waiting, subjects)
    return CheckedPartitions(findings, {**added, "recreations": recreations}, waiting)


def _withdrawn(runs: Mapping[str, Sequence[Run]], anew: CreatedAnew, subjects: Subjects) -> list[Finding]:
    """What was found between records that are not compared any more."""
    if not len(numpy.setdiff1d(anew.now, anew.before)):
        return []
    states, applied = (reduce_states(earlier_rows(runs[n], anew, STATES.empty_table())) for n in ("states", "applied"))
    found = [
        *check_states([], states, subjects),
        *check_claims([], reduce_claims(earlier_rows(runs["claims"], anew, CLAIMS.empty_table())), subjects),
        *check_applied([], [], Applied(states, applied, TAKEN.empty_table()), subjects),
    ]
    return changes({finding.name: finding for finding in found}, {})


def joined_runs(name: str, runs: Sequence[Run], added: pyarrow.Table) -> tuple[int, pyarrow.Table]:
    """How many of the runs, the oldest first, stay as they are, and the run that takes the place of the others."""
    kept = len(runs) - merge_plan([run.rows.num_rows for run in runs], added.num_rows)
    if kept == len(runs):
        return kept, added
    return kept, merged([*(run.rows for run in runs[kept:]), added], REDUCE[name])


def check_bucket(output: OutputFolder, place: Place, state: BucketState, rows: pyarrow.Table) -> BucketResult:
    """Judge the records of partitions in one bucket, write its tables, and return its new state."""
    stored = {name: state.runs.get(name, ()) for name in REDUCE}
    runs = {name: output.runs(of) for name, of in stored.items()}
    waiting = Waiting(*(_whole(output, state, name) for name in Waiting._fields))
    findings, added, waiting = check_partitions(runs, waiting, rows)
    write_findings(output, place, findings)
    output.write_rows(RECORDS_TABLE, rows.drop_columns(["key"]), place.batch, place.bucket)
    for name, table in added.items():
        if table.num_rows:
            kept, run = joined_runs(name, runs[name], table)
            stored[name] = (*stored[name][:kept], output.write_run(place.bucket, name, place.batch, run))
    for name, whole in zip(Waiting._fields, waiting, strict=True):
        stored[name] = (output.write_run(place.bucket, name, place.batch, whole),)
    return BucketResult(place.bucket, BucketState(stored), controllers=controllers_named(rows))


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


def concatenated(streams: list[pyarrow.Table]) -> pyarrow.Table:
    """The records of several tasks as one table."""
    whole = pyarrow.concat_tables([RECORDS.empty_table(), *streams])
    return whole.unify_dictionaries().combine_chunks()
