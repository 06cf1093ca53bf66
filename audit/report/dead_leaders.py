"""Partitions that a dead or stopping broker leads at the end of the logs, as no controller elected another leader."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow

from audit.batches.cluster_state import ClusterState
from audit.records.columns import partition_keys
from audit.records.findings import AuditFinding
from audit.rules.dead_leaders import DEAD_LEADER, DEAD_LEADERS
from audit.rules.rule import Awaited
from audit.rules.stopping_leaders import STOPPING_LEADER, STOPPING_LEADERS
from audit.rules.subjects import reference
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import SESSIONS_TABLE, TOPICS_TABLE
from cluster.model.printable import counted
from state_log.causes import utc_text

_NAMED_MAX: Final = 20


def dead_leader_findings(folder: OutputFolder, commit: Commit | None, state: ClusterState) -> Iterator[AuditFinding]:
    """Find the brokers that have led on for too long after they died, or began to shut down: one finding for each.

    Raises OutputError.
    """
    if commit is not None:
        yield from _leading(folder, commit, state, DEAD_LEADERS, (DEAD_LEADER, "dead"))
        yield from _leading(folder, commit, state, STOPPING_LEADERS, (STOPPING_LEADER, "shutting down"))


def _leading(
    folder: OutputFolder, commit: Commit, state: ClusterState, table: Awaited, rule: tuple[str, str]
) -> Iterator[AuditFinding]:
    """Find the brokers in a table of absent leaders. `rule`: its id, and how the brokers were recorded."""
    newest_ms = max((ms for node, ms in state.last_at_ms.items() if node.startswith("controller-")), default=0)
    limit_ms = commit.limits.leaderless_ms
    led: dict[int, list[Mapping[str, Any]]] = {}
    for bucket in commit.buckets.values():
        for run in folder.runs(bucket.runs.get(table.name, ())):
            for row in run.rows.to_pylist():
                if newest_ms - row["at_ms"] > limit_ms:
                    led.setdefault(row["broker"], []).append(row)
    if not led:
        return
    live_ms, doomed = _live_since(folder), _in_deletion(folder)
    for broker, of_broker in sorted(led.items()):
        rows = [row for row in of_broker if row["key"] not in doomed]
        if not rows:
            continue
        first = min(rows, key=lambda row: (row["at_ms"], reference(row)))
        died_ms = first["at_ms"]
        if live_ms.get(broker, died_ms) > died_ms:
            continue
        message = (
            f"broker {broker}, recorded as {rule[1]} at {utc_text(died_ms)}, still leads "
            f"{counted(len({row['key'] for row in rows}), 'partition')} at the end of the logs, "
            f"{(newest_ms - died_ms) / 1000:.0f} s later: more than {limit_ms // 1000} s"
        )
        records = (reference(first), *sorted({row["state"] for row in rows})[: _NAMED_MAX - 1])
        yield AuditFinding(rule[0], f"broker {broker}", message, records, at_ms=died_ms)


def _live_since(folder: OutputFolder) -> dict[int, int]:
    """Find since when brokers have been live that are so, by controllers or by themselves, in ms since 1970."""
    rows = [
        row for row in folder.current_rows(SESSIONS_TABLE) if row["until_ms"] is None and row["from_ms"] is not None
    ]
    return {row["broker"]: row["from_ms"] for row in sorted(rows, key=lambda row: row["from_ms"])}


def _in_deletion(folder: OutputFolder) -> frozenset[int]:
    """Find the keys of the partitions whose deletion is under way: it elects nobody, and waits for dead brokers."""
    rows = [row for row in folder.current_rows(TOPICS_TABLE) if row["ended"] is None and row["queued_ms"] is not None]
    place = [(row, number) for row in rows for number in range(row["partitions"] or 0)]
    topic, topic_id = (
        pyarrow.array([row[name] for row, _ in place], pyarrow.string()).dictionary_encode()
        for name in ("topic", "topic_id")
    )
    keys = partition_keys(topic, topic_id, pyarrow.array([number for _, number in place], pyarrow.int32()))
    return frozenset(keys.tolist())
