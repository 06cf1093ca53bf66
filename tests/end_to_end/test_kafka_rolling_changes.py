"""Security, listeners and protocol of a Kafka cluster are changed under klamm, one process after the other, under load.

No acknowledged record is lost, no producer is refused one, and topics can be created all the time.
`docs/kafka-brokers.md` says what is restarted first; here it is held.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.model.errors import ErrorCode, PeerUnreachableError
from deploy.local.kafka_clients import create_topics
from deploy.local.zookeeper import ServerSettings, ServerTls
from tests.kafka.rolling_cluster import (
    BROKERS,
    CONTROLLERS,
    MECHANISMS,
    PARTITIONS,
    TOPIC,
    USER,
    WHOLE_S,
    Admin,
    CountingLoad,
    Rolling,
    RollingCluster,
    known_to_klamm,
    until,
)
from tests.processes.certificates import Issuer
from tests.processes.commands import run_klamm

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(3600)]


@pytest.fixture
def owner(tmp_path: Path) -> dict[str, Any]:
    """The certificate with which brokers and controllers connect to ZooKeeper."""
    issuer = Issuer(tmp_path / "authority of ZooKeeper")
    own, server = issuer.issue("owner", subject="owner"), issuer.issue("server", subject="zookeeper")
    issuer.issue("stranger", subject="stranger")
    return {"own": own, "server": server, "authority": issuer.authority}


@pytest.fixture
def zookeeper_with_tls(tmp_path: Path, owner: dict[str, Any]) -> Iterator[str]:
    tls = ServerTls(owner["server"], owner["authority"])
    with EmbeddedZooKeeper(tmp_path / "zookeeper", settings=ServerSettings(tick_time_ms=500, tls=tls)) as server:
        yield server.address


def of_zookeeper(owner: dict[str, Any]) -> dict[str, Any]:
    return {
        "zookeeper.ssl.client.enable": True,
        "zookeeper.ssl.protocol": "TLSv1.3",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.type": "PEM",
        "zookeeper.ssl.keystore.location": str(owner["own"]),
        "zookeeper.ssl.truststore.type": "PEM",
        "zookeeper.ssl.truststore.location": str(owner["authority"]),
    }


async def _secure_and_rename(rolling: Rolling) -> None:
    await _secure_brokers(rolling)
    await _rename_listener(rolling)


async def _replace_secrets(rolling: Rolling) -> None:
    await _replace_password(rolling)
    await _replace_certificates(rolling)


async def _raise_and_restrict(rolling: Rolling) -> None:
    await _raise_protocol(rolling)
    await _switch_authorizer_on(rolling)
    await _secure_zookeeper(rolling)


@pytest.mark.parametrize(
    ("changes", "is_secured"),
    [
        pytest.param(_secure_and_rename, False, id="listeners"),
        pytest.param(_replace_secrets, True, id="secrets"),
        pytest.param(_raise_and_restrict, True, id="rights"),
    ],
)
async def test_changes_one_process_after_the_other_lose_nothing(
    tmp_path: Path,
    zookeeper_with_tls: str,
    owner: dict[str, Any],
    changes: Callable[[Rolling], Awaitable[None]],
    is_secured: bool,
) -> None:
    cluster = RollingCluster(tmp_path, zookeeper_with_tls, of_zookeeper(owner), is_secured=is_secured)
    try:
        cluster.start_all()
        load = CountingLoad([cluster.address("CLIENTS", id_) for id_ in BROKERS])
        admin = Admin(lambda: list(cluster.controllers.values()))
        rolling = Rolling(cluster, load, admin)
        await until(lambda: _makes_topic(rolling), "a topic is created by klamm")
        await rolling.until_whole("before")
        async with load.running():
            asking = asyncio.create_task(admin.run())
            await changes(rolling)
            assert not asking.done(), "nobody asks the controllers any more"
            asking.cancel()
            found = await load.finish(WHOLE_S)
    finally:
        cluster.end()
    print(f"\n{found}\ntopics could be created {admin.answered} times, refused: {dict(admin.errors) or 'never'}")
    assert found.acknowledged > 0
    assert (found.anomalies, found.unread) == ({}, 0)
    assert (load.errors, found.failed, found.replaced) == ({}, 0, 0)
    assert (admin.answered > 0, admin.errors) == (True, {})


async def _makes_topic(rolling: Rolling) -> bool:
    assert all(rolling.cluster.is_running(f"controller-{id_}") for id_ in CONTROLLERS)
    active = await rolling.known_controllers()
    if len(active) != 1:
        return False
    try:
        made = await create_topics(rolling.cluster.controllers[active.pop()], {TOPIC: PARTITIONS}, len(BROKERS))
    except PeerUnreachableError:
        return False
    # An attempt without an answer may have been carried out.
    return made in ([0], [ErrorCode.TOPIC_ALREADY_EXISTS])


async def _secure_brokers(rolling: Rolling) -> None:
    """From PLAINTEXT to SASL_SSL between brokers."""
    cluster = rolling.cluster
    await _set_password(cluster, *MECHANISMS)
    cluster.own_listeners = {**cluster.own_listeners, "SECURED": "SASL_SSL"}
    await rolling.controllers("listener SECURED (SASL_SSL) beside INTERNAL")
    cluster.listeners = dict(cluster.own_listeners)
    await rolling.brokers("listener SECURED (SASL_SSL) beside INTERNAL")
    cluster.inter_broker = "SECURED"
    await rolling.brokers("inter.broker.listener.name=SECURED")
    cluster.own_inter_broker = "SECURED"
    await rolling.controllers("inter.broker.listener.name=SECURED")


async def _rename_listener(rolling: Rolling) -> None:
    """A listener gets another name: a second one beside it, as a name is all by which brokers look for each other.
    INTERNAL goes in the same restarts.
    """
    cluster = rolling.cluster
    cluster.own_listeners = {**cluster.own_listeners, "RENAMED": "SASL_SSL"}
    await rolling.controllers("listener RENAMED beside SECURED")
    cluster.listeners = {name: cluster.own_listeners[name] for name in ("SECURED", "RENAMED", "CLIENTS")}
    await rolling.brokers("listener RENAMED beside SECURED; INTERNAL removed")
    cluster.inter_broker = "RENAMED"
    await rolling.brokers("inter.broker.listener.name=RENAMED")
    cluster.own_inter_broker, cluster.own_listeners = "RENAMED", dict(cluster.listeners)
    await rolling.controllers("inter.broker.listener.name=RENAMED; INTERNAL removed")
    del cluster.listeners["SECURED"]
    await rolling.brokers("listener SECURED removed")
    del cluster.own_listeners["SECURED"]
    await rolling.controllers("listener SECURED removed")


async def _knows_the_later(cluster: RollingCluster, node: int, mechanism: str, former: str) -> bool:
    takes = [await cluster.lets_in(node, mechanism, password) for password in (former, cluster.password)]
    return takes == [False, True]


async def _replace_certificates(rolling: Rolling) -> None:
    """Both authorities are trusted everywhere before the first certificate of the other one is shown. Controllers read
    the files again by themselves.
    """
    cluster = rolling.cluster
    first, second = cluster.issuer, Issuer(cluster.folder / "second authority", "second")
    for shown, trusted, what in (
        (first, [first, second], "both authorities trusted"),
        (second, [first, second], "certificates of the second authority"),
        (second, [second], "first authority no longer trusted"),
    ):
        cluster.use(shown, trusted)
        rolling.note("controllers", f"{what}: files replaced, no restart")
        await rolling.brokers(what)


async def _replace_password(rolling: Rolling) -> None:
    """The new password is that of the other mechanism first, so that brokers with the old one are let in as long."""
    cluster = rolling.cluster
    former = cluster.password
    cluster.password, cluster.mechanism = "of-later", "SCRAM-SHA-256"
    await _set_password(cluster, "SCRAM-SHA-256")
    await rolling.brokers("the new password, by SCRAM-SHA-256")
    await rolling.controllers("the new password, by SCRAM-SHA-256")
    await _set_password(cluster, "SCRAM-SHA-512")
    await rolling.until_whole("the old password is gone")
    for node in (*BROKERS, *CONTROLLERS):
        for mechanism in MECHANISMS:
            await until(lambda n=node, m=mechanism: _knows_the_later(cluster, n, m, former), f"{node}: {mechanism}")
    rolling.note("user", "all take the new password, by both mechanisms, and none the old one")


async def _raise_protocol(rolling: Rolling) -> None:
    cluster = rolling.cluster
    cluster.of_brokers["inter.broker.protocol.version"] = "3.9"
    await rolling.brokers("inter.broker.protocol.version 2.8 -> 3.9")
    cluster.of_controllers["inter.broker.protocol.version"] = "3.9"
    await rolling.controllers("inter.broker.protocol.version 2.8 -> 3.9")


async def _switch_authorizer_on(rolling: Rolling) -> None:
    """Controllers first, so that at no time one of them does not know the rights that brokers know."""
    cluster = rolling.cluster
    rights = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{USER}",
        "allow.everyone.if.no.acl.found": True,
    }
    cluster.of_controllers |= rights
    await rolling.controllers("authorizer, with allow.everyone.if.no.acl.found")
    cluster.of_brokers |= rights
    await rolling.brokers("authorizer, with allow.everyone.if.no.acl.found")
    client = ("--add", "--allow-principal", "User:ANONYMOUS")
    of_topics = ("--topic", "*", "--operation", "All", "--group", "*")
    await asyncio.to_thread(cluster.tool, "acls", *client, *of_topics)
    await asyncio.to_thread(cluster.tool, "acls", *client, "--cluster", "--operation", "All")
    rolling.note("rights", "of the clients, by kafka-acls")


async def _secure_zookeeper(rolling: Rolling) -> None:
    """With what everyone may do without a rule, the last that is open."""
    cluster = rolling.cluster
    for settings in (cluster.of_brokers, cluster.of_controllers):
        settings["zookeeper.set.acl"] = True
        del settings["allow.everyone.if.no.acl.found"]
    await rolling.controllers("zookeeper.set.acl; without allow.everyone.if.no.acl.found")
    await rolling.brokers("zookeeper.set.acl; without allow.everyone.if.no.acl.found")
    path = cluster.folder / "owner.properties"
    given = known_to_klamm(cluster.of_zookeeper)
    path.write_text(
        "".join(f"{key}={str(value).lower() if value is True else value}\n" for key, value in given.items())
    )
    migrate = ("zookeeper-security-migration", "--zookeeper.acl", "secure", "--zookeeper", cluster.zookeeper)
    done = await asyncio.to_thread(run_klamm, *migrate, "--command-config", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    rolling.note("ZooKeeper", f"klamm zookeeper-security-migration: {' '.join(done.stdout.split())}")
    await rolling.brokers("restarted on znodes that have an owner")
    await rolling.controllers("restarted on znodes that have an owner")
    configured = ("--config", str(cluster.folder / f"controller-{CONTROLLERS[0]}.toml"))
    checked = await asyncio.to_thread(run_klamm, "doctor", "-o", "json", *configured)
    assert "every znode has an owner" in checked.stdout, checked.stdout + checked.stderr
    await asyncio.to_thread(_strangers_are_refused, cluster)
    rolling.note("ZooKeeper", "every znode has an owner, by klamm doctor; another certificate is refused")


def _strangers_are_refused(cluster: RollingCluster) -> None:
    """Whom ZooKeeper lets in by a certificate of the same authority reads no secrets, and writes nothing."""
    with cluster.znodes(
        Path(cluster.of_zookeeper["zookeeper.ssl.keystore.location"]).with_name("stranger.pem")
    ) as client:
        for path in ("/controller_epoch", f"/brokers/topics/{TOPIC}", "/controllers", "/consumers"):
            with pytest.raises(NoAuthError):
                client.create(f"{path}/stranger", b"")
            with pytest.raises(NoAuthError):
                client.set(path, b"")
        with pytest.raises(NoAuthError):
            client.get(f"/config/users/{USER}")


async def _set_password(cluster: RollingCluster, *mechanisms: str) -> None:
    """Of the brokers' user, by Kafka's own tool."""
    named = ("--entity-type", "users", "--entity-name", USER)
    for mechanism in mechanisms:
        credential = f"{mechanism}=[password={cluster.password}]"
        await asyncio.to_thread(cluster.tool, "configs", *named, "--alter", "--add-config", credential)
