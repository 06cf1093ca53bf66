"""A broker that lives but lost one disk: every decision asks for the replica's own disk, partition by partition.

Brokers 1, 2 and 3 live. The replica of t-0 on broker 1 is on a failed disk, that of t-1 beside it is healthy.
"""

import pytest

from cluster.model.broker import BrokerId
from cluster.model.state_machines import PartitionState
from controller.changes import DeletionsQueued, LeadershipsRead, OfflineReplicasReported
from controller.context.controller_context import ControllerContext
from controller.decisions.broker_requests import ControlBatch, RequestSettings
from controller.decisions.brokers.controlled_shutdown import shutdown_threats
from controller.decisions.partition_descriptions import described_partition
from controller.decisions.partitions.leader_election import (
    ControlledShutdown,
    ElectionFailure,
    Offline,
    Preferred,
    Reassign,
    Strategy,
    plan_elections,
)
from controller.decisions.partitions.partition_states import initial_partition_state, plan_initialisations
from controller.decisions.reassignment.phases import keeps_leader
from controller.decisions.reassignment.progress import describe_reassignment, stuck_reason
from controller.decisions.topics.deletion import plan_start, topics_with_offline_replicas
from controller.decisions.topics.deletion_progress import describe_deletion
from tests.controllers.contexts import context, ids, leadership, tp

ONE, ME = BrokerId(1), BrokerId(1001)
BROKEN, HEALTHY = tp("t-0"), tp("t-1")


def cluster(isr: tuple[int, ...] = (1, 2)) -> ControllerContext:
    known = leadership(1, isr)
    built = context([1, 2, 3], {"t-0": [1, 2], "t-1": [1, 2]}, {"t-0": known, "t-1": known})
    built.apply(OfflineReplicasReported(ONE, frozenset([BROKEN])))
    return built


@pytest.mark.rule("CX-2", "PS-22")
@pytest.mark.parametrize(
    ("strategy", "of_broken", "of_healthy"),
    [
        (Offline(), 2, 1),
        (Reassign(), 2, 1),
        (Preferred(), None, 1),
        (ControlledShutdown(), 2, 1),
    ],
)
def test_no_strategy_elects_a_replica_on_a_failed_disk(
    strategy: Strategy, of_broken: int | None, of_healthy: int
) -> None:
    view = cluster()
    plan = plan_elections(view, dict(view.leaderships.known), strategy, {}, mark_recovering=True)
    assert {e.topic_partition: e.leadership.leader for e in plan.elections} == {
        tp_: leader for tp_, leader in ((BROKEN, of_broken), (HEALTHY, of_healthy)) if leader is not None
    }
    # Only a strategy that tells everybody tells a replica that cannot listen.
    recipients = {e.topic_partition: e.recipients for e in plan.elections}
    if isinstance(strategy, Offline | ControlledShutdown):
        assert recipients == {BROKEN: (2,), HEALTHY: (1, 2)}


@pytest.mark.rule("PS-20")
def test_settings_that_cannot_be_read_matter_where_the_only_member_in_sync_lost_its_disk() -> None:
    view, broken = cluster(isr=(1,)), ElectionFailure("cannot be read")
    plan = plan_elections(view, dict(view.leaderships.known), Offline(), {"t": broken}, mark_recovering=True)
    assert plan.failures == {BROKEN: broken}
    assert [e.leadership.leader for e in plan.elections] == [1]


@pytest.mark.rule("PS-7", "PS-30")
def test_states_and_first_leaders_follow_the_disk() -> None:
    view = cluster()
    assert initial_partition_state(view, BROKEN) is PartitionState.OFFLINE
    assert initial_partition_state(view, HEALTHY) is PartitionState.ONLINE
    created = plan_initialisations(view, [BROKEN, HEALTHY]).creations
    assert {p: (state.leader, state.isr) for p, state in created.items()} == {BROKEN: (2, (2,)), HEALTHY: (1, (1, 2))}


@pytest.mark.rule("CX-2", "RQ-6")
def test_metadata_and_descriptions_name_the_offline_replica() -> None:
    view = cluster()
    batch = ControlBatch(view)
    batch.add_update_metadata_for_all([BROKEN, HEALTHY])
    _, request = batch.requests(ME, RequestSettings())[0]  # type: ignore[arg-type]
    states = request.topic_states[0].partition_states  # type: ignore[union-attr]
    assert [s.offline_replicas for s in states] == [(1,), ()]  # type: ignore[union-attr]
    assert [s.controller_epoch for s in states] == [1, 1]
    described = [described_partition(view, p) for p in (BROKEN, HEALTHY)]
    assert [(d.partition, d.offline_replicas) for d in described] == [(0, (1,)), (1, ())]


@pytest.mark.rule("RA-18")
def test_a_move_needs_a_leader_with_a_disk() -> None:
    view = cluster()
    assert not keeps_leader(view, BROKEN, ids(1, 2))
    assert keeps_leader(view, HEALTHY, ids(1, 2))
    assert stuck_reason(view, BROKEN) == "the partition has no leader to copy from"
    assert stuck_reason(view, HEALTHY) == ""
    assert [t.alive for t in describe_reassignment(view, BROKEN).targets] == [False, True]


@pytest.mark.rule("TD-13", "FO-7")
def test_a_deletion_waits_for_the_replica_on_the_failed_disk() -> None:
    view = cluster()
    assert topics_with_offline_replicas(view, ["t"]) == {"t"}
    view.apply(DeletionsQueued(("t",)))
    start = plan_start(view, ["t"])
    assert start.alive == {1: [HEALTHY], 2: [BROKEN, HEALTHY]}
    assert start.held == ("t",)
    reasons = {(w.partition, w.broker_id): w.reason for w in describe_deletion(view, "t").waiting}
    assert reasons == {
        (0, 1): "the log directory on broker 1 has failed",
        (0, 2): "",
        (1, 1): "",
        (1, 2): "",
    }


@pytest.mark.rule("CS-7", "CS-8")
def test_a_broker_that_lost_the_disk_of_a_partition_threatens_only_the_others_by_leaving() -> None:
    view = cluster(isr=(1,))
    threats = shutdown_threats(view, view, ONE, {"t": 1})
    # t-0 has no leader now, so nothing is lost there.
    assert [(t.topic, t.partition, t.isr_after, t.min_insync_replicas) for t in threats.leaderless] == [("t", 1, 0, 1)]
    followed, after = cluster(isr=(1, 2)), cluster(isr=(1, 2))
    followed.apply(LeadershipsRead({p: leadership(2, [1, 2]) for p in (BROKEN, HEALTHY)}))
    # Nobody else can lead t-0, and broker 1 leads t-1 alone.
    after.apply(LeadershipsRead({BROKEN: leadership(2, [1, 2]), HEALTHY: leadership(1, [1])}))
    threats = shutdown_threats(followed, after, BrokerId(2), {"t": 2})
    assert [(t.partition, t.isr_after) for t in threats.leaderless] == [(0, 0)]
    assert [(t.partition, t.isr_after) for t in threats.below_min_isr] == [(1, 1)]
