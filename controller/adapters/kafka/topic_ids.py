"""Asks a broker of Apache Kafka under which ids it has its topics.

Its metadata say the ids that it was told since it started, and forget one with the first UpdateMetadata without it; a
wrong id is there, too, where one was sent. Only its logs know better, and they can be asked by
a LeaderAndIsr that is too old to change anything: a broker compares the topic id before the leader epoch, and refuses
an id that is not the log's (INCONSISTENT_TOPIC_ID). Source: Kafka ZkMetadataCache.updateMetadata,
ReplicaManager.becomeLeaderOrFollower.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages import control as wire_control
from cluster.kafka_wire.messages.control import LeaderAndIsrResponse
from cluster.kafka_wire.messages.data import MetadataRequest, MetadataRequestTopic, MetadataResponse
from cluster.model.broker import NO_LEADER, ZERO_TOPIC_ID, LeaderEpoch, TopicId
from cluster.model.errors import ApiError, ErrorCode, known_code
from controller.topic_id_questions import TopicIdAnswer, TopicIdQuestion

_METADATA_VERSION: Final = 10
"""The first one with topic ids, which every broker with ids has (2.8)."""
_LEADER_AND_ISR_WITH_IDS: Final = 5
_TOO_OLD: Final = LeaderEpoch(-2)
"""A leader epoch below that of a partition which a broker has only begun to host, -1."""
_TAKEN: Final = frozenset({ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH})
"""The id is the log's, or the log has none: the next check is that of the leader epoch."""


async def cached_topic_ids(
    connection: KafkaConnection, topics: Sequence[str], *, timeout_s: float
) -> dict[str, TopicId]:
    """The ids in the broker's metadata. Raises PeerUnreachableError."""
    names = tuple(MetadataRequestTopic(name=topic) for topic in topics)
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    answer = await connection.call(request, _METADATA_VERSION, MetadataResponse, timeout_s=timeout_s)
    return {t.name: t.topic_id for t in answer.topics if t.name is not None and t.topic_id != ZERO_TOPIC_ID}


async def check_topic_ids(
    connection: KafkaConnection,
    question: TopicIdQuestion,
    cached: Mapping[str, TopicId],
    version: int,
    *,
    timeout_s: float,
) -> TopicIdAnswer:
    """Ask a broker. `version`: of the LeaderAndIsr requests that it gets. Raises PeerUnreachableError, ApiError."""
    if version < _LEADER_AND_ISR_WITH_IDS:
        return TopicIdAnswer({topic: cached.get(topic) for topic in question.topics}, cached=cached)
    codes: dict[str, ErrorCode] = {}
    for offered in _without_repetition(question, cached):
        codes |= await _offer(connection, question, offered, version, timeout_s=timeout_s)
    return TopicIdAnswer(
        {topic: cached.get(topic) for topic, code in codes.items() if code in _TAKEN},
        frozenset(topic for topic, code in codes.items() if code is ErrorCode.INCONSISTENT_TOPIC_ID),
        cached,
    )


def _without_repetition(question: TopicIdQuestion, cached: Mapping[str, TopicId]) -> list[dict[TopicId, str]]:
    """Id -> topic: the id that the broker was told, or else the one that the topic would get. Answers name ids only, so
    topics that are asked about with the same id are asked one after the other.
    """
    batches: list[dict[TopicId, str]] = []
    uses: Counter[TopicId] = Counter()
    for topic, asked in question.topics.items():
        topic_id = cached.get(topic, asked.new_id)
        if uses[topic_id] == len(batches):
            batches.append({})
        batches[uses[topic_id]][topic_id] = topic
        uses[topic_id] += 1
    return batches


async def _offer(
    connection: KafkaConnection,
    question: TopicIdQuestion,
    offered: Mapping[TopicId, str],
    version: int,
    *,
    timeout_s: float,
) -> dict[str, ErrorCode]:
    """Offer these ids to the broker, and return what its logs say to each."""
    request = wire_control.LeaderAndIsrRequest(
        controller_id=question.controller_id,
        controller_epoch=question.controller_epoch,
        broker_epoch=question.broker_epoch,
        topic_states=tuple(
            wire_control.LeaderAndIsrTopicState(
                topic_name=topic,
                topic_id=topic_id,
                partition_states=(
                    wire_control.LeaderAndIsrPartitionState(
                        partition_index=question.topics[topic].partition,
                        controller_epoch=question.controller_epoch,
                        leader=NO_LEADER,
                        leader_epoch=_TOO_OLD,
                    ),
                ),
            )
            for topic_id, topic in offered.items()
        ),
    )
    answer = await connection.call(request, version, LeaderAndIsrResponse, timeout_s=timeout_s)
    if answer.error_code:
        raise ApiError(known_code(answer.error_code), "the broker refuses requests of this controller")
    return {
        offered[topic.topic_id]: known_code(error.error_code)
        for topic in answer.topics
        for error in topic.partition_errors
        if topic.topic_id in offered
    }
