"""`ssl.client.auth` for all Kafka listeners of a controller and for one, and the names that listeners may have."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from cluster.config.config import NodeConfig, load_config
from cluster.config.kafka_tls import kafka_tls
from cluster.model.errors import ConfigError
from tests.processes.certificates import make_certificates

BASE: dict[str, Any] = {"id": 901, "zookeeper": "zk:2181", "listen": "127.0.0.1:9701", "data": "/nowhere"}


def config(**settings: object) -> NodeConfig:
    kafka = {"klamm.broker.protocol": "kafka", "klamm.kafka.listeners": "PLAINTEXT://h:1"}
    return load_config(None, {**BASE, "settings": kafka | dict(settings)})


@pytest.mark.rule("D-114")
def test_each_listener_asks_for_certificates_as_its_own_key_says(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    found = config(
        **{
            "klamm.kafka.listeners": "CONTROLPLANE-9090://h:1,TLS-9093://h:2,EXTERNAL://h:3",
            "listener.security.protocol.map": "CONTROLPLANE-9090:SSL,TLS-9093:SSL,EXTERNAL:SSL",
            "inter.broker.listener.name": "TLS-9093",
            "control.plane.listener.name": "controlplane-9090",
            "ssl.keystore.location": str(files.node),
            "ssl.truststore.location": str(files.authority),
            "ssl.client.auth": "requested",
            "listener.name.controlplane-9090.ssl.client.auth": "required",
            "listener.name.external.ssl.client.auth": "none",
        }
    )
    listening = kafka_tls(found.settings, found.kafka_listeners).listening
    assert {name: context.current().verify_mode for name, context in listening.items()} == {
        "CONTROLPLANE-9090": ssl.CERT_REQUIRED,
        "TLS-9093": ssl.CERT_OPTIONAL,
        "EXTERNAL": ssl.CERT_NONE,
    }
    assert found.settings.listener_names.control == "CONTROLPLANE-9090"


@pytest.mark.rule("D-114")
def test_a_wrong_value_is_named_with_its_key() -> None:
    with pytest.raises(ConfigError) as caught:
        config(**{"listener.name.internal.ssl.client.auth": "must"})
    assert "listener.name.internal.ssl.client.auth" in str(caught.value)
    with pytest.raises(ConfigError, match="is not a known key"):
        config(**{"listener.name.internal.ssl.protocol": "TLSv1.3"})


def test_the_listener_between_kafkas_brokers_may_be_called_external() -> None:
    named = {
        "klamm.kafka.listeners": "EXTERNAL://h:1",
        "listener.security.protocol.map": "EXTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "EXTERNAL",
    }
    assert config(**named).settings.listener_names.client == "EXTERNAL"
    with pytest.raises(ConfigError, match="is the name of the external listener"):
        load_config(None, {**BASE, "settings": {"inter.broker.listener.name": "EXTERNAL"}})
