"""Nodes that hang (SIGSTOP) and continue: what they miss, what waits for them, and what they find."""

import asyncio

import pytest

from cluster.config.settings import Settings
from cluster.model.broker import BrokerId
from cluster.model.errors import PeerUnreachableError
from cluster.requests.data import ProducePartition, ProduceRequest, ProduceResponse
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from simulator.cluster import SimulatedCluster, simulate
from simulator.record_batches import encode_client_batch
from state_log.invariants import check_all
from tests.simulation.test_first_simulation import T0, isr, leader


async def cluster_of_three(seed: int = 1, session_ms: int = 6000) -> SimulatedCluster:
    """Broker 1 leads orders-0, 2 and 3 follow."""
    settings = Settings(zookeeper_session_timeout_ms=session_ms, replica_lag_time_max_ms=4000)
    cluster = SimulatedCluster(seed, controllers=2, brokers=3, settings=settings)
    cluster.start_all()
    await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
    ids = cluster.zookeeper.tree.children
    await cluster.until(lambda: len(ids("/brokers/ids") or ()) == 3, "all agents registered")
    active = cluster.active_controller()
    assert active is not None
    topic = NewTopic(T0.topic, assignments={0: (BrokerId(1), BrokerId(2), BrokerId(3))})
    await cluster.network.call("client", active.address, CreateTopicsRequest((topic,)))
    await asyncio.sleep(1)
    return cluster


async def produce(cluster: SimulatedCluster, broker: int, acks: int = 1) -> ProduceResponse:
    request = ProduceRequest(acks, 25_000, (ProducePartition(T0.topic, 0, encode_client_batch(b"record", 1)),))
    answer = await cluster.network.call("client", cluster.agents[BrokerId(broker)].address, request)
    assert isinstance(answer, ProduceResponse)
    return answer


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_request_to_a_hanging_node_is_answered_when_it_goes_on() -> None:
    async def main() -> None:
        cluster = await cluster_of_three()
        cluster.hang(cluster.agents[BrokerId(1)], 5)
        began = now()
        answer = await produce(cluster, 1)
        assert 5 <= now() - began < 5.1
        assert answer.partitions[0].error_code.name == "NONE"

    simulate(main)


def test_a_request_to_a_node_that_hangs_for_long_times_out_and_is_carried_out_all_the_same() -> None:
    async def main() -> None:
        cluster = await cluster_of_three(session_ms=60_000)
        active = cluster.active_controller()
        assert active is not None
        active.pause()
        began = now()
        with pytest.raises(PeerUnreachableError, match="timed out"):
            await cluster.network.call("client", active.address, CreateTopicsRequest((NewTopic("late", 1, 1),)))
        assert now() - began == 30
        active.resume()
        await cluster.until(lambda: "late" in (cluster.zookeeper.tree.children("/brokers/topics") or ()), "the topic")

    simulate(main)


def test_what_a_node_has_sent_arrives_though_it_hangs_by_then() -> None:
    async def main() -> None:
        cluster = await cluster_of_three()
        client = cluster.agents[BrokerId(3)]
        active = cluster.active_controller()
        assert active is not None
        request = CreateTopicsRequest((NewTopic("t", 1, 1),))
        context = client.incarnations[-1].process.context.copy()
        asking = asyncio.get_running_loop().create_task(
            cluster.network.call(client.incarnations[-1].source, active.address, request), context=context
        )
        await asyncio.sleep(0)
        client.pause()
        await cluster.until(lambda: "t" in (cluster.zookeeper.tree.children("/brokers/topics") or ()), "the topic")
        await asyncio.sleep(2)
        assert not asking.done()
        client.resume()
        await asking

    simulate(main)


@pytest.mark.parametrize(("seconds", "survives"), [(5, True), (7, False)])
def test_a_session_outlives_a_short_pause_only(seconds: float, survives: bool) -> None:
    async def main() -> None:
        cluster = await cluster_of_three()
        agent = cluster.agents[BrokerId(3)]
        before = cluster.zookeeper.tree.get("/brokers/ids/3")
        assert before is not None
        cluster.hang(agent, seconds)
        await asyncio.sleep(seconds - 0.1)
        assert (cluster.zookeeper.tree.get("/brokers/ids/3") is not None) is survives
        await cluster.until(lambda: cluster.zookeeper.tree.get("/brokers/ids/3") is not None, "registered again")
        after = cluster.zookeeper.tree.get("/brokers/ids/3")
        assert after is not None
        assert (after.stat.czxid == before.stat.czxid) is survives

    simulate(main)


def test_a_leader_that_hung_beyond_its_session_finds_itself_replaced() -> None:
    async def main() -> None:
        cluster = await cluster_of_three()
        cluster.agents[BrokerId(1)].pause()
        await cluster.until(lambda: leader(cluster) == 2, "broker 2 leads")
        assert isr(cluster) == {2, 3}
        await produce(cluster, 2, acks=-1)
        cluster.agents[BrokerId(1)].resume()
        await cluster.until(lambda: isr(cluster) == {1, 2, 3}, "broker 1 is back")
        assert check_all(cluster.records()) == []

    simulate(main)


def test_a_controller_that_hung_beyond_its_session_rules_no_more() -> None:
    async def main() -> None:
        cluster = await cluster_of_three()
        old = cluster.active_controller()
        assert old is not None
        old.pause()
        new = next(c for c in cluster.controllers.values() if c is not old)
        await cluster.until(lambda: new.is_active, "the other one is active")
        cluster.agents[BrokerId(1)].crash()
        await cluster.until(lambda: leader(cluster) == 2, "broker 2 leads")
        assert old.is_active, "it knows nothing of that"
        old.resume()
        await cluster.until(lambda: not old.is_active, "it has resigned", timeout_s=2)
        assert check_all(cluster.records()) == []

    simulate(main)


def test_a_node_can_be_killed_while_it_hangs() -> None:
    async def main() -> None:
        cluster = await cluster_of_three()
        agent = cluster.agents[BrokerId(1)]
        agent.pause()
        waiting = asyncio.ensure_future(produce(cluster, 1))
        await asyncio.sleep(0.1)
        agent.crash()
        with pytest.raises(PeerUnreachableError, match="connection reset"):
            await waiting
        await cluster.until(lambda: leader(cluster) == 2, "broker 2 leads")
        agent.start()
        await cluster.until(lambda: isr(cluster) == {1, 2, 3}, "broker 1 is back")

    simulate(main)


def test_a_run_with_hanging_nodes_is_the_same_every_time() -> None:
    async def main(seed: int) -> str:
        cluster = await cluster_of_three(seed)
        for node in cluster.nodes:
            cluster.hang(node, 7)
            await asyncio.sleep(4)
        await asyncio.sleep(20)
        return cluster.trace_hash()

    assert simulate(lambda: main(5)) == simulate(lambda: main(5))
    assert simulate(lambda: main(5)) != simulate(lambda: main(6))


def test_who_waits_for_a_node_to_stop_hears_of_its_death() -> None:
    async def main() -> None:
        cluster = await cluster_of_three()
        agent = cluster.agents[BrokerId(1)]
        agent.pause()
        stopping = asyncio.ensure_future(agent.stop())
        await asyncio.sleep(3)
        assert not stopping.done(), "SIGTERM waits, too"
        agent.crash()
        await stopping

    simulate(main)
