"""`--command-config` of klamm's own commands: from an option, a variable, a context, or the folder of a cluster."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from admin.cli.target import Target, find_target
from cluster.config.client_properties import read_client_security
from cluster.model.errors import ConfigError
from cluster.process.local_cluster import CONTROLLER, STATE_VERSION, LocalClusterState, Member
from cluster.tls.authority import client, write_certificates
from cluster.tls.settings import TlsSettings
from launcher.__main__ import app


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (made,) = write_certificates(tmp_path / "certs", [client("admin")], days=1)
    return made.with_suffix(".properties")


def test_the_file_that_certs_create_writes_is_taken(file: Path) -> None:
    assert read_client_security(file).tls == TlsSettings(
        keystore_location=str(file.with_suffix(".pem")), truststore_location=str(file.with_name("ca.pem"))
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("security.protocol=SASL_PLAINTEXT", "'SASL_PLAINTEXT': whoever listens would get the password or token"),
        ("security.protocol=TLS", "security.protocol: 'TLS': must be one of PLAINTEXT, SSL, SASL_SSL"),
        ("sasl.mechanism=PLAIN", "sasl.mechanism: has an effect with security.protocol=SASL_SSL only"),
        ("ssl.truststor.location=x", "ssl.truststor.location: is not supported"),
        ("ssl.client.auth=none", "ssl.client.auth: is not supported"),
        ("ssl.cipher.suites=x", "ssl.cipher.suites: is not supported"),
        ("ssl.enabled.protocols=TLSv1.3", "ssl.enabled.protocols: 'TLSv1.3': must be TLSv1.2,TLSv1.3: gRPC always"),
        ("ssl.endpoint.identification.algorithm=", "must be https: gRPC always checks the names"),
    ],
)
def test_what_has_no_effect_is_refused_by_name(tmp_path: Path, content: str, why: str) -> None:
    wrong = tmp_path / "client.properties"
    wrong.write_text(f"security.protocol=SSL\n{content}\n")
    with pytest.raises(ConfigError) as refused:
        read_client_security(wrong)
    assert f"--command-config: {wrong}: " in str(refused.value)
    assert why in str(refused.value)


def test_without_ssl_nothing_else_counts(tmp_path: Path) -> None:
    plain = tmp_path / "client.properties"
    plain.write_text("bootstrap.servers=h:1\nclient.id=me\nssl.truststore.location=/nowhere\n")
    assert read_client_security(plain) == (None, None)


def test_an_option_goes_before_a_variable_and_that_before_a_context(file: Path, tmp_path: Path) -> None:
    added = ["contexts", "add", "secured", "--bootstrap", "h:1", "--command-config", str(file), "--use"]
    assert CliRunner().invoke(app, added).exit_code == 0
    assert find_target(environment={}) == Target("h:1", origin="the context secured", command_config=file)
    variables = {"KLAMM_COMMAND_CONFIG": "/v"}
    assert find_target(environment=variables).command_config == Path("/v")
    assert find_target(environment=variables, command_config=Path("/o")).command_config == Path("/o")
    # The file of a context is not for another cluster.
    assert find_target("other:1", environment={}).command_config is None


def test_a_context_with_a_file_that_cannot_be_used_is_not_added(tmp_path: Path) -> None:
    arguments = ["contexts", "add", "x", "--bootstrap", "h:1", "--command-config", str(tmp_path / "none")]
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, ConfigError)
    assert not (tmp_path / "xdg").exists()


@pytest.mark.parametrize("is_secured", [True, False])
def test_a_cluster_on_this_machine_has_the_certificate_of_its_client(tmp_path: Path, *, is_secured: bool) -> None:
    members = [Member(CONTROLLER, 1001, 1, 2)]
    state = LocalClusterState(STATE_VERSION, "z:1", members, {}, is_secured=is_secured)
    (tmp_path / "cluster.json").write_bytes(msgspec.json.encode(state))
    tls = Target(data=tmp_path).security().tls
    assert (tls is not None) is is_secured
    assert state.metrics_of(members[0]) == ("https://127.0.0.1:2" if is_secured else "127.0.0.1:2")
    if tls is not None:
        assert tls.keystore_location == str(tmp_path / "certs" / "admin.pem")


def test_keys_that_others_can_read_are_refused_before_anything_is_sent(file: Path) -> None:
    file.with_suffix(".pem").chmod(0o644)
    with pytest.raises(ConfigError, match="others may read or change it"):
        Target("127.0.0.1:1", command_config=file).connect(1)
