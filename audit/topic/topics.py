"""A topic with the lines of state-change logs, and what its brokers say of it.

A record's key is `node/incarnation`, its value one line without newline; all lines of a key are in one partition, in
their order. A line may be there twice: a publisher that was killed repeats what it is not certain of.
"""

import asyncio
import logging
import re
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from msgspec import Struct

from cluster.errors import ClusterError

REQUEST_TIMEOUT_MS: Final = 20_000
_CLIENT: Final = "klamm-audit"
_MISFITS: Final = re.compile(
    r"Failed to find (the )?data source: ?`?kafka|NoSuchMethodError|NoSuchFieldError|NoClassDefFoundError"
    r"|ClassNotFoundException|AbstractMethodError|IncompatibleClassChangeError|UnsupportedClassVersionError"
    # Where Spark has only the message of such an error: a signature, a class by its path, a receiver.
    r"|exception: ('\S+ (org\.apache|scala)\.[^']*'|(org/apache|scala)/\S+|Receiver class )"
)
"""The JVM's errors where two jars do not fit together."""


class TopicError(ClusterError):
    """What a topic, or its brokers, did not do."""


class Topic(Struct, frozen=True):
    """`bootstrap`: addresses of brokers; `connector`: version of Spark's connector to Kafka."""

    bootstrap: str
    name: str
    connector: str = ""

    def __str__(self) -> str:
        return f"topic {self.name} at {self.bootstrap}"

    def explain(self, why: str) -> str:
        """What Spark says of an audit of the topic, and what to do about it."""
        if _MISFITS.search(why):
            return (
                f"Spark's connector to Kafka {self.connector} does not fit this Spark ({why}): set --kafka-connector "
                "to the version of Spark, or the nearest one that there is"
            )
        if "failOnDataLoss" in why or "data may have been lost" in why:
            return f"{self}: records that were not read yet are gone; audit it anew into a new --output"
        return f"{self}: {why}"


def topic_ends(topic: Topic) -> dict[int, int]:
    """By partition the offset at which its next record will be. Raises TopicError where there is no such topic."""
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
    """By the list of all topics: who asks for one that is not there may make it."""
    client = AIOKafkaAdminClient(
        bootstrap_servers=topic.bootstrap, client_id=_CLIENT, request_timeout_ms=REQUEST_TIMEOUT_MS
    )
    try:
        await client.start()
        if topic.name not in await client.list_topics():
            raise TopicError(f"{topic}: there is no such topic; create it first")
    finally:
        await client.close()
