"""Which events each kind of state change becomes."""

from typing import Any

import pytest

from cluster.model.broker import BrokerId, ControllerId
from cluster.requests.cluster import ClusterEvent
from controller.changes import ReassignmentsStarted, ReassignmentsWritten
from controller.context.controller_context import ControllerContext
from controller.decisions.cluster_events import (
    REASSIGNMENT_CANCELLED,
    REASSIGNMENT_COMPLETED,
    REASSIGNMENT_STARTED,
    cluster_events,
    recorded_as,
)
from state_log.record import Kind, LoadedPartition, StateChange
from tests.controllers.contexts import EPOCH, assignment, context, ids, leadership, tp

ME = ControllerId(1001)


def world() -> ControllerContext:
    cluster = context([1, 2, 3], {"t-0": [1, 2]}, {"t-0": leadership(2, [2, 1], leader_epoch=4)})
    cluster.apply(ReassignmentsWritten({tp("t-0"): assignment([1, 2, 3], [3], [2])}))
    return cluster


def change(kind: Kind, to_state: str | None = None, **fields: Any) -> StateChange:
    return StateChange(kind=kind, to_state=to_state, **fields)


def partition(kind: Kind, to_state: str | None = None, number: int = 0, **fields: Any) -> StateChange:
    return change(kind, to_state, topic="t", partition=number, **fields)


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ([change(Kind.BROKER, "live", broker=1)], ["broker_joined"]),
        ([change(Kind.BROKER, "bounced", broker=1)], ["broker_left", "broker_joined"]),
        ([change(Kind.BROKER, "dead", broker=1)], ["broker_left"]),
        ([change(Kind.BROKER, "shutting_down", broker=1)], ["broker_changed"]),
        ([change(Kind.BROKER, "changed", broker=1)], ["broker_changed"]),
        ([change(Kind.BROKER, "live", broker=1), change(Kind.BROKER, "live", broker=2)], ["broker_joined"] * 2),
        ([change(Kind.TOPIC, "created", topic="t")], ["topic_created"]),
        ([change(Kind.TOPIC, "queued for deletion", topic="t")], ["topic_deletion_started"]),
        ([change(Kind.TOPIC, "deleted", topic="t")], ["topic_deleted"]),
        ([change(Kind.TOPIC, "removed", topic="t")], ["topic_deleted"]),
        ([partition(Kind.PARTITION, "NewPartition")], ["partitions_added"]),
        ([partition(Kind.PARTITION, "NewPartition", p) for p in range(3)], ["partitions_added"]),
        (
            [change(Kind.TOPIC, "created", topic="t"), partition(Kind.PARTITION, "NewPartition")],
            ["topic_created"],
        ),
        ([partition(Kind.PARTITION, "OfflinePartition")], []),
        (
            [
                partition(Kind.PARTITION, "OfflinePartition"),
                partition(Kind.PARTITION, "OnlinePartition", leader=BrokerId(2)),
                partition(Kind.PARTITION, "OnlinePartition", leader=BrokerId(2)),
            ],
            ["leader_changed"],
        ),
        ([partition(Kind.ISR, leader=BrokerId(2))], ["isr_changed"]),
        ([partition(Kind.ISR, leader=BrokerId(-1))], ["leader_changed", "isr_changed"]),
        ([partition(Kind.ASSIGNMENT, REASSIGNMENT_STARTED)], ["reassignment_started"]),
        ([partition(Kind.ASSIGNMENT, REASSIGNMENT_COMPLETED)], ["reassignment_completed"]),
        (
            [partition(Kind.ASSIGNMENT, REASSIGNMENT_CANCELLED), partition(Kind.ASSIGNMENT, REASSIGNMENT_COMPLETED)],
            ["reassignment_cancelled"],
        ),
        (
            [partition(Kind.ASSIGNMENT, REASSIGNMENT_CANCELLED), partition(Kind.ASSIGNMENT, REASSIGNMENT_COMPLETED, 1)],
            ["reassignment_cancelled", "reassignment_completed"],
        ),
        ([partition(Kind.ASSIGNMENT), partition(Kind.ASSIGNMENT, REASSIGNMENT_COMPLETED)], ["reassignment_completed"]),
        ([partition(Kind.REPLICA, "OnlineReplica", broker=1)], []),
        ([change(Kind.CONTROLLER, "active", broker=1001)], []),
        ([change(Kind.LOADED, topic="t", partitions=tuple[LoadedPartition, ...]())], []),
    ],
)
def test_each_change_is_reported_once_under_its_name(changes: list[StateChange], kinds: list[str]) -> None:
    assert [event.kind for event in cluster_events(world(), changes, ME, 5)] == kinds


def test_a_partition_is_reported_as_it_is_after_the_event() -> None:
    (event,) = cluster_events(world(), [partition(Kind.PARTITION, "OnlinePartition", leader=BrokerId(1))], ME, 5)
    assert event == ClusterEvent(
        kind="leader_changed",
        at_ms=5,
        controller_epoch=EPOCH,
        controller=ME,
        topic="t",
        partition=0,
        leader=BrokerId(2),
        leader_epoch=leadership(2, [2], leader_epoch=4).leader_epoch,
        isr=ids(2, 1),
        replicas=ids(1, 2, 3),
        adding_replicas=ids(3),
        removing_replicas=ids(2),
    )


def test_events_about_brokers_topics_and_unknown_partitions_carry_what_there_is() -> None:
    broker, topic, added, gone = cluster_events(
        world(),
        [
            change(Kind.BROKER, "live", broker=7),
            change(Kind.TOPIC, "deleted", topic="u"),
            partition(Kind.PARTITION, "NewPartition", 3),
            change(Kind.ISR, topic="u", partition=9, leader=BrokerId(1)),
        ],
        ME,
        5,
    )
    assert (broker.broker, broker.topic, broker.partition) == (7, "", -1)
    assert (topic.topic, topic.broker, topic.partition) == ("u", -1, -1)
    assert (added.topic, added.partition) == ("t", -1)
    assert (gone.topic, gone.partition, gone.leader, gone.leader_epoch, gone.isr) == ("u", 9, -1, -1, ())


def test_a_written_list_of_replicas_starts_ends_or_only_precedes_a_move() -> None:
    cluster = world()
    assert recorded_as(cluster, tp("t-0"), assignment([1, 2, 3], [3], [2])) == REASSIGNMENT_STARTED
    assert recorded_as(cluster, tp("t-0"), assignment([2, 1])) is None
    cluster.apply(ReassignmentsStarted((tp("t-0"),)))
    assert recorded_as(cluster, tp("t-0"), assignment([1, 2])) == REASSIGNMENT_CANCELLED
