"""Brokers as tables and JSON show them, dead ones included."""

from admin.cli.broker_documents import all_broker_documents, by_registration
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Endpoint
from cluster.requests.cluster import DescribeClusterResponse, DescribedBroker
from tests.controllers.contexts import ids


def test_dead_brokers_are_shown_and_are_not_among_the_registered_ones() -> None:
    live = tuple(DescribedBroker(BrokerId(b), Endpoint("h", b), BrokerEpoch(b)) for b in (3, 1))
    described = DescribeClusterResponse("c", ControllerId(1), "", ControllerEpoch(1), live, dead_brokers=ids(2))
    shown = all_broker_documents(described)
    assert [(b["id"], b["state"] == "dead") for b in shown] == [(1, False), (2, True), (3, False)]
    split = by_registration(shown)
    assert [[b["id"] for b in split[key]] for key in ("brokers", "dead_brokers")] == [[1, 3], [2]]
