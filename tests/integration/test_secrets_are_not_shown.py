"""A password or a key is shown nowhere, whatever goes wrong: not in errors, logs, or values that are printed."""

import json
import os
import subprocess
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from adoption.command_config import read_command_config
from cluster.config.client_properties import read_client_security
from cluster.config.config import LOGIN_FILE_KEY, load_config
from cluster.config.secret_keys import is_secret_key
from cluster.config.settings import Settings
from cluster.model.errors import ClusterError
from cluster.tls.live import LiveMaterial
from cluster.tls.material import load_material
from cluster.tls.settings import TlsSettings, tls_settings
from cluster.zookeeper.login import Scheme, parse_login
from tests.processes.certificates import Certificates, make_certificates, write_secret
from tests.processes.commands import LAUNCHER

MARKER = "hunter2MARKERhunter2"
BASE = {"id": 1, "zookeeper": "127.0.0.1:1", "listen": "127.0.0.1:0", "data": "d"}
SECURED = {"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROL:SSL", "ssl.client.auth": "required"}
REFUSED = "refused: "
PEM = f"-----BEGIN PRIVATE KEY-----\n{MARKER}\n-----END PRIVATE KEY-----\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def faults(made: Certificates, folder: Path) -> Iterator[dict[str, Any]]:
    """Settings with the marker for each secret, wrong in every way that they can be."""
    store = folder / "store.p12"
    write_secret(store, b"0no store" + MARKER.encode())
    damaged = folder / "damaged.pem"
    write_secret(damaged, PEM.encode())
    node, trust = str(made.locked), str(made.authority)
    for prefix in ("ssl.", "listener.name.control.ssl.", "zookeeper.ssl."):
        stores = {f"{prefix}keystore.location": node, f"{prefix}truststore.location": trust}
        yield {**stores, f"{prefix}keystore.password": MARKER}
        yield {f"{prefix}keystore.location": str(damaged), f"{prefix}truststore.location": trust}
        for kind in ("PKCS12", "JKS", "PEM"):
            of = {f"{prefix}keystore.location": str(store), f"{prefix}keystore.type": kind}
            yield {**of, f"{prefix}keystore.password": MARKER, f"{prefix}truststore.password": MARKER}
            yield {f"{prefix}truststore.location": str(store), f"{prefix}truststore.type": kind, **of}
        if not prefix.startswith("zookeeper"):
            yield {**stores, f"{prefix}key.password": MARKER}
            yield {f"{prefix}keystore.key": PEM, f"{prefix}keystore.certificate.chain": MARKER}
            yield {f"{prefix}keystore.key": MARKER}
            yield {**stores, f"{prefix}keystore.key": PEM}
            yield {f"{prefix}key.password": [MARKER], f"{prefix}keystore.key": {"a": MARKER}}


def why_not(attempt: Callable[[], object]) -> str:
    """Everything that an error says, its causes included; else what the value prints."""
    try:
        return repr(attempt())
    except (ClusterError, ValueError) as error:
        return "".join([REFUSED, *traceback.format_exception(error)])


def test_what_is_wrong_with_settings_is_said_without_them(made: Certificates, tmp_path: Path) -> None:
    refused = 0
    for given in faults(made, tmp_path):
        switch = {"zookeeper.ssl.client.enable": True} if any(key.startswith("zoo") for key in given) else SECURED
        said = why_not(lambda found=given, of=switch: load_config(None, {**BASE, "settings": {**of, **found}}))  # type: ignore[misc]
        assert MARKER not in said, given
        refused += said.startswith(REFUSED)
    assert refused > 20


@pytest.mark.parametrize("read", [read_command_config, read_client_security])
def test_what_is_wrong_with_a_file_of_a_client_is_said_without_it(
    made: Certificates, tmp_path: Path, read: Callable[[Path], object]
) -> None:
    file = tmp_path / "client.properties"
    file.touch(0o600)

    def load() -> object:
        found = read(file)
        tls = getattr(found, "tls", None)
        return load_material(tls) if isinstance(tls, TlsSettings) else found

    for given in faults(made, tmp_path):
        texts = {key: value.replace("\n", "\\n") for key, value in given.items() if isinstance(value, str)}
        for more in ({}, {"sasl.jaas.config": MARKER}, {"ssl.keystore.passwort": MARKER}, {"ssl.key.pem": MARKER}):
            lines = {**texts, **more, "security.protocol": "SSL"}
            file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            assert MARKER not in why_not(load), lines


