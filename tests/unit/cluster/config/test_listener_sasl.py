"""SASL of listeners, as configured: what cannot be served is refused at the start, with the name of the setting."""

from pathlib import Path

import pytest

from cluster.config.config import load_config
from cluster.config.listener_sasl import require_certificates_of_followers, sasl_of
from cluster.config.settings import Settings
from cluster.model.errors import ConfigError
from cluster.sasl.bearer import BearerRules
from cluster.sasl.listeners import ListenerSasl
from tests.processes.certificates import Issuer, write_secret

MAP = "listener.security.protocol.map"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def keystore(issuer: Issuer) -> Path:
    return issuer.issue("node")


def load(issuer: Issuer, keystore: Path, **settings: object) -> Settings:
    """Settings of a controller whose listener for clients has SASL. Dots are written as underscores."""
    given = {
        MAP: "PLAINTEXT:SASL_SSL,CONTROL:SSL,METRICS:SSL",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.location": str(issuer.authority),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    } | {key.replace("_", "."): value for key, value in settings.items()}
    fields = {"id": 1, "zookeeper": "z:1", "listen": "127.0.0.1:0", "metrics_listen": "127.0.0.1:0"}
    fields |= {"data": str(keystore.parent), "settings": {k: v for k, v in given.items() if v is not None}}
    return load_config(None, fields).settings


def test_a_listener_has_its_own_mechanisms_and_sessions(issuer: Issuer, keystore: Path, tmp_path: Path) -> None:
    write_secret(tmp_path / "users", b"a=b")
    own = {
        "listener.name.plaintext.sasl.enabled.mechanisms": "plain",
        "listener.name.plaintext.connections.max.reauth.ms": 5000,
        "klamm.sasl.plain.users.file": str(tmp_path / "users"),
        "klamm.allow.anonymous": "other, plaintext",
    }
    settings = load(issuer, keystore, **own)
    assert sasl_of(settings, "PLAINTEXT") == ListenerSasl(
        ("PLAIN",), 5000, str(tmp_path / "users"), allows_anonymous=True
    )
    assert sasl_of(settings, "CONTROL") is None
    assert settings.mechanisms_of("EXTERNAL") == ("SCRAM-SHA-256",)


def test_what_a_token_must_say_is_configured(issuer: Issuer, keystore: Path) -> None:
    keys = keystore.parent / "keys.json"
    keys.write_text(
        '{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}'
    )
    given = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.expected.audience": "klamm, kafka",
        "sasl.oauthbearer.expected.issuer": "https://i",
        "sasl.oauthbearer.sub.claim.name": "name",
    }
    found = sasl_of(load(issuer, keystore, **given), "PLAINTEXT")
    assert found is not None
    assert (found.key_file, found.bearer) == (str(keys), BearerRules(("klamm", "kafka"), "https://i", 30, "name"))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            {MAP: "PLAINTEXT:SASL_PLAINTEXT,CONTROL:SSL,METRICS:SSL"},
            f"settings.\"{MAP}\": 'PLAINTEXT:SASL_PLAINTEXT': whoever listens would get passwords and tokens",
        ),
        (
            {MAP: "PLAINTEXT:SSL,CONTROL:SASL_SSL,METRICS:SSL"},
            "CONTROL:SASL_SSL: nodes know each other by certificates",
        ),
        ({MAP: "PLAINTEXT:SSL,CONTROL:SSL,METRICS:SASL_SSL"}, "METRICS:SASL_SSL: the port for metrics has no SASL"),
        ({MAP: "PLAINTEXT:SASL_SSL,CONTROL:SSL"}, "says nothing of the listener METRICS, while PLAINTEXT has SASL_SSL"),
        ({"sasl.enabled.mechanisms": None}, 'settings."sasl.enabled.mechanisms": is missing: the listener PLAINTEXT'),
        ({"sasl.enabled.mechanisms": "AWS_MSK_IAM"}, "AWS_MSK_IAM: is not supported; known are SCRAM-SHA-256"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI is for Kafka listeners: set listener.name.plaintext.sasl.ena"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, 'settings."klamm.sasl.plain.users.file": is missing: PLAIN needs'),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "klamm.sasl.plain.users.file": "/nowhere"},
            "settings: klamm.sasl.plain.users.file: /nowhere: No such file",
        ),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, 'settings."sasl.oauthbearer.expected.issuer": is missing'),
        (
            {"sasl.oauthbearer.jwks.endpoint.url": "https://i/keys"},
            "must be file: with a path; klamm fetches neither keys nor tokens",
        ),
        ({"connections.max.reauth.ms": 0}, 'settings."connections.max.reauth.ms": 0: must be'),
        (
            {"listener.name.plaintext.connections.max.reauth.ms": "soon"},
            "settings.\"listener.name.plaintext.connections.max.reauth.ms\": 'soon': must be",
        ),
        (
            {"ssl.principal.mapping.rules": "RULE:x"},
            "settings.\"ssl.principal.mapping.rules\": 'RULE:x': 'RULE:x': is neither DEFAULT nor RULE:",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_at_the_start(
    issuer: Issuer, keystore: Path, settings: dict[str, object], why: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(issuer, keystore, **settings)
    assert why in str(refused.value)


def test_a_listener_has_its_own_rules_for_certificates(issuer: Issuer, keystore: Path) -> None:
    own = {
        "ssl.principal.mapping.rules": "RULE:CN=(.*)/$1/",
        "listener.name.control.ssl.principal.mapping.rules": "DEFAULT",
    }
    settings = load(issuer, keystore, **own)
    assert [str(settings.mapping_of(name).principal_of("CN=a")) for name in ("PLAINTEXT", "CONTROL")] == [
        "User:a",
        "User:CN=a",
    ]


def test_brokers_must_be_able_to_fetch(issuer: Issuer, keystore: Path) -> None:
    with pytest.raises(ConfigError, match="PLAINTEXT:SASL_SSL: brokers fetch here, too, by certificate"):
        require_certificates_of_followers(load(issuer, keystore))
    require_certificates_of_followers(load(issuer, keystore, **{"ssl.client.auth": "required"}))
    require_certificates_of_followers(load(issuer, keystore, **{MAP: "PLAINTEXT:SSL,CONTROL:SSL,METRICS:SSL"}))
