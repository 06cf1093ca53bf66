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
from cluster.kafka_wire.headers import decode_response, encode_request
from cluster.kafka_wire.messages import acls, configs
from cluster.kafka_wire.messages.authentication import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from cluster.kafka_wire.messages.connections import ApiVersionsRequest, ApiVersionsResponse
from cluster.model.broker import Endpoint
from cluster.model.errors import PeerUnreachableError
from cluster.process.local_cluster import CERTIFICATES, CONTROLLER
from cluster.sasl.clients import ClientCredentials
from cluster.sasl.scram import ScramClientExchange, salt_password
from cluster.tls.authority import client, write_certificates
from cluster.tls.contexts import client_context
from cluster.tls.secret import Secret
from cluster.tls.settings import AUTHORITY, TlsSettings
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_clients import connect, create_topics, view
from deploy.local.kafka_jars import NEWEST
from tests.kafka.any_messages import AnyMessages
from tests.kafka.attacks import CLOSED, Attacker
from tests.kafka.broker import kafka_class_path
from tests.kafka.every_api import NOT_ANSWERED, every_api
from tests.kafka.frames import RawClient, raw_client
from tests.kafka.tools import table
from tests.processes.local_clusters import eventually, serving_cluster

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(1800)]

TIMEOUT_S: Final = 20.0
MECHANISM: Final = "SCRAM-SHA-512"
PASSWORD: Final = "of a test"
SETTINGS: Final = {
    "listener.name.ssl.ssl.client.auth": "requested",
    "listener.name.sasl_ssl.connections.max.reauth.ms": 3_600_000,
}
"""Clients without a certificate are ANONYMOUS. Brokers let nobody authenticate again unless sessions end."""
_LITERAL, _ALLOW, _ALL, _READ, _CLUSTER_ACTION = 3, 3, 2, 3, 9
_TOPIC, _GROUP, _CLUSTER = 2, 3, 4
_NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_ATTEMPTS: Final = 30
_NOT_YET: Final = frozenset({"14", "15"})
"""A coordinator, or a group, is being loaded."""

OF_ONE_BROKER: Final = frozenset({"DescribeConfigs 8", "AlterConfigs 8"})
"""The loggers of a broker, which it answers for itself alone; klamm asks any."""
OF_ANOTHER_BROKER: Final = "42"
REFUSED_OTHERWISE: Final = {"DescribeUserScramCredentials": CLOSED, "AlterConfigs of loggers": "42"}
"""What a broker says to clients without the right: it fails to refuse a request for all users, and says first that
AlterConfigs is not for loggers.
"""
OF_COORDINATOR: Final = frozenset({"none", "16", "51"})
"""What a coordinator answers, and a broker that is none of this transactional id."""


class Identity(NamedTuple):
    """`file`: of its certificate. `user`: with a password."""

    name: str
    file: str = ""
    user: str = ""


IDENTITIES: Final = (
    Identity("ANONYMOUS"),
    Identity("certificate without rights", "stranger"),
    Identity("certificate with rights on topics", "reader"),
    Identity("SCRAM user without rights", user="carol"),
    Identity("SCRAM user with rights on one topic", user="erin"),
    Identity("SCRAM user with ClusterAction only", user="dave"),
    Identity("SCRAM user with rights on topics", user="bob"),
    Identity("super user", "admin"),
    Identity("broker", "owner"),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    kafka_class_path(NEWEST)
    folder = tmp_path_factory.mktemp("identities") / "cluster"
    with serving_cluster(folder, controllers=1, brokers=2, kafka=NEWEST, is_secured=True, settings=SETTINGS) as cluster:
        write_certificates(folder / CERTIFICATES, [client("stranger"), client("reader")], 2)
        yield cluster


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


async def test_every_api_that_a_broker_announces_is_compared(cluster: LocalCluster) -> None:
    messages = AnyMessages(kafka_class_path(NEWEST))
    connection = await connect(cluster.state.kafka_brokers[0].address, tls=_tls(cluster))
    try:
        answer = await connection.call(ApiVersionsRequest(), 0, ApiVersionsResponse, timeout_s=TIMEOUT_S)
    finally:
        connection.close()
    compared = {request.api for request in every_api(None, "t", new_topic="n")}
    assert {messages.names[version.api_key] for version in answer.api_keys} <= compared


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ((MECHANISM, "bob"), "0 0 0"),
        (("SCRAM-SHA-256", "bob"), f"0 {CLOSED}"),
        ((MECHANISM, "carol"), "0 0 58"),
    ],
)
async def test_a_connection_keeps_its_user_and_mechanism_as_with_kafka(
    cluster: LocalCluster, again: tuple[str, str], expected: str
) -> None:
    """Compare what SaslHandshake and each SaslAuthenticate are answered with, by a broker and by klamm (KIP-368)."""
    await _prepare(cluster, cluster.members(CONTROLLER)[0].kafka_address, "of-users")
    answers = {
        member.name: await _authenticated_again(cluster, member.sasl_address, again)
        for member in (cluster.state.kafka_brokers[0], cluster.members(CONTROLLER)[0])
    }
    assert answers == dict.fromkeys(answers, expected)


