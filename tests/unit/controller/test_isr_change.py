"""Every result of validating a proposed ISR, and the order of the checks."""

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import RECOVERED, RECOVERING
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.znodes.left_replicas import LeftReplicas
from controller.changes import BrokerShuttingDown, LeadershipsRead, LeftReplicasRecorded, TopicsListed
from controller.decisions.partitions.isr_change import plan_isr_changes, refuse_alter_partition
from tests.controllers.contexts import EPOCH, context, ids, leadership, tp

E = ErrorCode


def item(
    isr: tuple[int, ...] = (1, 2),
    *,
    leader_epoch: int = 5,
    partition_epoch: int = 9,
    recovery: int = RECOVERED,
    topic_id: str | None = "id-of-t",
    partition: int = 0,
) -> AlterPartitionItem:
    return AlterPartitionItem(
        "t",
        None if topic_id is None else TopicId(topic_id),
        partition,
        LeaderEpoch(leader_epoch),
        ids(*isr),
        PartitionEpoch(partition_epoch),
        recovery,
    )


def request(*items: AlterPartitionItem, broker: int = 1, epoch: int = 101) -> AlterPartitionRequest:
    return AlterPartitionRequest(BrokerId(broker), BrokerEpoch(epoch), items)


def cluster(recovery: int = RECOVERED):  # type: ignore[no-untyped-def]
    known = leadership(1, [1, 2, 3], leader_epoch=5, partition_epoch=9, recovery=recovery)
    built = context([1, 2, 3, 4], {"t-0": [1, 2, 3]}, {"t-0": known})
    built.apply(BrokerShuttingDown(BrokerId(4), BrokerEpoch(104)))
    return built


@pytest.mark.rule("IS-9a", "IS-9b", "IS-9c", "IS-9d", "IS-9e", "IS-9f", "IS-9g", "IS-9h", "IS-10", "IS-11")
@pytest.mark.parametrize(
    ("proposal", "before", "expected"),
    [
        (item(topic_id="nobody's"), RECOVERED, E.UNKNOWN_TOPIC_ID),
        (item(partition=7), RECOVERED, E.UNKNOWN_TOPIC_OR_PARTITION),
        (item(partition_epoch=10), RECOVERED, E.NOT_CONTROLLER),
        (item(leader_epoch=6), RECOVERED, E.NOT_CONTROLLER),
        (item(leader_epoch=6, partition_epoch=8), RECOVERED, E.NOT_CONTROLLER),
        (item(leader_epoch=4), RECOVERED, E.FENCED_LEADER_EPOCH),
        (item((1, 9), leader_epoch=4, partition_epoch=8), RECOVERED, E.FENCED_LEADER_EPOCH),
        (item((1, 2, 3)), RECOVERED, E.NONE),
        (item((1, 2, 3), partition_epoch=3), RECOVERED, E.NONE),
        (item((1, 3, 2), partition_epoch=3), RECOVERED, E.INVALID_UPDATE_VERSION),
        (item(partition_epoch=8), RECOVERED, E.INVALID_UPDATE_VERSION),
        (item((1, 9), partition_epoch=8), RECOVERED, E.INVALID_UPDATE_VERSION),
        (item((1, 2), recovery=RECOVERING), RECOVERING, E.INVALID_REQUEST),
        (item((1,), recovery=RECOVERING), RECOVERED, E.INVALID_REQUEST),
        (item((1, 9)), RECOVERED, E.INELIGIBLE_REPLICA),
        (item((1, 4)), RECOVERED, E.INELIGIBLE_REPLICA),
        (item((1, 4), topic_id=None), RECOVERED, E.OPERATION_NOT_ATTEMPTED),
        (item((1, 9), topic_id=None), RECOVERED, E.OPERATION_NOT_ATTEMPTED),
        (item(()), RECOVERED, E.INVALID_REQUEST),
    ],
)
def test_a_refused_or_repeated_proposal_is_answered_without_a_write(
    proposal: AlterPartitionItem, before: int, expected: ErrorCode
) -> None:
    plan = plan_isr_changes(cluster(before), request(proposal))
    (result,) = plan.results
    assert plan.accepted == ()
    assert result is not None
    assert result.error_code is expected
    if expected is E.NONE:
        assert (result.leader_id, result.leader_epoch, result.partition_epoch) == (1, 5, 9)
        assert result.isr == (1, 2, 3)


@pytest.mark.rule("D-102", "IS-9a")
def test_an_id_that_may_be_a_lost_one_does_not_make_the_leader_give_up() -> None:
    view = cluster()
    (unknown,) = plan_isr_changes(view, request(item(topic_id="x"))).results
    view.apply(TopicsListed(("t", "lost")))
    (lost,) = plan_isr_changes(view, request(item(topic_id="x"))).results
    assert unknown is not None
    assert lost is not None
    assert (unknown.error_code, lost.error_code) == (E.UNKNOWN_TOPIC_ID, E.INELIGIBLE_REPLICA)


@pytest.mark.rule("D-99")
@pytest.mark.parametrize(
    ("broker", "topic", "expected"),
    [(2, "t", E.INELIGIBLE_REPLICA), (2, "u", None), (3, "t", None)],
    ids=["a member", "another topic", "no member"],
)
def test_a_member_that_has_a_deleted_topic_of_the_name_is_ineligible(
    broker: int, topic: str, expected: ErrorCode | None
) -> None:
    view = cluster()
    view.apply(LeftReplicasRecorded({BrokerId(broker): {topic: LeftReplicas(TopicId("id-of-former"), (0,))}}))
    (result,) = plan_isr_changes(view, request(item((1, 2)))).results
    assert (None if result is None else result.error_code) is expected


