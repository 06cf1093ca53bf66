"""A replica that was proposed for the ISR, and then lost what it was proposed for, is not let in (KIP-903)."""

import asyncio

import pytest

from broker_agent.log.record_batch import parse_header
from cluster.config.settings import Settings
from cluster.model.broker import BrokerId
from cluster.model.partition import TopicPartition
from cluster.requests.data import ProducePartition, ProduceRequest
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from simulator.cluster import SimulatedCluster, simulate
from simulator.record_batches import encode_client_batch
from simulator.replication_checker import ReplicationChecker
from simulator.virtual_time_loop import VirtualTimeLoop

TP = TopicPartition("orders", 0)
SETTINGS = Settings(
    zookeeper_session_timeout_ms=2000,
    replica_lag_time_max_ms=1500,
    replica_fetch_backoff_ms=100,
    replica_socket_timeout_ms=1000,
    request_timeout_ms=1000,
)


async def produce(cluster: SimulatedCluster, checker: ReplicationChecker, count: int) -> None:
    for number in range(count):
        records = encode_client_batch(b"%08d" % number, timestamp=cluster.clock.now_ms())
        checker.sent.add(parse_header(records).crc)
        request = ProduceRequest(1, 3000, (ProducePartition(TP.topic, TP.partition, records),))
        await cluster.network.call("client", cluster.agents[BrokerId(1)].address, request)


@pytest.mark.rule("IS-10", "R8.10", "P10", "P12")
def test_a_proposal_that_its_replica_has_not_survived_is_refused() -> None:
    async def run() -> None:
        cluster = SimulatedCluster(1, controllers=1, brokers=2, settings=SETTINGS)
        checker = ReplicationChecker(cluster, TP)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        leader, follower = (cluster.agents[BrokerId(broker)] for broker in (1, 2))
        [controller] = cluster.controllers.values()
        cluster.start_all()
        ids = cluster.zookeeper.tree.children
        await cluster.until(lambda: len(ids("/brokers/ids") or ()) == 2 and controller.is_active, "a cluster")
        topic = NewTopic(TP.topic, assignments={0: (leader.id, follower.id)})
        await cluster.network.call("client", controller.address, CreateTopicsRequest((topic,)))
        loop.after_step = checker.observe

        def isr() -> set[int]:
            return set() if checker.state is None else set(checker.state.isr)

        await cluster.until(lambda: isr() == {1, 2}, "both in the ISR")
        follower.crash()
        checker.process_ended(follower, power_failed=False)
        await cluster.until(lambda: isr() == {1}, "the leader is alone")
        await produce(cluster, checker, 20)

        # The follower catches up, but the leader's proposal does not reach the controller before its power fails.
        cluster.network.cut(leader.incarnations[-1].source, controller.address)
        follower.start()
        await cluster.until(lambda: 2 in checker.replicas and checker.replicas[2].view.end == 20, "caught up")
        await cluster.until(lambda: checker.replicas[1].view.maximal == {1, 2}, "the proposal")
        follower.lose_power()
        checker.process_ended(follower, power_failed=True)
        await cluster.until(lambda: "2" not in (ids("/brokers/ids") or ()), "its registration has expired")
        cluster.network.cut(f"{follower.name}/{len(follower.incarnations)}", leader.address)
        follower.start()
        await cluster.until(lambda: 2 in checker.replicas, "it is back")
        assert checker.replicas[2].view.end < 20

        cluster.network.heal(leader.incarnations[-1].source, controller.address)
        await asyncio.sleep(40)
        assert isr() == {1}
        cluster.network.heal_all()
        await cluster.until(lambda: isr() == {1, 2}, "it joins with what it has fetched in this life")
        assert checker.replicas[2].view.end == 20
        loop.after_step = None

    simulate(run)
