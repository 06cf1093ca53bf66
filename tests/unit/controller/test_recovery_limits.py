"""What no recovery writes: epochs and ids that nothing could follow, whoever names them."""

import pytest
from msgspec.structs import replace

from cluster.model.broker import ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.model.partition import LeaderAndIsr
from cluster.requests.recovery import DescribedReplica
from controller.decisions.recovery.limits import EPOCH_MAX, PRODUCER_ID_MAX, WRITES_MAX
from controller.decisions.recovery.plan import RecoveryPlan, RestoredCluster, plan_recovery
from tests.controllers.contexts import leadership
from tests.unit.controller.test_recovery import Knowledge, answers, known, only, plan, replica, restored

EMPTY = RestoredCluster({}, {}, ControllerEpoch(9))
_FORGET = (
    "restart the broker, which then forgets what it was only sent; if it names it again, stop it, and move its"
    " directory state-change-log elsewhere"
)
_STATE = "/brokers/topics/t/partitions/0/state"


def both(cluster: RestoredCluster, of: Knowledge) -> tuple[RecoveryPlan, RecoveryPlan]:
    """The plan, and that with accepted loss."""
    return plan(cluster, of), plan_recovery(cluster, answers(of), accept_loss=True)


@pytest.mark.rule("RC-9")
@pytest.mark.parametrize("accept_loss", [False, True])
def test_a_controller_epoch_that_no_controller_had_is_refused_and_not_taken(accept_loss: bool) -> None:
    known_by = {1: 2**31 - 1, 2: EPOCH_MAX, 3: EPOCH_MAX + 1}
    of = {
        b: replace(a, controller_epoch=ControllerEpoch(known_by[b]))
        for b, a in answers({b: ([], []) for b in known_by}).items()
    }
    planned = plan_recovery(EMPTY, of, accept_loss=accept_loss)
    assert planned.controller_epoch == EPOCH_MAX
    assert planned.refusals == planned.obstacles
    assert planned.obstacles == tuple(
        f"broker {b} knows controller epoch {known_by[b]}, more than elections lead to (at most 1073741824): {_FORGET}"
        for b in (1, 3)
    )


@pytest.mark.rule("RC-9")
@pytest.mark.parametrize(("epoch", "refused"), [(EPOCH_MAX + 5, False), (EPOCH_MAX + 6, True)])
def test_epochs_of_a_cluster_that_is_above_the_limit_already_are_used(epoch: int, refused: bool) -> None:
    cluster = RestoredCluster({}, {}, ControllerEpoch(EPOCH_MAX + 5))
    planned = plan_recovery(cluster, answers({1: ([], [])}, controller_epoch=epoch), accept_loss=False)
    assert (planned.controller_epoch, bool(planned.obstacles)) == (EPOCH_MAX + 5, refused)


@pytest.mark.rule("RC-9")
@pytest.mark.parametrize(
    ("logs", "named"),
    [
        ({1: (EPOCH_MAX, EPOCH_MAX)}, "broker 1 knows"),
        ({1: (EPOCH_MAX, 4), 2: (4, 4)}, "broker 1 knows"),
        ({1: (4, EPOCH_MAX), 2: (EPOCH_MAX, 5)}, "brokers 1, 2 know"),
    ],
)
def test_a_leader_epoch_that_no_election_led_to_is_refused_with_the_brokers_that_know_it(
    logs: dict[int, tuple[int, int]], named: str
) -> None:
    def log(leader_epoch: int, log_epoch: int) -> DescribedReplica:
        return replace(replica(log_epoch, 9), leader_epoch=LeaderEpoch(leader_epoch))

    other = replica(5, 9, topic="u")
    of: Knowledge = {b: ([log(*logs[b]), other] if b in logs else [other], []) for b in (1, 2, 3)}
    for planned in both(restored(), of):
        assert planned.obstacles == (
            f"{named} leader epoch {EPOCH_MAX} of t-0, more than elections lead to (at most {EPOCH_MAX}): {_FORGET},"
            " or, if it is in its log, the directory t-0",
        )
        assert planned.refusals[:1] == planned.obstacles
        assert [topic.topic for topic in planned.topics] == ["u"]


@pytest.mark.rule("RC-9")
def test_each_topic_that_cannot_be_written_is_an_obstacle() -> None:
    of: Knowledge = {1: ([replica(EPOCH_MAX, 9), replica(EPOCH_MAX, 9, topic="u")], [])}
    for planned in both(restored(), of):
        assert [obstacle.split(",")[0] for obstacle in planned.obstacles] == [
            f"broker 1 knows leader epoch {EPOCH_MAX} of {partition}" for partition in ("t-0", "u-0")
        ]


