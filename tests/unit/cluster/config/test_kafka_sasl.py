"""SASL between a controller and Apache Kafka's brokers, by the brokers' own settings: what is missing is named before
anything starts.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.config.broker_logins import BrokerLogins, read_broker_credentials
from cluster.config.config import NodeConfig, load_config, read_credentials
from cluster.config.jaas_credentials import kerberos_credentials_in
from cluster.config.kafka_sasl import kafka_sasl
from cluster.config.kafka_tls import kafka_tls
from cluster.config.settings import Settings
from cluster.model.broker import Endpoint
from cluster.model.errors import ConfigError
from cluster.process.authorization import rules_for_super_users
from cluster.sasl.jaas import parse_login_module, parse_sections
from cluster.sasl.kerberos import KerberosLogin
from cluster.sasl.mechanisms import PLAIN
from cluster.security.acls import Operation
from cluster.security.authorization import CLUSTER, CallerRights
from cluster.security.identities import Identity
from cluster.security.principals import Principal
from cluster.tls.secret import Secret
from tests.processes.certificates import Issuer, write_secret

SCRAM_JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="hush";'
PLAIN_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="hush" user_broker="hush" user_alice="hers";'
)


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def keystore(issuer: Issuer) -> Path:
    return issuer.issue("node")


def load(folder: Path, protocol: str = "SASL_PLAINTEXT", **settings: object) -> NodeConfig:
    """The configuration of a controller with one Kafka listener, INTERNAL. Of keys, `__` is a hyphen."""
    given: dict[str, object] = {
        "klamm.broker.protocol": "kafka",
        "klamm.kafka.listeners": "INTERNAL://127.0.0.1:19092",
        "listener.security.protocol.map": f"INTERNAL:{protocol}",
        "inter.broker.listener.name": "INTERNAL",
    }
    given |= {key.replace("__", "-").replace("_", "."): value for key, value in settings.items()}
    fields: dict[str, Any] = {"id": 901, "zookeeper": "z:1", "listen": "127.0.0.1:0", "data": str(folder)}
    return load_config(None, fields | {"settings": given})


def errors_of(folder: Path, protocol: str = "SASL_PLAINTEXT", **settings: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, protocol, **settings)
    return "\n".join(caught.value.errors)


SCRAM = {"sasl_enabled_mechanisms": "SCRAM-SHA-512", "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-512"}
BY_PLAIN = {"sasl_enabled_mechanisms": "PLAIN", "sasl_mechanism_inter_broker_protocol": "PLAIN"}


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        (
            {"listener_name_internal_scram__sha__512_sasl_jaas_config": SCRAM_JAAS, "sasl_jaas_config": "wrong"},
            "listener.name.internal.scram-sha-512.sasl.jaas.config",
        ),
        ({"scram__sha__512_sasl_jaas_config": SCRAM_JAAS}, "scram-sha-512.sasl.jaas.config"),
        ({"sasl_jaas_config": SCRAM_JAAS}, "sasl.jaas.config"),
    ],
)
def test_the_login_is_that_of_the_listener_then_that_of_all(
    tmp_path: Path, given: dict[str, object], setting: str
) -> None:
    config = load(tmp_path, **SCRAM, **given)
    found = read_broker_credentials(config.settings, "INTERNAL")
    assert (found.mechanism, found.user, found.password) == ("SCRAM-SHA-512", "broker", Secret("hush"))
    assert (found.setting, found.mechanism_setting) == (setting, "sasl.mechanism.inter.broker.protocol")
    assert "hush" not in repr(config) + repr(found)


def test_the_login_may_be_in_the_file_of_the_brokers_which_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    entries = f"{PLAIN_JAAS}\n  {SCRAM_JAAS}"
    write_secret(file, f"KafkaServer {{\n  {entries}\n}};\nother.KafkaServer {{ }};\n".encode())
    config = load(tmp_path, **SCRAM, java_security_auth_login_config=str(file))
    read = BrokerLogins(config.settings).of(Endpoint("h", 9092, "INTERNAL", "SASL_PLAINTEXT"))
    assert read is not None
    assert read().user == "broker"
    # It has no section for ZooKeeper: sessions are anonymous, as Kafka's would be.
    assert read_credentials(config.settings) is None
    own = SCRAM_JAAS.replace('"broker"', '"own"')
    write_secret(file, f"KafkaServer {{ {entries} }}; internal.KafkaServer {{ {own} }};".encode())
    assert read().user == "own"
    write_secret(file, b"KafkaServer { };")
    with pytest.raises(ConfigError, match=r"listener\.name\.internal\.scram-sha-512\.sasl\.jaas\.config: is missing"):
        read()


def test_a_registration_without_tls_does_not_get_the_password(tmp_path: Path, issuer: Issuer, keystore: Path) -> None:
    """Who may write a registration may write any protocol into it; brokers go by their settings."""
    stores: dict[str, object] = {
        "ssl_keystore_location": str(keystore),
        "ssl_truststore_location": str(issuer.authority),
    }
    logins = BrokerLogins(load(tmp_path, "SASL_SSL", **SCRAM, **stores, sasl_jaas_config=SCRAM_JAAS).settings)
    secured, open_ = (
        logins.of(Endpoint("h", 9092, "INTERNAL", protocol)) for protocol in ("SASL_SSL", "SASL_PLAINTEXT")
    )
    assert secured is not None
    assert secured().user == "broker"
    assert open_ is not None
    with pytest.raises(ConfigError, match="registered with SASL_PLAINTEXT there, and listener.security.protocol.map"):
        open_()


@pytest.mark.parametrize(
    ("protocols", "suits"),
    [
        ("INSIDE:SASL_SSL,USERS:SASL_PLAINTEXT", False),
        ("INSIDE:SASL_SSL,USERS:SASL_SSL", True),
        ("INSIDE:SASL_PLAINTEXT,USERS:SASL_PLAINTEXT", True),
        ("INSIDE:SASL_PLAINTEXT,USERS:SASL_SSL", True),
        ("INSIDE:SASL_SSL,USERS:PLAINTEXT", True),
        ("CONTROL:SASL_SSL,INSIDE:SASL_PLAINTEXT,USERS:SASL_PLAINTEXT", False),
    ],
)
def test_a_password_that_brokers_send_over_tls_is_not_sent_without_to_where_users_are(
    protocols: str, suits: bool
) -> None:
    """Brokers show theirs to no listener but that between them; whoever listens would have the rights of brokers."""
    settings = Settings(inter_broker_listener_name="INSIDE", listener_security_protocol_map=protocols, **BY_PLAIN)
    assert BrokerLogins(settings).suit("USERS") is suits


def test_a_token_is_read_from_a_file(tmp_path: Path) -> None:
    write_secret(tmp_path / "token", b"a.b.c")
    keys = tmp_path / "keys.json"
    keys.write_text(
        '{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}'
    )
    given = {
        "sasl_enabled_mechanisms": "OAUTHBEARER",
        "sasl_mechanism_inter_broker_protocol": "OAUTHBEARER",
        "sasl_oauthbearer_jwks_endpoint_url": f"file:{keys}",
        "sasl_oauthbearer_expected_audience": "kafka",
        "sasl_oauthbearer_expected_issuer": "i",
    }
    config = load(tmp_path, **given, sasl_oauthbearer_token_endpoint_url=f"file:{tmp_path}/token")
    assert read_broker_credentials(config.settings, "INTERNAL").token_file == f"{tmp_path}/token"
    assert "sasl.oauthbearer.token.endpoint.url: is missing" in errors_of(tmp_path, **given)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"sasl_enabled_mechanisms": "SCRAM-SHA-512"},
            'settings."sasl.mechanism.inter.broker.protocol": is missing: brokers take control requests at INTERNAL',
        ),
        ({}, 'settings."sasl.enabled.mechanisms": is missing: the listener INTERNAL has SASL'),
        (SCRAM, "settings: listener.name.internal.scram-sha-512.sasl.jaas.config: is missing: SCRAM-SHA-512 needs"),
        ({**SCRAM, "sasl_jaas_config": "nonsense"}, "settings: sasl.jaas.config: is not of the form CLASS required"),
        (
            {**SCRAM, "sasl_jaas_config": PLAIN_JAAS},
            "sasl.jaas.config: 'org.apache.kafka.common.security.plain.PlainLoginModule': SCRAM-SHA-512 needs",
        ),
        ({**SCRAM, "sasl_mechanism_inter_broker_protocol": "AWS_MSK_IAM"}, "AWS_MSK_IAM: is not supported; known are"),
        ({**SCRAM, "sasl_mechanism_inter_broker_protocol": "PLAIN,SCRAM-SHA-512"}, "must be one mechanism"),
        (
            {**BY_PLAIN, "sasl_jaas_config": PLAIN_JAAS.split(" user_", maxsplit=1)[0] + ";"},
            'klamm.sasl.plain.users.file": is missing: PLAIN needs a file with users and passwords; or give '
            'listener.name.internal.plain.sasl.jaas.config options user_NAME="password", as the brokers have them',
        ),
        (
            {**BY_PLAIN, "listener_name_internal_plain_sasl_jaas_config": SCRAM_JAAS},
            "listener.name.internal.plain.sasl.jaas.config: "
            "'org.apache.kafka.common.security.scram.ScramLoginModule': PLAIN needs",
        ),
        ({**SCRAM, "java_security_auth_login_config": "/nowhere"}, "'/nowhere': cannot be read"),
    ],
)
def test_what_is_missing_is_named_without_a_password(tmp_path: Path, given: dict[str, object], why: str) -> None:
    found = errors_of(tmp_path, **given)
    assert why in found
    assert "hush" not in found


KERBEROS = {"sasl_enabled_mechanisms": "GSSAPI", "sasl_mechanism_inter_broker_protocol": "GSSAPI"}
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"
BROKER = "kafka/c1.example@EXAMPLE"


def kerberos_login(options: str, service: str = "kafka") -> KerberosLogin:
    """As operators of Kafka write it."""
    module = parse_login_module(f"{KRB5} {options};")
    found = kerberos_credentials_in(module, "sasl.jaas.config", service).kerberos
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("options", "login"),
    [
        (
            f'useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" principal="{BROKER}"',
            KerberosLogin(BROKER, "/etc/kafka.keytab", "kafka"),
        ),
        (
            f'debug=true useKeyTab=TRUE doNotPrompt=true keyTab="FILE:/k" principal="{BROKER}" serviceName="kafka"',
            KerberosLogin(BROKER, "/k", "kafka"),
        ),
        ("useTicketCache=true", KerberosLogin("", None, "kafka")),
        (
            'useTicketCache="true" ticketCache="/tmp/krb5cc_0" principal="ann@EXAMPLE"',
            KerberosLogin("ann@EXAMPLE", None, "kafka", "/tmp/krb5cc_0"),
        ),
    ],
)
def test_a_kerberos_login_is_read_as_operators_write_it(options: str, login: KerberosLogin) -> None:
    assert kerberos_login(options) == login
    assert kerberos_login(f"{options} serviceName=kafka" if "serviceName" not in options else options, "") == login


@pytest.mark.parametrize(
    ("options", "service", "why"),
    [
        ('useKeyTab=true principal="a@B"', "kafka", "has no keyTab, which useKeyTab=true needs"),
        ('useKeyTab=true keyTab="/k"', "kafka", "has no principal, which useKeyTab=true needs"),
        ('keyTab="/k" principal="a@B"', "kafka", "has neither useKeyTab=true with keyTab and principal, nor useTicket"),
        (
            'useTicketCache=true serviceName="k"',
            "kafka",
            "has serviceName='k', and sasl.kerberos.service.name is 'kafka'",
        ),
        ("useTicketCache=true", "", "has no serviceName, and sasl.kerberos.service.name is not set"),
    ],
)
def test_what_a_kerberos_login_lacks_is_named(options: str, service: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        kerberos_login(options, service)
    assert why in str(error.value)


def test_kerberos_is_refused_by_name_where_something_is_missing(tmp_path: Path) -> None:
    service = {"sasl_kerberos_service_name": "kafka"}
    assert "internal.gssapi.sasl.jaas.config: is missing: GSSAPI needs a principal and a keytab" in errors_of(
        tmp_path, **KERBEROS, **service
    )
    cached = f"{KRB5} useTicketCache=true;"
    assert "has useTicketCache=true: a server needs useKeyTab=true" in errors_of(
        tmp_path, **KERBEROS, **service, sasl_jaas_config=cached
    )
    rules = {"listener_name_internal_sasl_kerberos_principal_to_local_rules": "RULE:[1:$2]"}
    assert "RULE:[1:$2]" in errors_of(tmp_path, **KERBEROS, **service, **rules)


def test_the_extra_for_kerberos_is_named_where_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    login = f'{KRB5} useKeyTab=true keyTab="{tmp_path}/k" principal="{BROKER}" serviceName=kafka;'
    found = errors_of(tmp_path, **KERBEROS, gssapi_sasl_jaas_config=login)
    assert "GSSAPI: is not installed: install klamm with the extra 'kerberos' (pip install 'klamm[kerberos]')" in found


def test_the_users_of_plain_are_those_of_the_brokers(tmp_path: Path) -> None:
    config = load(tmp_path, **BY_PLAIN, listener_name_internal_plain_sasl_jaas_config=PLAIN_JAAS)
    sasl = kafka_sasl(config.settings, config.kafka_listeners)["INTERNAL"]
    assert sasl.mechanisms == (PLAIN,)
    assert sasl.plain_users == {"broker": Secret("hush"), "alice": Secret("hers")}
    file = tmp_path / "users"
    write_secret(file, b"bob=his\n")
    both = load(
        tmp_path,
        **BY_PLAIN,
        sasl_jaas_config=PLAIN_JAAS,
        klamm_sasl_plain_users_file=str(file),
    )
    assert kafka_sasl(both.settings, both.kafka_listeners)["INTERNAL"].password_file == str(file)


def test_a_file_with_passwords_that_others_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    write_secret(file, f"KafkaServer {{ {SCRAM_JAAS} }};".encode())
    given: dict[str, object] = {**SCRAM, "java_security_auth_login_config": str(file)}
    assert load(tmp_path, **given).settings.jaas_of("INTERNAL", "SCRAM-SHA-512") is None
    file.chmod(0o644)
    assert f"login.config: {file}: has passwords, and others may read or change it (mode 644)" in errors_of(
        tmp_path, **given
    )


def test_a_controller_for_brokers_only_lets_nobody_do_anything_but_super_users(tmp_path: Path) -> None:
    """Its settings are the brokers', whose own authorizer may have this one, too."""
    given: dict[str, object] = {"klamm_kafka_controller_only": True, "super_users": "User:broker"}
    config = load(tmp_path, "PLAINTEXT", **given, allow_everyone_if_no_acl_found=True)
    rules = rules_for_super_users(config)
    assert rules is not None
    everybody = (CallerRights(Identity(Principal("User", name)), rules.authorizer) for name in ("broker", "alice"))
    assert [one.may(Operation.CLUSTER_ACTION, CLUSTER) for one in everybody] == [True, False]


