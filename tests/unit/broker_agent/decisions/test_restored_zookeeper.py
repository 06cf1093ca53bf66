"""Which controllers an agent obeys after a registration that shows an older ZooKeeper."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_agent.decisions.restored_zookeeper import RestoredZooKeeper
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch
from cluster.requests.cluster import Finding


def restored() -> RestoredZooKeeper:
    """Of broker 3, registered at zxid 0x1f although it had seen 0x2a."""
    state = RestoredZooKeeper(BrokerId(3))
    state.registered(BrokerEpoch(0x1F), 0x2A)
    return state


def refused(state: RestoredZooKeeper, epoch: int) -> bool:
    return state.refuses(ControllerEpoch(epoch))


@pytest.mark.rule("R1.19")
@pytest.mark.parametrize(
    ("zxid", "seen", "suspected"), [(41, 42, True), (42, 42, True), (43, 42, False), (1, 0, False)]
)
def test_a_registration_below_or_at_what_was_seen_shows_a_restore(zxid: int, seen: int, suspected: bool) -> None:
    state = RestoredZooKeeper(BrokerId(3))
    state.registered(BrokerEpoch(zxid), seen)
    assert state.is_suspected is suspected
    assert refused(state, 1000) is suspected
    assert len(list(state.findings())) == suspected


@pytest.mark.rule("R1.19")
def test_without_a_registration_every_controller_is_obeyed() -> None:
    state = RestoredZooKeeper(BrokerId(3))
    assert not state.is_suspected
    assert not refused(state, 0)
    assert list(state.findings()) == []


@pytest.mark.rule("R1.19")
def test_the_finding_names_the_broker_and_both_zxids() -> None:
    assert list(restored().findings()) == [
        Finding(
            "refuses_controller",
            "broker 3 refuses the controller's requests: ZooKeeper was restored from a backup "
            "(it is at zxid 0x1f, 0x2a was seen before) and has not been recovered",
            broker=BrokerId(3),
        )
    ]


@pytest.mark.rule("R1.19")
def test_the_first_controller_above_the_recovery_is_obeyed_and_ends_the_suspicion() -> None:
    state = restored()
    state.recovers(ControllerEpoch(9))
    assert [refused(state, epoch) for epoch in (8, 9)] == [True, True]
    assert state.is_suspected
    assert not refused(state, 10)
    assert not state.is_suspected
    assert list(state.findings()) == []
    # From here on only the usual comparison of epochs applies.
    assert not refused(state, 9)


@pytest.mark.rule("R1.19")
def test_a_repeated_recovery_raises_the_epoch_that_is_obeyed() -> None:
    state = restored()
    state.recovers(ControllerEpoch(9))
    state.recovers(ControllerEpoch(11))
    assert [refused(state, epoch) for epoch in (10, 11, 12)] == [True, True, False]


@pytest.mark.rule("R1.19")
def test_a_second_restore_needs_a_recovery_of_its_own() -> None:
    state = restored()
    state.recovers(ControllerEpoch(9))
    state.registered(BrokerEpoch(0x10), 0x2B)
    assert refused(state, 10)
    assert [f.detail.partition("(")[2].partition(")")[0] for f in state.findings()] == [
        "it is at zxid 0x10, 0x2b was seen before"
    ]


@pytest.mark.rule("R1.19")
def test_a_usual_registration_afterwards_neither_ends_the_suspicion_nor_the_recovery() -> None:
    """A session that expires between the recovery and the election of the next controller."""
    state = restored()
    state.registered(BrokerEpoch(0x30), 0x2F)
    assert refused(state, 10)
    state.recovers(ControllerEpoch(9))
    state.registered(BrokerEpoch(0x31), 0x30)
    assert [refused(state, epoch) for epoch in (9, 10)] == [True, False]


@pytest.mark.rule("R1.19")
def test_a_recovery_without_a_suspicion_refuses_nobody() -> None:
    """Of a broker that saw nothing of the lost transactions."""
    state = RestoredZooKeeper(BrokerId(3))
    state.recovers(ControllerEpoch(9))
    assert not refused(state, 9)


@pytest.mark.rule("R1.19")
@given(st.integers(0, 20), st.lists(st.integers(0, 20)))
def test_until_a_controller_above_the_recovery_nobody_is_obeyed(recovered: int, epochs: list[int]) -> None:
    state = restored()
    assert all(refused(state, epoch) for epoch in epochs)
    state.recovers(ControllerEpoch(recovered))
    first = next((i for i, epoch in enumerate(epochs) if epoch > recovered), len(epochs))
    assert [refused(state, epoch) for epoch in epochs] == [i < first for i in range(len(epochs))]
