"""Who may leave, what it leads and follows, and what its absence would cost: values in, values out."""

import copy

import pytest

from cluster.broker import BrokerEpoch, BrokerId, ControllerId, LeaderEpoch, PartitionEpoch
from cluster.errors import ErrorCode
from cluster.requests.elections import ThreatenedPartition
from cluster.requests.plans import DescribedPartition, PlannedRequest
from controller.changes import BrokerShuttingDown, DeletionsQueued, LeadershipsRead
from controller.context import ControllerContext
from controller.decisions.broker_requests import RequestSettings
from controller.decisions.brokers.controlled_shutdown import (
    describe_controlled_shutdown,
    duties_of,
    forecast_controlled_shutdown,
    refuse_controlled_shutdown,
)
from controller.decisions.configs.topic_configs import min_insync_replicas
from controller.decisions.plans import described_partition
from tests.contexts import assignment, context, ids, leadership, tp

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
def test_the_forecast_is_what_the_shutdown_would_decide_and_leaves_the_cluster_alone() -> None:
    view = cluster()
    before = copy.deepcopy(vars(view))
    forecast = forecast_controlled_shutdown(view, ONE)
    assert vars(view) == before
    assert {e.topic_partition: (e.leadership, e.recipients) for e in forecast.elections} == {
        tp("led-0"): (leadership(2, [2, 3], leader_epoch=5, partition_epoch=8, controller_epoch=7), ids(1, 2, 3)),
        # 4 leaves as well, so 2 leads alone.
        tp("led-1"): (leadership(2, [2], leader_epoch=1, partition_epoch=1, controller_epoch=7), ids(1, 4, 2)),
    }
    assert forecast.removals.writes == {
        tp("followed-0"): leadership(2, [3, 2], leader_epoch=1, partition_epoch=1, controller_epoch=7),
        tp("handed-0"): leadership(4, [4], leader_epoch=1, partition_epoch=1, controller_epoch=7),
    }
    assert set(forecast.removals.unchanged) == {tp("lagging-0"), tp("dead-0")}


def test_what_would_suffer_is_named_with_what_is_left_and_what_is_asked_for() -> None:
    view = cluster()
    wanted = {
        "led": 2,
        "stuck": 2,
        "followed": 3,
        "lagging": 2,
        "single": 2,
        "dead": 1,
        "queued": 9,
        "new": 2,
        "handed": 1,
    }
    plan = describe_controlled_shutdown(view, ONE, wanted, ControllerId(1001), RequestSettings())
    assert plan.leaderless == (
        ThreatenedPartition("stuck", 0, 0, 2),
        # Not more than there are replicas.
        ThreatenedPartition("single", 0, 0, 1),
    )
    # led-0 keeps two, lagging has too few as it is, dead has no leader to lose.
    assert plan.below_min_isr == (
        ThreatenedPartition("led", 1, 1, 2),
        ThreatenedPartition("followed", 0, 2, 3),
        # Its leader serves yet, but leaves as well.
        ThreatenedPartition("handed", 0, 0, 1),
    )
    changes = {(change.topic, change.before.partition): change for change in plan.plan.changes}
    assert sorted(changes) == [("followed", 0), ("handed", 0), ("led", 0), ("led", 1)]
    assert changes["led", 0].before == DescribedPartition(
        0, ONE, LeaderEpoch(4), PartitionEpoch(7), ids(1, 2, 3), ids(1, 2, 3)
    )
    assert changes["led", 1].after == DescribedPartition(
        1, BrokerId(2), LeaderEpoch(1), PartitionEpoch(1), ids(2), ids(1, 4, 2), offline_replicas=ids(4)
    )
    assert plan.plan.requests == (
        *(PlannedRequest(BrokerId(b), "LeaderAndIsr", n) for b, n in ((1, 2), (2, 2), (3, 1), (4, 1))),
        *(PlannedRequest(BrokerId(b), "UpdateMetadata", 2) for b in (1, 2, 3, 4)),
        *(PlannedRequest(BrokerId(b), "LeaderAndIsr", n) for b, n in ((2, 1), (3, 2), (4, 1))),
        *(PlannedRequest(BrokerId(b), "UpdateMetadata", 4) for b in (1, 2, 3, 4)),
        PlannedRequest(ONE, "StopReplica", 4),
    )


def test_a_partition_whose_leader_is_dead_loses_nothing() -> None:
    view = context([1, 2], {"t-0": [9, 1]})
    view.apply(LeadershipsRead({tp("t-0"): leadership(9, [9, 1])}))
    plan = describe_controlled_shutdown(view, ONE, {"t": 2}, ControllerId(1001), RequestSettings())
    assert (plan.leaderless, plan.below_min_isr) == ((), ())


def test_a_partition_without_leadership_is_described_as_such() -> None:
    view = context([1], {"t-3": [1, 2]})
    described = described_partition(view, tp("t-3"), None, assignment([1, 2, 3], adding=[3], removing=[1]))
    assert described == DescribedPartition(
        3, BrokerId(-1), LeaderEpoch(-1), PartitionEpoch(-1), (), ids(1, 2, 3), ids(3), ids(1), ids(2, 3)
    )


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
