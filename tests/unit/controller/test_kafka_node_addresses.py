"""Answers of brokers get the addresses of the client's listener."""

from cluster.kafka_wire.messages.coordinators import (
    Coordinator,
    DescribeClusterBroker,
    DescribeClusterResponse,
    FindCoordinatorResponse,
    InitProducerIdResponse,
)
from cluster.kafka_wire.messages.data import MetadataResponse, MetadataResponseBroker
from cluster.model.broker import Endpoint
from controller.adapters.kafka.node_addresses import at_listener

NODES = {1: Endpoint("outside-1", 9092), 901: Endpoint("outside-901", 19092)}


def test_nodes_have_the_addresses_of_the_listener_and_those_without_it_are_left_out() -> None:
    found = at_listener(
        MetadataResponse(brokers=tuple(MetadataResponseBroker(node_id=i, host="in", port=1) for i in (1, 2, 901))),
        NODES,
    )
    assert [(one.node_id, one.host, one.port) for one in found.brokers] == [
        (1, "outside-1", 9092),
        (901, "outside-901", 19092),
    ]
    described = at_listener(
        DescribeClusterResponse(brokers=tuple(DescribeClusterBroker(broker_id=i, host="in", port=1) for i in (1, 2))),
        NODES,
    )
    assert [(one.broker_id, one.host) for one in described.brokers] == [(1, "outside-1")]


def test_a_coordinator_without_the_listener_is_not_available() -> None:
    def of(node: int, code: int = 0) -> Coordinator:
        return Coordinator(key="g", node_id=node, host="in", port=1, error_code=code)

    found = at_listener(FindCoordinatorResponse(coordinators=(of(1), of(2), of(2, 29))), NODES)
    assert [(one.node_id, one.host, one.error_code) for one in found.coordinators] == [
        (1, "outside-1", 0),
        (-1, "", 15),
        (2, "in", 29),
    ]
    oldest = at_listener(FindCoordinatorResponse(node_id=1, host="in", port=1), NODES)
    assert (oldest.node_id, oldest.host, oldest.port) == (1, "outside-1", 9092)


def test_other_answers_have_no_addresses() -> None:
    answer = InitProducerIdResponse(producer_id=7)
    assert at_listener(answer, NODES) is answer
