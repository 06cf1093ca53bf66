"""Decisions of a controlled shutdown: refusals, led and followed partitions, partitions at risk."""

import pytest

from cluster.model.broker import BrokerEpoch, BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests.elections import ThreatenedPartition
from controller.changes import BrokerShuttingDown, DeletionsQueued, LeadershipsRead
from controller.context.controller_context import ControllerContext
from controller.decisions.brokers.controlled_shutdown import (
    Threats,
    duties_of,
    refuse_controlled_shutdown,
    shutdown_threats,
)
from controller.decisions.configs.topic_configs import min_insync_replicas
from controller.decisions.partitions.leader_election import ControlledShutdown, plan_elections
from controller.decisions.partitions.replica_states import plan_isr_removals
from tests.controllers.contexts import context, ids, leadership, tp

ONE = BrokerId(1)


def cluster() -> ControllerContext:
    """Broker 1 leads `led`, follows in `followed`, is alone in `single`; 4 is registered but leaves as well."""
    made = context(
        [1, 2, 3, 4],
        {
            "led-0": [1, 2, 3],
            "led-1": [1, 4, 2],
            "stuck-0": [1, 2],
            "followed-0": [2, 1, 3],
            "lagging-0": [3, 1],
            "single-0": [1],
            "dead-0": [1, 9],
            "new-0": [1, 2],
            "queued-0": [1, 2],
            "elsewhere-0": [2, 3],
            "handed-0": [4, 1],
        },
    )
    made.apply(
        LeadershipsRead(
            {
                tp("led-0"): leadership(1, [1, 2, 3], leader_epoch=4, partition_epoch=7),
                tp("led-1"): leadership(1, [4, 2, 1]),
                tp("stuck-0"): leadership(1, [1]),
                tp("followed-0"): leadership(2, [3, 1, 2]),
                tp("lagging-0"): leadership(3, [3]),
                tp("single-0"): leadership(1, [1]),
                tp("dead-0"): leadership(-1, [9]),
                tp("queued-0"): leadership(1, [1, 2]),
                tp("elsewhere-0"): leadership(2, [2, 3]),
                tp("handed-0"): leadership(4, [4, 1]),
            }
        )
    )
    made.apply(DeletionsQueued(("queued",)))
    made.apply(BrokerShuttingDown(BrokerId(4), BrokerEpoch(104)))
    return made


@pytest.mark.rule("CS-2", "CS-3", "CS-4", "CS-5", "FN-10")
@pytest.mark.parametrize(
    ("broker", "epoch", "code"),
    [
        (1, 101, ErrorCode.NONE),
        (1, 102, ErrorCode.NONE),
        (1, -1, ErrorCode.NONE),
        (1, 100, ErrorCode.STALE_BROKER_EPOCH),
        (1, 0, ErrorCode.STALE_BROKER_EPOCH),
        (9, -1, ErrorCode.BROKER_NOT_AVAILABLE),
        (9, 101, ErrorCode.BROKER_NOT_AVAILABLE),
    ],
)
def test_only_a_registered_broker_may_leave_and_no_earlier_incarnation_of_it(
    broker: int, epoch: int, code: ErrorCode
) -> None:
    view = context([1, 2], {})
    assert refuse_controlled_shutdown(view, BrokerId(broker), BrokerEpoch(epoch)) is code


@pytest.mark.rule("CS-7", "CS-14")
def test_duties_are_replicated_partitions_with_leadership_that_are_not_being_deleted() -> None:
    duties = duties_of(cluster(), ONE)
    assert duties.led == (tp("led-0"), tp("led-1"), tp("stuck-0"))
    assert duties.followed == (tp("followed-0"), tp("lagging-0"), tp("dead-0"), tp("handed-0"))


