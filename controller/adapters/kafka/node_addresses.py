"""Answers of brokers with the addresses of another listener than the one where they were asked.

A broker answers with the addresses of the listener at which it is asked. Pure functions. Source: Kafka
MetadataCache.getAliveBrokerNodes, KafkaApis.handleFindCoordinatorRequest.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from cluster.kafka_wire.messages.coordinators import DescribeClusterResponse, FindCoordinatorResponse
from cluster.kafka_wire.messages.data import MetadataResponse
from cluster.model.broker import Endpoint

_NO_NODE: Final = -1
_NOT_AVAILABLE: Final = 15
"""Kafka's COORDINATOR_NOT_AVAILABLE, which klamm answers nowhere else."""


def at_listener(response: Any, nodes: Mapping[int, Endpoint]) -> Any:
    """Replace the addresses of nodes. `nodes`: those that have the listener, by id; others are left out, as a broker
    does.
    """
    match response:
        case MetadataResponse():
            found = (_moved(one, nodes.get(one.node_id)) for one in response.brokers)
            return replace(response, brokers=tuple(one for one in found if one is not None))
        case DescribeClusterResponse():
            found = (_moved(one, nodes.get(one.broker_id)) for one in response.brokers)
            return replace(response, brokers=tuple(one for one in found if one is not None))
        case FindCoordinatorResponse():
            coordinators = tuple(_coordinator(one, nodes) for one in response.coordinators)
            return replace(_coordinator(response, nodes), coordinators=coordinators)
        case _:
            return response


def _moved(node: Any, endpoint: Endpoint | None) -> Any:
    return None if endpoint is None else replace(node, host=endpoint.host, port=endpoint.port)


def _coordinator(found: Any, nodes: Mapping[int, Endpoint]) -> Any:
    """Move one coordinator; clients ask again for one that cannot be reached."""
    if found.error_code or not found.host:
        return found
    moved = _moved(found, nodes.get(found.node_id))
    if moved is not None:
        return moved
    return replace(found, error_code=_NOT_AVAILABLE, node_id=_NO_NODE, host="", port=_NO_NODE)
