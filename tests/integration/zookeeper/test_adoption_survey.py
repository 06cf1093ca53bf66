"""What `klamm adopt` reads of a Kafka cluster in a real ZooKeeper."""

import json

from adoption.survey import Survey
from adoption.zookeeper_survey import survey_zookeeper
from cluster.broker import Broker, BrokerId, Endpoint
from cluster.znodes.registrations import encode_broker
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from tests.plain_zookeeper import plain_client


async def survey(connect: str) -> Survey:
    client = KazooZooKeeper(connect, session_timeout_ms=10_000, connection_timeout_ms=10_000)
    client.listen(lambda _: None)
    await client.start_session()
    try:
        return await survey_zookeeper(client)
    finally:
        await client.close()


def topic(**partitions: list[int]) -> bytes:
    return json.dumps({"version": 1, "partitions": {p.removeprefix("p"): r for p, r in partitions.items()}}).encode()


async def test_brokers_with_replicas_that_are_not_registered_are_counted(zookeeper: str) -> None:
    with plain_client(zookeeper) as plain:
        broker = Broker(BrokerId(1), (Endpoint("h", 9092, "PLAINTEXT"),))
        plain.create("/brokers/ids/1", encode_broker(broker, 0), makepath=True)
        plain.create("/brokers/topics/t", topic(p0=[1, 4], p1=[4, 7]), makepath=True)
        plain.create("/brokers/topics/u", topic(p0=[1, 4]))
        plain.create("/brokers/topics/broken", b"{", makepath=True)
    found = await survey(zookeeper)
    assert found.absent == {4: 3, 7: 1}
    assert [broker.id for broker in found.brokers] == [1]
    assert (found.topics, found.partitions) == (3, 3)
    assert list(found.malformed) == ["/brokers/topics/broken"]