@pytest.mark.rule("CS-8", "CS-10", "PS-13", "RM-10", "RM-11")
def test_a_shutdown_elects_among_those_who_stay_and_takes_the_broker_out_of_every_isr() -> None:
    view = cluster()
    duties = duties_of(view, ONE)
    view.apply(BrokerShuttingDown(ONE, BrokerEpoch(101)))
    current: dict[TopicPartition, LeaderAndIsr | None] = dict(view.leaderships.known)
    elections = plan_elections(
        view, {p: current[p] for p in duties.led}, ControlledShutdown(), {}, mark_recovering=True
    ).elections
    assert {e.topic_partition: (e.leadership, e.recipients) for e in elections} == {
        tp("led-0"): (leadership(2, [2, 3], leader_epoch=5, partition_epoch=8, controller_epoch=7), ids(1, 2, 3)),
        # 4 leaves as well, so 2 leads alone.
        tp("led-1"): (leadership(2, [2], leader_epoch=1, partition_epoch=1, controller_epoch=7), ids(1, 4, 2)),
    }
    removals = plan_isr_removals(view, ONE, {p: current[p] for p in duties.followed}, shrinks_to_last=False)
    assert removals.writes == {
        tp("followed-0"): leadership(2, [3, 2], leader_epoch=1, partition_epoch=1, controller_epoch=7),
        tp("handed-0"): leadership(4, [4], leader_epoch=1, partition_epoch=1, controller_epoch=7),
    }
    assert set(removals.unchanged) == {tp("lagging-0"), tp("dead-0")}


def left() -> ControllerContext:
    """After the shutdown of broker 1: others lead or follow without it where somebody else can."""
    after = cluster()
    after.apply(
        LeadershipsRead(
            {
                tp("led-0"): leadership(2, [2, 3], leader_epoch=5, partition_epoch=8),
                # 4 leaves as well, so 2 leads alone.
                tp("led-1"): leadership(2, [2], leader_epoch=1, partition_epoch=1),
                tp("followed-0"): leadership(2, [3, 2], leader_epoch=1, partition_epoch=1),
                tp("handed-0"): leadership(4, [4], leader_epoch=1, partition_epoch=1),
            }
        )
    )
    return after


def test_what_would_suffer_is_named_with_what_is_left_and_what_is_asked_for() -> None:
    wanted = {"led": 2, "stuck": 2, "followed": 3, "lagging": 2, "single": 2, "dead": 1, "handed": 1}
    threats = shutdown_threats(cluster(), left(), ONE, wanted)
    assert threats.leaderless == (
        ThreatenedPartition("stuck", 0, 0, 2),
        # Not more than there are replicas.
        ThreatenedPartition("single", 0, 0, 1),
    )
    # led-0 keeps two, lagging has too few as it is, dead has no leader to lose, new has no state yet.
    assert threats.below_min_isr == (
        ThreatenedPartition("led", 1, 1, 2),
        ThreatenedPartition("followed", 0, 2, 3),
        # Its leader serves yet, but leaves as well.
        ThreatenedPartition("handed", 0, 0, 1),
    )


@pytest.mark.parametrize(("required", "is_threatened"), [(1, False), (2, True), (3, False)])
def test_only_who_has_enough_in_sync_now_can_fall_below(required: int, is_threatened: bool) -> None:
    before = context([1, 2, 3], {"t-0": [1, 2, 3]}, {"t-0": leadership(1, [1, 2])})
    after = context([1, 2, 3], {"t-0": [1, 2, 3]}, {"t-0": leadership(2, [2])})
    threats = shutdown_threats(before, after, ONE, {"t": required})
    assert threats.leaderless == ()
    assert threats.below_min_isr == ((ThreatenedPartition("t", 0, 1, required),) if is_threatened else ())


def test_a_leader_that_is_itself_leaving_is_a_leader_still() -> None:
    view = context([1, 2], {"t-0": [2, 1]}, {"t-0": leadership(2, [2, 1])})
    view.apply(BrokerShuttingDown(BrokerId(2), BrokerEpoch(102)))
    assert shutdown_threats(view, view, ONE, {"t": 2}).below_min_isr == (ThreatenedPartition("t", 0, 0, 2),)


def test_a_partition_whose_leader_is_dead_loses_nothing() -> None:
    view = context([1, 2], {"t-0": [9, 1], "t-1": [1, 2]}, {"t-0": leadership(9, [9, 1]), "t-1": leadership(1, [1])})
    threats = shutdown_threats(view, view, ONE, {"t": 2})
    assert threats == Threats((ThreatenedPartition("t", 1, 0, 2),), ())


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, 2),
        ({"min.insync.replicas": "3"}, 3),
        ({"min.insync.replicas": "0"}, 2),
        ({"min.insync.replicas": "many"}, 2),
        ({"retention.ms": "5"}, 2),
    ],
)
def test_a_topic_asks_for_as_many_replicas_as_it_says_if_that_makes_sense(
    configs: dict[str, str], expected: int
) -> None:
    assert min_insync_replicas(configs, 2) == expected
