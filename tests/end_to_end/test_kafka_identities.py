"""What each kind of client is answered by a controller of klamm, and by a broker of the same cluster that is one.

The brokers are secured as `klamm up --kafka --secure` does it: certificates, users with passwords, AclAuthorizer.
"""

import asyncio
import ssl
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

import pytest

from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages import acls, configs, coordinators, data
from cluster.kafka_wire.messages.brokers import UpdateFeaturesRequest
from cluster.kafka_wire.messages.connections import HeartbeatRequest, ListTransactionsRequest
from cluster.model.broker import Endpoint
from cluster.model.errors import PeerUnreachableError
from cluster.process.local_cluster import CERTIFICATES, CONTROLLER
from cluster.sasl.clients import ClientCredentials
from cluster.sasl.scram import salt_password
from cluster.tls.authority import client, write_certificates
from cluster.tls.contexts import client_context
from cluster.tls.secret import Secret
from cluster.tls.settings import AUTHORITY, TlsSettings
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_clients import create_topics, view
from deploy.local.kafka_jars import NEWEST
from tests.kafka.attacks import CLOSED, Attack, Attacker, attacks
from tests.kafka.broker import kafka_class_path
from tests.kafka.tools import table
from tests.processes.local_clusters import eventually, serving_cluster

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(1800)]

TIMEOUT_S: Final = 20.0
MECHANISM: Final = "SCRAM-SHA-512"
PASSWORD: Final = "of a test"
NOBODY: Final = 99
"""No broker has this id: what is sent in its name changes nothing."""
_LITERAL, _ALLOW, _ALL = 3, 3, 2
_TOPIC, _GROUP = 2, 3
_ATTEMPTS: Final = 30
_NOT_YET: Final = frozenset({"14", "15"})
"""A coordinator, or a group, is being loaded."""

NOT_ANSWERED: Final = frozenset({"ListOffsets", "DeleteRecords", "Heartbeat"})
"""What leaders and coordinators answer: where there are rights, klamm passes it on to nobody."""


OF_ONE_BROKER: Final = frozenset({"DescribeConfigs 8", "AlterConfigs 8"})
"""The loggers of a broker, which it answers for itself alone; klamm asks any."""
OF_ANOTHER_BROKER: Final = "42"


class Identity(NamedTuple):
    """`file`: of its certificate. `user`: with a password."""

    name: str
    file: str = ""
    user: str = ""


