"""Findings that are provisional: lines that were not read yet may withdraw them.

Batches read all logs side by side, and not to the same time. What is found about a time that each log was read beyond
stands; what is later than the last line read of a log that has more is decided when that log was read further. A log
that ends before what others have seen of it is only cut when it was read to its end.
"""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from audit.batches.cluster_state import ClusterState
from audit.chains.witnesses import LOG_CUT
from audit.reading.log_files import LogFiles
from audit.report.backlog import backlog_bytes
from audit.storage.commits import Commit
from audit.storage.given_heads import read_given
from audit.storage.output_folder import OutputFolder


class Horizon(NamedTuple):
    """Tells up to which time all logs were read, in ms since 1970, and which logs have lines that were not read yet.

    `behind`: by node/incarnation. `at_ms` is `inf` where nothing is left to read.
    """

    at_ms: float
    behind: frozenset[str]

    def is_provisional(self, finding: Mapping[str, Any]) -> bool:
        """Whether lines that were not read yet may withdraw a finding."""
        if finding["rule"] == LOG_CUT:
            return finding["subject"].removeprefix("log ") in self.behind
        return finding["at_ms"] is not None and finding["at_ms"] > self.at_ms


def horizon_of(folder: OutputFolder, commit: Commit | None, state: ClusterState) -> Horizon:
    """Find up to what all logs were read.

    A log of which nothing was read yet may have lines of any time. Logs that are followed may be behind by their lag.
    Raises OutputError.
    """
    if commit is None:
        return Horizon(inf, frozenset())
    spans = {name.replace("/", "-", 1): (name, span.last_at_ms) for name, span in state.spans.items()}
    folders = sorted({Path(file).parent for file, _ in commit.taken.values()})
    behind = [spans.get(log, (log, -inf)) for log in backlog_bytes(LogFiles(folders), commit)]
    lag_ms = read_given(folder).lag_ms
    newest = [max(at_ms for _, at_ms in spans.values()) - lag_ms] if lag_ms and spans else []
    return Horizon(min([*(at_ms for _, at_ms in behind), *newest], default=inf), frozenset(log for log, _ in behind))
