"""Kafka's ssl.* settings, and what is said of those that cannot be used."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.errors import ConfigError
from cluster.tls.contexts import client_context, server_context
from cluster.tls.secret import Secret
from cluster.tls.settings import TlsSettings
from tests.processes.certificates import PASSWORD, Certificates, make_certificates


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str = "localhost") -> str | None:
    """Both ends in memory; the version of TLS agreed on. Raises SSLError."""
    ways = [ssl.MemoryBIO() for _ in range(4)]
    ends = [
        client.wrap_bio(ways[0], ways[1], server_hostname=name),
        server.wrap_bio(ways[1], ways[0], server_side=True),
    ]
    done = [False, False]
    for _ in range(10):
        for number, end in enumerate(ends):
            try:
                end.do_handshake()
                done[number] = True
            except ssl.SSLWantReadError:
                continue
    # With TLS 1.3 a client learns only by reading that its certificate was refused.
    assert all(done)
    return ends[0].version()


def settings_of(made: Certificates) -> TlsSettings:
    return TlsSettings(keystore_location=str(made.node), truststore_location=str(made.authority))


def test_files_and_contents_give_the_same(made: Certificates) -> None:
    files = settings_of(made)
    contents = TlsSettings(
        keystore_key=Secret(made.key.read_text()),
        keystore_certificate_chain=made.certificate.read_text(),
        truststore_certificates=made.authority.read_text(),
    )
    for server in (files, contents):
        for client in (files, contents):
            assert handshake(client_context(client), server_context(server)) == "TLSv1.3"


def test_a_key_with_a_password(made: Certificates) -> None:
    locked = replace(settings_of(made), keystore_location=str(made.locked), key_password=Secret(PASSWORD))
    assert handshake(client_context(settings_of(made)), server_context(locked)) == "TLSv1.3"


def test_clients_without_a_certificate_are_refused_where_one_is_required(made: Certificates) -> None:
    required = server_context(replace(settings_of(made), client_auth="required"))
    assert required.options & ssl.OP_NO_RENEGOTIATION
    anonymous = client_context(TlsSettings(truststore_location=str(made.authority)))
    assert handshake(client_context(settings_of(made)), required) == "TLSv1.3"
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        handshake(anonymous, required)
    requested = server_context(replace(settings_of(made), client_auth="requested"))
    assert handshake(anonymous, requested) == "TLSv1.3"


def test_a_broker_of_another_name_is_refused_unless_names_do_not_count(made: Certificates) -> None:
    server = server_context(settings_of(made))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(client_context(settings_of(made)), server, "broker-7")
    any_name = client_context(replace(settings_of(made), endpoint_identification_algorithm=""))
    assert handshake(any_name, server, "broker-7") == "TLSv1.3"


def test_a_broker_that_another_authority_certified_is_refused(made: Certificates, tmp_path: Path) -> None:
    others = make_certificates(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        handshake(client_context(settings_of(others)), server_context(settings_of(made)))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"keystore_type": "JKS"}, "ssl.keystore.type: JKS: JKS is not read: `keytool -importkeystore"),
        ({"truststore_type": "BKS"}, "ssl.truststore.type: BKS: must be PEM or PKCS12"),
        ({"truststore_type": "PKCS12"}, "is no PKCS12 store, or has a password: ssl.truststore.password is missing"),
        (
            {"keystore_type": "PKCS12", "keystore_password": Secret("secret")},
            "is no PKCS12 store, or ssl.keystore.password does not open it",
        ),
        ({"enabled_protocols": ("TLSv1",)}, "ssl.enabled.protocols: 'TLSv1': must be of TLSv1.2, TLSv1.3"),
        ({"keystore_location": None}, "ssl.keystore.location: None: an SSL listener needs a private key"),
        ({"keystore_location": "/nowhere.pem"}, "ssl.keystore.location: /nowhere.pem: No such file or directory"),
        ({"truststore_location": "/nowhere.pem"}, "ssl.truststore.location: /nowhere.pem: No such file or directory"),
        ({"keystore_key": Secret("x"), "keystore_certificate_chain": "y"}, "ssl.keystore.key is set, too; remove one"),
        ({"truststore_certificates": "x"}, "ssl.truststore.certificates is set, too; remove one"),
        (
            {"keystore_location": None, "keystore_key": Secret("secret")},
            "ssl.keystore.certificate.chain and ssl.keystore.key",
        ),
        ({"client_auth": "perhaps"}, "ssl.client.auth: perhaps: must be one of none, requested, required"),
        ({"client_auth": "required", "truststore_location": None}, "ssl.truststore.location: None: ssl.client.auth="),
        ({"endpoint_identification_algorithm": "ldap"}, "ssl.endpoint.identification.algorithm: ldap: must be https"),
        (
            {"keystore_location": None, "keystore_key": Secret("secret"), "keystore_certificate_chain": "x"},
            "ssl.keystore.key: (not shown): holds no private key",
        ),
        ({"truststore_location": None, "truststore_certificates": "x"}, "ssl.truststore.certificates: (not shown): "),
        ({"truststore_location": None, "truststore_certificates": "é"}, "ssl.truststore.certificates: (not shown): "),
        ({"truststore_location": None, "truststore_certificates": ""}, "ssl.truststore.certificates: (not shown): "),
        ({"truststore_location": "a\0b"}, "ssl.truststore.location: 'a\\x00b': embedded null"),
        ({"keystore_location": "a\0b"}, "ssl.keystore.location: 'a\\x00b': embedded null"),
    ],
)
def test_what_cannot_be_used_is_named_by_its_setting(made: Certificates, changes: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError) as refused:
        server_context(replace(settings_of(made), **changes))
    assert what in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_store_of_the_other_kind_is_named_with_the_setting_where_it_belongs(made: Certificates) -> None:
    usual = settings_of(made)
    with pytest.raises(ConfigError) as refused:
        # Everyone may read certificates, so that is not what is wrong with them.
        server_context(replace(usual, keystore_location=str(made.authority)))
    assert "holds certificates and no private key" in str(refused.value)
    assert "certificates of authorities belong into ssl.truststore.location" in str(refused.value)
    with pytest.raises(ConfigError) as refused:
        server_context(replace(usual, truststore_location=str(made.key)))
    assert "holds a private key and no certificate" in str(refused.value)
    assert "belongs into ssl.keystore.location" in str(refused.value)


def test_a_locked_key_without_its_password_asks_nobody(made: Certificates) -> None:
    for password, why in ((None, "is encrypted: ssl.key.password is missing"), ("x", "ssl.key.password does not open")):
        secret = None if password is None else Secret(password)
        locked = replace(settings_of(made), keystore_location=str(made.locked), key_password=secret)
        with pytest.raises(ConfigError, match=why):
            server_context(locked)
