"""Keys and certificates are checked when they are read, and nothing secret is shown."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate
from msgspec.structs import replace

from cluster.model.errors import ConfigError
from cluster.tls.live import LiveMaterial
from cluster.tls.material import load_material
from cluster.tls.secret import Secret
from cluster.tls.settings import TlsSettings, tls_settings
from tests.processes.certificates import PASSWORD, Certificates, Issuer, make_certificates, write_secret


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def test_pkcs12_and_pem_give_the_same(made: Certificates, tmp_path: Path) -> None:
    key = load_pem_private_key(made.key.read_bytes(), None)
    certificate = load_pem_x509_certificate(made.certificate.read_bytes())
    authority = load_pem_x509_certificate(made.authority.read_bytes())
    own, trusted = tmp_path / "own.p12", tmp_path / "trusted.p12"
    locked = BestAvailableEncryption(PASSWORD.encode())
    write_secret(own, pkcs12.serialize_key_and_certificates(b"n", key, certificate, None, locked))  # type: ignore[arg-type]
    write_secret(trusted, pkcs12.serialize_key_and_certificates(None, None, None, [authority], locked))
    of_stores = tls_settings(
        {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(own),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.type": "pkcs12",
            "ssl.truststore.location": str(trusted),
            "ssl.truststore.password": PASSWORD,
        }
    )
    of_files = TlsSettings(keystore_location=str(made.node), truststore_location=str(made.authority))
    assert load_material(of_stores) == load_material(of_files)


@pytest.mark.parametrize(
    ("days", "why"),
    [((-3, -1), r"the certificate of CN=node expired at 20..-..-.. "), ((1, 2), "is not valid before 20")],
)
def test_the_dates_count(tmp_path: Path, days: tuple[float, float], why: str) -> None:
    keystore = Issuer(tmp_path).issue("node", days=days)
    with pytest.raises(ConfigError, match=rf"ssl\.keystore\.location: {keystore}: .*{why}"):
        load_material(TlsSettings(keystore_location=str(keystore)))


def test_a_certificate_that_expires_between_two_looks_is_not_replaced_by_itself(tmp_path: Path) -> None:
    keystore = Issuer(tmp_path).issue("node")
    settings = TlsSettings(keystore_location=str(keystore))
    load_material(settings, datetime.now(UTC))
    with pytest.raises(ConfigError, match="expired"):
        load_material(settings, datetime.now(UTC) + timedelta(days=2))


def test_a_key_of_another_certificate_and_a_chain_in_the_wrong_order_are_named(tmp_path: Path) -> None:
    issuer, other = Issuer(tmp_path / "a"), Issuer(tmp_path / "b", "other")
    first, second = issuer.issue("first").read_text(), issuer.issue("second").read_text()
    key, certificate = first[: first.index("-----BEGIN CERT")], second[second.index("-----BEGIN CERT") :]
    mixed = TlsSettings(keystore_key=Secret(key), keystore_certificate_chain=certificate)
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.key: the private key does not belong to .* CN=node"):
        load_material(mixed)
    chain = first[first.index("-----BEGIN CERT") :] + other.authority.read_text()
    with pytest.raises(ConfigError, match="CN=node was not issued by the next one in the chain, CN=other"):
        load_material(replace(mixed, keystore_certificate_chain=chain))
    chain = first[first.index("-----BEGIN CERT") :] + issuer.authority.read_text()
    assert load_material(replace(mixed, keystore_certificate_chain=chain)).own is not None


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o666])
def test_a_key_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    keystore = Issuer(tmp_path).issue("node")
    keystore.chmod(mode)
    with pytest.raises(ConfigError, match=rf"others may read or change it \(mode {mode:o}\): chmod 600 {keystore}"):
        load_material(TlsSettings(keystore_location=str(keystore)))
    keystore.chmod(0o640)
    assert load_material(TlsSettings(keystore_location=str(keystore))).own is not None


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_material(TlsSettings(keystore_location="/nowhere", truststore_location=str(tmp_path)))
    assert len(refused.value.errors) == 2


def test_no_secret_is_shown_or_written(made: Certificates) -> None:
    settings = tls_settings({"ssl.keystore.location": str(made.locked), "ssl.key.password": PASSWORD})
    material = load_material(settings)
    for value in (settings, material, material.own):
        for shown in (repr(value), str(value), f"{value}"):
            assert PASSWORD not in shown
            assert "PRIVATE KEY" not in shown
    with pytest.raises(TypeError):
        msgspec.json.encode(settings)


class TestReplacement:
    """Files of a running process are replaced together, or not at all."""

    def test_new_files_are_taken_and_bad_ones_change_nothing(self, tmp_path: Path) -> None:
        issuer = Issuer(tmp_path)
        keystore = issuer.issue("node")
        settings = TlsSettings(keystore_location=str(keystore), truststore_location=str(issuer.authority))
        live = LiveMaterial(settings, "test")
        assert not live.refresh()
        first = live.current
        write_secret(keystore, b"torn")
        assert not live.refresh()
        assert (live.current, live.generation) == (first, 0)
        assert "holds no private key in PEM form" in live.rejected[0]
        issuer.issue("node", days=(-1, 5))
        assert live.refresh()
        assert (live.generation, live.rejected) == (1, ())
        assert live.current != first
        assert live.days_left is not None
        assert 4 < live.days_left < 6

    def test_files_with_the_same_content_replace_nothing(self, tmp_path: Path) -> None:
        keystore = Issuer(tmp_path).issue("node")
        live = LiveMaterial(TlsSettings(keystore_location=str(keystore)), "test")
        write_secret(keystore, keystore.read_bytes())
        assert not live.refresh()
        assert live.generation == 0

    def test_files_that_were_not_valid_are_read_again_without_a_change(self, tmp_path: Path) -> None:
        issuer = Issuer(tmp_path)
        keystore = issuer.issue("node")
        live = LiveMaterial(TlsSettings(keystore_location=str(keystore)), "test")
        issuer.issue("node", days=(-1, 3))
        keystore.chmod(0o644)
        assert not live.refresh()
        keystore.chmod(0o600)
        assert live.refresh()
        assert live.rejected == ()