async def _authenticated_again(cluster: LocalCluster, address: str, again: tuple[str, str]) -> str:
    """Authenticate as bob, and once more on the same connection."""
    host, _, port = address.rpartition(":")
    truststore = str(cluster.folder / CERTIFICATES / AUTHORITY)
    tls = client_context(TlsSettings(truststore_location=truststore))
    endpoint = Endpoint(host, int(port), "SASL_SSL", "SASL_SSL")
    async with raw_client(endpoint, tls) as client:
        assert await _authenticated(client, MECHANISM, "bob") == "0 0 0"
        return await _authenticated(client, *again)


async def _authenticated(client: RawClient, mechanism: str, user: str) -> str:
    """Authenticate, and return the error codes of all answers."""
    exchange, challenge = ScramClientExchange(mechanism, user, PASSWORD), b""
    client.send(encode_request(SaslHandshakeRequest(mechanism=mechanism), 1, 1, "client"))
    offered = decode_response(SaslHandshakeResponse, 1, await client.frame())[1]
    said = [str(offered.error_code)]
    while (message := exchange.step(challenge)) is not None:
        client.send(encode_request(SaslAuthenticateRequest(auth_bytes=message), 1, 2, "client"))
        try:
            answer = decode_response(SaslAuthenticateResponse, 1, await client.frame())[1]
        except (asyncio.IncompleteReadError, ConnectionError):
            return " ".join([*said, CLOSED])
        said.append(str(answer.error_code))
        if answer.error_code:
            break
        challenge = answer.auth_bytes
    return " ".join(said)


def _is_explained(what: str, by_broker: str, by_klamm: str) -> bool:
    """Whether docs/kafka-brokers.md has the difference: klamm refuses what it does not answer, and gives no right."""
    if what in OF_ONE_BROKER:
        return by_klamm == OF_ANOTHER_BROKER and by_broker in {"none", "40"}
    if what in REFUSED_OTHERWISE:
        return (by_broker, by_klamm) == (REFUSED_OTHERWISE[what], "31")
    if what == "InitProducerId of it":
        return {by_klamm, by_broker} <= OF_COORDINATOR
    return what in NOT_ANSWERED and by_klamm in {CLOSED, "31"}


async def _all_answers(cluster: LocalCluster, address: str, sasl: str, side: str) -> dict[str, dict[str, str]]:
    """Of each identity; super users come last, as they change rights."""
    certificates = cluster.folder / CERTIFICATES
    found: dict[str, dict[str, str]] = {}
    messages = AnyMessages(kafka_class_path(NEWEST))
    await _prepare(cluster, address, side)
    for identity in IDENTITIES:
        topic, new = _own_topic(side, identity), f"new-{_own_topic(side, identity)}"
        assert await create_topics(address, {topic: 2}, len(cluster.state.kafka_brokers), tls=_tls(cluster)) == [0]
        keystore = certificates / f"{identity.file}.pem" if identity.file else None
        login = partial(_credentials, identity.user) if identity.user else None
        attacker = Attacker(keystore, certificates / AUTHORITY, login)
        where, requests = (
            sasl if identity.user else address,
            list(every_api(messages, topic, new_topic=new, mechanism=MECHANISM)),
        )
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


def _own_topic(side: str, identity: Identity) -> str:
    return f"topic-{side}-{IDENTITIES.index(identity)}"


def _without_names(said: str) -> str:
    """An answer without the topics of other identities."""
    return "shows topics" if said.startswith("shows") else said


def _credentials(user: str) -> ClientCredentials:
    return ClientCredentials(MECHANISM, user, Secret(PASSWORD))


async def _prepare(cluster: LocalCluster, address: str, side: str) -> None:
    """Create the users, and the rights of those that have some."""
    salted = {(user, MECHANISM): salt_password(MECHANISM, PASSWORD) for user in ("bob", "carol", "dave", "erin")}
    salted["bob", "SCRAM-SHA-256"] = salt_password("SCRAM-SHA-256", PASSWORD)
    upsertions = tuple(
        configs.ScramCredentialUpsertion(
            name=user,
            mechanism=_NUMBERS[mechanism],
            iterations=one.iterations,
            salt=one.salt,
            salted_password=one.salted_password,
        )
        for (user, mechanism), one in salted.items()
    )
    (erin,) = (identity for identity in IDENTITIES if identity.user == "erin")
    rules = (
        *(
            _rule(principal, _ALL, kind, "*")
            for principal in ("User:bob", "User:CN=reader,O=klamm")
            for kind in (_TOPIC, _GROUP)
        ),
        _rule("User:dave", _CLUSTER_ACTION, _CLUSTER, "kafka-cluster"),
        _rule("User:erin", _READ, _TOPIC, _own_topic(side, erin)),
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
        assert {one.error_code for one in made.results} == {0}
        added = await connection.call(
            acls.CreateAclsRequest(creations=rules), 1, acls.CreateAclsResponse, timeout_s=TIMEOUT_S
        )
        assert {one.error_code for one in added.results} == {0}
    finally:
        connection.close()
    # Processes hear of both a moment later.
    await asyncio.sleep(3)


def _rule(principal: str, operation: int, kind: int, name: str) -> acls.AclCreation:
    return acls.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=_LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=_ALLOW,
    )


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
