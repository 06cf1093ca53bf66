"""A role in the state-change log says what the replica had just before it, so that lost records can be counted."""

import pytest

from state_log.record import Kind, StateChange
from tests.brokers.agents import AgentProcess, AgentWorld, until, virtually


def roles(process: AgentProcess) -> list[StateChange]:
    return [change for change in process.records.all if change.kind is Kind.ROLE]


@pytest.mark.rule("R2.15a")
@virtually
async def test_a_role_has_the_high_watermark_and_the_log_end_from_before_it() -> None:
    world = AgentWorld(min_insync_replicas=2)
    await world.start(1, 2)
    await world.create(1, [1, 2])
    first = [role for broker in (1, 2) for role in roles(world.agents[broker])]
    assert [(role.high_watermark, role.log_end_offset) for role in first] == [(0, 0), (0, 0)]
    assert [role.min_insync_replicas for role in first] == [2, None]
    await world.agents[1].produce(3)
    await until(lambda: world.agents[2].offsets() == (3, 3))
    world.decide(2, [2])
    await world.tell(2)
    taken = roles(world.agents[2])[-1]
    assert (taken.to_state, taken.high_watermark, taken.log_end_offset) == ("leader", 3, 3)
    await world.stop()
