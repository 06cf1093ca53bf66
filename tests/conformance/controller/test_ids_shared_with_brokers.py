"""A candidate that somebody started under the id of a broker of Kafka, before `klamm adopt` could refuse it."""

import pytest

from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.znodes.paths import BROKERS_IDS, CONTROLLER_EPOCH, broker_path
from cluster.znodes.registrations import encode_broker
from cluster.zookeeper.port import Create
from tests.controllers.controller_elections import active_controller, epoch, owner
from tests.controllers.worlds import World, quiesce, run_virtually, until
from tests.kafka.competitors import RunningCompetitor, ruling_broker


async def broker_that_rules(world: World) -> RunningCompetitor:
    """Broker 1, registered in the session that holds `/controller`, as each broker of Kafka has one session."""
    await world.create(BROKERS_IDS)
    await world.create(CONTROLLER_EPOCH, b"0")
    broker = await ruling_broker(world)
    record = encode_broker(Broker(BrokerId(1), (Endpoint("host1", 9092),)), 1)
    await broker.zookeeper.multi([Create(broker_path(BrokerId(1)), record, ephemeral=True)])
    return broker


@pytest.mark.rule("D-92", "TO-6")
@pytest.mark.parametrize("ids", [(1,), (901, 1)])
def test_candidates_that_wait_for_an_adoption_leave_the_broker_its_role(ids: tuple[int, ...]) -> None:
    async def main() -> None:
        world = await World().start()
        broker = await broker_that_rules(world)
        candidates = [world.start_controller(id_, governs_kafka=True) for id_ in ids]
        await quiesce(30)
        assert await owner(world) == 1
        assert await epoch(world) == (b"1", 1)
        assert broker.competitor.epoch_won == 1
        for c in candidates:
            await c.stop()
        assert await epoch(world) == (b"1", 1)
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("TO-11", "D-88")
def test_a_candidate_under_the_id_of_a_broker_does_not_take_that_out_of_the_cluster() -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(CONTROLLER_EPOCH, b"0")
        c = await active_controller(world.start_controller(901, governs_kafka=True, takeover="atomic"))
        await world.start_broker(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1, isr=(1, 2))
        await until(lambda: c.gauge("ActiveBrokerCount") == 2)
        misnamed = world.start_controller(1, governs_kafka=True, takeover="atomic")
        await quiesce(10)
        assert c.gauge("ActiveBrokerCount") == 2
        await world.leads("t", leader=1, isr=(1, 2))
        await misnamed.stop()
        await c.stop()

    run_virtually(main)
