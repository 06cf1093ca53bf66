"""What is left to recover is shown while logs are recovered, and not afterwards."""

import asyncio

import pytest

from tests.brokers.agents import AgentWorld, virtually


@pytest.mark.rule("R9.14")
@virtually
async def test_the_gauges_of_recovery_vanish_when_it_ends() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    await world.agents[1].produce(5)
    process = world.agents[1]
    shown = set[str]()
    gauge = process.metrics.gauge

    def watched(domain: str, type_: str, name: str, **tags: object) -> object:
        shown.add(name)
        return gauge(domain, type_, name, **tags)

    await process.crash()
    await asyncio.sleep(10)
    process.metrics.gauge = watched  # type: ignore[method-assign, assignment]
    await process.start()
    recovery = {"remainingLogsToRecover", "remainingSegmentsToRecover"}
    assert recovery <= shown
    left = {family.name for family in process.metrics.collect()}
    assert not [name for name in left if "torecover" in name]
    await world.stop()
