"""The real controller and real agents in memory: create, death, return, failover; the same run twice is the same."""

import json
import os
import subprocess
import sys

import pytest

from cluster.config.settings import Settings
from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from cluster.requests.topics import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from cluster.znodes.paths import state_path
from cluster.znodes.topics import decode_state
from simulator.cluster import SimulatedCluster, simulate
from simulator.record_batches import encode_client_batch
from state_log.invariants import check_all

T0 = TopicPartition("orders", 0)


def leadership(cluster: SimulatedCluster, tp: TopicPartition = T0) -> LeaderAndIsr | None:
    znode = cluster.zookeeper.tree.get(state_path(tp))
    return None if znode is None else decode_state(tp, znode.data, znode.stat.version)  # type: ignore[arg-type]


def isr(cluster: SimulatedCluster) -> set[int]:
    state = leadership(cluster)
    return set() if state is None else set(state.isr)


def leader(cluster: SimulatedCluster) -> int:
    state = leadership(cluster)
    return -1 if state is None else state.leader


async def produce(cluster: SimulatedCluster, text: str) -> int:
    """Send one record with acks=all to the present leader until it is acknowledged; its offset."""
    request = ProduceRequest(
        -1, 5000, (ProducePartition(T0.topic, T0.partition, encode_client_batch(text.encode(), 1)),)
    )
    offsets: list[int] = []

    async def attempt() -> None:
        address = cluster.agents[BrokerId(leader(cluster))].address
        answer = await cluster.network.call("client", address, request)
        assert isinstance(answer, ProduceResponse)
        if answer.partitions[0].error_code is ErrorCode.NONE:
            offsets.append(answer.partitions[0].base_offset)

    while not offsets:
        await attempt()
    return offsets[0]


async def committed(cluster: SimulatedCluster) -> bytes:
    request = FetchRequest(BrokerId(-1), (FetchPartition(T0.topic, None, 0, 0, 1 << 20),), 0, 1, 1 << 20)  # type: ignore[arg-type]
    answer = await cluster.network.call("client", cluster.agents[BrokerId(leader(cluster))].address, request)
    assert isinstance(answer, FetchResponse)
    assert answer.partitions[0].error_code is ErrorCode.NONE
    return answer.partitions[0].records


async def story(seed: int) -> dict[str, object]:
    # Automatic rebalancing would hold one more election, or not, according to when its time comes.
    settings = Settings(
        zookeeper_session_timeout_ms=6000, replica_lag_time_max_ms=4000, auto_leader_rebalance_enable=False
    )
    cluster = SimulatedCluster(seed, controllers=2, brokers=2, settings=settings)
    cluster.start_all()
    await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
    ids = cluster.zookeeper.tree.children
    await cluster.until(lambda: len(ids("/brokers/ids") or ()) == 2, "both agents registered")
    first = cluster.active_controller()
    assert first is not None
    topic = NewTopic("orders", assignments={0: (BrokerId(1), BrokerId(2))})
    created = await cluster.network.call("client", first.address, CreateTopicsRequest((topic,)))
    assert isinstance(created, CreateTopicsResponse)
    assert created.topics[0].error_code is ErrorCode.NONE, created
    await produce(cluster, "before")

    cluster.agents[BrokerId(1)].crash()
    await cluster.until(lambda: leader(cluster) == 2 and isr(cluster) == {2}, "broker 2 leads alone")
    await produce(cluster, "while broker 1 is dead")
    cluster.agents[BrokerId(1)].start()
    await cluster.until(lambda: isr(cluster) == {1, 2}, "broker 1 is back in the ISR")

    first.crash()
    await cluster.until(lambda: cluster.active_controller() not in {None, first}, "the other controller active")
    cluster.agents[BrokerId(2)].crash()
    await cluster.until(lambda: leader(cluster) == 1, "broker 1 leads again")
    await produce(cluster, "after the failover")
    read = await committed(cluster)
    for text in (b"before", b"while broker 1 is dead", b"after the failover"):
        assert text in read
    await cluster.stop_all()
    findings = check_all(cluster.records())
    assert findings == []
    state = leadership(cluster)
    assert state is not None
    return {"trace": cluster.trace_hash(), "leader_epoch": state.leader_epoch, "version": state.partition_epoch}


def test_create_death_return_and_failover_leave_what_kafka_would() -> None:
    end = simulate(lambda: story(7))
    # Elected to 2 (+1), broker 1 back through AlterPartition (version only), elected to 1 (+1).
    assert end["leader_epoch"] == 2
    assert end["version"] == 3


def test_the_same_seed_gives_the_same_trace() -> None:
    assert simulate(lambda: story(3)) == simulate(lambda: story(3))


def test_another_seed_gives_another_trace() -> None:
    assert simulate(lambda: story(3))["trace"] != simulate(lambda: story(4))["trace"]


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_trace_does_not_depend_on_the_hash_seed(hash_seed: str) -> None:
    code = (
        "import json; from tests.simulation.test_first_simulation import story; "
        "from simulator.cluster import simulate; print(json.dumps(simulate(lambda: story(3))))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout.splitlines()[-1]) == simulate(lambda: story(3))
