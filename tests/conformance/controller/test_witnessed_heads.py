"""Heads of state-change logs in control requests: the controller sends its own, and records those in responses."""

import asyncio

import pytest
from msgspec.structs import replace

from cluster.requests.control import StateLogHead
from state_log.record import Kind, Witness
from tests.controllers.elections import cluster
from tests.controllers.worlds import quiesce, run_virtually

OWN = StateLogHead("controller-1001", "1700000000000.7", 41, "ab" * 32)
OF_BROKER = StateLogHead("broker-1", "1700000000001.8", 9, "cd" * 32, "boot")


@pytest.mark.rule("D-50")
def test_requests_have_the_flushed_head_at_the_time_of_sending() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        c.sink.flushed_head = OWN
        await world.create_topic("t", [1, 2])
        await quiesce()
        c.sink.flushed_head = replace(OWN, seq=57)
        await world.create_topic("u", [1, 2])
        await quiesce()
        heads = [request.state_log_head for _, request in c.brokers.received]
        assert set(heads) == {None, OWN, replace(OWN, seq=57)}
        assert heads == sorted(heads, key=lambda head: -1 if head is None else head.seq)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-50")
def test_the_heads_in_responses_are_recorded_once_in_ten_seconds_for_each_broker() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        c.brokers.heads = {1: OF_BROKER, 2: replace(OF_BROKER, node="broker-9")}
        for n in range(30):
            c.brokers.heads[1] = replace(OF_BROKER, seq=n)
            await world.create_topic(f"t{n}", [1, 2])
            await asyncio.sleep(1)
        found = c.sink.of(Kind.WITNESS)
        assert [change.witness and change.witness.seq for change in found] == [0, 10, 20]
        first = Witness(OF_BROKER.node, OF_BROKER.incarnation, 0, OF_BROKER.digest, "boot")
        assert found[0].witness == first
        await c.stop()

    run_virtually(main)
