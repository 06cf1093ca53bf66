"""Znodes that are sound, but contradict one another, for DescribeFindings (BD-10, D-102)."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cluster.model.broker import BrokerId, Endpoint, TopicId
from cluster.requests.cluster import Finding
from cluster.znodes.paths import topic_path
from controller.active_controller import ActiveController
from controller.context.controller_context import ControllerContext

TOPIC_ID_CONFLICT: Final = "topic_id_conflict"
TOPIC_ID_LOST: Final = "topic_id_lost"
ENDPOINT_CONFLICT: Final = "endpoint_conflict"


async def contradictory_znodes(active: ActiveController) -> list[Finding]:
    """Topics with the id of another topic, or with none of which brokers have one, and brokers registered at the
    endpoint of another. Raises ZooKeeperError.
    """
    return [*await _topic_id_findings(active), *_endpoint_conflicts(active.context)]


async def _topic_id_findings(active: ActiveController) -> list[Finding]:
    context, lost = active.context, active.lost_topic_ids.topics
    without = sorted(context.topics.names - context.topics.ids.keys())
    ids = {topic: a.topic_id for topic, (a, _) in (await active.store.read_topics_to_change(without)).items()}
    claiming: dict[str, list[str]] = defaultdict(list)
    for topic, topic_id in ids.items():
        if topic_id is not None:
            claiming[topic_id].append(topic)
    found: list[Finding] = []
    for topic, topic_id in sorted(ids.items()):
        why = lost.get(topic, "")
        if topic_id is None:
            found += [Finding(TOPIC_ID_LOST, _lost(topic, why), topic)] if why else []
            continue
        owner = context.topics.names_by_id.get(TopicId(topic_id))
        others = [owner] if owner is not None else [other for other in claiming[topic_id] if other != topic]
        if others:
            found.append(Finding(TOPIC_ID_CONFLICT, _conflict(topic, topic_id, owner, others, why), topic))
    return found


def _lost(topic: str, why: str) -> str:
    return (
        f"topic {topic} has lost its id in ZooKeeper, and is served without one: {why}; its brokers are asked again "
        "when one joins, and from time to time; or copy topic_id from the file partition.metadata of a replica of it "
        f"into the znode {topic_path(topic)}"
    )


def _conflict(topic: str, topic_id: str, owner: str | None, others: list[str], why: str) -> str:
    names = f"topics {topic} and {', '.join(others)} have the same id {topic_id} in their znodes: "
    if owner is None:
        return f"{names}{topic} is served without an id until its brokers say whose it is" + (f": {why}" if why else "")
    return f"{names}{owner} keeps it, and {topic} is served without an id; delete {topic}, or correct its znode"


def _endpoint_conflicts(context: ControllerContext) -> Iterator[Finding]:
    at: dict[tuple[str, int], set[BrokerId]] = defaultdict(set)
    for broker in context.brokers.registered.values():
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
