"""What a report needs of the tables: failovers by phase, ledgers, and the partitions that were worst off."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import duckdb
from msgspec import Struct

from audit.storage.output_folder import OutputFolder
from audit.tables.queries import Answer, answer, on_tables

_FAILOVERS: Final = """
WITH terms AS (
    SELECT controller_epoch, min(controller) AS controller, min(previous_controller) AS previous_controller
    FROM controller_terms GROUP BY controller_epoch
)
SELECT f.detected_ms, f.detected_time, f.controller_epoch, f.cause_id, f.cause_event, f.brokers, f.partitions,
    t.controller, t.previous_controller,
    first_written_ms - detected_ms AS until_first_written_ms,
    last_written_ms - detected_ms AS until_last_written_ms,
    last_taken_ms - detected_ms AS until_last_taken_ms,
    not_elected, not_taken, leaderless_p50_ms, leaderless_p95_ms, leaderless_p99_ms, leaderless_max_ms,
    detected_ms - answered_ms AS since_last_answer_ms, waited_max_ms
FROM failovers f LEFT JOIN terms t USING (controller_epoch)
ORDER BY leaderless_max_ms DESC NULLS LAST, detected_ms, controller_epoch, cause_id LIMIT ?
"""
_CONTROLLER_FAILOVERS: Final = """
SELECT from_ms, from_time, controller_epoch, controller, previous_controller, ended,
    from_ms - previous_last_ms AS since_previous_ms,
    from_ms - vacant_ms AS since_vacant_ms,
    loaded_ms - from_ms AS until_loaded_ms,
    first_write_ms - from_ms AS until_first_write_ms,
    records
FROM controller_terms ORDER BY controller_epoch DESC, controller LIMIT ?
"""
_LEDGERS: Final = """
SELECT node, incarnation, boot_id, records, bytes, first_seq, last_seq, first_ms, first_time, last_ms, last_time,
    missing, quarantined
FROM ledgers ORDER BY node, incarnation LIMIT ?
"""
_SESSIONS: Final = """
SELECT broker, broker_epoch, from_ms, from_time, until_ms, until_time, ended
FROM broker_sessions ORDER BY broker, from_ms, broker_epoch LIMIT ?
"""
_WORST_PARTITIONS: Final = """
SELECT topic, topic_id, partition,
    count(*) FILTER (elected) AS elections,
    count(*) FILTER (unclean) AS unclean_elections,
    count(*) AS states,
    sum(greatest(until_ms - from_ms, 0)) FILTER (leader < 0) AS without_leader_ms,
    max(greatest(taken_ms - from_ms, 0)) AS slowest_role_ms
FROM timelines GROUP BY ALL
ORDER BY unclean_elections DESC, without_leader_ms DESC NULLS LAST, elections DESC, topic, topic_id, partition LIMIT ?
"""


class Summary(Struct, frozen=True):
    """The rows of a report as documents, the most important first.

    Times are in ms since 1970, and as `_time` readable; durations are in ms.
    """

    failovers: list[dict[str, Any]]
    controller_failovers: list[dict[str, Any]]
    broker_sessions: list[dict[str, Any]]
    worst_partitions: list[dict[str, Any]]
    ledgers: list[dict[str, Any]]


def summarize(folder: OutputFolder, limit: int) -> Summary:
    """Summarize the tables with at most `limit` rows of each; ledgers are complete. Raises OutputError."""

    def read(tables: duckdb.DuckDBPyConnection) -> list[Answer]:
        parts = (_FAILOVERS, _CONTROLLER_FAILOVERS, _SESSIONS, _WORST_PARTITIONS)
        return [*(answer(tables, sql, [limit]) for sql in parts), answer(tables, _LEDGERS, [1 << 31])]

    summary = Summary(*(part.dicts() for part in on_tables(folder, read)))
    for row in summary.failovers:
        row["since_last_record_ms"] = since_last_record_ms(row, summary.ledgers)
    return summary


def since_last_record_ms(failover: Mapping[str, Any], ledgers: Iterable[Mapping[str, Any]]) -> int | None:
    """The time from the last record of the first of its brokers to the detection of a failover, in ms.

    The broker died in that time, by its own clock: an upper bound, for an idle broker records nothing. None where that
    is unknown: a run that continued hung, or had lost its session.
    """
    detected_ms, found = failover["detected_ms"], []
    for broker in failover["brokers"] if detected_ms is not None else ():
        runs = [run for run in ledgers if run["node"] == f"broker-{broker}" and _began(run, detected_ms)]
        last_ms = max(runs, key=lambda run: run["first_ms"])["last_ms"] if runs else None
        if last_ms is None or last_ms > detected_ms:
            return None
        found.append(detected_ms - last_ms)
    return max(found, default=None)


def _began(run: Mapping[str, Any], at_ms: int) -> bool:
    return run["first_ms"] is not None and run["first_ms"] <= at_ms
