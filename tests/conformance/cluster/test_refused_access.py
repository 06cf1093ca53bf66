"""Agents and controllers that ZooKeeper refuses access to: one clear error, and no endless retries."""

import asyncio
from random import Random

import pytest

from broker_agent.registration.identity import agree_on_cluster_id, create_persistent_paths
from broker_agent.registration.registration import Registration
from cluster.metrics.registry import Metrics
from cluster.model.broker import Broker, BrokerId, ControllerId, Endpoint
from cluster.model.errors import StartupError, ZooKeeperAccessError
from cluster.znodes.paths import CLUSTER_ID, CONTROLLER
from cluster.zookeeper.port import Create, SetData, ZooKeeper
from cluster.zookeeper.znode_tree import SessionIdentity
from controller.config import ControllerConfig
from controller.controller import Controller
from simulator.cluster import VirtualClock
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.controllers.worlds import MemorySink, RecordingBrokers, run_virtually

pytestmark = pytest.mark.rule("ZK-6")

OWNER = SessionIdentity(identity="klamm", sets_acl=True)


async def connect(server: SimulatedZooKeeper, author: SessionIdentity | None = None) -> SimulatedZooKeeperClient:
    client = SimulatedZooKeeperClient(server, author=author)
    client.listen(lambda _: None)
    await client.start_session()
    return client


async def owned_cluster() -> SimulatedZooKeeper:
    server = SimulatedZooKeeper(Random(1))
    owner = await connect(server, OWNER)
    await create_persistent_paths(owner)
    await agree_on_cluster_id(owner, Random(1))
    return server


def controller(client: ZooKeeper, number: int = 1001) -> Controller:
    return Controller(
        config=ControllerConfig(ControllerId(number), (Endpoint("c", 9092),)),
        zookeeper=client,
        broker_client=RecordingBrokers(),
        sink=MemorySink(),
        registry=Metrics(),
        clock=VirtualClock(),
        random=Random(1),
    )


def test_an_agent_of_another_user_names_the_znode_that_refuses_it() -> None:
    async def main() -> None:
        stranger = await connect(await owned_cluster())
        with pytest.raises(ZooKeeperAccessError, match="^/brokers/ids/1 cannot be created: NO_AUTH"):
            await Registration(stranger, Broker(BrokerId(1), ()), VirtualClock()).register()
        with pytest.raises(ZooKeeperAccessError, match=" cannot be created: NO_AUTH"):
            await create_persistent_paths(stranger)

    run_virtually(main)


def test_a_cluster_id_that_may_not_be_written_is_not_tried_for_ever() -> None:
    async def main() -> None:
        server = SimulatedZooKeeper(Random(1))
        owner = await connect(server, OWNER)
        await owner.multi([Create("/cluster")])
        with pytest.raises(ZooKeeperAccessError, match=f"^{CLUSTER_ID} cannot be created: NO_AUTH"):
            await agree_on_cluster_id(await connect(server), Random(2))

    run_virtually(main)


@pytest.mark.rule("EL-22", "EL-30")
def test_a_controller_of_another_user_ends_and_says_which_node_refuses_it() -> None:
    async def main() -> None:
        server = await owned_cluster()
        candidate = controller(SimulatedZooKeeperClient(server))
        with pytest.raises(ExceptionGroup) as ended:
            await candidate.run(asyncio.Event())
        (error,) = ended.value.exceptions
        assert isinstance(error, StartupError)
        assert "/config/users cannot be read: NO_AUTH" in str(error)
        assert server.tree.get(CONTROLLER) is None

    run_virtually(main)


def test_a_controller_that_is_shut_out_later_asks_in_measure_and_rules_again_when_it_may() -> None:
    async def main() -> None:
        server = await owned_cluster()
        client = SimulatedZooKeeperClient(server, author=OWNER)
        candidate = controller(client)
        stop = asyncio.Event()
        running = asyncio.get_running_loop().create_task(candidate.run(stop))
        await asyncio.sleep(5)
        assert candidate.is_active
        # Somebody takes the directory of the candidates away by hand, and the session is lost.
        server.tree.znodes["/controllers/ids"].creator = "somebody"
        client.expire()
        await asyncio.sleep(5)
        before = client.requests
        await asyncio.sleep(20)
        assert not candidate.is_active
        assert client.requests - before < 200, "it asks without a pause"
        server.tree.znodes["/controllers/ids"].creator = "klamm"
        await asyncio.sleep(10)
        assert candidate.is_active
        stop.set()
        await running

    run_virtually(main)


def test_a_cluster_with_an_identity_of_its_own_works_on_nodes_from_before() -> None:
    async def main() -> None:
        server = SimulatedZooKeeper(Random(1))
        await create_persistent_paths(await connect(server))
        candidate = controller(SimulatedZooKeeperClient(server, author=OWNER))
        stop = asyncio.Event()
        running = asyncio.get_running_loop().create_task(candidate.run(stop))
        await asyncio.sleep(5)
        assert candidate.is_active
        stranger = await connect(server)
        (refused,) = await stranger.multi([SetData(CONTROLLER, b"mine")])
        assert not refused.ok
        stop.set()
        await running

    run_virtually(main)
