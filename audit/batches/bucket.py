"""Judges the records of one bucket of a batch, in a Python process of Spark's: state in, state and tables out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy
import pyarrow

from audit.reading.kafka.rows import without_kafka, without_kafka_requests
from audit.records.columns import RECORDS
from audit.records.findings import Finding, changes
from audit.records.sorted_runs import Run, joined_runs
from audit.records.vectors import in_one_chunk, keys
from audit.rules.applied_states import (
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
from audit.rules.clock_differences import ClockDifference, clock_differences
from audit.rules.deleted_partitions import deletions_among, deletions_of, reduce_deletions
from audit.rules.durations import OPEN, check_durations, durations, open_after
from audit.rules.leader_claims import CLAIMS, check_claims, claims_of, reduce_claims
from audit.rules.limits import Limits
from audit.rules.node_views import check_views, reduce_views
from audit.rules.partition_states import STATES, WRITTEN, check_states, contents, reduce_states, states_of
from audit.rules.partition_windows import Added, Window, whole, windows
from audit.rules.record_rules import check_records
from audit.rules.recreations import (
    CreatedAnew,
    compared,
    created_anew,
    earlier_rows,
    not_compared,
    recreations_of,
    reduce_recreations,
)
from audit.rules.subjects import Subjects
from audit.rules.unclean_elections import (
    OFFSETS,
    Evidence,
    check_elections,
    offsets_of,
    reduce_offsets,
    reduce_unclean,
    unclean_of,
    withdrawn_elections,
)
from audit.rules.unfinished_work import check_steps, reduce_steps, steps_of
from audit.storage.commits import BucketResult, BucketState
from audit.storage.output_folder import OutputFolder
from audit.storage.state_files import StateFile
from audit.storage.table_schemas import (
    FINDINGS,
    FINDINGS_TABLE,
    REASSIGNMENTS_TABLE,
    RECORDS_TABLE,
    TIMELINES,
    TIMELINES_TABLE,
)
from audit.tables.failovers import BY_EPOCH, ELECTIONS, elections_of, reduce_elections, reduce_epochs, touched_events
from audit.tables.reassignments import assignments_of, reduce_assignments, revised_reassignments
from audit.tables.timelines import revised, withdrawn_rows

REDUCE: Final[dict[str, Callable[[pyarrow.Table], pyarrow.Table]]] = {
    "states": reduce_states,
    "claims": reduce_claims,
    "views": reduce_views,
    "applied": reduce_states,
    "taken": reduce_taken,
    "recreations": reduce_recreations,
    "deletions": reduce_deletions,
    "offsets": reduce_offsets,
    "unclean": reduce_unclean,
    "steps": reduce_steps,
    ELECTIONS: reduce_elections,
    BY_EPOCH: reduce_epochs,
    "assignments": reduce_assignments,
}
"""The runs of a bucket, and how each joins the rows that belong together."""


class Place(NamedTuple):
    """Which bucket of which batch."""

    bucket: int
    batch: int


class Unfinished(NamedTuple):
    """What later records may end: what waits for others, and what is open (both as `audit.rules.durations.OPEN`)."""

    unwritten: pyarrow.Table
    untaken: pyarrow.Table
    open: pyarrow.Table
    reassigning: pyarrow.Table


UNFINISHED: Final = Unfinished(*[WAITING.empty_table()] * 2, *[OPEN.empty_table()] * 2)
"""At the start. Each batch writes these tables anew."""


class CheckedPartitions(NamedTuple):
    """What the rules found, by run what the rows add to it, what is unfinished now, rows of `TIMELINES`, and clocks."""

    findings: list[Finding]
    added: dict[str, pyarrow.Table]
    unfinished: Unfinished
    timelines: pyarrow.Table
    clocks: list[ClockDifference]


def check_partitions(
    runs: Mapping[str, Sequence[Run]], unfinished: Unfinished, rows: pyarrow.Table, limits: Limits
) -> CheckedPartitions:
    """Judge the records of partitions in one bucket against what its runs hold of earlier ones."""
    subjects = Subjects(rows)
    recreations = recreations_of(rows)
    anew = created_anew(runs["recreations"], recreations, rows)
    comparable = compared(rows, anew)
    claims = claims_of(comparable)
    content = contents(comparable)
    new = Applied(states_of(comparable, content), applied_of(comparable, content), taken_of(comparable))
    views = check_views(runs["views"], without_kafka_requests(rows), subjects)
    deletions = deletions_of(rows)
    ended = keys(compared(deletions, anew)["key"])
    added_states = Added(new.written, new.taken, ended)
    histories = windows(runs["states"], runs["taken"], added_states, limits.calm_ms)
    gone = deletions_among(runs["deletions"], deletions, histories.now.intervals.key)
    steps = steps_of(comparable)
    reassignments = check_steps(
        runs["steps"], steps, compared(unfinished.reassigning, anew), limits.reassignment_ms, subjects
    )
    offsets, unclean = offsets_of(comparable), unclean_of(histories.now)
    elections = check_elections(
        Evidence(*(runs[name] for name in Evidence._fields)),
        Evidence(new.written, new.taken, offsets, unclean),
        numpy.unique(keys(comparable["key"])),
        subjects,
    )
    findings = [
        *check_records(rows, subjects),
        *check_states(runs["states"], new.written, subjects),
        *check_claims(runs["claims"], claims, subjects),
        *check_applied(runs["states"], runs["applied"], new, subjects),
        *check_durations(histories, limits, subjects),
        *elections,
        *reassignments.findings,
        *_withdrawn(runs, anew, limits, subjects),
        *not_compared(anew, subjects),
        *views.findings,
    ]
    added = {"states": new.written, "claims": claims, "views": views.views, "applied": new.applied, "taken": new.taken}
    unwritten, untaken, still_open = (compared(table, anew) for table in unfinished[:3])
    # A log of Kafka's does not say where it begins, so that nothing in it can be awaited.
    expected = Applied(without_kafka(new.written), without_kafka(new.applied), new.taken)
    waiting = wait(runs["states"], runs["taken"], expected, Waiting(unwritten, untaken), subjects)
    still_open = open_after(still_open, histories.now, keys(gone.now["key"]), subjects)
    return CheckedPartitions(
        findings,
        {
            **added,
            "recreations": recreations,
            "deletions": deletions,
            "offsets": offsets,
            "unclean": unclean,
            "steps": steps,
        },
        Unfinished(*waiting, still_open, reassignments.open),
        pyarrow.concat_tables([revised(histories, gone, subjects), _withdrawn_rows(runs, anew, subjects)]),
        clock_differences(histories.now, limits.clock_ms),
    )


def _earlier(runs: Mapping[str, Sequence[Run]], anew: CreatedAnew) -> Window:
    """What there was of partitions that are not compared any more."""
    states, taken = (earlier_rows(runs[n], anew, e.empty_table()) for n, e in (("states", WRITTEN), ("taken", TAKEN)))
    return whole(states, reduce_taken(taken))


def _withdrawn_rows(runs: Mapping[str, Sequence[Run]], anew: CreatedAnew, subjects: Subjects) -> pyarrow.Table:
    if not len(numpy.setdiff1d(anew.now, anew.before)):
        return TIMELINES.empty_table()
    return withdrawn_rows(_earlier(runs, anew).intervals, subjects)


def _withdrawn(
    runs: Mapping[str, Sequence[Run]], anew: CreatedAnew, limits: Limits, subjects: Subjects
) -> list[Finding]:
    """What was found between records that are not compared any more."""
    if not len(numpy.setdiff1d(anew.now, anew.before)):
        return []
    states = reduce_states(earlier_rows(runs["states"], anew, WRITTEN.empty_table()))
    applied = reduce_states(earlier_rows(runs["applied"], anew, STATES.empty_table()))
    found = [
        *check_states([], states, subjects),
        *check_claims([], reduce_claims(earlier_rows(runs["claims"], anew, CLAIMS.empty_table())), subjects),
        *check_applied([], [], Applied(states, applied, TAKEN.empty_table()), subjects),
        *durations(_earlier(runs, anew), limits, subjects),
    ]
    offsets = reduce_offsets(earlier_rows(runs["offsets"], anew, OFFSETS.empty_table()))
    elections = withdrawn_elections(_earlier(runs, anew), offsets, subjects)
    return [*changes({finding.name: finding for finding in found}, {}), *elections]


def check_bucket(
    output: OutputFolder, place: Place, state: BucketState, rows: pyarrow.Table, limits: Limits
) -> BucketResult:
    """Judge the records of partitions in one bucket, write its tables, and return its new state."""
    stored = {name: state.runs.get(name, ()) for name in REDUCE}
    runs = {name: output.runs(of) for name, of in stored.items()}
    unfinished = Unfinished(*(_whole(output, state, name, empty) for name, empty in UNFINISHED._asdict().items()))
    findings, added, unfinished, timelines, clocks = check_partitions(runs, unfinished, rows, limits)
    failed_over = elections_of(rows)
    added |= {ELECTIONS: failed_over.elections, BY_EPOCH: failed_over.by_epoch, "assignments": assignments_of(rows)}
    events = touched_events(runs[BY_EPOCH], failed_over, added["taken"])
    output.write_rows(
        REASSIGNMENTS_TABLE, revised_reassignments(runs["assignments"], added["assignments"]), place.batch, place.bucket
    )
    write_findings(output, place, findings)
    output.write_rows(TIMELINES_TABLE, timelines, place.batch, place.bucket)
    output.write_rows(RECORDS_TABLE, rows.drop_columns(["key"]), place.batch, place.bucket)
    file = StateFile(output, place.bucket, place.batch)
    for name, table in added.items():
        if table.num_rows:
            kept, run = joined_runs(runs[name], table, REDUCE[name])
            stored[name] = (*stored[name][:kept], file.add_run(run))
    for name, table in unfinished._asdict().items():
        stored[name] = (file.add_run(table),) if table.num_rows else ()
    file.write()
    return BucketResult(
        place.bucket,
        BucketState(stored),
        controllers=controllers_named(rows),
        clocks=tuple(clocks),
        events=tuple(events.tolist()),
    )


def controllers_named(rows: pyarrow.Table) -> tuple[int, ...]:
    """The controllers whose events these records follow from."""
    return tuple(sorted(rows["cause_controller"].drop_null().unique().to_pylist()))


def write_findings(output: OutputFolder, place: Place, findings: list[Finding]) -> None:
    """Write a table of findings, if there are any."""
    if findings:
        rows = pyarrow.Table.from_pylist([msgspec.to_builtins(finding) for finding in findings], FINDINGS)
        output.write_rows(FINDINGS_TABLE, rows, place.batch, place.bucket)


def _whole(output: OutputFolder, state: BucketState, name: str, empty: pyarrow.Table) -> pyarrow.Table:
    """A table that each batch writes anew."""
    return pyarrow.concat_tables([empty, *(run.rows for run in output.runs(state.runs.get(name, ())))])


def concatenated(streams: list[pyarrow.Table]) -> pyarrow.Table:
    """The records of several tasks as one table."""
    return in_one_chunk([RECORDS.empty_table(), *streams])
