"""The metrics port under TLS, and the commands that ask it."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from admin.cli.metrics_text import read_metrics
from cluster.metrics.health import RUNNING
from cluster.metrics.registry import Metrics
from cluster.metrics.server import serve_metrics
from cluster.tls.contexts import client_context
from cluster.tls.live import ListenerTls, LiveMaterial
from cluster.tls.settings import TlsSettings
from launcher.health import report
from tests.processes.certificates import Issuer
from tests.timeouts import TIMEOUT_S


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("certificates"))


@contextmanager
def served(issuer: Issuer, *, requires_certificates: bool = False) -> Iterator[tuple[str, LiveMaterial]]:
    settings = TlsSettings(keystore_location=str(issuer.issue("node")), truststore_location=str(issuer.authority))
    live = LiveMaterial(settings, "metrics")
    metrics = Metrics()
    metrics.gauge("d", "t", "n").set(1)
    tls = ListenerTls(live, requires_certificates, max_age_ms=1000)
    address, close = serve_metrics(metrics, "127.0.0.1:0", tls=tls)
    try:
        yield address, live
    finally:
        close()


def trusting(issuer: Issuer, *, shows: bool = False) -> ssl.SSLContext:
    settings = TlsSettings(truststore_location=str(issuer.authority))
    return client_context(replace(settings, keystore_location=str(issuer.issue("scraper"))) if shows else settings)


def test_metrics_are_read_under_tls_and_not_without(issuer: Issuer) -> None:
    with served(issuer) as (address, _):
        assert "d_t_n 1.0" in read_metrics(f"https://{address}", TIMEOUT_S, trusting(issuer))
        with pytest.raises(OSError, match="certificate verify failed"):
            read_metrics(f"https://{address}", TIMEOUT_S)
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert b"d_t_n" not in plain.makefile("rb").read()
        # It still serves whoever comes next.
        assert "d_t_n 1.0" in read_metrics(f"https://{address}", TIMEOUT_S, trusting(issuer))


def test_certificates_may_be_demanded_and_replaced(issuer: Issuer) -> None:
    with served(issuer, requires_certificates=True) as (address, live):
        with pytest.raises(OSError):  # noqa: PT011 - TLS 1.3 says it in one of several ways.
            read_metrics(f"https://{address}", TIMEOUT_S, trusting(issuer))
        assert "d_t_n" in read_metrics(f"https://{address}", TIMEOUT_S, trusting(issuer, shows=True))

        def serial_number() -> str:
            host, port = address.split(":")
            context = trusting(issuer, shows=True)
            with context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host) as connection:
                found = connection.getpeercert()
                assert found is not None
                return str(found["serialNumber"])

        before = serial_number()
        issuer.issue("node")
        assert serial_number() == before
        assert live.refresh()
        assert serial_number() != before


@pytest.mark.parametrize("requires_certificates", [False, True])
@pytest.mark.parametrize("where", ["file", "variable"])
def test_the_health_of_a_process_is_asked_under_tls(
    issuer: Issuer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    requires_certificates: bool,
    where: str,
) -> None:
    with served(issuer, requires_certificates=requires_certificates) as (address, _):
        file = tmp_path / "broker.toml"
        file.write_text(
            f'metrics_listen = "{address}"\n[settings]\n"listener.security.protocol.map" = "A:PLAINTEXT, METRICS:SSL"\n'
            f'"ssl.keystore.location" = "{issuer.folder / "node.pem"}"\n'
        )
        if where == "variable":
            monkeypatch.setenv("KLAMM_METRICS_LISTEN", f"https://{address}" if not requires_certificates else address)
        given: Callable[[], int] = lambda: report(  # noqa: E731
            config="" if where == "variable" and not requires_certificates else str(file), timeout_s=TIMEOUT_S
        )
        assert given() == 0
        assert capsys.readouterr().out == f"{RUNNING.state}\n"
        assert report(metrics=address, timeout_s=TIMEOUT_S) == 1
