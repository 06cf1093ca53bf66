"""What the brokers of a topic say about it."""

import asyncio
import logging
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from audit.topic.topics import REQUEST_TIMEOUT_MS, Topic, TopicError

_CLIENT: Final = "klamm-audit"


def topic_ends(topic: Topic) -> dict[int, int]:
    """The offset of the next record of each partition. Raises TopicError where there is no such topic."""
    # What it logs is in the errors that it raises.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return asyncio.run(_ends(topic))


async def _ends(topic: Topic) -> dict[int, int]:
    try:
        await _check_presence(topic)
        consumer = AIOKafkaConsumer(
            topic.name, bootstrap_servers=topic.bootstrap, client_id=_CLIENT, request_timeout_ms=REQUEST_TIMEOUT_MS
        )
        try:
            await consumer.start()
            numbers = consumer.partitions_for_topic(topic.name) or ()
            ends = await consumer.end_offsets([TopicPartition(topic.name, number) for number in numbers])
            return {partition.partition: end for partition, end in ends.items()}
        finally:
            await consumer.stop()
    except (KafkaError, OSError, ValueError) as error:
        raise TopicError(f"{topic}: {error}") from error


async def _check_presence(topic: Topic) -> None:
    """Check that a topic exists, by the list of all topics: a request for one that does not exist may create it."""
    client = AIOKafkaAdminClient(
        bootstrap_servers=topic.bootstrap, client_id=_CLIENT, request_timeout_ms=REQUEST_TIMEOUT_MS
    )
    try:
        await client.start()
        if topic.name not in await client.list_topics():
            raise TopicError(f"{topic}: there is no such topic; create it first")
    finally:
        await client.close()
