"""Which listeners have TLS: none stays open by an oversight, and what gRPC cannot do is refused by name."""

from pathlib import Path
from typing import Any

import pytest

from cluster.config.config import NodeConfig, load_config
from cluster.config.listener_security import peer_tls_of, server_tls_of
from cluster.model.errors import ConfigError
from tests.processes.certificates import Issuer, write_secret

BASE = {"id": 1, "zookeeper": "z:1", "listen": "127.0.0.1:1", "data": "d"}
MAP = "listener.security.protocol.map"
BOTH = "PLAINTEXT:SSL,CONTROL:SSL"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    issuer = Issuer(tmp_path_factory.mktemp("certificates"))
    return {
        "ssl.keystore.location": str(issuer.issue("node")),
        "ssl.truststore.location": str(issuer.authority),
    }


def config(settings: dict[str, Any], **fields: Any) -> NodeConfig:
    return load_config(None, {**BASE, **fields, "settings": settings})


def errors(settings: dict[str, Any], **fields: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config(settings, **fields)
    return caught.value.errors


def test_without_a_map_nothing_has_tls() -> None:
    found = config({})
    assert [e.security_protocol for e in found.endpoints(1, 2)] == ["PLAINTEXT", "PLAINTEXT"]
    assert peer_tls_of(found.settings) is None


def test_secured_listeners_are_registered_as_such_and_control_demands_certificates(stores: dict[str, str]) -> None:
    found = config({MAP: f"{BOTH},EXTERNAL:SSL", **stores}, external_listen="127.0.0.1:2")
    assert {e.security_protocol for e in found.endpoints(1, 2, 3)} == {"SSL"}
    auths = {}
    for name in ("PLAINTEXT", "CONTROL", "EXTERNAL"):
        tls = server_tls_of(found.settings, name)
        assert tls is not None
        auths[name] = tls.client_auth
    assert auths == {"PLAINTEXT": "none", "CONTROL": "required", "EXTERNAL": "none"}


def test_a_listener_that_the_map_forgets_is_named(stores: dict[str, str]) -> None:
    found = errors({MAP: "PLAINTEXT:SSL", **stores}, external_listen="127.0.0.1:2", metrics_listen="127.0.0.1:3")
    assert len(found) == 3
    for line, name in zip(found, ("CONTROL", "EXTERNAL", "METRICS"), strict=True):
        assert (
            f"says nothing of the listener {name}, while PLAINTEXT has SSL: add {name}:SSL, or {name}:PLAINTEXT" in line
        )


def test_a_listener_has_its_own_stores(stores: dict[str, str], tmp_path: Path) -> None:
    other = Issuer(tmp_path)
    own = {
        "listener.name.external.ssl.keystore.location": str(other.issue("outside")),
        "listener.name.external.ssl.client.auth": "required",
        "listener.name.external.ssl.truststore.location": str(other.authority),
    }
    found = config({MAP: f"{BOTH},EXTERNAL:SSL", **stores, **own}, external_listen="127.0.0.1:2").settings
    external, control = server_tls_of(found, "EXTERNAL"), server_tls_of(found, "CONTROL")
    assert external is not None
    assert control is not None
    assert external.keystore_location == str(tmp_path / "outside.pem")
    assert external.client_auth == "required"
    assert control.keystore_location == stores["ssl.keystore.location"]
    peers = peer_tls_of(found)
    assert peers is not None
    assert peers.keystore_location == control.keystore_location


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({MAP: "PLAINTEXT:TLS,CONTROL:SSL"}, "'PLAINTEXT:TLS': the protocol must be PLAINTEXT, SSL or SASL_SSL"),
        ({"ssl.keystore.location": None}, "ssl.keystore.location: None: an SSL listener needs a private key"),
        ({"ssl.truststore.location": None}, "ssl.truststore.location: None: ssl.client.auth=required needs"),
        ({"ssl.client.auth": "requested"}, "listener.name.plaintext.ssl.client.auth: requested: gRPC has none or req"),
        (
            {"listener.name.control.ssl.client.auth": "none"},
            "listener.name.control.ssl.client.auth: none: must be required where nodes control each other",
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, "algorithm: '': gRPC always checks the names"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "'TLSv1.3': must be TLSv1.2,TLSv1.3: gRPC always takes both"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "must not be set: the ciphers are those of the libraries"),
        ({"ssl.keystore.type": "JKS"}, "JKS is not read: `keytool -importkeystore"),
        ({"listener.name.control.ssl.keystor.location": "x"}, '"listener.name.control.ssl.keystor.location": is not a'),
        ({"listener.name.control.ssl.keystore.location": "/x"}, "listener.name.control.ssl.keystore.location: /x: No "),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(stores: dict[str, str], change: dict[str, Any], why: str) -> None:
    settings = {MAP: BOTH, **stores, **change}
    assert any(why in line for line in errors({key: value for key, value in settings.items() if value is not None}))


def test_passwords_and_keys_are_not_shown_in_errors(stores: dict[str, str]) -> None:
    for key in ("ssl.key.password", "listener.name.control.ssl.keystore.key", "ssl.truststore.password"):
        (line,) = errors({MAP: BOTH, **stores, key: ["secret"]})
        assert "(not shown)" in line
        assert "secret" not in line


class TestGoverningKafka:
    """A controller of Apache Kafka's brokers: there the names of listeners are those of Kafka listeners."""

    KAFKA = {"klamm.broker.protocol": "kafka", "klamm.kafka.listeners": "PLAINTEXT://127.0.0.1:19092"}

    def test_its_grpc_listeners_have_names_of_their_own(self, stores: dict[str, str]) -> None:
        secured = {MAP: "PLAINTEXT:PLAINTEXT,GRPC:SSL,GRPC_CONTROL:SSL,GRPC_EXTERNAL:SSL,METRICS:SSL", **stores}
        found = config({**self.KAFKA, **secured}, external_listen="127.0.0.1:2", metrics_listen="127.0.0.1:3")
        assert {(e.listener, e.security_protocol) for e in found.endpoints(1, 2, 3)} == {
            ("PLAINTEXT", "SSL"),
            ("CONTROL", "SSL"),
            ("EXTERNAL", "SSL"),
        }
        assert [listener.security_protocol for listener in found.kafka_listeners] == ["PLAINTEXT"]
        tls = [server_tls_of(found.settings, name) for name in ("GRPC", "GRPC_CONTROL", "PLAINTEXT")]
        assert [None if one is None else one.client_auth for one in tls] == ["none", "required", None]

    def test_tls_of_its_kafka_listeners_is_not_that_of_grpc(self, stores: dict[str, str]) -> None:
        found = config({**self.KAFKA, MAP: "PLAINTEXT:SSL", **stores})
        assert {e.security_protocol for e in found.endpoints(1, 2)} == {"PLAINTEXT"}

    def test_none_of_them_stays_open_by_an_oversight(self, stores: dict[str, str]) -> None:
        (line,) = errors({**self.KAFKA, MAP: "GRPC:SSL", **stores})
        assert "says nothing of the listener GRPC_CONTROL, while GRPC has SSL" in line
        given = {**self.KAFKA, "klamm.kafka.listeners": "GRPC://:1", MAP: "GRPC:PLAINTEXT"}
        assert "GRPC: is the name of a gRPC listener; give another" in errors(given)[0]


class TestZooKeeper:
    """`zookeeper.ssl.*`, whose defaults are Kafka's."""

    def test_without_the_switch_the_rest_has_no_effect(self) -> None:
        assert config({"zookeeper.ssl.keystore.location": "/nowhere"}).settings.zookeeper_tls is None

    def test_the_type_follows_the_name_of_the_file(self, stores: dict[str, str], tmp_path: Path) -> None:
        of_file = {
            "zookeeper.ssl.client.enable": True,
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        }
        tls = config(
            {**of_file, "zookeeper.ssl.keystore.location": stores["ssl.keystore.location"]}
        ).settings.zookeeper_tls
        assert tls is not None
        assert tls.checks_names
        write_secret(tmp_path / "store.p12", b"x")
        (line,) = errors({**of_file, "zookeeper.ssl.keystore.location": str(tmp_path / "store.p12")})
        assert "zookeeper.ssl.keystore.location: " in line
        assert "zookeeper.ssl.keystore.password is missing" in line
        (line,) = errors({**of_file, "zookeeper.ssl.truststore.location": str(tmp_path / "store.jks")})
        assert "zookeeper.ssl.truststore.type: JKS: JKS is not read" in line

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNIO"),
            ("zookeeper.ssl.crl.enable", True),
            ("zookeeper.ssl.ocsp.enable", True),
            ("zookeeper.ssl.cipher.suites", "x"),
            ("zookeeper.ssl.enabled.protocols", "TLSv1"),
        ],
    )
    def test_what_is_not_done_is_refused(self, key: str, value: object) -> None:
        (line,) = errors({"zookeeper.ssl.client.enable": True, key: value})
        assert key in line

    def test_acls_by_certificate_need_no_login_file(self, stores: dict[str, str]) -> None:
        keystore = {"zookeeper.ssl.keystore.location": stores["ssl.keystore.location"]}
        assert config(
            {"zookeeper.ssl.client.enable": True, "zookeeper.set.acl": True, **keystore}
        ).settings.zookeeper_set_acl
        for lacking in ({"zookeeper.ssl.client.enable": True}, keystore):
            assert "needs an authenticated ZooKeeper session" in errors({"zookeeper.set.acl": True, **lacking})[0]
