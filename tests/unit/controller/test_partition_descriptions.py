"""Partitions and requests in the terms of the API, field by field."""

import pytest

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerId, LeaderEpoch, PartitionEpoch
from cluster.model.state_machines import ReplicaState
from cluster.requests.control import ControlRequest
from cluster.requests.plans import DescribedPartition, PlannedRequest
from controller.changes import BrokerShuttingDown, OfflineReplicasReported, ReassignmentsWritten, ReplicasMoved
from controller.decisions.broker_requests import ControlBatch, RequestSettings
from controller.decisions.partition_descriptions import described_partition, planned_request
from tests.controllers.contexts import assignment, context, ids, leadership, tp


def test_a_partition_is_described_with_its_epochs_and_lists() -> None:
    view = context([1, 2, 3], {"t-3": [1, 2, 9]}, {"t-3": leadership(2, [2, 1], leader_epoch=4, partition_epoch=6)})
    view.apply(ReassignmentsWritten({tp("t-3"): assignment([3, 1, 2, 9], [3], [1, 9])}))
    assert described_partition(view, tp("t-3")) == DescribedPartition(
        partition=3,
        leader=BrokerId(2),
        leader_epoch=LeaderEpoch(4),
        partition_epoch=PartitionEpoch(6),
        isr=ids(2, 1),
        replicas=ids(3, 1, 2, 9),
        adding_replicas=ids(3),
        removing_replicas=ids(1, 9),
        offline_replicas=ids(9),
    )


def test_a_partition_without_leadership_is_described_as_such() -> None:
    view = context([1], {"t-3": [1, 2]})
    view.apply(ReassignmentsWritten({tp("t-3"): assignment([1, 2, 3], adding=[3], removing=[1])}))
    assert described_partition(view, tp("t-3")) == DescribedPartition(
        3, BrokerId(-1), LeaderEpoch(-1), PartitionEpoch(-1), (), ids(1, 2, 3), ids(3), ids(1), ids(2, 3)
    )
    assert described_partition(view, tp("t-4")) == DescribedPartition(
        4, BrokerId(-1), LeaderEpoch(-1), PartitionEpoch(-1), (), ()
    )


@pytest.mark.rule("CX-1", "CX-2")
def test_a_replica_is_offline_on_a_dead_or_leaving_broker_and_on_a_failed_disk() -> None:
    view = context([1, 2, 3], {"t-0": [1, 2, 3, 9]}, {"t-0": leadership(1, [1])})
    view.apply(BrokerShuttingDown(BrokerId(2), BrokerEpoch(102)))
    view.apply(OfflineReplicasReported(BrokerId(3), frozenset([tp("t-0")])))
    assert described_partition(view, tp("t-0")).offline_replicas == ids(2, 3, 9)


def test_of_a_deletion_those_replicas_are_shown_that_it_has_left() -> None:
    view = context([1, 2], {"t-0": [1, 2, 9]}, {"t-0": leadership(1, [1])})
    for state in (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL):
        view.apply(ReplicasMoved(BrokerId(1), {tp("t-0"): ReplicaState.NON_EXISTENT}, state))
    assert described_partition(view, tp("t-0")).replicas == ids(1, 2, 9)
    described = described_partition(view, tp("t-0"), undeleted=True)
    assert (described.replicas, described.offline_replicas) == (ids(2, 9), ids(9))


def _requests(*, stops: tuple[bool, ...] = ()) -> list[tuple[BrokerId, ControlRequest]]:
    view = context([1], {"t-0": [1], "t-1": [1], "u-0": [1]}, {n: leadership(1, [1]) for n in ("t-0", "t-1", "u-0")})
    batch = ControlBatch(view)
    if not stops:
        for name in ("t-0", "t-1", "u-0"):
            batch.add_leader_and_isr(ids(1), tp(name), view.leaderships.known[tp(name)], assignment([1]), is_new=False)
    for partition, delete in enumerate(stops):
        batch.add_stop_replica(BrokerId(1), tp(f"t-{partition}"), delete=delete)
    return batch.requests(ControllerId(1001), RequestSettings())


def test_a_planned_request_says_how_many_partitions_it_is_about() -> None:
    assert [planned_request(b, r) for b, r in _requests()] == [
        PlannedRequest(BrokerId(1), "LeaderAndIsr", 3),
        PlannedRequest(BrokerId(1), "UpdateMetadata", 3),
    ]


@pytest.mark.parametrize(
    ("stops", "planned"),
    [
        ((False, False), [(2, False)]),
        ((True, True), [(2, True)]),
    ],
)
def test_a_planned_stop_says_whether_replicas_are_deleted(
    stops: tuple[bool, ...], planned: list[tuple[int, bool]]
) -> None:
    found = [planned_request(b, r) for b, r in _requests(stops=stops)]
    assert found == [PlannedRequest(BrokerId(1), "StopReplica", count, delete) for count, delete in planned]
