"""What brokers refuse: known from the epochs in their responses, forgotten when they obey."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.broker import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.control import (
    ControlResponse,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from controller.decisions.brokers.refusals import NO_REFUSALS, Refusals, refusal_findings, refusals_after

ID = TopicId("A" * 21 + "Q")
HEAD = (ControllerId(1001), ControllerEpoch(9), BrokerEpoch(104))
STALE = ErrorCode.STALE_CONTROLLER_EPOCH


def request(*epochs: int) -> LeaderAndIsrRequest:
    states = tuple(
        LeaderAndIsrPartitionState(
            p, ControllerEpoch(9), BrokerId(1), LeaderEpoch(e), (BrokerId(1),), PartitionEpoch(0), (BrokerId(1),)
        )
        for p, e in enumerate(epochs)
    )
    return LeaderAndIsrRequest(*HEAD, (LeaderAndIsrTopicState("t", ID, states),))


def response(*partitions: tuple[ErrorCode, int]) -> LeaderAndIsrResponse:
    """Brokers name a topic by its id."""
    errors = tuple(
        LeaderAndIsrPartitionError("", ID, p, code, LeaderEpoch(known)) for p, (code, known) in enumerate(partitions)
    )
    return LeaderAndIsrResponse(ErrorCode.NONE, errors)


def details(refusals: Refusals) -> list[str]:
    found = list(refusal_findings(BrokerId(3), refusals, ControllerEpoch(9), BrokerEpoch(104)))
    assert {f.broker for f in found} <= {3}
    return [f.detail for f in found]


@pytest.mark.rule("AG-10")
@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (LeaderAndIsrResponse(STALE, (), ControllerEpoch(12), BrokerEpoch(104)), "its epoch 12 is newer than 9"),
        (UpdateMetadataResponse(STALE, ControllerEpoch(12), BrokerEpoch(104)), "its epoch 12 is newer than 9"),
        (
            StopReplicaResponse(ErrorCode.STALE_BROKER_EPOCH, (), ControllerEpoch(9), BrokerEpoch(150)),
            "its broker epoch 150 is newer than 104",
        ),
    ],
)
def test_a_refused_request_names_the_epoch_until_one_is_obeyed(refused: ControlResponse, why: str) -> None:
    asked = {
        LeaderAndIsrResponse: request(),
        UpdateMetadataResponse: UpdateMetadataRequest(*HEAD),
        StopReplicaResponse: StopReplicaRequest(*HEAD),
    }[type(refused)]
    refusals = refusals_after(NO_REFUSALS, asked, refused)
    assert details(refusals) == [f"broker 3 refuses the controller's requests: {why}"]
    assert refusals_after(refusals, UpdateMetadataRequest(*HEAD), UpdateMetadataResponse(ErrorCode.NONE)) == NO_REFUSALS


@pytest.mark.rule("AG-10")
def test_a_refusal_that_names_no_newer_epoch_is_none_to_report() -> None:
    """An agent that names no newer one has another reason, which it reports itself; a repeated request is refused with
    the same code.
    """
    known = LeaderAndIsrResponse(STALE, (), ControllerEpoch(9), BrokerEpoch(104))
    assert details(refusals_after(NO_REFUSALS, request(), known)) == []
    assert refusals_after(NO_REFUSALS, request(3), response((STALE, -1))) == NO_REFUSALS


@pytest.mark.rule("AG-10", "D-94")
def test_a_refusal_as_stale_that_names_no_epoch_at_all_is_reported_until_a_request_is_obeyed() -> None:
    """As Kafka's brokers refuse."""
    refusals = refusals_after(NO_REFUSALS, request(), LeaderAndIsrResponse(STALE))
    assert details(refusals) == [
        "broker 3 refuses the controller's requests: it knows a newer epoch than 9, and does not say which"
    ]
    assert refusals_after(refusals, UpdateMetadataRequest(*HEAD), UpdateMetadataResponse(ErrorCode.NONE)) == NO_REFUSALS


@pytest.mark.rule("AG-10", "D-94")
def test_a_broker_that_no_epoch_satisfies_is_to_be_restarted() -> None:
    absurd = Refusals(controller_epoch=ControllerEpoch(2**31 - 1))
    assert "restart the broker" in details(absurd)[0]
    high = refusal_findings(BrokerId(3), Refusals(is_stale=True), ControllerEpoch(2**30), BrokerEpoch(104))
    assert ["restart the broker" in found.detail for found in high] == [True]


@pytest.mark.rule("AG-10")
def test_partitions_with_newer_leader_epochs_are_counted_until_each_is_obeyed() -> None:
    refusals = refusals_after(NO_REFUSALS, request(4, 5, 6, 7), response(*[(STALE, 8)] * 4))
    assert details(refusals) == [
        "broker 3 refuses the controller's requests for t-0, t-1, t-2 and 1 more: "
        "its leader epochs are newer, 8 against 4 of t-0"
    ]
    refusals = refusals_after(refusals, UpdateMetadataRequest(*HEAD), UpdateMetadataResponse(ErrorCode.NONE))
    assert len(refusals.leader_epochs) == 4
    refusals = refusals_after(refusals, request(9), response((ErrorCode.NONE, -1)))
    assert sorted(refusals.leader_epochs) == [TopicPartition("t", p) for p in (1, 2, 3)]


@pytest.mark.rule("AG-10")
def test_logs_of_another_topic_of_the_name_are_reported() -> None:
    refusals = refusals_after(NO_REFUSALS, request(0), response((ErrorCode.INCONSISTENT_TOPIC_ID, -1)))
    assert details(refusals) == [
        "broker 3 refuses the controller's requests for t-0: its logs are of another topic of that name"
    ]
    assert refusals_after(refusals, request(1), response((ErrorCode.NONE, -1))) == NO_REFUSALS


@given(st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=4), max_size=6))
def test_what_is_kept_is_what_was_answered_last(rounds: list[list[tuple[bool, int]]]) -> None:
    """By a plain model: the last answer about each partition counts."""
    refusals, model = NO_REFUSALS, {}
    for asked in rounds:
        answers = [(STALE, epoch + 1) if refuse else (ErrorCode.NONE, -1) for refuse, epoch in asked]
        refusals = refusals_after(refusals, request(*[epoch for _, epoch in asked]), response(*answers))
        for partition, (refuse, epoch) in enumerate(asked):
            model[partition] = (epoch, epoch + 1) if refuse else None
    assert {tp.partition: tuple(e) for tp, e in refusals.leader_epochs.items()} == {
        p: epochs for p, epochs in model.items() if epochs is not None
    }
