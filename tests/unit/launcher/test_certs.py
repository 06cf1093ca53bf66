"""`klamm certs create`: what it writes is what nodes, clients and Kafka's tools take, and nothing is overwritten."""

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from typer.testing import CliRunner

from cluster.model.errors import StartupError
from cluster.tls.contexts import client_context, server_context
from cluster.tls.settings import TlsSettings
from launcher.certs import app
from tests.unit.cluster.tls.test_contexts import handshake

ALL = ("--controller", "1001", "--broker", "1=localhost,10.0.0.1", "--zookeeper", "localhost", "--client", "admin")


def create(*arguments: str) -> list[str]:
    result = CliRunner().invoke(app, ["create", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def certificate(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def settings(folder: Path, name: str) -> TlsSettings:
    return TlsSettings(keystore_location=str(folder / name), truststore_location=str(folder / "ca.pem"))


def test_nodes_have_one_name_and_a_uri_each_and_authenticate_both_ways(tmp_path: Path) -> None:
    create("--output", str(tmp_path), *ALL)
    controller, broker = certificate(tmp_path / "controller-1001.pem"), certificate(tmp_path / "broker-1.pem")
    assert controller.subject == broker.subject != certificate(tmp_path / "admin.pem").subject
    names = broker.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["klamm://broker/1"]
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]
    for server, client in (("broker-1", "controller-1001"), ("controller-1001", "admin"), ("zookeeper", "broker-1")):
        tls = server_context(settings(tmp_path, f"{server}.pem"))
        assert handshake(client_context(settings(tmp_path, f"{client}.pem")), tls) == "TLSv1.3"
    with pytest.raises(
        ssl.SSLCertVerificationError, match="unsuitable certificate purpose|unsupported certificate purpose"
    ):
        handshake(client_context(settings(tmp_path, "broker-1.pem")), server_context(settings(tmp_path, "admin.pem")))


def test_what_has_a_key_is_for_its_owner_only(tmp_path: Path) -> None:
    create("--output", str(tmp_path), *ALL)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes.pop("ca.pem") == 0o644
    assert len(modes) == 6
    assert set(modes.values()) == {0o600}


def test_nothing_is_overwritten_and_others_are_added_by_the_same_authority(tmp_path: Path) -> None:
    create("--output", str(tmp_path), *ALL)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(StartupError, match=r"broker-1\.pem: there already; nothing was written"):
        create("--output", str(tmp_path), "--broker", "2", "--broker", "1")
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    create("--output", str(tmp_path), "--broker", "2")
    create("--output", str(tmp_path / "new"), "--authority", str(tmp_path), "--broker", "1")
    for added in (tmp_path / "broker-2.pem", tmp_path / "new" / "broker-1.pem"):
        certificate(added).verify_directly_issued_by(certificate(tmp_path / "ca.pem"))
    assert not (tmp_path / "new" / "ca-key.pem").exists()


def test_an_authority_without_its_key_issues_nothing(tmp_path: Path) -> None:
    create("--output", str(tmp_path), "--client", "a")
    (tmp_path / "ca-key.pem").unlink()
    with pytest.raises(StartupError, match=r"ca-key\.pem is missing, which belongs to .*ca\.pem"):
        create("--output", str(tmp_path), "--client", "b")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("node", "all nodes have this name, and znodes belong to it"),
        ("zookeeper", "ZooKeeper's servers have this name"),
        ("ca", "the authority has its file"),
        ("ca-key", "the authority has its file"),
        ("a b", "use letters, digits"),
    ],
)
def test_a_client_gets_no_name_that_others_have(tmp_path: Path, name: str, why: str) -> None:
    """ZooKeeper takes the distinguished name alone for the identity: a client `node` could write every znode."""
    refused = CliRunner().invoke(app, ["create", "--output", str(tmp_path), "--client", name], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert f"{name!r}: {why}" in refused.output
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "wrong",
    [("--broker", "x"), ("--broker", "1="), ("--client", "../x"), ("--broker", "1=a b"), (), ("--broker", "1") * 2],
)
def test_what_cannot_be_made_is_wrong_usage(tmp_path: Path, wrong: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, ["create", "--output", str(tmp_path), *wrong]).exit_code == 2
    assert not any(tmp_path.iterdir())
