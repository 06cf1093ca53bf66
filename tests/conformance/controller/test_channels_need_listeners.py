"""Which brokers get a channel, and what happens to those without the listener."""

import pytest
from msgspec.structs import replace

from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.requests.cluster import DescribeFindingsRequest
from cluster.requests.control import LeaderAndIsrRequest, UpdateMetadataRequest
from cluster.znodes.paths import broker_path
from cluster.znodes.registrations import encode_broker
from cluster.zookeeper.port import Create, Delete, SetData
from tests.controllers.worlds import quiesce, run_virtually, running_cluster, until


@pytest.mark.rule("RQ-30")
def test_a_broker_without_the_listener_is_left_out_until_it_offers_it() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        external = Broker(BrokerId(2), (Endpoint("host2", 9093, "EXTERNAL"),))
        await world.create(broker_path(external.id), encode_broker(external, 1))
        await world.create_topic("t", [2, 1])
        # Nobody could tell broker 2 that it leads.
        await world.leads("t", leader=1, isr=[1])
        assert c.gauge("ActiveBrokerCount") == 1
        await c.stop()
        successor = world.start_controller()
        await until(lambda: successor.is_active)
        assert successor.gauge("ActiveBrokerCount") == 1
        (finding,) = (await successor.ask(DescribeFindingsRequest())).findings
        assert (finding.kind, finding.broker) == ("broker_not_admitted", 2)
        mended = replace(external, endpoints=(*external.endpoints, Endpoint("host2", 9092)))
        await world.write(SetData(broker_path(external.id), encode_broker(mended, 1)))
        await until(lambda: successor.brokers.of(2, LeaderAndIsrRequest))
        assert successor.gauge("ActiveBrokerCount") == 2
        assert not (await successor.ask(DescribeFindingsRequest())).findings
        await successor.stop()

    run_virtually(main)


@pytest.mark.rule("RQ-30", "BK-40")
def test_a_broker_that_drops_the_listener_while_it_takes_part_stays() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        outside = Broker(BrokerId(2), (Endpoint("host2", 9093, "EXTERNAL"),))
        await world.write(SetData(broker_path(outside.id), encode_broker(outside, 1)))
        await world.start_broker(3)
        await until(lambda: c.gauge("ActiveBrokerCount") == 3)
        c.brokers.received.clear()
        await world.create_topic("t", [2, 1])
        await world.leads("t", leader=2)
        # Its connection is not made anew.
        await until(lambda: c.brokers.of(2, LeaderAndIsrRequest))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RQ-30", "LS-3")
def test_a_broker_without_a_control_listener_takes_part_and_leaders_are_named_by_the_other() -> None:
    async def main() -> None:
        world, c = await running_cluster()
        control = (Endpoint("host", 9093, "CONTROL"), Endpoint("host", 9092))
        for number, endpoints in ((2, control[1:]), (1, control)):
            record = Broker(BrokerId(number), endpoints)
            await world.create(broker_path(record.id), encode_broker(record, 1))
        await until(lambda: c.gauge("ActiveBrokerCount") == 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1, isr=[1, 2])
        await quiesce()
        for broker in (1, 2):
            (request,) = c.brokers.of(broker, LeaderAndIsrRequest)
            assert [(leader.broker_id, leader.port) for leader in request.live_leaders] == [(1, 9092)]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RQ-36", "BK-2")
def test_a_broker_that_died_while_another_came_is_not_informed_of_it() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        c.brokers.received.clear()
        newcomer = Broker(BrokerId(3), (Endpoint("host3", 9092),))
        # In one change: broker 2 still counts as registered when broker 3 is introduced, but has no channel any more.
        await world.write(
            Delete(broker_path(BrokerId(2))), Create(broker_path(newcomer.id), encode_broker(newcomer, 1))
        )
        await until(lambda: c.gauge("ActiveBrokerCount") == 2)
        await quiesce()
        introduction, last = c.brokers.of(1, UpdateMetadataRequest)
        assert [b.id for b in introduction.live_brokers] == [1, 2, 3]
        assert [b.id for b in last.live_brokers] == [1, 3]
        assert not [b for b, _ in c.brokers.received if b == 2]
        await c.stop()

    run_virtually(main)
