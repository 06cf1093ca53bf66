"""What the controller asks a broker about the ids of topics that it hosts, and what the broker says."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from cluster.model.broker import Broker, BrokerEpoch, ControllerEpoch, ControllerId, TopicId


class AskedTopic(Struct, frozen=True):
    """`partition`: one that the broker hosts. `new_id`: what the topic is to have if no broker has an id of it.
    `cached`: what the broker named before.
    """

    partition: int
    new_id: TopicId
    cached: TopicId | None = None


class TopicIdQuestion(Struct, frozen=True):
    """The epochs are those of a request to the broker now."""

    controller_id: ControllerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    topics: Mapping[str, AskedTopic]


class TopicIdAnswer(Struct, frozen=True):
    """`ids`: topic -> the id of its logs, None if they have none; without those that the broker says nothing of.
    `undisclosed`: topics whose logs have an id, but not the one that the broker names. `cached`: the ids that it names,
    whatever its logs have.
    """

    ids: Mapping[str, TopicId | None] = {}
    undisclosed: frozenset[str] = frozenset()
    cached: Mapping[str, TopicId] = {}


@runtime_checkable
class AnswersTopicIds(Protocol):
    """A client of brokers that cannot name their replicas (`describe_replicas`), but the ids of topics."""

    async def cached_topic_ids(self, broker: Broker, topics: Sequence[str]) -> dict[str, TopicId]:
        """The ids that the broker was told, which it forgets with the first UpdateMetadata without them. Raises
        PeerUnreachableError.
        """
        ...

    async def check_topic_ids(
        self, broker: Broker, question: TopicIdQuestion, cached: Mapping[str, TopicId]
    ) -> TopicIdAnswer:
        """Ask what the broker's logs have, which is not always what it was told. Raises PeerUnreachableError,
        ApiError.
        """
        ...