@pytest.mark.rule("RC-9")
def test_the_highest_leader_epoch_that_a_recovery_writes() -> None:
    of: Knowledge = {b: ([replica(5, 9)], [known(EPOCH_MAX - 1, 12, [1, 2, 3])]) for b in (1, 2, 3)}
    planned = plan(restored(), of)
    assert (only(planned).after.leader_epoch, planned.refusals) == (EPOCH_MAX, ())
    # Of another partition and of another topic.
    beyond = [known(EPOCH_MAX, 1, [3], [3], topic="v", partition=0)]
    planned = plan(restored(), {b: (logs, [*led, *beyond]) for b, (logs, led) in of.items()})
    assert (only(planned).after.leader_epoch, planned.obstacles) == (EPOCH_MAX, ())


@pytest.mark.rule("RC-9")
def test_a_leader_epoch_of_the_backup_that_none_should_follow_is_refused_with_its_znode() -> None:
    cluster = restored(leadership(1, [1, 2, 3], leader_epoch=EPOCH_MAX, partition_epoch=7))
    of: Knowledge = {b: ([replica(5, 9)], [known(5, 12, [2, 3], partition=0)]) for b in (1, 2, 3)}
    for planned in both(cluster, of):
        assert planned.obstacles == (
            f"{_STATE} has leader epoch {EPOCH_MAX} of t-0, more than elections lead to (at most {EPOCH_MAX}):"
            " create the topic again, under another name, and delete this one",
        )


@pytest.mark.rule("RC-9")
@pytest.mark.parametrize(
    ("before", "refused_from", "version"),
    [
        (leadership(1, [1, 2, 3], leader_epoch=3, partition_epoch=7), WRITES_MAX + 7, 7),
        (None, WRITES_MAX - 1, -1),
    ],
)
def test_a_partition_epoch_that_takes_too_many_writes_is_refused(
    before: LeaderAndIsr | None, refused_from: int, version: int
) -> None:
    cluster = restored() if before is not None else RestoredCluster({}, {}, ControllerEpoch(9))

    def of(partition_epoch: int) -> Knowledge:
        led = [known(5, partition_epoch, [1, 2, 3]), known(5, refused_from + 1, [9], [9], topic="v")]
        return {1: ([replica(5, 9)], led), 2: ([replica(5, 9)], []), 3: ([replica(5, 9)], [])}

    planned = plan(cluster, of(refused_from - 1))
    assert (only(planned).after.partition_epoch, planned.obstacles) == (PartitionEpoch(refused_from), ())
    for planned in both(cluster, of(refused_from)):
        assert planned.topics == ()
        assert planned.obstacles == (
            f"broker 1 knows partition epoch {refused_from} of t-0, more than 1000000 above the {version} of"
            f" {_STATE}: {_FORGET}",
        )


@pytest.mark.rule("RC-9")
def test_a_producer_id_that_no_controller_allocated_is_refused_unless_loss_is_accepted() -> None:
    ids = {1: PRODUCER_ID_MAX, 2: PRODUCER_ID_MAX + 1, 3: 7}
    of = {b: replace(a, producer_id=ids[b]) for b, a in answers({b: ([], []) for b in ids}).items()}
    planned = plan_recovery(EMPTY, of, accept_loss=False)
    assert planned.refusals == (
        f"broker 2 has records of producer id {PRODUCER_ID_MAX + 1}, which no controller allocated; if loss is"
        " accepted, it is ignored, and ids below it that are in use there may be allocated again",
    )
    accepted = plan_recovery(EMPTY, of, accept_loss=True)
    assert (accepted.refusals, planned.obstacles, accepted.last_producer_id) == ((), (), PRODUCER_ID_MAX)


@pytest.mark.rule("RC-9")
@pytest.mark.parametrize("accept_loss", [False, True])
def test_a_malformed_block_of_producer_ids_is_refused_with_its_znode(accept_loss: bool) -> None:
    cluster = RestoredCluster({}, {}, ControllerEpoch(9), malformed_producer_ids="not JSON")
    refusal = (
        "the znode /latest_producer_id_block is malformed (not JSON): set it to empty data; the recovery then raises it"
        " above the ids that brokers have seen"
    )
    planned = plan_recovery(cluster, {}, accept_loss=accept_loss)
    assert (planned.obstacles, planned.refusals) == ((refusal,), (refusal,))
