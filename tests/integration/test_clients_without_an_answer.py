"""What a client says of a cluster that does not answer, and what the brokers answer in the controller's place."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import pytest

from admin.cli.clusters import examine
from admin.connecting.client import AdminClient
from admin.connecting.waiting import Notice
from admin.consuming.consumer import Consumer
from admin.consuming.offsets import find_offsets
from admin.describing.brokers_view import (
    UNKNOWN_PARTITION_EPOCH,
    described_topics,
    listed_topics,
    of_controller_or_brokers,
)
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.producer import Producer
from cluster.aio.clock import SystemClock
from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode, PeerUnreachableError
from cluster.requests.data import LATEST_TIMESTAMP
from tests.controllers.scripted_cluster import FIRST_CONTROLLER, TOPIC, ScriptedCluster, served_cluster
from tests.processes.commands import run_klamm
from tests.processes.refused_ports import kept_refused
from tests.timeouts import TIMEOUT_S

T = TypeVar("T")


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with served_cluster() as served:
        yield served


@asynccontextmanager
async def stopped(cluster: ScriptedCluster) -> AsyncIterator[None]:
    """The cluster with all its servers stopped, and their ports kept."""
    for server in cluster.servers.values():
        await server.stop(0)
    with kept_refused([server.address for server in cluster.servers.values()]):
        yield


async def failure_of(client: AdminClient, text: str) -> str:
    """What it says when it gives up. A slow machine may not get as far as the answers in time: again until it does."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            with pytest.raises(PeerUnreachableError) as gave_up:
                await client.create_topics([])
            if text in str(gave_up.value):
                return str(gave_up.value)


async def answered(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The answer, which a slow machine may not give within the client's short timeout: again until it does."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            with suppress(PeerUnreachableError):
                return await ask()


async def test_a_client_that_gives_up_says_once_what_each_kind_of_node_answered(cluster: ScriptedCluster) -> None:
    cluster.controller = -1
    await cluster.servers[FIRST_CONTROLLER].stop(0)
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0, 1, 2)]
    names = {addresses[0]: "controller 1001"}
    async with AdminClient(addresses, timeout_ms=1_000, names=names) as client:
        assert await failure_of(client, "2 running") == (
            "no active controller within 1 s: controller 1001 not answering (connection refused);"
            " brokers 0, 1, 2 running"
        )


async def test_a_cluster_of_which_nothing_runs_is_named_by_its_addresses(cluster: ScriptedCluster) -> None:
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0)]
    async with stopped(cluster), AdminClient(addresses, timeout_ms=1_000) as client:
        assert await failure_of(client, f"{addresses[1]} not answering (") == (
            f"no answer within 1 s: {addresses[0]}, {addresses[1]} not answering (connection refused)"
        )


async def test_a_controller_that_hangs_is_named_and_may_still_do_what_it_was_asked(cluster: ScriptedCluster) -> None:
    address = cluster.servers[FIRST_CONTROLLER].address
    async with AdminClient([address], timeout_ms=1_000) as client:
        assert (await answered(client.describe_cluster)).controller_id == FIRST_CONTROLLER
        assert (await answered(client.find_controller)) == address
        cluster.hanging = {FIRST_CONTROLLER}
        silent = "no answer within 1 s: controller 1001 not answering"
        assert await failure_of(client, "") == f"{silent}; the controller may still carry it out"
        with pytest.raises(PeerUnreachableError) as gave_up:
            await client.list_topics()
        assert str(gave_up.value) == silent


async def test_topics_are_described_by_the_brokers_while_no_controller_is_active(cluster: ScriptedCluster) -> None:
    cluster.controller = -1
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0, 1, 2)]
    async with AdminClient(addresses, timeout_ms=1_000) as client:
        described, why_of_brokers = await answered(
            lambda: of_controller_or_brokers(client, client.describe_topics([TOPIC]), [TOPIC], described_topics)
        )
        assert why_of_brokers == "no active controller answers"
        assert isinstance(described, list)
        assert [p.leader for p in described[0].partitions][:3] == [0, 1, 2]
        assert {p.partition_epoch for p in described[0].partitions} == {UNKNOWN_PARTITION_EPOCH}
    async with stopped(cluster), AdminClient(addresses, timeout_ms=1_000) as client:
        with pytest.raises(PeerUnreachableError, match="no answer within 1 s"):
            await of_controller_or_brokers(client, client.list_topics(), None, listed_topics)


