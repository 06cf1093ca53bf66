"""A certificate authority, and certificates by it for this machine."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PASSWORD = "a password"
_Key = ec.EllipticCurvePrivateKey


class Certificates(NamedTuple):
    """`node`: key and certificate of 127.0.0.1 and localhost; `locked`: the same, the key encrypted with PASSWORD."""

    authority: Path
    key: Path
    certificate: Path
    node: Path
    locked: Path


def make_certificates(folder: Path) -> Certificates:
    made = Certificates(*(folder / f"{name}.pem" for name in Certificates._fields))
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = certificate("authority", "authority", authority_key, authority_key)
    node = certificate("node", "authority", key, authority_key)
    made.authority.write_bytes(authority)
    made.key.write_bytes(private_key(key, serialization.NoEncryption()))
    made.certificate.write_bytes(node)
    made.node.write_bytes(private_key(key, serialization.NoEncryption()) + node)
    made.locked.write_bytes(private_key(key, serialization.BestAvailableEncryption(PASSWORD.encode())) + node)
    return made


def certificate(subject: str, issuer: str, key: _Key, issuer_key: _Key) -> bytes:
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(named(subject))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=subject == issuer, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return made.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def private_key(key: _Key, encryption: serialization.KeySerializationEncryption) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
