import pytest

from broker_agent.decisions.leader_and_isr import RoleAction, classify_state, validate_epochs, validate_stop
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from cluster.model.errors import ErrorCode
from cluster.requests.control import LeaderAndIsrPartitionState

A, B = TopicId("A" * 22), TopicId("B" * 22)


@pytest.mark.rule("R1.16", "R2.1", "R2.2")
@pytest.mark.parametrize(
    ("broker_epoch", "controller_epoch", "expected"),
    [
        (50, 3, ErrorCode.NONE),
        (-1, 3, ErrorCode.NONE),
        (51, 3, ErrorCode.NONE),
        (49, 3, ErrorCode.STALE_BROKER_EPOCH),
        (50, 4, ErrorCode.NONE),
        (50, 2, ErrorCode.STALE_CONTROLLER_EPOCH),
        (49, 2, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_a_request_with_a_stale_epoch_is_refused_whole(
    broker_epoch: int, controller_epoch: int, expected: ErrorCode
) -> None:
    result = validate_epochs(
        broker_epoch=BrokerEpoch(broker_epoch),
        own_broker_epoch=BrokerEpoch(50),
        controller_epoch=ControllerEpoch(controller_epoch),
        known_controller_epoch=ControllerEpoch(3),
    )
    assert result is expected


@pytest.mark.rule("R2.3", "R2.4", "P27")
@pytest.mark.parametrize(
    ("epoch", "leader", "replicas", "topic_id", "log_id", "expected"),
    [
        (6, 1, (1, 2), A, A, RoleAction.LEAD),
        (6, 1, (1, 2), A, None, RoleAction.LEAD),
        (6, 1, (1, 2), None, A, RoleAction.LEAD),
        (6, 2, (1, 2), A, A, RoleAction.FOLLOW),
        (6, -1, (1, 2), A, A, RoleAction.FOLLOW),
        (6, 2, (2, 3), A, A, RoleAction.REFUSE_NOT_REPLICA),
        (6, 1, (2, 3), A, A, RoleAction.REFUSE_NOT_REPLICA),
        (6, 1, (1, 2), B, A, RoleAction.REFUSE_TOPIC_ID),
        (5, 1, (1, 2), B, A, RoleAction.REFUSE_TOPIC_ID),
        (4, 1, (1, 2), B, A, RoleAction.REFUSE_TOPIC_ID),
        (4, 1, (1, 2), A, A, RoleAction.REFUSE_EPOCH),
        (4, 2, (1, 2), A, None, RoleAction.REFUSE_EPOCH),
        (5, 1, (1, 2), A, A, RoleAction.REFUSE_EPOCH),
        (5, 1, (1, 2), None, None, RoleAction.REFUSE_EPOCH),
        (5, 1, (1, 2), A, None, RoleAction.STORE_TOPIC_ID),
        (5, 2, (1, 2), A, None, RoleAction.STORE_TOPIC_ID),
        (5, 2, (1, 2), None, A, RoleAction.CLEAR_TOPIC_ID),
        (5, 1, (1, 2), None, A, RoleAction.REFUSE_EPOCH),
    ],
)
def test_each_partition_state_is_admitted_by_topic_id_then_leader_epoch_then_role(
    *,
    epoch: int,
    leader: int,
    replicas: tuple[int, ...],
    topic_id: TopicId | None,
    log_id: TopicId | None,
    expected: RoleAction,
) -> None:
    state = LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=ControllerEpoch(1),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        isr=(BrokerId(2),),
        partition_epoch=PartitionEpoch(9),
        replicas=tuple(map(BrokerId, replicas)),
    )
    found = classify_state(
        state, own_id=BrokerId(1), current_epoch=LeaderEpoch(5), topic_id=topic_id, log_topic_id=log_id
    )
    assert found is expected


@pytest.mark.rule("R2.6")
@pytest.mark.parametrize(
    ("admission", "code"),
    [
        (RoleAction.LEAD, ErrorCode.NONE),
        (RoleAction.FOLLOW, ErrorCode.NONE),
        (RoleAction.STORE_TOPIC_ID, ErrorCode.NONE),
        (RoleAction.CLEAR_TOPIC_ID, ErrorCode.NONE),
        (RoleAction.REFUSE_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID),
        (RoleAction.REFUSE_NOT_REPLICA, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (RoleAction.REFUSE_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH),
    ],
)
def test_each_admission_has_its_code(admission: RoleAction, code: ErrorCode) -> None:
    assert admission.code is code


@pytest.mark.rule("R4.2")
@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (-2, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.NONE),
    ],
)
def test_a_stop_with_an_old_epoch_is_fenced(requested: int, expected: ErrorCode) -> None:
    assert validate_stop(LeaderEpoch(requested), LeaderEpoch(5)) is expected


@pytest.mark.rule("R4.15")
@pytest.mark.parametrize("requested", [-2, -1, 4, 5, 6])
@pytest.mark.parametrize(
    ("topic_id", "log_id", "is_other"), [(A, B, True), (A, A, False), (None, B, False), (A, None, False)]
)
def test_a_stop_for_another_topic_of_the_name_is_refused_whatever_its_epoch(
    requested: int, topic_id: TopicId | None, log_id: TopicId | None, is_other: bool
) -> None:
    by_epoch = validate_stop(LeaderEpoch(requested), LeaderEpoch(5))
    expected = ErrorCode.INCONSISTENT_TOPIC_ID if is_other else by_epoch
    assert validate_stop(LeaderEpoch(requested), LeaderEpoch(5), topic_id, log_id) is expected


@pytest.mark.rule("R2.18")
@pytest.mark.parametrize(
    ("epoch", "current", "log_epoch", "expected"),
    [
        (6, -1, 7, RoleAction.REFUSE_EPOCH),
        (7, -1, 7, RoleAction.FOLLOW),
        (8, -1, 7, RoleAction.FOLLOW),
        (6, 5, 6, RoleAction.FOLLOW),
        (6, 6, 6, RoleAction.REFUSE_EPOCH),
        (0, -1, -1, RoleAction.FOLLOW),
    ],
)
def test_an_epoch_below_the_latest_in_the_log_is_refused_although_nothing_newer_is_in_memory(
    epoch: int, current: int, log_epoch: int, expected: RoleAction
) -> None:
    state = LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=ControllerEpoch(1),
        leader=BrokerId(2),
        leader_epoch=LeaderEpoch(epoch),
        isr=(BrokerId(2),),
        partition_epoch=PartitionEpoch(9),
        replicas=(BrokerId(1), BrokerId(2)),
    )
    found = classify_state(
        state,
        own_id=BrokerId(1),
        current_epoch=LeaderEpoch(current),
        topic_id=A,
        log_topic_id=A,
        log_epoch=LeaderEpoch(log_epoch),
    )
    assert found is expected