async def test_a_controller_without_zookeeper_is_why_the_brokers_are_asked(cluster: ScriptedCluster) -> None:
    cluster.controller, cluster.without_zookeeper = -1, {FIRST_CONTROLLER}
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0)]
    async with AdminClient(addresses, timeout_ms=8_000, names={addresses[0]: "controller 1001"}) as client:
        _, why = await of_controller_or_brokers(client, client.list_topics(), None, listed_topics)
        assert why == "controller 1001 cannot reach ZooKeeper"


async def test_the_timeout_of_a_command_is_that_of_all_its_questions(cluster: ScriptedCluster) -> None:
    address = cluster.servers[FIRST_CONTROLLER].address
    async with AdminClient([address], timeout_ms=3_000, names={address: "controller 1001"}) as client:
        with client.within_timeout():
            await client.find_controller()
            cluster.hanging = {FIRST_CONTROLLER}
            for _ in range(2):
                with pytest.raises(PeerUnreachableError, match="^no answer within 3 s: controller 1001 not answering"):
                    await client.list_topics()
                assert client.limits.left_s < 0.1
        assert client.limits.left_s == 3


async def test_a_wait_for_completion_ends_with_the_timeout_of_the_command(cluster: ScriptedCluster) -> None:
    address = cluster.servers[FIRST_CONTROLLER].address
    async with AdminClient([address], timeout_ms=3_000) as client:
        await client.find_controller()
        cluster.hanging = {FIRST_CONTROLLER}
        with client.within_timeout():
            with pytest.raises(TimeoutError):
                async with client.limits.outlasting_calls():
                    await client.list_topics()
            assert client.limits.left_s < 0.1


async def test_an_address_that_hangs_is_named_by_those_who_look_for_a_topic(cluster: ScriptedCluster) -> None:
    cluster.hanging = {FIRST_CONTROLLER}
    notices: asyncio.Queue[Notice] = asyncio.Queue()
    address = cluster.servers[FIRST_CONTROLLER].address
    async with AdminClient([address], timeout_ms=TIMEOUT_S * 1000, on_wait=notices.put_nowait) as client:
        asking = asyncio.create_task(Topology(client).partitions(TOPIC))
        assert (await notice_of(notices)).startswith(f"no answer yet: {address} not answering; waiting up to ")
        asking.cancel()


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_broker_that_has_not_learned_of_a_topic_does_not_keep_others_from_telling_of_it(
    hangs: bool, cluster: ScriptedCluster
) -> None:
    """The controllers are gone before all brokers have heard of a new topic."""
    if hangs:
        cluster.hanging = {FIRST_CONTROLLER}
    cluster.controller = -1
    cluster.uninformed = {0, 1}
    addresses = [cluster.servers[node].address for node in (0, 1, 2, FIRST_CONTROLLER)]
    async with AdminClient(addresses, timeout_ms=TIMEOUT_S * 1000) as client:
        assert await Topology(client).partitions(TOPIC) == list(range(12))


async def test_a_broker_that_hangs_does_not_keep_others_from_telling_the_leaders(cluster: ScriptedCluster) -> None:
    address = cluster.servers[FIRST_CONTROLLER].address
    async with AdminClient([address], timeout_ms=TIMEOUT_S * 1000) as client:
        topology = Topology(client)
        cluster.hanging = {0}
        assert await topology.partitions(TOPIC) == list(range(12))


