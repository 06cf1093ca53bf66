"""A certificate authority, and certificates by it for this machine."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
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
    write_secret(made.key, private_key(key, serialization.NoEncryption()))
    made.certificate.write_bytes(node)
    write_secret(made.node, private_key(key, serialization.NoEncryption()) + node)
    write_secret(made.locked, private_key(key, serialization.BestAvailableEncryption(PASSWORD.encode())) + node)
    return made


def write_secret(file: Path, content: bytes) -> None:
    """Replace a file that only its owner can read, as a whole."""
    draft = file.with_suffix(".new")
    draft.touch(0o600)
    draft.write_bytes(content)
    draft.replace(file)


def write_pkcs12(node: Path, authority: Path, keystore: Path, truststore: Path) -> None:
    """The key and certificate of a file in PEM form, and the authority, as Java reads them in every release."""
    locked = serialization.BestAvailableEncryption(PASSWORD.encode())
    content = node.read_bytes()
    key = serialization.load_pem_private_key(content, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    (own,), (issuer,) = (x509.load_pem_x509_certificates(file) for file in (content, authority.read_bytes()))
    write_secret(keystore, pkcs12.serialize_key_and_certificates(b"own", key, own, [issuer], locked))
    trusted = [pkcs12.PKCS12Certificate(issuer, b"authority")]
    truststore.write_bytes(pkcs12.serialize_java_truststore(trusted, locked))


class Issuer:
    """An authority of a test, whose certificates can be wrong in every way."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._name, self._key = folder, name, ec.generate_private_key(ec.SECP256R1())
        self.authority = folder / f"{name}.pem"
        self.authority.write_bytes(certificate(name, name, self._key, self._key))

    def issue(
        self,
        file: str,
        *,
        names: Sequence[str] = ("localhost", "127.0.0.1"),
        uri: str = "",
        days: tuple[float, float] = (-1, 1),
        subject: str = "node",
    ) -> Path:
        """Write a key and its certificate. `days`: from when to when it is valid, from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = certificate(subject, self._name, key, self._key, names=names, uri=uri, days=days)
        path = self.folder / f"{file}.pem"
        write_secret(path, private_key(key, serialization.NoEncryption()) + made)
        return path


def certificate(
    subject: str,
    issuer: str,
    key: _Key,
    issuer_key: _Key,
    *,
    names: Sequence[str] = ("localhost", "127.0.0.1"),
    uri: str = "",
    days: tuple[float, float] = (-1, 1),
) -> bytes:
    now = datetime.now(UTC)
    others: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri)] if uri else []
    made = (
        x509.CertificateBuilder()
        .subject_name(named(subject))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=subject == issuer, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([*map(_host, names), *others]), critical=False)
    )
    return made.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _host(name: str) -> x509.GeneralName:
    return x509.IPAddress(ip_address(name)) if name[0].isdigit() else x509.DNSName(name)


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def private_key(key: _Key, encryption: serialization.KeySerializationEncryption) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
