"""An ISR that the controller accepted is in the leader's state-change log: after a restart nothing else of it is."""

import pytest

from broker_agent.decisions.known_leaderships import newest, recorded_leaderships
from cluster.model.broker import ControllerEpoch, ControllerId
from cluster.requests.control import RequestCause
from state_log.record import Cause, Kind, LoggedStateChange
from tests.brokers.agents import TOPIC_ID, TP, AgentWorld, until, virtually

EVENT = RequestCause(ControllerId(1001), ControllerEpoch(5), "AlterPartitionReceived", 21)


@pytest.mark.rule("RC-2", "R8.14")
@pytest.mark.parametrize(
    ("named", "cause"),
    [
        (EVENT, Cause("AlterPartition", 21, ControllerId(1001), ControllerEpoch(5))),
        (None, Cause("AlterPartition")),
    ],
    ids=["the controller's event", "a controller of an earlier release"],
)
def test_accepted_isr_changes_are_recorded_and_found_again(named: RequestCause | None, cause: Cause) -> None:
    accepted_isr_changes_are_recorded(named, cause)


@virtually
async def accepted_isr_changes_are_recorded(named: RequestCause | None, cause: Cause) -> None:
    world = AgentWorld(replica_lag_time_max_ms=3000)
    world.controller.cause = named
    await world.start(1, 2)
    await world.create(1, [1, 2])
    await world.agents[2].crash()
    leader = world.agents[1]
    await leader.produce(1)
    await until(lambda: world.states[TP].isr == (1,))
    await until(lambda: leader.partition().isr == (1,))
    (change,) = [r for r in leader.records.all if r.cause == cause]
    assert (change.kind, change.to_state, change.isr, change.partition_epoch) == (Kind.ROLE, "leader", (1,), 1)
    assert (change.topic_id, change.leader, change.leader_epoch, change.replicas) == (TOPIC_ID, 1, 0, (1, 2))
    logged = [_logged(record, number) for number, record in enumerate(leader.records.all)]
    (known,) = newest(recorded_leaderships(logged)).values()
    assert (known.isr, known.partition_epoch) == ((1,), 1)
    await world.agents[1].stop()


def _logged(record: object, number: int) -> LoggedStateChange:
    fields = {name: getattr(record, name) for name in record.__struct_fields__}  # type: ignore[attr-defined]
    return LoggedStateChange(**fields, v=2, seq=number, node="broker-1", incarnation="1", at_ms=number)