async def test_offsets_of_other_leaders_are_found_beside_one_that_hangs(cluster: ScriptedCluster) -> None:
    address = cluster.servers[FIRST_CONTROLLER].address
    async with AdminClient([address], timeout_ms=TIMEOUT_S * 1000) as client:
        topology = Topology(client)
        partitions = await topology.partitions(TOPIC)
        cluster.hanging = {0}
        found = await find_offsets(topology, TOPIC, dict.fromkeys(partitions, LATEST_TIMESTAMP), 5)
        assert found == {p: 0 for p in partitions if p % 3}


@pytest.mark.parametrize("why", ["it is stopped", "it has no ZooKeeper", "it hangs"])
async def test_health_without_a_controller_is_what_the_others_know(cluster: ScriptedCluster, why: str) -> None:
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0, 1, 2)]
    match why:
        case "it is stopped":
            cluster.controller = -1
            await cluster.servers[FIRST_CONTROLLER].stop(0)
        case "it has no ZooKeeper":
            cluster.controller, cluster.without_zookeeper = -1, {FIRST_CONTROLLER}
        case _:
            cluster.hanging = {FIRST_CONTROLLER}
    answer = await asyncio.to_thread(
        run_klamm, "cluster", "health", "--bootstrap", ",".join(addresses), "--timeout", "20", "-o", "json"
    )
    assert answer.returncode == 1, answer.stderr
    document = json.loads(answer.stdout)
    assert (document["severity"], [f["kind"] for f in document["findings"]]) == ("critical", ["no_active_controller"])
    assert "brokers 0, 1, 2 running" in document["findings"][0]["detail"]
    assert "what brokers and standby controllers know is shown in 8 s" in answer.stderr
    assert "--timeout changes it" not in answer.stderr
    assert "no_active_controller: start a controller" in answer.stderr


async def test_health_of_a_cluster_of_which_nothing_runs_is_no_answer(cluster: ScriptedCluster) -> None:
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0)]
    async with stopped(cluster), AdminClient(addresses, timeout_ms=1_000) as client:
        with pytest.raises(PeerUnreachableError, match="no answer within 1 s"):
            await examine(client)


async def test_that_controllers_have_no_zookeeper_is_named_first(cluster: ScriptedCluster) -> None:
    cluster.controller, cluster.without_zookeeper = -1, {FIRST_CONTROLLER}
    addresses = [cluster.servers[node].address for node in (2, FIRST_CONTROLLER, 0, 1)]
    async with AdminClient(addresses, timeout_ms=1_000, names={addresses[1]: "controller 1001"}) as client:
        assert await failure_of(client, "2 running") == (
            "controller 1001 cannot reach ZooKeeper: no answer within 1 s; brokers 0, 1, 2 running"
        )


async def test_a_dry_run_that_is_not_answered_changes_nothing(cluster: ScriptedCluster) -> None:
    address = cluster.servers[FIRST_CONTROLLER].address
    async with AdminClient([address], timeout_ms=1_000) as client:
        await answered(client.find_controller)
        cluster.hanging = {FIRST_CONTROLLER}
        with pytest.raises(PeerUnreachableError) as gave_up:
            await client.create_topics([], validate_only=True)
        assert "may still" not in str(gave_up.value)


async def test_names_that_do_not_resolve_end_the_wait_and_are_named_with_where_they_come_from() -> None:
    async with AdminClient(["nope.invalid:1"], timeout_ms=3_600_000, origin="KLAMM_BOOTSTRAP") as client:
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(PeerUnreachableError) as gave_up:
                await client.list_topics()
        assert str(gave_up.value) == (
            "no answer: nope.invalid:1 not answering (the host name cannot be resolved);"
            " KLAMM_BOOTSTRAP has this address: correct it, or start the cluster"
        )


async def test_the_wait_goes_on_while_one_address_may_still_answer(cluster: ScriptedCluster) -> None:
    address = cluster.servers[FIRST_CONTROLLER].address
    async with (
        stopped(cluster),
        AdminClient(["nope.invalid:1", address], timeout_ms=1_000, origin="the context far") as client,
    ):
        said = await failure_of(client, f"{address} not answering (")
        assert said.startswith("no answer within 1 s: nope.invalid:1 not answering (the host name cannot be resolved)")
        assert said.endswith("; the context far has these addresses: correct them, or start the cluster")


