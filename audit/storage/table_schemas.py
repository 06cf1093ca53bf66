"""The tables of an audit: what each is, its columns, and by what its rows are named.

Rows of a revised table may be written again, when later records tell more: of the rows with one key, the one of the
highest `batch` holds, unless its `status` is `withdrawn`. Rows of the others are written once. A table is parted by the
day of the first column in `days` that a row has.
"""

from typing import Final, NamedTuple

import pyarrow

from audit.records.columns import RECORDS

VERSION: Final = 1
"""Texts about the columns, in the metadata of each file."""
BATCH: Final = "batch"
_TEXT: Final = pyarrow.string()
_INT: Final = pyarrow.int32()
_LONG: Final = pyarrow.int64()
_BROKERS: Final = pyarrow.list_(pyarrow.int32())


class Table(NamedTuple):
    """`key`: the columns that name a row of a revised table, empty for the others. `durations`: columns in ms that are
    no times. `keeps`: rows are not deleted by age.
    """

    name: str
    says: str
    schema: pyarrow.Schema
    key: tuple[str, ...] = ()
    days: tuple[str, ...] = ("at_ms",)
    durations: tuple[str, ...] = ()
    keeps: bool = True

    @property
    def is_revised(self) -> bool:
        return bool(self.key)

    @property
    def stored(self) -> pyarrow.Schema:
        """The columns of its files."""
        return self.schema.append(pyarrow.field(BATCH, _LONG)) if self.is_revised else self.schema

    @property
    def times(self) -> tuple[str, ...]:
        """The columns that are milliseconds since 1970."""
        return tuple(n for n in self.schema.names if n.endswith("_ms") and n not in (*self.durations, "mono_ms"))


FINDINGS_TABLE, RECORDS_TABLE, QUARANTINE_TABLE, TIMELINES_TABLE = "findings", "records", "quarantine", "timelines"
TERMS_TABLE, SESSIONS_TABLE, TOPICS_TABLE = "controller_terms", "broker_sessions", "topics"
REASSIGNMENTS_TABLE, FAILOVERS_TABLE, LEDGERS_TABLE = "reassignments", "failovers", "ledgers"
_PARTITION: Final = {"topic": _TEXT, "topic_id": _TEXT, "partition": _INT}

FINDINGS: Final = pyarrow.schema(
    {
        "rule": _TEXT,
        "subject": _TEXT,
        "message": _TEXT,
        "records": pyarrow.list_(_TEXT),
        "status": _TEXT,
        **_PARTITION,
        "at_ms": _LONG,
    }
)
QUARANTINE: Final = pyarrow.schema(
    {"file": _TEXT, "offset": _LONG, "size": _LONG, "line": _TEXT, "why": _TEXT, "at_ms": _LONG}
)
TERMS: Final = pyarrow.schema(
    {
        "controller_epoch": _INT,
        "controller": _INT,
        "from_ms": _LONG,
        "until_ms": _LONG,
        "ended": _TEXT,
        "previous_controller": _INT,
        "previous_last_ms": _LONG,
        "vacant_ms": _LONG,
        "loaded_ms": _LONG,
        "first_write_ms": _LONG,
        "last_ms": _LONG,
        "records": _LONG,
        "record": _TEXT,
        "status": _TEXT,
    }
)
SESSIONS: Final = pyarrow.schema(
    {
        "broker": _INT,
        "broker_epoch": _LONG,
        "number": _INT,
        "from_ms": _LONG,
        "until_ms": _LONG,
        "ended": _TEXT,
        "registered_ms": _LONG,
        "seen_ms": _LONG,
        "shutting_down_ms": _LONG,
        "expired_ms": _LONG,
        "first_record": _TEXT,
        "last_record": _TEXT,
        "status": _TEXT,
    }
)
TOPICS: Final = pyarrow.schema(
    {
        "topic": _TEXT,
        "topic_id": _TEXT,
        "number": _INT,
        "partitions": _INT,
        "seen_ms": _LONG,
        "created_ms": _LONG,
        "queued_ms": _LONG,
        "deletion_started_ms": _LONG,
        "until_ms": _LONG,
        "ended": _TEXT,
        "first_record": _TEXT,
        "last_record": _TEXT,
        "status": _TEXT,
    }
)
REASSIGNMENTS: Final = pyarrow.schema(
    {
        **_PARTITION,
        "record": _TEXT,
        "controller_epoch": _INT,
        "started_ms": _LONG,
        "until_ms": _LONG,
        "ended": _TEXT,
        "duration_ms": _LONG,
        "replicas_before": _BROKERS,
        "replicas_after": _BROKERS,
        "adding": _BROKERS,
        "removing": _BROKERS,
        "last_record": _TEXT,
        "status": _TEXT,
    }
)
FAILOVERS: Final = pyarrow.schema(
    {
        "controller_epoch": _INT,
        "cause_id": _LONG,
        "cause_event": _TEXT,
        "brokers": _BROKERS,
        "answered_ms": _LONG,
        "detected_ms": _LONG,
        "partitions": _LONG,
        "first_written_ms": _LONG,
        "last_written_ms": _LONG,
        "first_taken_ms": _LONG,
        "last_taken_ms": _LONG,
        "not_elected": _LONG,
        "not_taken": _LONG,
        "leaderless_p50_ms": _LONG,
        "leaderless_p95_ms": _LONG,
        "leaderless_p99_ms": _LONG,
        "leaderless_max_ms": _LONG,
        "waited_max_ms": _LONG,
        "status": _TEXT,
    }
)
LEDGERS: Final = pyarrow.schema(
    {
        "node": _TEXT,
        "incarnation": _TEXT,
        "boot_id": _TEXT,
        "records": _LONG,
        "bytes": _LONG,
        "first_seq": _LONG,
        "last_seq": _LONG,
        "first_ms": _LONG,
        "last_ms": _LONG,
        "missing": _LONG,
        "quarantined": _LONG,
        "status": _TEXT,
    }
)
TIMELINES: Final = pyarrow.schema(
    {
        "topic": _TEXT,
        "topic_id": _TEXT,
        "partition": _INT,
        "partition_epoch": _LONG,
        "leader": _INT,
        "leader_epoch": _INT,
        "isr": _BROKERS,
        "isr_size": _INT,
        "replicas": _BROKERS,
        "min_insync_replicas": _INT,
        "controller": _TEXT,
        "controller_epoch": _INT,
        "from_ms": _LONG,
        "until_ms": _LONG,
        "cause_event": _TEXT,
        "cause_id": _LONG,
        "reason": _TEXT,
        "elected": pyarrow.bool_(),
        "unclean": pyarrow.bool_(),
        "leaderless_from_ms": _LONG,
        "taken_ms": _LONG,
        "record": _TEXT,
        "taken_record": _TEXT,
        "status": _TEXT,
        "at_ms": _LONG,
    }
)
"""One row for each partition epoch, with the key (topic, topic_id, partition, partition_epoch).

`from_ms`: when the controller wrote the state, by its clock (`at_ms` is the same); `until_ms`: when the next state was
written or the partition deleted, never before `from_ms`; null if it still holds. `controller`: the node that wrote it,
whose event `cause_event` number `cause_id` in `controller_epoch` led to it. Or the leader, if it wrote the state itself
(`IsrWritten`); the controller epoch is -1 then. `elected`: the state begins a leader epoch
that has a leader. Then `leaderless_from_ms` is the time of the first of the states directly before it that had no
leader (null: none had no leader), `taken_ms` the time at which the leader recorded that it leads in this leader epoch,
by its own clock (null: it did not), and `unclean` says whether the leader was outside the ISR before.
`min_insync_replicas`: what the leader said of it in this leader epoch; null if unknown. `record`, `taken_record`:
references. `status`: `holds`, or `withdrawn` where records that arrived late have shown that states of this partition
cannot be compared.
"""