@pytest.mark.rule("IS-13", "IS-18", "IS-20", "IS-12")
@pytest.mark.parametrize(
    ("proposal", "before"),
    [
        (item((1, 2)), RECOVERED),
        (item((3, 1, 2)), RECOVERED),
        (item((1,), recovery=RECOVERING), RECOVERING),
        (item((1, 2)), RECOVERING),
        (item((2,)), RECOVERED),
        (item((1, 2), topic_id=None), RECOVERED),
    ],
)
def test_an_accepted_proposal_keeps_the_leader_epoch(proposal: AlterPartitionItem, before: int) -> None:
    plan = plan_isr_changes(cluster(before), request(proposal))
    assert plan.results == (None,)
    (accepted,) = plan.accepted
    assert accepted.topic_partition == tp("t-0")
    assert accepted.leadership == leadership(
        1,
        proposal.new_isr,
        leader_epoch=5,
        partition_epoch=10,
        controller_epoch=EPOCH,
        recovery=proposal.leader_recovery_state,
    )


@pytest.mark.rule("D-105", "IS-11", "IS-12")
@pytest.mark.parametrize("leader", [1, -1])
@pytest.mark.parametrize(
    ("proposal", "expected"),
    [
        (item((2,)), E.INVALID_REQUEST),
        (item((1, 2, 3)), E.INVALID_REQUEST),
        (item((2,), topic_id=None), E.INVALID_REQUEST),
        (item((2,), partition_epoch=8), E.INVALID_REQUEST),
        (item((9,)), E.INVALID_REQUEST),
        (item(()), E.INVALID_REQUEST),
        (item((2,), leader_epoch=4), E.FENCED_LEADER_EPOCH),
        (item((2,), leader_epoch=6), E.NOT_CONTROLLER),
        (item((2,), partition_epoch=10), E.NOT_CONTROLLER),
    ],
)
def test_a_replica_that_does_not_lead_changes_nothing(
    proposal: AlterPartitionItem, expected: ErrorCode, leader: int
) -> None:
    view = cluster()
    view.apply(LeadershipsRead({tp("t-0"): leadership(leader, [1, 2, 3], leader_epoch=5, partition_epoch=9)}))
    plan = plan_isr_changes(view, request(proposal, broker=2, epoch=102))
    (result,) = plan.results
    assert plan.accepted == ()
    assert result is not None
    assert result.error_code is expected


@pytest.mark.rule("IS-15")
def test_all_partitions_of_known_topics_are_announced_refused_ones_too() -> None:
    plan = plan_isr_changes(cluster(), request(item(), item(partition=7), item(topic_id="x", partition=8)))
    assert plan.partitions == (tp("t-0"), tp("t-7"))


@pytest.mark.rule("IS-6", "IS-7", "IS-8", "FN-10")
@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (request(item()), E.NONE),
        (request(item(), broker=9, epoch=109), E.STALE_BROKER_EPOCH),
        (request(item(), epoch=100), E.STALE_BROKER_EPOCH),
        (request(item(), epoch=102), E.STALE_BROKER_EPOCH),
        (request(item(), epoch=-1), E.STALE_BROKER_EPOCH),
        (request(replace(item(), leader_recovery_state=2)), E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_the_sender_must_be_the_registered_incarnation(sent: AlterPartitionRequest, expected: ErrorCode) -> None:
    assert refuse_alter_partition(cluster(), sent) is expected


@pytest.mark.rule("IS-10")
@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ((), E.NONE),
        ((-1, -1, -1), E.NONE),
        ((-1, -1, 103), E.NONE),
        ((101, 102, 103), E.NONE),
        ((-1, -1, 102), E.INELIGIBLE_REPLICA),
        ((-1, -1, 104), E.NONE),
        ((0, 0, 0), E.NONE),
        # The lowest epoch that a broker may have had is one.
        ((-1, -1, 1), E.INELIGIBLE_REPLICA),
    ],
)
def test_a_member_that_fetched_under_an_earlier_broker_epoch_is_not_let_in(
    epochs: tuple[int, ...], expected: E
) -> None:
    proposal = replace(item((1, 2, 3)), new_isr_epochs=tuple(map(BrokerEpoch, epochs)))
    known = leadership(1, [1, 2], leader_epoch=5, partition_epoch=9)
    view = context([1, 2, 3], {"t-0": [1, 2, 3]}, {"t-0": known})
    assert {BrokerId(b): e for b, e in view.brokers.epochs.items()} == {1: 101, 2: 102, 3: 103}
    [result] = plan_isr_changes(view, request(proposal)).results
    assert (ErrorCode.NONE if result is None else result.error_code) is expected


@pytest.mark.rule("IS-10")
def test_epochs_must_fit_the_members() -> None:
    proposal = replace(item((1, 2, 3)), new_isr_epochs=(BrokerEpoch(101),))
    view = context([1, 2, 3], {"t-0": [1, 2, 3]}, {"t-0": leadership(1, [1, 2], leader_epoch=5, partition_epoch=9)})
    assert refuse_alter_partition(view, request(proposal)) is E.INVALID_REQUEST
    # Who does not ask that first is stopped, and no member goes unjudged.
    with pytest.raises(ValueError, match="zip"):
        plan_isr_changes(view, request(proposal))
