"""The properties file of `klamm adopt` and `klamm leave`."""

from pathlib import Path

import pytest

from adoption.command_config import CommandConfig, read_command_config
from cluster.errors import ConfigError
from cluster.zookeeper.login import Credentials, Scheme

JAAS = 'Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="p"; };'


def test_without_a_file_sessions_are_anonymous_and_plain() -> None:
    assert read_command_config(None) == CommandConfig()


def test_credentials_are_those_of_the_jaas_file(tmp_path: Path) -> None:
    (tmp_path / "jaas.conf").write_text(JAAS)
    file = tmp_path / "client.properties"
    file.write_text(
        f"# as for Kafka's tools\nsecurity.protocol=SSL\njava.security.auth.login.config = {tmp_path}/jaas.conf\n"
        "klamm.zookeeper.auth.scheme=digest\nzookeeper.set.acl=true\n"
    )
    config = read_command_config(file)
    assert config.credentials == Credentials(Scheme.DIGEST, "kafka", "p")
    assert config.sets_acl
    assert config.tls is not None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("java.security.auth.login.config=/nowhere", "login.config\": '/nowhere': cannot be read"),
        ("zookeeper.set.acl=true", "zookeeper.set.acl: True: needs an authenticated ZooKeeper session"),
        ("zookeeper.set.acl=maybe", "--command-config: zookeeper.set.acl: 'maybe': must be"),
        ("klamm.zookeeper.auth.scheme=basic", "klamm.zookeeper.auth.scheme: 'basic': must be 'sasl' or 'digest'"),
        ("ssl.truststore.location=/nowhere.pem", "ssl.truststore.location: /nowhere.pem"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        read_command_config(file)
    assert why in str(caught.value)


@pytest.mark.parametrize(("content", "why"), [(None, "No such file"), (b"a=\xff", "is not text in UTF-8")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=f"--command-config: {file}: {why}"):
        read_command_config(file)
