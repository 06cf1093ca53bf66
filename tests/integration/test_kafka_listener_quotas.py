"""Quotas of changes at a Kafka listener: who is refused, who is throttled, and what its connection waits for."""

import asyncio

import pytest

from cluster.kafka_wire.messages import topics as wire_topics
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.data import MetadataRequest, MetadataResponse
from cluster.model.errors import ErrorCode
from cluster.requests import topics
from tests.kafka.listeners import NEWEST_CREATION, asked, creating, listener_with
from tests.kafka.peers import KafkaPeer, connected
from tests.processes.scripted_servers import Scripted

THROTTLE_MS = 300


@pytest.mark.rule("MQ-2", "MQ-3")
async def test_the_newest_versions_know_the_error_and_all_that_can_say_so_have_the_throttle_time() -> None:
    created = (topics.CreatableTopicResult("t", ErrorCode.NONE),)
    grown = (topics.CreatePartitionsResult("t", ErrorCode.NONE),)
    deleted = (topics.DeletableTopicResult("t", None, ErrorCode.NONE),)
    answers = {
        topics.CreateTopicsRequest: topics.CreateTopicsResponse(created, throttle_time_ms=1),
        topics.CreatePartitionsRequest: topics.CreatePartitionsResponse(grown, throttle_time_ms=1),
        topics.DeleteTopicsRequest: topics.DeleteTopicsResponse(deleted, throttle_time_ms=1),
    }
    handler = Scripted(lambda request: answers[type(request)])
    new = creating(wire_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1))
    more = wire_topics.CreatePartitionsRequest(topics=(wire_topics.CreatePartitionsTopic(name="t", count=2),))
    gone = wire_topics.DeleteTopicsRequest(topic_names=("t",))
    asked_for = (
        (new, wire_topics.CreateTopicsResponse, 6, 2, range(NEWEST_CREATION + 1)),
        (more, wire_topics.CreatePartitionsResponse, 3, 0, range(4)),
        (gone, wire_topics.DeleteTopicsResponse, 5, 1, range(6)),
    )
    async with listener_with(KafkaPeer({}), handler) as servers, connected(servers) as client:
        for request, answer_type, knows_from, says_from, versions in asked_for:
            for version in versions:
                answer = await asked(client, request, version, answer_type)
                context, _ = handler.asked[-1]
                assert (context.client_id, context.knows_quota_error) == ("client", version >= knows_from)
                assert answer.throttle_time_ms == (1 if version >= says_from else 0), (answer_type, version)


@pytest.mark.rule("MQ-3")
async def test_nothing_that_a_throttled_connection_sends_is_answered_or_passed_on_before() -> None:
    created = (topics.CreatableTopicResult("t", ErrorCode.NONE),)
    handler = Scripted(lambda _: topics.CreateTopicsResponse(created, throttle_time_ms=THROTTLE_MS))
    peer = KafkaPeer({ApiKey.METADATA: lambda _: MetadataResponse(topics=())})
    new = creating(wire_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1))
    loop = asyncio.get_running_loop()
    async with listener_with(peer, handler) as servers, connected(servers) as client, connected(servers) as other:
        # Of the oldest version, whose response cannot say so.
        await asked(client, new, 0, wire_topics.CreateTopicsResponse)
        throttled_at = loop.time()
        muted = asyncio.ensure_future(asked(client, MetadataRequest(topics=()), 4, MetadataResponse))
        await asked(other, MetadataRequest(topics=()), 4, MetadataResponse)
        assert not muted.done()
        await muted
        assert loop.time() - throttled_at > THROTTLE_MS / 2000
