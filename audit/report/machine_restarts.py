"""What may be behind committed records that are not there: machines that were restarted, by their boot ids."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow.dataset

from audit.batches.cluster_state import ClusterState
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import RECORDS_TABLE
from state_log.machine_restarts import OF_LOST_RECORDS, MachineRestart, machine_restarts, restarts_before

_Name = tuple[str, str | None, int]
"""Topic, topic id, partition."""
_OF_REPLICAS: Final = ("topic", "topic_id", "partition", "replicas")


def restarts_behind(
    folder: OutputFolder, state: ClusterState, findings: Sequence[Mapping[str, Any]]
) -> list[list[str]]:
    """Name the machines whose restart may explain each finding about records that were committed, a text for each.

    The text is about the last restart before it of the machine of a replica of the partition. There is none for
    findings of other rules, and where the records are no longer kept.
    """
    boots = {(span.node, span.incarnation): span.boot_id for span in state.spans.values() if span.boot_id}
    restarts = machine_restarts(boots)
    topics = {f["topic"] for f in findings if f["rule"] in OF_LOST_RECORDS}
    replicas = _replicas(folder, topics) if restarts and topics else {}
    return [_last_of_each(restarts, finding, replicas) for finding in findings]


def _last_of_each(
    restarts: Sequence[MachineRestart], finding: Mapping[str, Any], replicas: Mapping[_Name, set[int]]
) -> list[str]:
    if finding["rule"] not in OF_LOST_RECORDS:
        return []
    record = finding["records"][-1]
    of_partition = replicas.get((finding["topic"], finding["topic_id"], finding["partition"]), set())
    node = record.partition("/")[0]
    found = restarts_before(finding["rule"], restarts, node, finding["at_ms"], of_partition)
    return list({restart.node: str(restart) for restart in found}.values())


def _replicas(folder: OutputFolder, topics: set[str]) -> Mapping[_Name, set[int]]:
    found: dict[_Name, set[int]] = defaultdict(set)
    for row in folder.rows(RECORDS_TABLE, _OF_REPLICAS, pyarrow.dataset.field("topic").isin(sorted(topics))):
        if row["replicas"] is not None and row["partition"] is not None:
            found[row["topic"], row["topic_id"], row["partition"]].update(row["replicas"])
    return found
