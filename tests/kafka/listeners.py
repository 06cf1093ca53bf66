"""A Kafka listener of a controller, and a client that asks it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cluster.kafka_wire.apis import api_of
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.headers import encode_request
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import topics as wire_topics
from cluster.model.errors import ErrorCode
from cluster.requests import topics
from controller.adapters.kafka.server import KafkaServers
from tests.kafka.peers import TIMEOUT_S, KafkaPeer, kafka_broker, kafka_listener
from tests.processes.scripted_servers import Scripted

NEWEST_CREATION = 7


async def asked(connection: KafkaConnection, message: Message, version: int, answer: type[Message]) -> Any:
    return await connection.call(message, version, answer, timeout_s=TIMEOUT_S)


@asynccontextmanager
async def listener_with(peer: KafkaPeer, handler: Scripted | None = None) -> AsyncIterator[KafkaServers]:
    """A listener in front of the handler, with one live broker."""
    answered = Scripted(lambda _: None) if handler is None else handler
    async with kafka_broker(peer) as broker, kafka_listener(answered, [broker]) as servers:
        yield servers


def creates() -> Scripted:
    return Scripted(lambda _: topics.CreateTopicsResponse((topics.CreatableTopicResult("t", ErrorCode.NONE),)))


def creating(*new: wire_topics.CreatableTopic) -> wire_topics.CreateTopicsRequest:
    return wire_topics.CreateTopicsRequest(topics=new, timeout_ms=1000)


def as_version(message: Message, version: int) -> bytes:
    """The request in version 0, or the lowest that it has, that says to be of another."""
    frame = encode_request(message, api_of(type(message)).oldest_version, 1, None)
    # The header of a newer version ends with tagged fields.
    return frame[:2] + version.to_bytes(2, "big", signed=True) + frame[4:] + b"\0"
