"""Distinguished names are written as Java writes them, and so as Kafka's brokers and ZooKeeper know a certificate."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import NameAttribute
from cryptography.x509.oid import NameOID

from cluster.model.errors import ConfigError
from cluster.rpc.transport_security import peer_certificate
from cluster.tls.names import authenticated_names, distinguished_name, subject_of
from tests.processes.certificates import certificate

# What X500Principal.getName of Java 17 makes of a common name.
COMMON_NAMES = {
    "node": "CN=node",
    "J\u00fcrgen": "CN=J\u00fcrgen",
    "\u0430dmin": "CN=\u0430dmin",
    "i\u0301": "CN=i\u0301",
    "\U0001f600": "CN=\U0001f600",
    "admin,O=klamm": "CN=admin\\,O\\=klamm",
    "a#b": "CN=a\\#b",
    'a+"b"\\<c>;d': 'CN=a\\+\\"b\\"\\\\\\<c\\>\\;d',
    "  a  b  ": "CN=\\ \\ a  b\\ \\ ",
    "a\nb": "CN=a\nb",
    "\ra \r": "CN=\\\ra\\ \\\r",
    "a\x00b": "CN=a\\00b",
    "a'()-./:? b*@_&~": "CN=a'()-./:? b*@_&~",
}
ATTRIBUTES = [
    (NameOID.COUNTRY_NAME, "DE", "C=DE"),
    (NameOID.LOCALITY_NAME, "x y", "L=x y"),
    (NameOID.STATE_OR_PROVINCE_NAME, "x y", "ST=x y"),
    (NameOID.ORGANIZATION_NAME, "x y", "O=x y"),
    (NameOID.ORGANIZATIONAL_UNIT_NAME, "x y", "OU=x y"),
    (NameOID.STREET_ADDRESS, "x y", "STREET=x y"),
    (NameOID.USER_ID, "x y", "UID=x y"),
    (NameOID.DOMAIN_COMPONENT, "a,b", "DC=a\\,b"),
    (NameOID.TITLE, "x y", "2.5.4.12=#0c03782079"),
    (NameOID.SERIAL_NUMBER, "1 2", "2.5.4.5=#1303312032"),
    (NameOID.EMAIL_ADDRESS, "ann@example.org", "1.2.840.113549.1.9.1=#160f616e6e406578616d706c652e6f7267"),
]


@pytest.mark.parametrize("name", COMMON_NAMES)
def test_a_common_name_has_the_escapes_of_java(name: str) -> None:
    assert distinguished_name(x509.Name([NameAttribute(NameOID.COMMON_NAME, name)])) == COMMON_NAMES[name]


@pytest.mark.parametrize(("oid", "value", "written"), ATTRIBUTES, ids=[written for _, _, written in ATTRIBUTES])
def test_an_attribute_has_its_keyword_or_its_encoding(oid: x509.ObjectIdentifier, value: str, written: str) -> None:
    assert distinguished_name(x509.Name([NameAttribute(oid, value)])) == written


def test_parts_are_written_from_the_last_to_the_first() -> None:
    unit, common = NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "z"), NameAttribute(NameOID.COMMON_NAME, "ann")
    several = x509.RelativeDistinguishedName([unit, common])
    long = "\u00d6" * 60
    organisation = x509.RelativeDistinguishedName([NameAttribute(NameOID.ORGANIZATION_NAME, long)])
    assert distinguished_name(x509.Name([organisation, several])) == f"OU=z+CN=ann,O={long}"
    assert distinguished_name(x509.Name([])) == ""


def test_a_certificate_names_the_same_user_at_both_kinds_of_listeners() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = certificate("J\u00fcrgen", "J\u00fcrgen", key, key, uri="klamm://broker/1")
    der = x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)
    of_kafka = peer_certificate(authenticated_names(der))
    # As gRPC has it.
    of_grpc = peer_certificate(
        {"x509_subject": [b"CN=J\\C3\\BCrgen"], "x509_pem_cert": [pem], "peer_uri": [b"klamm://broker/1"]}
    )
    assert of_kafka == of_grpc
    assert of_grpc is not None
    assert of_grpc.subject == "CN=J\u00fcrgen"


def test_what_is_no_certificate_names_nobody() -> None:
    with pytest.raises(ConfigError, match="certificate: its names cannot be read"):
        subject_of(b"no certificate")
    with pytest.raises(ConfigError, match="certificate: its names cannot be read"):
        authenticated_names(b"no certificate")


def test_a_name_of_a_kind_that_no_name_is_names_nobody() -> None:
    """An authority may sign a string of bits in the place of a text."""
    key = ec.generate_private_key(ec.SECP256R1())
    der = x509.load_pem_x509_certificate(certificate("ZZ", "i", key, key)).public_bytes(serialization.Encoding.DER)
    bits = der.replace(b"\x0c\x02ZZ", b"\x03\x02\x00Z")
    assert bits != der
    with pytest.raises(ConfigError, match="certificate: its names cannot be read"):
        authenticated_names(bits)
    pem = x509.load_der_x509_certificate(bits).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(ConfigError, match="certificate: its names cannot be read"):
        subject_of(pem)
