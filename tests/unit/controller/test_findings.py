"""What the active controller reports as wrong: silent brokers, shutdowns and deletions that do not end."""

import pytest

from cluster.broker import BrokerEpoch, BrokerId, ControllerEpoch
from cluster.state_machines import ReplicaState
from controller import changes
from controller.decisions.brokers.refusals import ChannelState, Refusals
from controller.decisions.findings import findings
from tests.contexts import context as context_of
from tests.contexts import tp

SILENT = ChannelState(silent_s=31)


@pytest.mark.rule("AG-10")
def test_all_is_well() -> None:
    context = context_of([1, 2], {"t-0": [1, 2]})
    assert list(findings(context, {BrokerId(1): ChannelState(silent_s=30)}, 0)) == []


@pytest.mark.rule("AG-10")
def test_a_broker_that_refuses_and_one_that_is_silent() -> None:
    context = context_of([1, 2], {"t-0": [1, 2]})
    refusals = Refusals(ControllerEpoch(context.epoch + 3), BrokerEpoch(-1), {}, frozenset([tp("gone-0")]))
    found = list(findings(context, {BrokerId(1): ChannelState(refusals), BrokerId(2): SILENT}, 0))
    assert [(f.kind, f.broker, f.detail) for f in found] == [
        (
            "refuses_controller",
            1,
            f"broker 1 refuses the controller's requests: its epoch {context.epoch + 3} is newer than {context.epoch}",
        ),
        ("silent_broker", 2, "broker 2 is registered, but has not responded to a request for 31 s"),
    ]


@pytest.mark.rule("AG-10")
def test_a_shutdown_that_lasts() -> None:
    context = context_of([1, 2], {"t-0": [1, 2]})
    context.apply(changes.BrokerShuttingDown(BrokerId(2), context.broker_epochs[BrokerId(2)], 1_000_000))
    assert list(findings(context, {}, 1_120_999)) == []
    (found,) = findings(context, {}, 1_121_000)
    assert (found.kind, found.broker) == ("stuck_shutdown", 2)
    assert found.detail.startswith("broker 2 has been shutting down for 121 s")


@pytest.mark.rule("AG-10")
def test_a_deletion_that_waits_for_a_silent_broker() -> None:
    context = context_of([1, 2], {"t-0": [1, 2]})
    context.apply(changes.DeletionsQueued(("t",)))
    for broker in (1, 2):
        states = {tp("t-0"): ReplicaState.OFFLINE}
        context.apply(changes.ReplicasMoved(BrokerId(broker), states, ReplicaState.DELETION_STARTED))
    found = list(findings(context, {BrokerId(2): SILENT}, 0))
    assert [(f.kind, f.topic, f.broker) for f in found] == [("silent_broker", "", 2), ("stuck_deletion", "t", -1)]
    assert found[1].detail == "the deletion waits for brokers 2, which do not respond"
