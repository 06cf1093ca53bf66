"""Which of its two listeners a process answers a request at, on the simulated network."""

from collections.abc import Iterable
from typing import Any

import pytest

from broker_agent.registration.controller_finder import check_controller_has_control_listener
from cluster.model.broker import Broker, BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Endpoint
from cluster.model.errors import ApiError, ErrorCode, StartupError
from cluster.model.listeners import EXTERNAL_LISTENER, ListenerNames, has_one_address
from cluster.requests.agents import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ReportDamagedReplicasRequest,
)
from cluster.requests.cluster import DescribeClusterRequest, WatchRequest
from cluster.requests.context import RequestContext, RequestHandler
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.requests.data import FetchRequest, MetadataRequest, ProduceRequest
from cluster.requests.elections import ShutdownRequest
from cluster.requests.recovery import DescribeReplicasRequest
from cluster.requests.topics import CreateTopicsRequest, ListTopicsRequest
from cluster.rpc.apis import ApiKind
from cluster.rpc.external_listener import ExternalListener
from cluster.rpc.methods import METHOD_OF_REQUEST
from cluster.znodes.controller import encode_controller
from cluster.znodes.paths import CONTROLLER, broker_path, controller_registration_path
from cluster.znodes.registrations import encode_broker, encode_controller_registration
from cluster.zookeeper.port import Create, SetData
from controller.apis import APIS
from tests.brokers.agents import CONTROLLER_ENDPOINTS, CONTROLLER_ID, TP, AgentWorld, connect, until, virtually
from tests.controllers.worlds import run_virtually, running_cluster
from tests.controllers.worlds import until as until_in_world

CONTROL_REQUESTS = {
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    AlterPartitionRequest,
    AllocateProducerIdsRequest,
    ControlledShutdownRequest,
    DescribeReplicasRequest,
    ReportDamagedReplicasRequest,
}


def at(listener: str) -> RequestContext:
    return RequestContext(peer="somebody", listener=listener)


@pytest.mark.rule("LS-1")
@virtually
async def test_every_request_of_a_process_has_one_listener() -> None:
    world = AgentWorld()
    await world.start(1)
    apis = {**APIS, **world.agents[1].node.apis}
    assert {request for request, api in apis.items() if api.kind is ApiKind.INTER_NODE} == CONTROL_REQUESTS
    assert METHOD_OF_REQUEST.keys() >= CONTROL_REQUESTS
    await world.stop()


def stop_replica(epoch: BrokerEpoch) -> StopReplicaRequest:
    return StopReplicaRequest(CONTROLLER_ID, ControllerEpoch(1), epoch, ())


@pytest.mark.rule("LS-1")
@virtually
async def test_an_agent_answers_controllers_and_clients_at_different_listeners() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]

    async def ask(request: Any, listener: str) -> Any:
        return await agent.node.handle(at(listener), request)

    assert (await ask(stop_replica(agent.epoch), "CONTROL")).error_code is ErrorCode.NONE
    await ask(MetadataRequest(), "PLAINTEXT")
    await ask(ProduceRequest(1, 1000, ()), "PLAINTEXT")
    refusal = "StopReplica is answered at the listener CONTROL \\(broker-1:9093\\), not at PLAINTEXT"
    with pytest.raises(ApiError, match=refusal) as caught:
        await ask(stop_replica(agent.epoch), "PLAINTEXT")
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    for request in (
        ProduceRequest(1, 1000, ()),
        FetchRequest(BrokerId(2), (), 0, 1, 9),
        ShutdownRequest(BrokerId(1)),
        DescribeClusterRequest(),
    ):
        with pytest.raises(ApiError, match="answered at the listener PLAINTEXT \\(broker-1:9092\\), not at CONTROL"):
            await ask(request, "CONTROL")
    await world.stop()


@pytest.mark.rule("LS-1", "LS-5")
@virtually
async def test_the_external_listener_answers_clients_and_its_refusals_name_it() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]
    external = ExternalListener(agent.node, ListenerNames(), no_processes)
    await external.handle(at(EXTERNAL_LISTENER), MetadataRequest())
    with pytest.raises(ApiError, match="at the listener CONTROL \\(broker-1:9093\\), not at EXTERNAL"):
        await external.handle(at(EXTERNAL_LISTENER), stop_replica(agent.epoch))
    await world.stop()


async def no_processes() -> list[list[Endpoint]]:
    return []


class Recorder:
    """Passes requests on and keeps their names, with the listener that received them."""

    def __init__(self, world: AgentWorld, handler: RequestHandler, endpoints: Iterable[Endpoint]) -> None:
        self.handler = handler
        self.received: set[tuple[str, str]] = set()
        for endpoint in endpoints:
            world.network.detach(endpoint)
            world.network.attach(endpoint, self)

    async def handle(self, context: RequestContext, request: Any) -> Any:
        self.received.add((type(request).__name__, context.listener))
        return await self.handler.handle(context, request)