@pytest.mark.parametrize(
    "text", ["Client {{ m required username=u password={0} }}", "Client {{ {0}", "{0}", "Client {{ {0}={0}; }};"]
)
def test_what_is_wrong_with_a_login_file_is_said_without_it(text: str) -> None:
    assert MARKER not in why_not(lambda: parse_login(text.format(MARKER), "Client", Scheme.SASL))


_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    "text",
    [
        "{0}",
        'x required password="{0}"',
        'x required password="{0}" {0};',
        f'{_MODULE} required password="{{0}}";',
        f'{_MODULE} required username="u" password="{{0}}"; x',
        f'{_MODULE} required username="u" password="{{0}}";',
    ],
)
def test_what_is_wrong_with_a_login_module_is_said_without_it(text: str, tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    write_secret(file, f"KafkaServer {{ {text.format(MARKER)} }};".encode())
    kafka = {
        "klamm.broker.protocol": "kafka",
        "klamm.kafka.listeners": "S://127.0.0.1:1",
        "listener.security.protocol.map": "S:SASL_PLAINTEXT",
        "inter.broker.listener.name": "S",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    }
    for mechanism in ("SCRAM-SHA-512", "PLAIN"):
        for key in ("sasl.jaas.config", "listener.name.s.plain.sasl.jaas.config", "scram-sha-512.sasl.jaas.config"):
            given = {**kafka, "sasl.mechanism.inter.broker.protocol": mechanism, key: text.format(MARKER)}
            assert MARKER not in why_not(lambda given=given: load_config(None, {**BASE, "settings": given}))  # type: ignore[misc]
        in_file = {**kafka, "sasl.mechanism.inter.broker.protocol": mechanism, LOGIN_FILE_KEY: str(file)}
        assert MARKER not in why_not(lambda given=in_file: load_config(None, {**BASE, "settings": given}))  # type: ignore[misc]


def test_values_that_hold_secrets_print_without_them(made: Certificates) -> None:
    secrets = {key: MARKER for key in Settings().model_dump(by_alias=True) if is_secret_key(key)}
    assert len(secrets) == 12
    settings = Settings.model_validate({**secrets, "ssl.keystore.certificate.chain": "x"}, by_alias=True, by_name=False)
    tls = tls_settings({**secrets, "ssl.keystore.location": str(made.node)})
    material = load_material(TlsSettings(keystore_location=str(made.node)))
    key = made.key.read_text().splitlines()[1]
    for value in (settings, settings.tls_of(), settings.tls_of("CONTROL"), tls, material, settings.model_dump()):
        for shown in (repr(value), str(value), f"{value}"):
            assert MARKER not in shown
            assert key not in shown
    for value in (tls, material):
        with pytest.raises(TypeError):
            msgspec.json.encode(value)


def test_files_that_are_rejected_later_are_logged_without_their_secrets(made: Certificates, tmp_path: Path) -> None:
    store = tmp_path / "node.pem"
    write_secret(store, made.node.read_bytes())
    live = LiveMaterial(tls_settings({"ssl.keystore.location": str(store), "ssl.key.password": MARKER}), "test")
    with capture_logs() as lines:
        for content in (made.locked.read_bytes(), PEM.encode(), MARKER.encode()):
            write_secret(store, content)
            assert not live.refresh()
    assert len(lines) == 3
    assert MARKER not in json.dumps(lines)


def test_a_process_that_cannot_start_shows_none_in_its_log(made: Certificates, tmp_path: Path) -> None:
    """The settings come from the environment, which a secret may come from."""
    trust = {"ssl.truststore.location": str(made.authority)}
    given = {**SECURED, **trust, "ssl.keystore.location": str(made.locked), "ssl.key.password": MARKER}
    environment = {**os.environ, "KLAMM_SETTINGS": json.dumps(given)}
    where = ["--id", "1001", "--zookeeper", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--data", str(tmp_path)]
    for command in (["controller", *where], ["broker", *where]):
        done = subprocess.run([*LAUNCHER, *command], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "ssl.key.password does not open its private key" in done.stderr
        assert MARKER not in done.stdout + done.stderr