def test_users_show_certificates_only_where_their_own_listener_demands_them(
    tmp_path: Path, issuer: Issuer, keystore: Path
) -> None:
    """As in Kafka, whose general setting is for SSL listeners."""
    given: dict[str, object] = {
        **SCRAM,
        "sasl_jaas_config": SCRAM_JAAS,
        "ssl_keystore_location": str(keystore),
        "ssl_truststore_location": str(issuer.authority),
        "ssl_client_auth": "required",
    }
    config = load(tmp_path, "SASL_SSL", **given)
    listening = kafka_tls(config.settings, config.kafka_listeners).listening["INTERNAL"]
    assert listening.current().verify_mode.name == "CERT_NONE"
    config = load(tmp_path, "SASL_SSL", **given, listener_name_internal_ssl_client_auth="required")
    listening = kafka_tls(config.settings, config.kafka_listeners).listening["INTERNAL"]
    assert listening.current().verify_mode.name == "CERT_REQUIRED"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"KafkaServer {{ {SCRAM_JAAS.rstrip(';')} }};", "section KafkaServer: the last entry has no ';'"),
        ('KafkaServer { a.B required x "hush"; };', "section KafkaServer: a.B: its options must be name=value"),
    ],
)
def test_sections_that_are_malformed_are_named_without_what_is_in_them(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_sections(text)
    assert str(caught.value).startswith(why)
    assert "hush" not in str(caught.value)
