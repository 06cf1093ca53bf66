"""Decides which id a topic has whose znode does not say so, or says what another topic's says too.

An id that brokers do not have in their logs makes them refuse every request about the topic (INCONSISTENT_TOPIC_ID), a
request without an id is taken: so an id is only invented if each broker that hosts the topic has none (D-102, D-103).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from cluster.model.broker import BrokerId, TopicId
from cluster.model.partition import TopicAssignment
from cluster.requests.recovery import DescribeReplicasResponse
from controller.topic_id_questions import TopicIdAnswer


class TopicIdsRead(Struct, frozen=True):
    """Holds what topic znodes say. `contested`: topics whose id another topic has too, known or among them.
    `without`: those that have none.
    """

    sound: dict[str, TopicId]
    contested: dict[str, TopicId]
    without: tuple[str, ...]


class UndecidedId(Struct, frozen=True):
    """`why`: in words that follow "it is served without one: "."""

    why: str


def read_ids(topics: Mapping[str, TopicAssignment], known: Mapping[TopicId, str]) -> TopicIdsRead:
    """Read the ids of topics. `known`: id -> topic, of the topics that brokers know under it."""
    ids = {topic: TopicId(a.topic_id) for topic, a in topics.items() if a.topic_id is not None}
    count = Counter(ids.values())
    contested = {t: i for t, i in ids.items() if count[i] > 1 or known.get(i, t) != t}
    sound = {topic: topic_id for topic, topic_id in ids.items() if topic not in contested}
    return TopicIdsRead(sound, contested, tuple(topic for topic in topics if topic not in ids))


def ids_in_logs(described: DescribeReplicasResponse, topics: Collection[str]) -> TopicIdAnswer:
    """Read from the replicas that a broker names what it says of the topics."""
    found: dict[str, set[TopicId]] = defaultdict(set)
    for replica in described.replicas:
        if replica.topic in topics and replica.topic_id is not None:
            found[replica.topic].add(replica.topic_id)
    return TopicIdAnswer(
        {topic: next(iter(found[topic]), None) for topic in topics if len(found[topic]) <= 1},
        frozenset(topic for topic, ids in found.items() if len(ids) > 1),
    )


def decide_id(
    topic: str, hosts: Iterable[BrokerId], answers: Mapping[BrokerId, TopicIdAnswer]
) -> TopicId | UndecidedId | None:
    """The id that brokers know the topic by; None if each of them has none. `hosts`: all brokers with a replica of it,
    registered or not.
    """
    known: dict[TopicId, list[BrokerId]] = defaultdict(list)
    undisclosed: list[BrokerId] = []
    silent: list[BrokerId] = []
    for broker in sorted(hosts):
        answer = answers.get(broker, TopicIdAnswer())
        topic_id = answer.ids.get(topic)
        if topic_id is not None:
            known[topic_id].append(broker)
        elif topic in answer.undisclosed:
            undisclosed.append(broker)
        elif topic not in answer.ids:
            silent.append(broker)
    if len(known) == 1:
        return next(iter(known))
    if known:
        return UndecidedId("; ".join(f"broker {_names(brokers)} knows it as {i}" for i, brokers in known.items()))
    if undisclosed:
        return UndecidedId(f"broker {_names(undisclosed)} has it under an id that only its log directories say")
    if silent:
        return UndecidedId(f"no broker knows its id, and broker {_names(silent)} has a replica, but does not answer")
    return None


def _names(brokers: Iterable[BrokerId]) -> str:
    return ", ".join(map(str, brokers))
