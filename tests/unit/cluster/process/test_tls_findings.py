"""What a process reports of its certificates, and of clients that it refuses."""

import time
from pathlib import Path

import pytest

from cluster.model.broker import BrokerId
from cluster.process.tls_findings import all_uses, certificate_findings, refusal_findings
from cluster.tls.live import LiveMaterial
from cluster.tls.refusals import FORGOTTEN_AFTER_S, KEPT, RefusedHandshakes
from cluster.tls.settings import TlsSettings
from tests.processes.certificates import Issuer

DAY_S = 86_400


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("tls"))


def material(issuer: Issuer, days: tuple[float, float]) -> LiveMaterial:
    own = issuer.issue(f"valid-{days[0]}-{days[1]}", days=days)
    return LiveMaterial(TlsSettings(keystore_location=str(own), truststore_location=str(issuer.authority)), "peers")


@pytest.mark.parametrize(
    ("days", "after_days", "kind"),
    [
        ((-100, 15), 0, None),
        ((-100, 15), 2, "expiring_certificate"),
        ((-100, 15), 16, "expired_certificate"),
        # One that lives for two days is replaced in its last hours.
        ((-1, 1), 0, None),
        ((-1, 1), 0.7, "expiring_certificate"),
    ],
)
def test_a_certificate_that_ends_soon_is_reported_with_its_files(
    issuer: Issuer, days: tuple[float, float], after_days: float, kind: str | None
) -> None:
    of = material(issuer, days)
    now_s = time.time() + after_days * DAY_S
    found = list(certificate_findings("broker 1", of, ["peers", "plaintext"], now_s, BrokerId(1)))
    assert [finding.kind for finding in found] == ([] if kind is None else [kind])
    for finding in found:
        assert finding.broker == 1
        assert finding.detail.startswith("broker 1: its certificate for peers, plaintext, CN=node, ")
        assert f"replace {of.settings.keystore_location}; it is taken within" in finding.detail


def test_files_that_are_not_in_force_are_reported_until_they_are_mended(issuer: Issuer) -> None:
    of = material(issuer, (-1, 30))
    good = Path(str(of.settings.keystore_location)).read_bytes()
    Path(str(of.settings.keystore_location)).write_bytes(b"half of it")
    of.refresh()
    (finding,) = certificate_findings("controller 1001", of, ["peers"], time.time())
    assert (finding.kind, finding.broker) == ("unusable_tls_files", -1)
    assert "what was read before stays in force: ssl.keystore.location" in finding.detail
    Path(str(of.settings.keystore_location)).write_bytes(good)
    of.refresh()
    assert list(certificate_findings("controller 1001", of, ["peers"], time.time())) == []


def test_a_process_without_a_certificate_has_nothing_to_report(issuer: Issuer) -> None:
    of = LiveMaterial(TlsSettings(truststore_location=str(issuer.authority)))
    assert list(certificate_findings("broker 1", of, ["zookeeper"], time.time())) == []


def test_the_same_files_are_reported_once_for_all_their_uses(issuer: Issuer) -> None:
    one, other = material(issuer, (-1, 1)), material(issuer, (-1, 1))
    assert all_uses([("a", one), ("b", other), ("c", one)]) == [(one, ["a", "b", "c"])]
    third = material(issuer, (-1, 2))
    assert all_uses([("a", one), ("b", third), ("c", one)]) == [(one, ["a", "c"]), (third, ["b"])]


def test_refused_clients_are_reported_with_since_when_and_why_and_then_forgotten() -> None:
    refused = RefusedHandshakes()
    refused.add("SSL", "10.0.0.1", "its certificate is not accepted: certificate has expired", 3600.0)
    refused.add("SSL", "10.0.0.1", "its certificate is not accepted: certificate has expired", 3700.0)
    refused.add("SSL", "10.0.0.2", "it shows no certificate", 3650.0)
    details = [finding.detail for finding in refusal_findings("controller 1001", refused.recent(3800.0))]
    assert [detail.partition("; see")[0] for detail in details] == [
        "controller 1001: listener SSL refuses 10.0.0.2, since 01:00:50 UTC, 1 time: it shows no certificate",
        "controller 1001: listener SSL refuses 10.0.0.1, since 01:00:00 UTC, 2 times: its certificate is not "
        "accepted: certificate has expired",
    ]
    later = 3700.0 + FORGOTTEN_AFTER_S
    assert [refusal.host for refusal in refused.recent(later)] == ["10.0.0.1"]
    assert refused.recent(later + 1) == []
    refused.add("SSL", "10.0.0.1", "its certificate is not accepted: certificate has expired", later + 2)
    assert [(refusal.first_s, refusal.times) for refusal in refused.recent(later + 2)] == [(later + 2, 1)]


def test_strangers_fill_neither_memory_nor_the_report() -> None:
    refused = RefusedHandshakes()
    for number in range(KEPT + 5):
        refused.add("SSL", f"10.0.0.{number}", "it does not speak TLS", float(number))
    recent = refused.recent(float(KEPT))
    assert len(recent) == KEPT
    found = list(refusal_findings("controller 1001", recent))
    assert len(found) == 11
    assert f"{KEPT - 10} more hosts or reasons" in found[-1].detail
