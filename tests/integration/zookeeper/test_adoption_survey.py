"""What `klamm adopt` reads of a Kafka cluster in a real ZooKeeper."""

import json

from kazoo.security import make_acl

from adoption.survey import Survey
from adoption.zookeeper_survey import survey_zookeeper
from cluster.model.broker import Broker, BrokerId, ControllerId, Endpoint
from cluster.znodes.candidates import CandidateProfile
from cluster.znodes.registrations import encode_broker, encode_controller_registration
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from tests.controllers.plain_zookeeper import plain_client


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


async def test_znodes_that_this_identity_may_not_change_are_named_and_nothing_is_changed(zookeeper: str) -> None:
    readable = [make_acl("world", "anyone", read=True)]
    with plain_client(zookeeper) as plain:
        plain.create("/brokers/ids", b"", makepath=True)
        plain.create("/brokers/topics", b"", makepath=True)
        plain.create("/controller_epoch", b"7")
        assert (await survey(zookeeper)).not_writable == ()
        plain.set_acls("/controller_epoch", readable)
        assert (await survey(zookeeper)).not_writable == ("/controller_epoch",)
        plain.set_acls("/brokers/topics", readable)
        assert (await survey(zookeeper)).not_writable == ("/brokers/topics", "/controller_epoch")
        data, stat = plain.get("/controller_epoch")
        assert (data, stat.version) == (b"7", 0)
        assert plain.get_children("/brokers/topics") == []


async def test_what_kafka_keeps_from_others_is_named_and_all_else_is_read(zookeeper: str) -> None:
    """Kafka gives nobody but its brokers the users and the brokers' configs, the parents among them."""
    with plain_client(zookeeper) as plain:
        plain.create("/brokers/topics/t", topic(p0=[1]), makepath=True)
        plain.create("/config/users/ann", b"{}", makepath=True)
        plain.create("/config/brokers/1", b"{", makepath=True)
        assert (await survey(zookeeper)).not_readable == ()
        assert list((await survey(zookeeper)).malformed) == ["/config/brokers/1"]
        denied = ["/config/users", "/config/brokers"]
        for path in ("/config/users/ann", "/config/brokers/1", *denied):
            plain.set_acls(path, [make_acl("digest", "of:brokers", all=True)])
        found = await survey(zookeeper)
        assert (found.not_readable, found.topics) == (tuple(denied), 1)


async def test_what_candidates_say_of_themselves_is_found(zookeeper: str) -> None:
    profile = CandidateProfile("0.3", "kafka", "3.9", "PLAINTEXT", "CONTROL")
    endpoints = [Endpoint("h", 9701)]
    with plain_client(zookeeper) as plain:
        for id_, said in ((901, profile), (902, None)):
            path, data = (
                f"/controllers/ids/{id_}",
                encode_controller_registration(ControllerId(id_), endpoints, 0, said),
            )
            plain.create(path, data, makepath=True)
        broken = encode_controller_registration(ControllerId(903), endpoints, 0)[:-1] + b',"candidate":7}'
        plain.create("/controllers/ids/903", broken)
    found = (await survey(zookeeper)).candidates
    assert [found[ControllerId(id_)].profile for id_ in (901, 902, 903)] == [profile, None, None]
    assert "has a malformed registration (/controllers/ids/903)" in found[ControllerId(903)].malformed
    assert found[ControllerId(902)].malformed == ""