async def test_a_port_that_speaks_http_is_not_one_of_klamm(cluster: ScriptedCluster) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with AdminClient([address], timeout_ms=1_000) as client:
            said = await failure_of(client, "no klamm gRPC port")
            assert said == (
                f"no answer within 1 s: {address} not answering (it is no klamm gRPC port, perhaps a metrics port)"
            )


async def notice_of(client_notices: "asyncio.Queue[Notice]") -> str:
    async with asyncio.timeout(TIMEOUT_S):
        return (await client_notices.get()).text


async def test_while_no_controller_is_active_a_client_tells_what_the_nodes_say(cluster: ScriptedCluster) -> None:
    cluster.controller = -1
    await cluster.servers[FIRST_CONTROLLER].stop(0)
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0, 1, 2)]
    notices: asyncio.Queue[Notice] = asyncio.Queue()
    names = {addresses[0]: "controller 1001"}
    async with AdminClient(addresses, timeout_ms=TIMEOUT_S * 1000, names=names, on_wait=notices.put_nowait) as client:
        asking = asyncio.create_task(client.list_topics())
        assert (await notice_of(notices)).startswith(
            "no active controller yet: controller 1001 not answering (connection refused); brokers 0, 1, 2 running;"
            " waiting up to 1"
        )
        asking.cancel()
        assert notices.empty()


async def test_a_controller_that_hangs_is_named(cluster: ScriptedCluster) -> None:
    address = cluster.servers[FIRST_CONTROLLER].address
    notices: asyncio.Queue[Notice] = asyncio.Queue()
    async with AdminClient([address], timeout_ms=TIMEOUT_S * 1000, on_wait=notices.put_nowait) as client:
        await client.find_controller()
        cluster.hanging = {FIRST_CONTROLLER}
        asking = asyncio.create_task(client.list_topics())
        assert (await notice_of(notices)).startswith("no answer yet: controller 1001 not answering; waiting up to ")
        asking.cancel()


async def test_a_producer_tells_why_records_are_not_acknowledged(cluster: ScriptedCluster) -> None:
    cluster.refusals = [lambda _: ErrorCode.NOT_ENOUGH_REPLICAS] * 100_000
    notices: asyncio.Queue[Notice] = asyncio.Queue()
    address = cluster.servers[FIRST_CONTROLLER].address
    async with AdminClient([address], timeout_ms=TIMEOUT_S * 1000, on_wait=notices.put_nowait) as client:
        topology = Topology(client)
        options = ProducerOptions(acks=-1, linger_ms=0)
        async with Producer(topology, SystemClock(), options) as producer:
            await topology.partitions(TOPIC)
            await producer.send(TOPIC, None, b"value", 0)
            said = await notice_of(notices)
            assert said.startswith(f"{TOPIC}-0: not acknowledged yet (NOT_ENOUGH_REPLICAS: ")
            assert "; waiting up to " in said
            cluster.refusals.clear()
            await producer.flush()
        assert producer.totals.acknowledged == 1
        assert notices.empty()


async def test_a_consumer_tells_why_it_gets_no_records(cluster: ScriptedCluster) -> None:
    notices: asyncio.Queue[Notice] = asyncio.Queue()
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0, 1, 2)]
    async with AdminClient(addresses, timeout_ms=TIMEOUT_S * 1000, on_wait=notices.put_nowait) as client:
        topology = Topology(client)
        await topology.partitions(TOPIC)
        leader = cluster.servers[0].address
        await cluster.servers[0].stop(0)
        async with Consumer(topology, TOPIC, {0: Offset(0)}) as consumer:
            reading = asyncio.create_task(anext(consumer.fetched()))
            assert await notice_of(notices) == (
                f"no answer for {TOPIC}-0 yet ({leader}: connection refused); waiting until one comes"
            )
            reading.cancel()
