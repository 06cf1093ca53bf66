"""What is asked of brokers of Apache Kafka about the ids of topics, and made of their answers, over real sockets."""

from typing import Any

import pytest
from msgspec.structs import replace

from cluster.config.settings import Settings
from cluster.kafka_wire.messages import control as wire_control
from cluster.kafka_wire.messages import data as wire_data
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.model.broker import ZERO_TOPIC_ID, BrokerEpoch, ControllerEpoch, ControllerId, TopicId
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from controller.topic_id_questions import AskedTopic, TopicIdAnswer, TopicIdQuestion
from tests.integration.test_kafka_broker_client import CONTROLLER, client_of
from tests.kafka.peers import KafkaPeer, kafka_broker

A, B, NEW = (TopicId(letter * 21 + "g") for letter in "ABN")
E = ErrorCode
QUESTION = TopicIdQuestion(ControllerId(1001), ControllerEpoch(7), BrokerEpoch(4), {"t": AskedTopic(3, NEW)})


class Broker:
    """A broker whose metadata and whose logs have these ids; None: no id. `code`: of the partition, whatever the id."""

    def __init__(self, cached: TopicId | None, logged: TopicId | None, code: ErrorCode | None = None) -> None:
        self.cached, self.logged, self.code = cached, logged, code
        self.error = E.NONE
        self.peer = KafkaPeer({ApiKey.METADATA: self._metadata, ApiKey.LEADER_AND_ISR: self._leader_and_isr})

    def _metadata(self, request: Any) -> wire_data.MetadataResponse:
        assert not request.allow_auto_topic_creation
        topics = tuple(
            wire_data.MetadataResponseTopic(
                name=topic.name,
                topic_id=self.cached or ZERO_TOPIC_ID,
                error_code=E.NONE if self.cached else E.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for topic in request.topics
        )
        return wire_data.MetadataResponse(topics=topics)

    def _leader_and_isr(self, request: Any) -> wire_control.LeaderAndIsrResponse:
        return wire_control.LeaderAndIsrResponse(
            error_code=self.error, topics=tuple(map(self._topic, request.topic_states))
        )

    def _topic(self, topic: Any) -> wire_control.LeaderAndIsrTopicError:
        (partition,) = topic.partition_states
        fits = self.logged is None or topic.topic_id == self.logged
        code = self.code or (E.STALE_CONTROLLER_EPOCH if fits else E.INCONSISTENT_TOPIC_ID)
        error = wire_control.LeaderAndIsrPartitionError(partition_index=partition.partition_index, error_code=code)
        return wire_control.LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=(error,))


@pytest.mark.rule("D-102")
@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        (Broker(A, A), TopicIdAnswer({"t": A})),
        (Broker(A, None), TopicIdAnswer({"t": A})),
        (Broker(None, None), TopicIdAnswer({"t": None})),
        (Broker(None, A), TopicIdAnswer({}, frozenset({"t"}))),
        (Broker(B, A), TopicIdAnswer({}, frozenset({"t"}))),
        (Broker(A, A, E.KAFKA_STORAGE_ERROR), TopicIdAnswer()),
        (Broker(None, None, E.NONE), TopicIdAnswer({"t": None})),
    ],
    ids=["known", "logs without", "none", "restarted", "damaged before", "disk failed", "taken"],
)
async def test_a_broker_says_what_its_metadata_have_and_its_logs_take(broker: Broker, expected: TopicIdAnswer) -> None:
    async with kafka_broker(broker.peer) as served, client_of() as client:
        cached = await client.cached_topic_ids(served, ["t"])
        assert await client.check_topic_ids(served, QUESTION, cached) == replace(expected, cached=cached)
        (offer,) = broker.peer.of(ApiKey.LEADER_AND_ISR)
        (topic,) = offer.topic_states
        assert (topic.topic_name, topic.topic_id) == ("t", broker.cached or NEW)
        assert [(p.partition_index, p.leader_epoch) for p in topic.partition_states] == [(3, -2)]
        assert (offer.controller_id, offer.controller_epoch, offer.broker_epoch) == (1001, 7, 4)
    assert broker.peer.closed == broker.peer.connections


@pytest.mark.rule("D-102")
async def test_topics_that_may_have_the_same_id_are_asked_about_one_after_the_other() -> None:
    broker = Broker(None, A)
    topics = {"t": AskedTopic(3, NEW), "u": AskedTopic(0, B), "v": AskedTopic(1, B)}
    async with kafka_broker(broker.peer) as served, client_of() as client:
        answer = await client.check_topic_ids(served, replace(QUESTION, topics=topics), {"t": A, "u": A})
        assert answer == TopicIdAnswer({"t": A, "u": A}, frozenset({"v"}), {"t": A, "u": A})
    offers = [[t.topic_name for t in offer.topic_states] for offer in broker.peer.of(ApiKey.LEADER_AND_ISR)]
    assert offers == [["t", "v"], ["u"]]


@pytest.mark.rule("D-102")
async def test_a_broker_that_gets_no_ids_is_only_asked_for_its_metadata() -> None:
    broker = Broker(A, B)
    settings = Settings(klamm_broker_protocol="kafka", inter_broker_protocol_version="2.8-IV0")
    async with kafka_broker(broker.peer) as served, client_of(settings) as client:
        cached = await client.cached_topic_ids(served, ["t"])
        assert await client.check_topic_ids(served, QUESTION, cached) == TopicIdAnswer({"t": A}, cached={"t": A})
    assert broker.peer.of(ApiKey.LEADER_AND_ISR) == []


@pytest.mark.rule("D-102")
async def test_a_broker_that_obeys_another_controller_says_nothing() -> None:
    broker = Broker(A, A)
    broker.error = E.STALE_CONTROLLER_EPOCH
    async with kafka_broker(broker.peer) as served, client_of() as client:
        with pytest.raises(ApiError) as refused:
            await client.check_topic_ids(served, QUESTION, {})
        assert refused.value.code is E.STALE_CONTROLLER_EPOCH
        with pytest.raises(PeerUnreachableError):
            await client.cached_topic_ids(CONTROLLER, ["t"])
