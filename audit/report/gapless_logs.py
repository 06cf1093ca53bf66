"""Findings that hold only where a log has all its lines: what would explain them may be in one that is missing."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from audit.batches.cluster_state import ClusterState
from audit.rules.committed_records import ELECTED_HAS_COMMITTED, HIGH_WATERMARK_NEVER_FALLS
from audit.rules.elected_brokers import ELECTED_IS_LIVE, IN_SYNC_IS_LIVE, SHUTDOWN_LEAVES_ISR, UNCLEAN_PASSES_OVER

_RULES: Final = frozenset(
    {
        *(ELECTED_HAS_COMMITTED, HIGH_WATERMARK_NEVER_FALLS),
        *(ELECTED_IS_LIVE, IN_SYNC_IS_LIVE, SHUTDOWN_LEAVES_ISR, UNCLEAN_PASSES_OVER),
    }
)


def logs_with_gaps(state: ClusterState) -> frozenset[str]:
    """The logs (node/incarnation) in which lines between others are missing or malformed."""
    return frozenset(
        name
        for name, log in state.incarnations.items()
        if any(first > 0 for first, _ in log.missing) or name.replace("/", "-", 1) in state.malformed
    )


def may_be_explained(finding: Mapping[str, Any], gaps: Collection[str]) -> bool:
    """Whether a line that is missing, in one of these logs, may show that a finding is none."""
    return finding["rule"] in _RULES and any(record.rpartition("/")[0] in gaps for record in finding["records"])
