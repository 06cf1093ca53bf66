"""What makes the controller fast is how little it asks and sends: counts, held on real processes, never times."""

import pathlib

import pytest

from benchmarks.control_plane import Plan, measure
from benchmarks.report import CaseRun

PARTITIONS = 500

# case -> most requests of a kind that one agent gets, and most round trips and requests to ZooKeeper. One LeaderAndIsr
# and one UpdateMetadata belong to each batch: a death makes two batches, elections and then the ISR shrinks.
# Reading and writing 500 partitions one by one would take 500 requests, and more. A failover reads also who holds
# /controller, whether there is an adoption, what brokers that were away have left, what became of
# /controller_epoch by its own write, and which clients and users have quotas. The first one is in an empty ZooKeeper,
# where the paths are created, too.
BOUNDS = {
    "failover": ({"LeaderAndIsr": 1, "UpdateMetadata": 2}, 42, 54),
    "failover-standby": ({"LeaderAndIsr": 1, "UpdateMetadata": 2}, 23, 34),
    "failover-warm": ({"LeaderAndIsr": 1, "UpdateMetadata": 2}, 23, 34),
    "agent-death-isr-shrunk": ({"LeaderAndIsr": 2, "UpdateMetadata": 2}, 8, 10),
    "agent-return": ({"LeaderAndIsr": 1, "UpdateMetadata": 2}, 6, 8),
    # Its replicas are taken offline once more, in a batch of its own.
    "failover-one-dead": ({"LeaderAndIsr": 2, "UpdateMetadata": 3}, 24, 36),
    # One request from each agent that leads, and one batch of metadata after each.
    "alter-partition": ({"UpdateMetadata": 4}, 4, 8),
    "controlled-shutdown": ({"LeaderAndIsr": 2, "UpdateMetadata": 2, "StopReplica": 1}, 4, 8),
    "preferred-election": ({"LeaderAndIsr": 1, "UpdateMetadata": 1}, 2, 4),
    # Recorded and begun at once, then completed with the answer to each of five agents: the leader epoch, the removal
    # of a replica from the ISR and its deletion, and the topics.
    "reassignment": ({"LeaderAndIsr": 12, "UpdateMetadata": 24, "StopReplica": 10}, 90, 120),
    "topic-creation": ({"LeaderAndIsr": 1, "UpdateMetadata": 1}, 8, 12),
    "topic-deletion": ({"StopReplica": 2, "UpdateMetadata": 1}, 24, 32),
}


@pytest.mark.real
async def test_requests_and_round_trips_do_not_grow_with_the_partitions(tmp_path: pathlib.Path) -> None:
    report = await measure(Plan(PARTITIONS, runs=1, idle_s=0.5), tmp_path)
    found = {case.name: case.runs[0] for case in report.cases}
    exceeded = {name: excess(found[name], *bounds) for name, bounds in BOUNDS.items()}
    assert not any(exceeded.values()), exceeded
    assert found.keys() == BOUNDS.keys() | {"agent-death-leaders-moved"}
    assert found["alter-partition"].figures["ISRs proposed"] == PARTITIONS * 3 // 5
    assert found["controlled-shutdown"].figures["partitions led"] == PARTITIONS // 5
    assert found["preferred-election"].figures["leaders elected"] == PARTITIONS
    assert found["reassignment"].figures["partitions moved"] == PARTITIONS
    # Only the returned agent has to be told its partitions; the others learn that it lives.
    assert found["agent-return"].requests["LeaderAndIsr"].total == 1


def excess(case_run: CaseRun, per_agent: dict[str, int], round_trips: int, requests: int) -> list[str]:
    sent = {kind: counted.most_per_agent for kind, counted in case_run.requests.items()}
    exceeded = [f"{kind}: {count} per agent" for kind, count in sent.items() if count > per_agent.get(kind, 0)]
    if not 0 < case_run.zookeeper_round_trips <= round_trips:
        exceeded.append(f"{case_run.zookeeper_round_trips} round trips")
    if not 0 < case_run.zookeeper_requests <= requests:
        exceeded.append(f"{case_run.zookeeper_requests} requests to ZooKeeper")
    return exceeded
