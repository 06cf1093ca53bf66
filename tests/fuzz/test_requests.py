"""Every request of every service, made from the descriptors, at simulated agents and controllers."""

import asyncio
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster import simulate
from simulator.record_batches import encode_client_batch
from simulator.virtual_time_loop import START_MS
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.cluster_under_fire import (
    METHODS,
    METHODS_OF_AGENTS,
    METHODS_OF_CONTROLLERS,
    TOPICS,
    Method,
    Sent,
    check_all_run,
    check_serves_after_restart,
    no_error_is_logged,
    send,
    start_cluster,
)
from tests.fuzz.messages import Draw, Known, messages, on_the_wire

_BATCH = encode_client_batch(b"value", 3, timestamp=START_MS)


@cache
def known() -> Known:
    """What the nodes of the cluster know when it has started, which is the same in each run."""

    async def main() -> tuple[list[str | None], list[int]]:
        cluster = await start_cluster()
        context = cluster.controllers[next(iter(cluster.controllers))].context
        return [context.topic_ids[topic] for topic in TOPICS], list(context.broker_epochs.values())

    topic_ids, broker_epochs = simulate(main)
    brokers = [1, 2, 3]
    few = [0, 0, 1, 2]
    return {
        "topic_name": TOPICS,
        "topic": TOPICS,
        "topics": TOPICS,
        "name": [*TOPICS, "new", "retention.ms"],
        "topic_id": topic_ids,
        "partition_index": few,
        "partition_indexes": few,
        "partition": few,
        "partitions": few,
        "controller_id": [1001],
        "controller_epoch": [1, 1, 1, 2],
        "broker_epoch": [-1, *broker_epochs],
        "replica_epoch": [-1, *broker_epochs],
        "new_isr_epochs": broker_epochs,
        "broker_id": brokers,
        "broker_ids": brokers,
        "id": brokers,
        "replica_id": [-1, *brokers],
        "leader": [1, 2, 3, -1, -2],
        "leader_id": brokers,
        "isr": brokers,
        "new_isr": brokers,
        "replicas": brokers,
        "adding_replicas": brokers,
        "removing_replicas": brokers,
        "offline_replicas": brokers,
        "leader_epoch": [0, 1, 2, 3],
        "partition_epoch": [0, 1, 2, 3],
        "zk_version": [0, 1, 2, 3],
        "current_leader_epoch": [-1, 0, 1],
        "last_fetched_epoch": [-1, 0],
        "leader_recovery_state": [0, 0, 1],
        "acks": [-1, 0, 1],
        "timeout_ms": [0, 1000, 20_000],
        "max_wait_ms": [0, 500],
        "min_bytes": [0, 1],
        "max_bytes": [1 << 20],
        "partition_max_bytes": [1 << 20],
        "fetch_offset": [0, 2, 6],
        "offset": [-1, 0, 3, 6],
        "log_start_offset": [-1, 0, 3],
        "timestamp": [-1, -2, -3, START_MS],
        "isolation_level": [0, 1],
        "records": [_BATCH, _BATCH, _BATCH + _BATCH, _BATCH[:-1], b""],
        "host": ["broker-1", "elsewhere"],
        "port": [9092, 9093],
        "listener": ["PLAINTEXT", "CONTROL"],
        "security_protocol": ["PLAINTEXT"],
        "num_partitions": [1, 2, -1],
        "count": [3, 4],
        "replication_factor": [1, 3, -1],
        "assignments.key": few,
        "configs.key": ["retention.ms", "min.insync.replicas", "cleanup.policy"],
        "configs.value": ["1", "delete", "100000"],
        "resource_type": [2, 4],
        "resource_name": [*TOPICS, "", "1"],
        "config_operation": [0, 1, 2, 3],
        "value": ["1", "100000", "debug"],
        "keys": ["retention.ms", "log.level"],
        "configuration_keys": ["retention.ms", "log.level"],
        "election_type": [0, 1],
        "feature": ["x"],
        "max_version_level": [0, 1, 2],
        "upgrade_type": [1, 2, 3],
        "cursor": ["", "1-0", "1-5"],
        "event": ["BrokerChange"],
    }


@st.composite
def sent_to(draw: Draw, methods: tuple[Method, ...], first: int, count: int) -> Sent:
    """A request to one of `count` nodes from number `first` on."""
    call = draw(st.sampled_from([method.name for method in methods]))
    message = draw(messages(METHODS[call].request.message_class.DESCRIPTOR, known()))
    return Sent(draw(st.integers(first, first + count - 1)), call, draw(on_the_wire(message)))


TO_CONTROLLER = sent_to(METHODS_OF_CONTROLLERS, 0, 1)
TO_AGENTS = sent_to(METHODS_OF_AGENTS, 1, 3)


def withstand(requests: list[Sent]) -> None:
    """The cluster answers all these requests, goes on, and serves after a restart."""

    async def main() -> Any:
        cluster = await start_cluster()
        for sent in requests:
            await send(cluster, sent)
            await check_all_run(cluster)
            await asyncio.sleep(0.1)
        await asyncio.sleep(12)
        await check_all_run(cluster)
        await check_serves_after_restart(cluster)
        await check_all_run(cluster)

    with no_error_is_logged():
        simulate(main)


@fuzz(examples=60)
@given(st.lists(TO_AGENTS, min_size=1, max_size=12))
def test_requests_to_agents(requests: list[Sent]) -> None:
    count_case("requests to agents")
    withstand(requests)


@fuzz(examples=60)
@given(st.lists(TO_CONTROLLER, min_size=1, max_size=12))
def test_requests_to_controllers(requests: list[Sent]) -> None:
    count_case("requests to controllers")
    withstand(requests)
