"""The ends of the logs in an output folder: what witnesses and given heads show of what was read so far.

This depends on how far the logs were read, so these findings are no rows of the findings' table.
"""

from typing import NamedTuple

from audit.batches.cluster_state import ClusterState
from audit.chains.line_digests import DIGESTS, find_digests
from audit.chains.witnesses import (
    Ends,
    OpenEnds,
    ReadLog,
    Witnessed,
    add_witnessed,
    check_ends,
    open_ends,
    with_unconfirmed,
    witnessed_by_heads,
)
from audit.records.sorted_runs import Runs
from audit.storage.commits import Commit
from audit.storage.given_heads import Given, read_given
from audit.storage.output_folder import OutputFolder
from state_log.chain import CHAIN_BREAK


class CheckedEnds(NamedTuple):
    """Holds what was found, and the logs whose ends were not checked."""

    ends: Ends
    open: OpenEnds


def check_log_ends(folder: OutputFolder, commit: Commit | None, state: ClusterState) -> CheckedEnds:
    """Compare what was read with what was seen of it. Raises OutputError."""
    given = read_given(folder)
    logs, latest = _logs(state), dict(state.witnessed)
    add_witnessed(latest, witnessed_by_heads(given.heads))
    latest = with_unconfirmed(latest, state.unconfirmed, logs)
    runs = Runs([]) if commit is None else folder.table_runs(commit.cluster, DIGESTS)
    digests = find_digests(runs, {(log, each.seq) for log, seen in latest.items() for each in seen.values()})
    ends = check_ends(latest, logs, lambda log, seq: digests[log, seq], _Lag(given, state).explains)
    return CheckedEnds(ends, open_ends(given.heads, {name: log.next_seq for name, log in state.incarnations.items()}))


def _logs(state: ClusterState) -> dict[str, ReadLog]:
    found = {}
    for name, log in state.incarnations.items():
        span = state.spans.get(name)
        found[name] = ReadLog(
            log.next_seq,
            log.missing,
            "" if span is None else span.boot_id,
            is_malformed=name.replace("/", "-", 1) in state.malformed,
            is_broken=CHAIN_BREAK in state.faults.get(name, ()),
        )
    return found


class _Lag:
    """Tells whether what was read of a log may only be behind what was seen of it."""

    def __init__(self, given: Given, state: ClusterState) -> None:
        self._lag_ms, self._last_at_ms = given.lag_ms, state.last_at_ms

    def explains(self, seen: Witnessed) -> bool:
        if not self._lag_ms:
            return False
        node = seen.by.partition("/")[0]
        # By the clock of the witness; given heads are of the time of the newest record, more or less.
        now_ms = self._last_at_ms.get(node, max(self._last_at_ms.values(), default=0))
        return now_ms < seen.at_ms + self._lag_ms
