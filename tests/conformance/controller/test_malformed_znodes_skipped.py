"""Znodes made malformed by hand are logged and skipped, and processed once they are repaired; no process exits."""

import asyncio

import pytest

from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.model.partition import ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.requests.control import UpdateMetadataRequest
from cluster.rpc.methods import encode_request
from cluster.znodes.paths import BROKERS_IDS, CONTROLLER, CONTROLLER_EPOCH, broker_path, state_path, topic_path
from cluster.znodes.registrations import encode_broker
from cluster.znodes.topics import encode_topic
from cluster.zookeeper.port import Create, Delete, SetData
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.controllers.contexts import assignment
from tests.controllers.worlds import RunningController, World, run_virtually, until

GARBAGE = b'{"version":1,"\xff'


async def is_active(c: RunningController, epoch: int = 1) -> RunningController:
    def rules() -> bool:
        return c.is_active and c.context.epoch == epoch

    await until(rules, f"active, epoch {epoch}")
    return c


@pytest.mark.rule("EL-9", "EL-10", "ZK-2")
def test_a_controller_whose_znode_is_malformed_resigns_and_another_is_elected() -> None:
    async def main() -> None:
        world = await World().start()
        c = await is_active(world.start_controller())
        await world.write(SetData(CONTROLLER, GARBAGE))
        await is_active(c, epoch=2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-1", "EL-5", "EL-9")
def test_a_controller_znode_that_names_nobody_is_waited_for_in_silence() -> None:
    async def main() -> None:
        world = await World().start()
        await world.write(Create(CONTROLLER, GARBAGE, ephemeral=True))
        # It governs Kafka's brokers, which were not adopted.
        c = world.start_controller(governs_kafka=True)
        await asyncio.sleep(5)
        before = c.zookeeper.requests
        await asyncio.sleep(60)
        assert c.zookeeper.requests - before < 10
        assert not c.controller.is_active
        await world.write(Delete(CONTROLLER))
        await asyncio.sleep(5)
        assert not c.controller.is_active
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("FN-2", "EL-2", "EL-12", "EV-9")
@pytest.mark.parametrize(("written", "next_epoch"), [(GARBAGE, None), (b"", None), (b"41", 42)])
def test_a_controller_whose_epoch_was_changed_by_hand_is_elected_above_it(
    written: bytes, next_epoch: int | None
) -> None:
    async def main() -> None:
        world = await World().start()
        c = await is_active(world.start_controller())
        await world.start_broker(1)
        await until(lambda: c.gauge("ActiveBrokerCount") == 1)
        await world.write(SetData(CONTROLLER_EPOCH, written))
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        assert c.context.epoch > 1
        assert next_epoch in {c.context.epoch, None}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EV-7", "EL-13")
@pytest.mark.parametrize("busy", [False, True])
def test_a_process_ends_although_zookeeper_is_away(busy: bool) -> None:
    async def main() -> None:
        world = await World().start()
        c = await is_active(world.start_controller())
        await world.start_broker(1)
        await until(lambda: c.gauge("ActiveBrokerCount") == 1)
        if busy:
            await world.create_topic("t", [1])
            await asyncio.sleep(0.004)
        world.server.shut_down()
        async with asyncio.timeout(10):
            await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-1", "BK-40", "ZK-11")
def test_a_broker_whose_registration_is_mended_is_taken_in() -> None:
    async def main() -> None:
        world = await World().start()
        c = await is_active(world.start_controller())
        session = SimulatedZooKeeperClient(world.server, session_timeout_ms=60_000)
        session.listen(lambda _: None)
        await session.start_session()
        path = broker_path(BrokerId(1))
        await session.multi([Create(path, GARBAGE, ephemeral=True)])
        await world.start_broker(2)
        await until(lambda: c.gauge("ActiveBrokerCount") == 1, "the other one")
        record = Broker(BrokerId(1), (Endpoint("host1", 9092),))
        await session.multi([SetData(path, encode_broker(record, 1))])
        await until(lambda: c.gauge("ActiveBrokerCount") == 2, "the mended one")
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("LC-1", "BK-1", "RQ-13")
def test_registrations_under_names_that_are_no_broker_ids_are_passed_over() -> None:
    async def main() -> None:
        world = await World().start()
        c = await is_active(world.start_controller())
        # An id of more than 31 bits would fit into no request, neither to this broker nor about it.
        for name in ("99999999999", "2147483648", "01", "²", "-1", "x", "9" * 5000):
            await world.create(f"{BROKERS_IDS}/{name}", encode_broker(Broker(BrokerId(1), (Endpoint("h", 1),)), 1))
        await world.start_broker(1, 2**31 - 1)
        await until(lambda: c.gauge("ActiveBrokerCount") == 2, "the two")
        await world.write(SetData(f"{BROKERS_IDS}/2147483648", GARBAGE))
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await until(lambda: any(r.topic_states for r in c.brokers.of(1, UpdateMetadataRequest)))
        request = c.brokers.of(1, UpdateMetadataRequest)[-1]
        assert [b.id for b in request.live_brokers] == [1, 2**31 - 1]
        assert encode_request(request)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("INV-3", "RM-10", "RA-13", "RA-50")
@pytest.mark.parametrize(("isr", "left"), [("[]", ()), ("[1,1]", (1,)), ("[2,1,2]", (2,))])
def test_an_isr_that_nobody_can_have_meant_ends_no_controller(isr: str, left: tuple[int, ...]) -> None:
    async def main() -> None:
        world = await World().start()
        first = await is_active(world.start_controller())
        await world.start_broker(1, 2)
        await world.create_topic("t", [1, 2])
        await world.create_topic("other", [1, 2])
        for topic in ("t", "other"):
            await world.leads(topic, leader=1)
        await first.stop()
        body = f'{{"version":1,"leader":1,"leader_epoch":5,"controller_epoch":1,"isr":{isr}}}'
        await world.write(SetData(state_path(TopicPartition("t", 0)), body.encode()))
        node = await world.topic("t")
        assert node is not None
        moving = TopicAssignment({0: assignment([3, 1, 2], [3], [2])}, node.topic_id)
        await world.write(SetData(topic_path("t"), encode_topic(moving)))
        c = await is_active(world.start_controller(1002), epoch=2)
        await world.stop_broker(1)
        await world.leads("other", leader=2)
        await asyncio.sleep(5)
        assert (c.context.epoch, (await world.state("t")).isr) == (2, left)  # type: ignore[union-attr]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("LC-3", "LC-8", "TP-20", "ZK-28")
def test_malformed_topics_and_states_are_skipped_at_failover_and_at_run_time() -> None:
    async def main() -> None:
        world = await World().start()
        c = await is_active(world.start_controller())
        await world.start_broker(1)
        await world.create_topic("good", [1])
        await world.create_topic("hurt", [1])
        await world.leads("hurt", leader=1)
        await world.create(topic_path("bad"), b'{"partitions":{"0":[99999999999]}}')
        await world.create_topic("after", [1])
        await world.leads("after", leader=1)
        await world.write(SetData(state_path(TopicPartition("hurt", 0)), b'{"leader":77777777777}'))
        await c.stop()
        second = await is_active(world.start_controller(1002), epoch=2)
        await world.create_topic("later", [1])
        await world.leads("later", leader=1)
        mended = TopicAssignment({0: ReplicaAssignment((BrokerId(1),))})
        await world.write(SetData(topic_path("bad"), encode_topic(mended)))
        await world.leads("bad", leader=1)
        await second.stop()

    run_virtually(main)
