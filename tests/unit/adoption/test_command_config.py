"""The properties file of `klamm adopt` and `klamm leave`."""

from pathlib import Path

import pytest

from adoption.command_config import CommandConfig, read_command_config
from cluster.model.broker import Endpoint
from cluster.model.errors import ConfigError
from cluster.sasl.clients import ClientCredentials
from cluster.tls.secret import Secret
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
    assert config.credentials == Credentials(Scheme.DIGEST, "kafka", Secret("p"))
    assert config.sets_acl
    assert config.brokers.tls is not None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("java.security.auth.login.config=/nowhere", "login.config\": '/nowhere': cannot be read"),
        ("zookeeper.set.acl=true", "zookeeper.set.acl: True: needs an authenticated ZooKeeper session"),
        ("zookeeper.set.acl=maybe", "--command-config: zookeeper.set.acl: 'maybe': must be"),
        ("klamm.zookeeper.auth.scheme=basic", "klamm.zookeeper.auth.scheme: 'basic': must be 'sasl' or 'digest'"),
        ("ssl.truststore.location=/nowhere.pem", "ssl.truststore.location: /nowhere.pem"),
        ("zookeeper.ssl.client.enable=perhaps", "zookeeper.ssl.client.enable: 'perhaps': must be"),
        (
            "zookeeper.ssl.client.enable=true\nzookeeper.clientCnxnSocket=x",
            "zookeeper.clientCnxnSocket: 'x': must be org.apache.zookeeper.ClientCnxnSocketNetty",
        ),
        (
            "sasl.mechanism=PLAIN",
            "sasl.mechanism: has an effect with security.protocol=SASL_PLAINTEXT or SASL_SSL only",
        ),
        ("security.protocol=SASL_SSL", "sasl.mechanism: is missing: must be one of SCRAM-SHA-256"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN", "sasl.jaas.config: is missing: PLAIN needs a user"),
        ("security.protocol=TLS", "security.protocol: 'TLS': must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("ssl.cipher.suites=TLS_AES_256_GCM_SHA384", "ssl.cipher.suites: is not supported"),
        ("ssl.client.auth=required", "ssl.client.auth: is not supported"),
        ("ssl.truststor.location=/a.pem", "ssl.truststor.location: is not supported"),
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


def test_what_files_for_kafkas_tools_have_beside_it_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=ssl\nbootstrap.servers=h:9092\nclient.id=me\nssl.enabled.protocols=TLSv1.3\n")
    assert read_command_config(file).brokers.tls is not None


def test_every_key_that_is_not_supported_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.mechanism=PLAIN\nzookeeper.ssl.protocol=TLSv1.3\n! a comment = this\n")
    with pytest.raises(ConfigError) as caught:
        read_command_config(file)
    assert len(caught.value.errors) == 2


@pytest.mark.parametrize("key", ["ssl.keystore.location", "ssl.truststore.location"])
def test_a_store_of_java_is_named_as_one_that_can_be_converted(tmp_path: Path, key: str) -> None:
    """Kafka's own type is JKS where none is given, so a file for its tools need not name it."""
    store = tmp_path / "store.jks"
    store.touch(0o600)
    store.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    file = tmp_path / "client.properties"
    file.write_text(f"{key}={store}\n")
    with pytest.raises(ConfigError, match="is a JKS store; JKS is not read: `keytool -importkeystore"):
        read_command_config(file)


def test_zookeeper_may_take_tls_only(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "zookeeper.ssl.client.enable=true\nzookeeper.ssl.keystore.location=/k.p12\nzookeeper.set.acl=true\n"
        "zookeeper.ssl.keystore.password=secret\n"
    )
    config = read_command_config(file)
    assert config.zookeeper_tls is not None
    assert (config.zookeeper_tls.keystore_location, config.zookeeper_tls.keystore_type) == ("/k.p12", "PKCS12")
    assert config.sets_acl
    assert "secret" not in repr(config)


@pytest.mark.parametrize(("protocol", "in_clear"), [("SASL_SSL", False), ("SASL_PLAINTEXT", True)])
def test_a_password_goes_to_listeners_without_tls_only_if_the_file_says_so(
    tmp_path: Path, protocol: str, *, in_clear: bool
) -> None:
    """Who may write to ZooKeeper may write such a listener into the registration of a broker."""
    file = tmp_path / "client.properties"
    file.touch(0o600)
    module = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="p";'
    file.write_text(f"security.protocol={protocol}\nsasl.mechanism=PLAIN\nsasl.jaas.config={module}\n")
    access = read_command_config(file).brokers
    assert access.reaches(Endpoint("h", 9092, "A", "SASL_SSL"))
    assert access.reaches(Endpoint("h", 9092, "A", "SASL_PLAINTEXT")) is in_clear


OAUTH = "org.apache.kafka.common.security.oauthbearer."
TOKEN = "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file:///t\n"
HANDLER = "sasl.login.callback.handler.class"


@pytest.mark.parametrize("package", ["", "secured."])
def test_a_file_for_kafkas_tools_names_the_class_that_reads_a_token(tmp_path: Path, package: str) -> None:
    """Without it Kafka's tools take no token from a file (KIP-768); its package changed in 3.4."""
    file = tmp_path / "client.properties"
    file.write_text(f"{TOKEN}{HANDLER}={OAUTH}{package}OAuthBearerLoginCallbackHandler\n")
    access = read_command_config(file).brokers
    assert access.login is not None
    assert access.login() == ClientCredentials("OAUTHBEARER", token_file="/t")


@pytest.mark.parametrize("name", ["com.example.Vault", f"{OAUTH}internals.unsecured.OAuthBearerUnsecuredLoginHandler"])
def test_another_class_that_gets_tokens_is_refused_by_name(tmp_path: Path, name: str) -> None:
    """It may get a token of somebody else than the file has."""
    file = tmp_path / "client.properties"
    file.write_text(f"{TOKEN}{HANDLER}={name}\n")
    with pytest.raises(ConfigError) as caught:
        read_command_config(file)
    assert f"{HANDLER}: '{name}': must be {OAUTH}OAuthBearerLoginCallbackHandler" in str(caught.value)


def test_a_class_that_gets_passwords_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.touch(0o600)
    module = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="p";'
    file.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={module}\n{HANDLER}=com.example.Vault\n"
    )
    with pytest.raises(ConfigError, match=f"{HANDLER}: has an effect with sasl.mechanism=OAUTHBEARER only"):
        read_command_config(file)
