"""A certificate authority for development and for clusters on one machine: its key lies in a file beside the others.

All nodes of a cluster have one distinguished name, because ZooKeeper takes that for their identity and so admits each
to the znodes of the others; which node it is stands in the URI among its names.
"""

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from cluster.model.errors import StartupError
from cluster.tls.settings import AUTHORITY

AUTHORITY_KEY: Final = "ca-key.pem"
CLIENT_SUFFIX: Final = ".properties"
DEFAULT_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_AUTHORITY_DAYS: Final = 3650
_SKEW: Final = timedelta(minutes=5)
"""Clocks of other machines may be this much late."""
_ORGANISATION: Final = "klamm"
_NODE: Final = "node"
_ZOOKEEPER: Final = "zookeeper"
_ITS_FILE: Final = "the authority has its file, so choose another name"
RESERVED_NAMES: Final = {
    _NODE: "all nodes have this name, and znodes belong to it, so choose another one",
    _ZOOKEEPER: "ZooKeeper's servers have this name, so choose another one",
    "ca": _ITS_FILE,
    "ca-key": _ITS_FILE,
}
"""The names that no client may have, and why: rights and the ACLs of znodes go by the distinguished name alone."""


class Subject(Struct, frozen=True):
    """Whom a certificate is for: the common name, the hosts it is reached by, its URI, and whether it serves."""

    file: str
    common_name: str
    hosts: tuple[str, ...] = ()
    uri: str = ""
    serves: bool = True

    @property
    def distinguished_name(self) -> str:
        """The name of its certificate, as rights name it."""
        return f"CN={self.common_name},O={_ORGANISATION}"


def node(role: str, identifier: int, hosts: Sequence[str] = DEFAULT_HOSTS) -> Subject:
    """The subject of a controller or a broker: `klamm://controller/1001`, `klamm://broker/1`."""
    return Subject(f"{role}-{identifier}.pem", _NODE, tuple(hosts), f"klamm://{role}/{identifier}")


def zookeeper(hosts: Sequence[str] = DEFAULT_HOSTS) -> Subject:
    """The subject of a ZooKeeper server."""
    return Subject("zookeeper.pem", _ZOOKEEPER, tuple(hosts))


def client(name: str) -> Subject:
    """The subject of a client, which serves nobody."""
    return Subject(f"{name}.pem", name, serves=False)


class Authority:
    """Issues certificates. Its own is in `AUTHORITY` of its folder, its key in `AUTHORITY_KEY`, for its owner only."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate, self._key = certificate, key

    @classmethod
    def open_or_create(cls, folder: Path) -> "Authority":
        """Open the authority of a folder, or create it. Raises StartupError if only half of it is there, or it is no
        authority.
        """
        files = folder / AUTHORITY, folder / AUTHORITY_KEY
        there = [file.exists() for file in files]
        if not any(there):
            return cls._create(folder)
        if not all(there):
            lost = files[there.index(False)]
            raise StartupError(f"{lost} is missing, which belongs to {files[there.index(True)]}: bring it back")
        try:
            certificate = x509.load_pem_x509_certificate(files[0].read_bytes())
            key = load_pem_private_key(files[1].read_bytes(), None)
        except OSError as error:
            raise StartupError(f"{error.filename}: {error.strerror}") from error
        except (ValueError, TypeError) as error:
            raise StartupError(f"{folder}: {AUTHORITY} and {AUTHORITY_KEY} cannot be read: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise StartupError(f"{files[1]} is not the key of {files[0]}")
        return cls(certificate, key)

    @classmethod
    def _create(cls, folder: Path) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        # A number in it, so that a client that trusts an older one sees that this is another.
        name = _named(f"klamm development CA {x509.random_serial_number() >> 128:08x}")
        certificate = (
            _builder(name, name, key, _AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        write_file(folder / AUTHORITY_KEY, _pem(key), 0o600)
        write_file(folder / AUTHORITY, certificate.public_bytes(Encoding.PEM), 0o644)
        return cls(certificate, key)

    def issue(self, subject: Subject, days: int) -> bytes:
        """Make a key and its certificate, in PEM form: private key, certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if subject.serves else [])]
        builder = (
            _builder(_named(subject.common_name), self._certificate.subject, key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names := _alternative_names(subject):
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _pem(key) + builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


def write_certificates(
    folder: Path, subjects: Sequence[Subject], days: int, authority: Path | None = None
) -> list[Path]:
    """Write key and certificate of each subject into `folder`, one file each, which only its owner reads; for a client
    also the file that names them.

    `authority`: the folder of the authority, by default the same; it is created if there is none. Nothing is
    overwritten. Raises StartupError, before anything is written, if a file is there already.
    """
    files = [folder / subject.file for subject in subjects]
    if there := [str(f) for file in files for f in (file, file.with_suffix(CLIENT_SUFFIX)) if f.exists()]:
        raise StartupError(
            f"{', '.join(there)}: there already; nothing was written. Remove what is to be replaced, or give another "
            "folder, with --authority for the one whose ca.pem is to issue them"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder if authority is None else authority).mkdir(parents=True, exist_ok=True)
        issuer = Authority.open_or_create(folder if authority is None else authority)
        if authority is not None and not (folder / AUTHORITY).exists():
            write_file(folder / AUTHORITY, (authority / AUTHORITY).read_bytes(), 0o644)
        for file, subject in zip(files, subjects, strict=True):
            write_file(file, issuer.issue(subject, days), 0o600)
            if not subject.serves:
                write_file(file.with_suffix(CLIENT_SUFFIX), client_properties(file), 0o600)
    except OSError as error:
        raise StartupError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return files


def client_properties(keystore: Path) -> bytes:
    """Make the file for `--command-config` of a client, which Kafka's own tools take as well."""
    own = keystore.resolve()
    lines = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": own,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": own.with_name(AUTHORITY),
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items()).encode()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _alternative_names(subject: Subject) -> list[x509.GeneralName]:
    names = [_host(host) for host in subject.hosts]
    return [*names, x509.UniformResourceIdentifier(subject.uri)] if subject.uri else names


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANISATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_file(file: Path, content: bytes, mode: int) -> None:
    """Write a file that is not there yet, with these permissions from its creation on. Raises OSError."""
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
