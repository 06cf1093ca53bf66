"""What a plan says of requests and what brokers received, side by side."""

from collections import defaultdict

from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.requests.plans import Plan
from tests.controllers.worlds import RunningController

Requests = dict[int, list[tuple[str, int, bool]]]


def planned(plan: Plan) -> Requests:
    by_broker: Requests = defaultdict(list)
    for request in plan.requests:
        by_broker[request.broker_id].append((request.name, request.partitions, request.delete))
    return by_broker


def received(c: RunningController) -> Requests:
    by_broker: Requests = defaultdict(list)
    for broker, request in c.brokers.received:
        delete = False
        match request:
            case StopReplicaRequest():
                count = len(request.partition_states)
                delete = any(state.delete_partition for state in request.partition_states)
            case LeaderAndIsrRequest() | UpdateMetadataRequest():
                count = sum(len(topic.partition_states) for topic in request.topic_states)
        by_broker[broker].append((type(request).__name__.removesuffix("Request"), count, delete))
    return by_broker
