"""The tables of what concerns no partition: controllers, brokers, topics, and what was read of each node."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy
import pyarrow
from msgspec import Struct, field

from audit.batches.bucket import BucketPlace
from audit.batches.kept_tables import KeptTables
from audit.reading.lines_read import ReadRange
from audit.reading.node_work import Work
from audit.records.sorted_runs import Runs
from audit.records.vectors import earliest, keys
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import LEDGERS_TABLE, SESSIONS_TABLE, TERMS_TABLE, TOPICS_TABLE
from audit.tables.broker_sessions import sessions_of
from audit.tables.controller_terms import TermEvents, term_rows, terms_of
from audit.tables.failovers import FAILURES, failures_of
from audit.tables.ledgers import Volume, add_work, ledger_rows
from audit.tables.revisions import revised
from audit.tables.subject_events import derived, events_of, known_events
from audit.tables.topic_histories import topics_of

_EVENTS: Final = "events"


class TablesState(Struct):
    """Holds what the tables of controllers and logs are derived from: one entry for each controller epoch and
    incarnation.
    """

    work: dict[str, Work] = field(default_factory=dict)
    """Keyed by node/incarnation/controller epoch."""
    terms: dict[str, TermEvents] = field(default_factory=dict)
    """Keyed by controller epoch/controller."""
    volumes: dict[str, Volume] = field(default_factory=dict)
    """Keyed by node/incarnation."""


class Read(NamedTuple):
    """Holds what a batch has read: the records of no partition, and what the lines of all files were."""

    rows: pyarrow.Table
    ranges: Sequence[ReadRange]


def write_cluster_tables(
    output: OutputFolder, place: BucketPlace, known: TablesState, read: Read, kept: KeptTables
) -> tuple[int, ...]:
    """Add what was read to `known` and `kept`, and write what that changes about the tables.

    Returns the events with new failures.
    """
    earlier = {TERMS_TABLE: term_rows(known.terms, known.work), LEDGERS_TABLE: ledger_rows(known.volumes, known.work)}
    _add(known, read)
    now = {TERMS_TABLE: term_rows(known.terms, known.work), LEDGERS_TABLE: ledger_rows(known.volumes, known.work)}
    changed = {table: revised(table, rows, now[table]) for table, rows in earlier.items()}
    sizes = [size for part in read.ranges for size in part.sizes]
    new = {_EVENTS: events_of(read.rows, sizes), FAILURES: failures_of(read.rows)}
    runs = {name: kept.known(name) for name in new}
    for table, rows in {**changed, **_of_subjects(runs[_EVENTS], new[_EVENTS])}.items():
        if rows.num_rows:
            output.write_rows(table, rows, place.batch, place.bucket)
    for name, added in new.items():
        kept.add(name, runs[name], added, earliest)
    return tuple(numpy.unique(keys(new[FAILURES]["key"])).tolist())


def _add(known: TablesState, read: Read) -> None:
    add_work(known.work, known.volumes, read.ranges)
    for term in terms_of(read.rows):
        known.terms[term.name] = term.joined(known.terms.get(term.name, term))


def _of_subjects(runs: Runs, new: pyarrow.Table) -> dict[str, pyarrow.Table]:
    """Compute what the new events change about brokers and topics."""
    earlier = known_events(runs, new)
    now = earliest(pyarrow.concat_tables([earlier, new]))
    found = {}
    for table, rows_of, subject in ((SESSIONS_TABLE, sessions_of, "broker"), (TOPICS_TABLE, topics_of, "topic")):
        of_both = (derived(part.filter(part[subject].is_valid()), rows_of) for part in (earlier, now))
        found[table] = revised(table, *of_both)
    return found
