"""Certificates of a cluster of the matrix, as PEM and as PKCS12, with the distinguished names of published settings."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from tests.processes.certificates import PASSWORD, private_key, write_secret

_OIDS: Final = {"CN": NameOID.COMMON_NAME, "OU": NameOID.ORGANIZATIONAL_UNIT_NAME, "O": NameOID.ORGANIZATION_NAME}
_LOCKED: Final = serialization.BestAvailableEncryption(PASSWORD.encode())


class Stores:
    """`issue` writes NAME.pem and NAME.p12; the authority of all is `authority.pem` and `authority.p12`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._issuer = _named("CN=authority")
        self._authority = self._signed(self._issuer, self._key)
        self.path("authority", "PEM").write_bytes(self._authority.public_bytes(serialization.Encoding.PEM))
        trusted = [pkcs12.PKCS12Certificate(self._authority, b"authority")]
        self.path("authority", "PKCS12").write_bytes(pkcs12.serialize_java_truststore(trusted, _LOCKED))

    def path(self, name: str, kind: str) -> Path:
        """`kind`: of a store; Java reads PKCS12 where it is told JKS, too."""
        return self.folder / f"{name}.{'pem' if kind == 'PEM' else 'p12'}"

    def keytab(self, name: str) -> Path:
        """Where the keys of a principal are, if the cluster has Kerberos."""
        return self.folder / f"{name}.keytab"

    def token(self, user: str) -> Path:
        """Where the token of a user is, if the cluster has tokens."""
        return self.folder / f"{user}.token"

    @property
    def keys(self) -> Path:
        """By which tokens are verified."""
        return self.folder / "keys.json"

    def issue(self, name: str, subject: str) -> None:
        """`subject`: as Java writes it, the last part first, such as CN=broker,O=example."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._signed(_named(subject), key)
        plain = private_key(key, serialization.NoEncryption()) + made.public_bytes(serialization.Encoding.PEM)
        write_secret(self.path(name, "PEM"), plain)
        store = pkcs12.serialize_key_and_certificates(name.encode(), key, made, [self._authority], _LOCKED)
        write_secret(self.path(name, "PKCS12"), store)

    def settings(self, name: str | None, kind: str, prefix: str = "ssl.") -> dict[str, str]:
        """Kafka's own, with this key, if any. `kind`: PEM, PKCS12 or JKS."""
        found: dict[str, str] = {}
        stores = [("truststore", "authority"), *([] if name is None else [("keystore", name)])]
        for store, file in stores:
            found[f"{prefix}{store}.type"] = kind
            found[f"{prefix}{store}.location"] = str(self.path(file, kind))
            if kind != "PEM":
                found[f"{prefix}{store}.password"] = PASSWORD
        if name is not None and kind != "PEM" and prefix == "ssl.":
            found["ssl.key.password"] = PASSWORD
        return found

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        now = datetime.now(UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=subject == self._issuer, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _named(subject: str) -> x509.Name:
    parts = [part.split("=", maxsplit=1) for part in reversed(subject.split(","))]
    return x509.Name([x509.NameAttribute(_OIDS[kind], value) for kind, value in parts])
