"""Findings that a missing line may explain: they stand only where nothing is missing in the logs of their records."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from audit.batches.cluster_state import ClusterState
from audit.reading.kafka.log_state import TRACE
from audit.records.findings import AuditFinding
from audit.report.rule_catalogue import EXPLANATIONS
from state_log.chain import DUPLICATE_SEQUENCE, OUT_OF_ORDER


def lacking_lines(state: ClusterState, doubled: Iterable[AuditFinding]) -> frozenset[str]:
    """The logs (node/incarnation; of Apache Kafka, the incarnation alone) in which lines between others are missing or
    unclear, and those of second processes under an id (`doubled`).

    Each of these is a finding, or makes the audit incomplete, by itself. A log that lost its beginning, as retention
    deletes it, has all lines between those that are there.
    """
    found = {name for name, log in state.incarnations.items() if any(first > 0 for first, _ in log.missing)}
    found |= {name for name in state.incarnations if name.replace("/", "-", 1) in state.malformed}
    found |= {name for name, faults in state.faults.items() if not faults.keys().isdisjoint(_UNCLEAR)}
    of_kafka = state.kafka.logs.items()
    found |= {name for name, log in of_kafka if log.level != TRACE or log.quarantined or log.content.untraced.count}
    return frozenset(found) | {record.rpartition("/")[0] for each in doubled for record in each.records}


_UNCLEAR: Final = (OUT_OF_ORDER, DUPLICATE_SEQUENCE)


def is_explained_by(finding: Mapping[str, Any], lacking: frozenset[str]) -> bool:
    """Whether a line that is missing in one of these logs may explain the finding."""
    explanation = EXPLANATIONS.get(finding["rule"])
    if explanation is None or not explanation.of_whole_logs:
        return False
    logs = (record.rpartition("/")[0] for record in finding["records"])
    return any(log in lacking or log.partition("/")[2] in lacking for log in logs)
