"""Znodes that are sound, but contradict one another, for DescribeFindings (BD-10)."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cluster.broker import BrokerId, Endpoint, TopicId
from cluster.requests.cluster import Finding
from controller.active_controller import ActiveController
from controller.context import ControllerContext

TOPIC_ID_CONFLICT: Final = "topic_id_conflict"
ENDPOINT_CONFLICT: Final = "endpoint_conflict"


async def contradictory_znodes(active: ActiveController) -> list[Finding]:
    """Topics with the id of another topic, and brokers registered at the endpoint of another. Raises ZooKeeperError."""
    return [*await _topic_id_conflicts(active), *_endpoint_conflicts(active.context)]


async def _topic_id_conflicts(active: ActiveController) -> list[Finding]:
    context = active.context
    without = sorted(context.topics - context.topic_ids.keys())
    found: list[Finding] = []
    for topic, (assignment, _) in sorted((await active.store.read_topics_to_change(without)).items()):
        other = None if assignment.topic_id is None else context.topic_names.get(TopicId(assignment.topic_id))
        if other is not None:
            detail = (
                f"topics {topic} and {other} have the same id {assignment.topic_id} in their znodes: {other}, which is "
                f"older, keeps it, and {topic} is served without an id; delete {topic}, or correct its znode"
            )
            found.append(Finding(TOPIC_ID_CONFLICT, detail, topic))
    return found


def _endpoint_conflicts(context: ControllerContext) -> Iterator[Finding]:
    at: dict[tuple[str, int], set[BrokerId]] = defaultdict(set)
    for broker in context.brokers.values():
        for endpoint in broker.endpoints:
            at[endpoint.host, endpoint.port].add(broker.id)
    for (host, port), brokers in sorted(at.items()):
        if len(brokers) > 1:
            names = ", ".join(map(str, sorted(brokers)))
            detail = (
                f"brokers {names} are registered with the same endpoint {Endpoint(host, port).address}: requests to "
                "one reach the other; correct listen and advertised of one and restart it, or delete its registration"
            )
            yield Finding(ENDPOINT_CONFLICT, detail, broker=max(brokers))