IDENTITIES: Final = (
    Identity("nobody"),
    Identity("certificate without rights", "stranger"),
    Identity("certificate with rights on topics", "reader"),
    Identity("SCRAM user without rights", user="carol"),
    Identity("SCRAM user with rights on topics", user="bob"),
    Identity("super user", "admin"),
    Identity("broker", "owner"),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    kafka_class_path(NEWEST)
    folder = tmp_path_factory.mktemp("identities") / "cluster"
    with serving_cluster(folder, controllers=1, brokers=2, kafka=NEWEST, is_secured=True) as cluster:
        write_certificates(folder / CERTIFICATES, [client("stranger"), client("reader")], 2)
        yield cluster


def asked(topic: str, new_topic: str) -> Iterator[Attack]:
    """Everything that klamm announces a version of and this program can write, with valid content. The topic is deleted
    last.
    """
    missing = f"missing-{topic}"
    found = attacks(topic, broker=NOBODY, new_topic=new_topic, missing=missing, grantee="User:mallory")
    *rest, deletion = sorted(found, key=lambda attack: attack.name == "DeleteTopics")
    yield from rest
    partition = data.ListOffsetsPartition(partition_index=0, timestamp=-1)
    listed = data.ListOffsetsTopic(name=topic, partitions=(partition,))
    yield Attack("ListOffsets", data.ListOffsetsRequest(replica_id=-1, topics=(listed,)), 1)
    deleted = data.DeleteRecordsTopic(
        name=topic, partitions=(data.DeleteRecordsPartition(partition_index=0, offset=0),)
    )
    yield Attack("DeleteRecords", data.DeleteRecordsRequest(topics=(deleted,), timeout_ms=5000), 1)
    yield Attack("DescribeLogDirs", data.DescribeLogDirsRequest(topics=()), 3)
    yield Attack("UpdateFeatures", UpdateFeaturesRequest(timeout_ms=5000), 0)
    yield Attack("DescribeCluster", coordinators.DescribeClusterRequest(), 0)
    yield Attack("ListTransactions", ListTransactionsRequest(), 0)
    yield Attack("Heartbeat", HeartbeatRequest(group_id="group", generation_id=1, member_id="m"), 1)
    yield deletion


async def test_identities_are_answered_as_by_a_broker(cluster: LocalCluster) -> None:
    brokers, controllers = cluster.state.kafka_brokers, cluster.members(CONTROLLER)
    for member in controllers:
        await asyncio.to_thread(cluster.stop, member.name)
    await asyncio.to_thread(_wait_for_controller, cluster, {member.id for member in brokers})
    elected = await _controller(cluster)
    active = next(member for member in brokers if member.id == elected)
    by_broker = await _all_answers(cluster, active.address, active.sasl_address, "of-kafka")
    for member in controllers:
        await asyncio.to_thread(cluster.start, member.name)
    await asyncio.to_thread(_wait_for_controller, cluster, {member.id for member in controllers})
    by_klamm = await _all_answers(cluster, controllers[0].kafka_address, controllers[0].sasl_address, "of-klamm")
    print(f"\nbroker / klamm, where they differ\n{_table(by_broker, by_klamm)}")
    differences = {
        f"{who}: {what}: {found} / {by_klamm[who][what]}"
        for who, answers in by_broker.items()
        for what, found in answers.items()
        if found != by_klamm[who][what] and not _is_explained(what, found, by_klamm[who][what])
    }
    assert differences == set()


def _is_explained(what: str, by_broker: str, by_klamm: str) -> bool:
    """Whether docs/kafka-brokers.md has the difference: klamm refuses what it does not answer, and gives no right."""
    if what in OF_ONE_BROKER:
        return by_klamm == OF_ANOTHER_BROKER and by_broker in {"none", "40"}
    return what in NOT_ANSWERED and by_klamm in {CLOSED, "31"}


async def _all_answers(cluster: LocalCluster, address: str, sasl: str, side: str) -> dict[str, dict[str, str]]:
    """Of each identity; super users come last, as they change rights."""
    certificates = cluster.folder / CERTIFICATES
    found: dict[str, dict[str, str]] = {}
    await _prepare(cluster, address)
    for number, identity in enumerate(IDENTITIES):
        topic, new = f"topic-{side}-{number}", f"new-{side}-{number}"
        assert await create_topics(address, {topic: 2}, len(cluster.state.kafka_brokers), tls=_tls(cluster)) == [0]
        keystore = certificates / f"{identity.file}.pem" if identity.file else None
        login = partial(_credentials, identity.user) if identity.user else None
        attacker = Attacker(keystore, certificates / AUTHORITY, login)
        where, requests = sasl if identity.user else address, list(asked(topic, new))
        answers = await attacker.answers(where, requests)
        for _ in range(_ATTEMPTS):
            # Internal topics are created by the first who asks for a coordinator, and have leaders a moment later.
            again = [request for request in requests if answers[request.name] in _NOT_YET]
            if not again:
                break
            await asyncio.sleep(1)
            answers |= await attacker.answers(where, again)
        found[identity.name] = {what: _without_names(said) for what, said in answers.items()}
    return found


def _without_names(said: str) -> str:
    """An answer without the topics of other identities."""
    return "shows topics" if said.startswith("shows") else said


def _credentials(user: str) -> ClientCredentials:
    return ClientCredentials(MECHANISM, user, Secret(PASSWORD))


async def _prepare(cluster: LocalCluster, address: str) -> None:
    """Create the users, and the rights of those that have some."""
    salted = {user: salt_password(MECHANISM, PASSWORD) for user in ("bob", "carol")}
    upsertions = tuple(
        configs.ScramCredentialUpsertion(
            name=user, mechanism=2, iterations=one.iterations, salt=one.salt, salted_password=one.salted_password
        )
        for user, one in salted.items()
    )
    rules = tuple(
        acls.AclCreation(
            resource_type=kind,
            resource_name="*",
            resource_pattern_type=_LITERAL,
            principal=principal,
            host="*",
            operation=_ALL,
            permission_type=_ALLOW,
        )
        for principal in ("User:bob", "User:CN=reader,O=klamm")
        for kind in (_TOPIC, _GROUP)
    )
    host, _, port = address.rpartition(":")
    connection = await KafkaConnection.open(
        Endpoint(host, int(port), "SSL", "SSL"), client_id="admin", timeout_s=TIMEOUT_S, tls=_tls(cluster)
    )
    try:
        made = await connection.call(
            configs.AlterUserScramCredentialsRequest(deletions=(), upsertions=upsertions),
            0,
            configs.AlterUserScramCredentialsResponse,
            timeout_s=TIMEOUT_S,
        )
        assert [one.error_code for one in made.results] == [0, 0]
        added = await connection.call(
            acls.CreateAclsRequest(creations=rules), 1, acls.CreateAclsResponse, timeout_s=TIMEOUT_S
        )
        assert {one.error_code for one in added.results} == {0}
    finally:
        connection.close()
    # Processes hear of both a moment later.
    await asyncio.sleep(3)


def _tls(cluster: LocalCluster) -> ssl.SSLContext:
    certificates = cluster.folder / CERTIFICATES
    return client_context(
        TlsSettings(
            keystore_location=str(certificates / "admin.pem"), truststore_location=str(certificates / AUTHORITY)
        )
    )


async def _controller(cluster: LocalCluster) -> int:
    return (await view(cluster.state.kafka_brokers[0].address, [], _tls(cluster))).controller


def _wait_for_controller(cluster: LocalCluster, among: set[int]) -> None:
    """Until every broker knows one of these as the controller."""

    async def known() -> set[int]:
        return {(await view(member.address, [], _tls(cluster))).controller for member in cluster.state.kafka_brokers}

    def is_known() -> bool:
        try:
            return asyncio.run(known()) <= among
        except PeerUnreachableError:
            return False

    eventually(is_known, f"one of {sorted(among)} is the controller")


def _table(by_broker: Mapping[str, Mapping[str, str]], by_klamm: Mapping[str, Mapping[str, str]]) -> str:
    rows: list[Iterable[str]] = [["request", *by_broker]]
    for what in next(iter(by_broker.values())):
        pairs = ((answers[what], by_klamm[who][what]) for who, answers in by_broker.items())
        rows.append([what, *(one if one == other else f"{one} / {other}" for one, other in pairs)])
    return table([list(row) for row in rows])