_ALL: Final = (
    Table(
        RECORDS_TABLE,
        "every record, field by field; the start states of a controller once for each partition",
        RECORDS.remove(RECORDS.get_field_index("key")),
        durations=("silent_ms",),
        keeps=False,
    ),
    Table(
        FINDINGS_TABLE,
        "violated rules with their evidence; status `found` or `withdrawn`, or `not compared` where a rule could not"
        " judge",
        FINDINGS,
        ("rule", "subject"),
    ),
    Table(QUARANTINE_TABLE, "lines that are no records, with file, byte, size, beginning and reason", QUARANTINE),
    Table(
        TIMELINES_TABLE,
        "the states of each partition one after the other: leader, ISR, from when until when, when the leader took its"
        " role, and what led to it",
        TIMELINES,
        ("topic", "topic_id", "partition", "partition_epoch"),
        keeps=False,
    ),
    Table(
        TERMS_TABLE,
        "who was the active controller in each controller epoch: last record of the one before, `/controller` seen"
        " empty, active, loaded, first write, last record; `ended` is `resigned`, `replaced` or null (still active when"
        " the logs end)",
        TERMS,
        ("controller_epoch", "controller"),
        ("from_ms", "last_ms"),
    ),
    Table(
        SESSIONS_TABLE,
        "each registration of a broker: registered by its own log, seen by a controller; `ended` is `died`,"
        " `shut down`, `bounced`, `expired` (by its own log), `replaced` or null",
        SESSIONS,
        ("broker", "broker_epoch", "number"),
        ("from_ms", "until_ms"),
    ),
    Table(
        TOPICS_TABLE,
        "topics, and when each was created and deleted; `ended` is `deleted`, `removed` (not by the controller) or"
        " null",
        TOPICS,
        ("topic", "topic_id", "number"),
        ("seen_ms",),
    ),
    Table(
        REASSIGNMENTS_TABLE,
        "reassignments of replicas; `ended` is `completed`, `cancelled`, `replaced` (by another one) or null",
        REASSIGNMENTS,
        ("topic", "topic_id", "partition", "record"),
        ("started_ms", "until_ms"),
        ("duration_ms",),
    ),
    Table(
        FAILOVERS_TABLE,
        "the elections after each event that left partitions without a leader: the brokers that failed, their last"
        " answer to a follower, when the controller saw it, when it wrote the new leaders, when these took their roles,"
        " and for how long partitions had no leader",
        FAILOVERS,
        ("controller_epoch", "cause_id"),
        ("detected_ms", "first_written_ms"),
        (*(f"leaderless_{name}_ms" for name in ("p50", "p95", "p99", "max")), "waited_max_ms"),
    ),
    Table(
        LEDGERS_TABLE,
        "what was read of each incarnation of each node: records, bytes, numbers, times, gaps, malformed lines",
        LEDGERS,
        ("node", "incarnation"),
        ("first_ms",),
    ),
)
TABLES: Final[dict[str, Table]] = {table.name: table for table in _ALL}