@pytest.mark.rule("LS-1")
@virtually
async def test_an_agent_sends_control_requests_to_the_control_listener_and_fetches_to_the_other() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    leader = Recorder(world, world.agents[1].node, world.agents[1].endpoints)
    controller = Recorder(world, world.controller, CONTROLLER_ENDPOINTS)
    await world.create(1, [1], replicas=[1, 2])
    await until(lambda: world.states[TP].isr == (1, 2))
    await world.agents[2].agent.leave()
    assert leader.received == {("FetchRequest", "PLAINTEXT")}
    assert controller.received == {("AlterPartitionRequest", "CONTROL"), ("ControlledShutdownRequest", "CONTROL")}
    await world.stop()


@pytest.mark.rule("LS-1")
def test_the_active_controller_answers_brokers_and_clients_at_different_listeners() -> None:
    async def main() -> None:
        world, c = await running_cluster()
        endpoints = (Endpoint("host1", 9092), Endpoint("host1", 9093, "CONTROL"))
        await world.create(broker_path(BrokerId(1)), encode_broker(Broker(BrokerId(1), endpoints), 1))
        await until_in_world(lambda: c.gauge("ActiveBrokerCount") == 1)
        for request in (
            AlterPartitionRequest(BrokerId(1), BrokerEpoch(-1), ()),
            ControlledShutdownRequest(BrokerId(1)),
            AllocateProducerIdsRequest(BrokerId(1)),
        ):
            assert hasattr(await c.node.handle(at("CONTROL"), request), "error_code")
            with pytest.raises(ApiError, match="at the listener CONTROL \\(controller:20001\\), not at PLAINTEXT"):
                await c.node.handle(at("PLAINTEXT"), request)
        for request in (CreateTopicsRequest(()), ListTopicsRequest(), WatchRequest(), DescribeClusterRequest()):
            await c.node.handle(at("PLAINTEXT"), request)
            with pytest.raises(ApiError, match="at the listener PLAINTEXT \\(controller:10001\\), not at CONTROL"):
                await c.node.handle(at("CONTROL"), request)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("LS-3")
def test_a_controller_answers_a_broker_that_registers_one_address_at_the_listener_for_clients() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        standby = world.start_controller(1002)
        # Of klamm 0.2, with control.plane.listener.name.
        two_names = (Endpoint("host2", 9092), Endpoint("host2", 9092, "CONTROLLER"))
        await world.create(broker_path(BrokerId(2)), encode_broker(Broker(BrokerId(2), two_names), 1))
        await until_in_world(lambda: c.gauge("ActiveBrokerCount") == 2)
        for broker in (BrokerId(1), BrokerId(2)):
            request = AllocateProducerIdsRequest(broker, await world.broker_epoch(broker))
            response = await c.node.handle(at("PLAINTEXT"), request)
            assert response.error_code is ErrorCode.NONE
            response = await standby.node.handle(at("PLAINTEXT"), request)
            assert response.error_code is ErrorCode.NOT_CONTROLLER
        with pytest.raises(ApiError, match="at the listener CONTROL"):
            await c.node.handle(at("PLAINTEXT"), AllocateProducerIdsRequest(BrokerId(3)))
        await standby.stop()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("LS-3")
@virtually
async def test_an_agent_does_not_start_under_a_controller_that_registers_one_address() -> None:
    world = AgentWorld()
    client = await connect(world.zookeeper)
    await check_controller_has_control_listener(client)
    await world.start(1)
    await check_controller_has_control_listener(client)
    old = ControllerId(1002)
    registration = encode_controller_registration(old, [Endpoint("old", 9090)], 0)
    await client.multi(
        [
            Create(controller_registration_path(old), registration, ephemeral=True),
            SetData(CONTROLLER, encode_controller(old, 0)),
        ]
    )
    with pytest.raises(StartupError, match="controller 1002 \\(old:9090\\) .* upgrade all controllers"):
        await check_controller_has_control_listener(client)
    await world.stop()


@pytest.mark.rule("RQ-30", "LS-3")
def test_control_requests_go_to_the_control_listener_else_to_that_for_clients() -> None:
    names = ListenerNames("INTERNAL", "CONTROLLER")
    client, control, other = (
        Endpoint("h", port, name) for port, name in enumerate(("INTERNAL", "CONTROLLER", "EXTERNAL"))
    )
    assert names.control_endpoint([other, client, control]) == control
    assert names.control_endpoint([other, client]) == client
    assert names.control_endpoint([other]) is None
    assert names.client_endpoint([control, client]) == client
    assert has_one_address([Endpoint("h", 1, "INTERNAL"), Endpoint("h", 1, "CONTROLLER")])
    assert not has_one_address([client, control])
