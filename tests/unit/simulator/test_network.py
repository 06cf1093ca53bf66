"""What a node answers that is ending: as over gRPC, where its error is the answer and does not end who asked."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from cluster.model.broker import Broker, BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Endpoint
from cluster.model.errors import ApiError, ErrorCode, StoppingError
from cluster.model.listeners import ListenerNames
from cluster.requests.context import RequestContext
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.requests.data import FetchRequest
from simulator.cluster import simulate
from simulator.network import SimulatedBrokerClient, SimulatedClusterClient, SimulatedNetwork

ENDPOINT = Endpoint("broker-1", 9093, "CONTROL")
BROKER = Broker(BrokerId(1), (ENDPOINT,), None)
EPOCHS: dict[str, Any] = {
    "controller_id": ControllerId(1001),
    "controller_epoch": ControllerEpoch(1),
    "broker_epoch": BrokerEpoch(1),
}


class Ending:
    """A node whose process starts nothing new."""

    async def handle(self, context: RequestContext, request: object) -> object:
        raise StoppingError("control-request: the process is ending")


def on_network(test: Callable[[SimulatedNetwork], Awaitable[None]]) -> None:
    async def main() -> None:
        network = SimulatedNetwork(Random(1))
        network.attach(ENDPOINT, Ending())
        await test(network)

    simulate(main)


@pytest.mark.parametrize("kind", [LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest])
def test_a_broker_that_is_ending_answers_a_controller_with_a_code(kind: Callable[..., Any]) -> None:
    async def test(network: SimulatedNetwork) -> None:
        client = SimulatedBrokerClient(network, "controller-1001/0", ListenerNames())
        response = await client.send(BROKER, kind(**EPOCHS))
        assert type(response).__name__ == kind.__name__.replace("Request", "Response")
        assert response.error_code is ErrorCode.BROKER_NOT_AVAILABLE

    on_network(test)


def test_a_node_that_is_ending_refuses_a_broker() -> None:
    async def test(network: SimulatedNetwork) -> None:
        client = SimulatedClusterClient(network, "broker-2/0")
        with pytest.raises(ApiError) as caught:
            await client.ask_leader(ENDPOINT, FetchRequest(BrokerId(2), (), 0, 0, 0))
        assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE

    on_network(test)
