"""What a running audit tells: metrics, the webhook, and when `--until-clean` has seen enough."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import typer
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from audit.batches.bucket import BucketPlace, write_findings
from audit.reading.log_files import LogFiles
from audit.records.findings import WITHDRAWN
from audit.report.alerts import Alerts, UntilClean
from audit.report.backlog import backlog_bytes
from audit.report.metrics import AuditMetrics
from audit.report.report import read_result
from audit.report.webhook import FINDINGS_MAX, Webhook, check_url
from audit.storage.output_folder import OutputFolder
from cluster.metrics.registry import Metrics
from tests.unit.audit.test_report import commit, finding

LOG = "broker-1-1700000000000.1"
FIRST, SECOND = (f"{LOG}-{number:020d}.jsonl" for number in (0, 2))


def write(logs: Path) -> None:
    logs.mkdir(exist_ok=True)
    (logs / FIRST).write_bytes(b"{}\n{}\n")
    (logs / SECOND).write_bytes(b"{}\n{}\n{tor")


def read_up_to(logs: Path, output: Path, name: str, end: int, batch: int = 0) -> OutputFolder:
    return commit(output, batch, taken={LOG: (str(logs / name), end)})


@pytest.mark.parametrize(
    ("name", "end", "backlog"), [(FIRST, 3, 9), (FIRST, 6, 6), (SECOND, 3, 3), (SECOND, 6, 0)], ids=str
)
def test_the_backlog_is_what_was_written_behind_what_was_read(
    tmp_path: Path, name: str, end: int, backlog: int
) -> None:
    write(tmp_path / "logs")
    folder = read_up_to(Path("/moved/since"), tmp_path / "out", name, end)
    found = backlog_bytes(LogFiles([tmp_path / "logs"]), folder.last_commit())
    assert sum(found.values()) == backlog
    assert sum(backlog_bytes(LogFiles([tmp_path / "logs"]), None).values()) == 12


def test_an_audit_until_clean_waits_for_what_was_there_at_its_start(tmp_path: Path) -> None:
    logs, output = tmp_path / "logs", tmp_path / "out"
    write(logs)
    until = UntilClean([logs], output)
    with (logs / SECOND).open("ab") as file:
        file.write(b"n line ends}\n")
    assert not until.reached(read_result(output))
    read_up_to(logs, output, SECOND, 3)
    assert not until.reached(read_result(output))
    read_up_to(logs, output, SECOND, 6, batch=1)
    assert until.reached(read_result(output))
    assert not until.reached(read_result(output, ["broker-2"]))


def samples(metrics: Metrics) -> dict[tuple[str, str], float]:
    registry = CollectorRegistry()
    registry.register(metrics)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, ",".join(map(str, sample.labels.values()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_metrics_are_those_of_the_last_result(tmp_path: Path) -> None:
    logs, output = tmp_path / "logs", tmp_path / "out"
    write(logs)
    registry = Metrics()
    metrics = AuditMetrics(registry, [logs], output)
    write_findings(OutputFolder(output), BucketPlace(0, 0), [finding("n/i/0")])
    read_up_to(logs, output, FIRST, 6)
    metrics.update(read_result(output, ["broker-9"]))
    found = samples(registry)
    assert found["klamm_audit_job_verdict", "findings"] == 1
    assert found["klamm_audit_job_findings", "one-leader-per-epoch,critical"] == 1
    assert found["klamm_audit_job_records_total", ""] == 1
    assert found["klamm_audit_job_incompletereasons", ""] == 1
    assert found["klamm_audit_job_backlogbytes", ""] == found["klamm_audit_log_backlogbytes", LOG] == 6
    write_findings(OutputFolder(output), BucketPlace(0, 1), [finding("n/i/0", status=WITHDRAWN)])
    read_up_to(logs, output, SECOND, 6, batch=1)
    metrics.update(read_result(output))
    found = samples(registry)
    assert found["klamm_audit_job_verdict", "clean"] == 1
    assert ("klamm_audit_job_findings", "one-leader-per-epoch,critical") not in found
    assert ("klamm_audit_log_backlogbytes", LOG) not in found


class Receiver(HTTPServer):
    """Keeps what is posted to it; answers with `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.documents: list[dict[str, object]] = []
        self.status = 200
        self.answer = b""
        """Sent as it is, if there is any."""
        self.gets = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/findings"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.status == 200:
            self.server.documents.append(json.loads(body))
        if self.server.answer:
            self.wfile.write(self.server.answer)
            return
        self.send_response(self.server.status)
        self.send_header("Location", self.server.url)
        self.end_headers()

    def do_GET(self) -> None:
        self.server.gets += 1
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_webhook_gets_each_finding_once_and_those_withdrawn(tmp_path: Path, receiver: Receiver) -> None:
    webhook = Webhook(receiver.url, tmp_path, Metrics())
    write_findings(OutputFolder(tmp_path), BucketPlace(0, 0), [finding("n/i/0"), finding("n/i/1", subject="other")])
    commit(tmp_path)
    webhook.update(read_result(tmp_path))
    webhook.update(read_result(tmp_path))
    write_findings(OutputFolder(tmp_path), BucketPlace(0, 1), [finding("n/i/1", subject="other", status=WITHDRAWN)])
    commit(tmp_path, 1)
    # What was accepted is known to the next process, too.
    Webhook(receiver.url, tmp_path, Metrics()).update(read_result(tmp_path))
    first, second = receiver.documents
    assert (first["verdict"], first["previous_verdict"], first["more"]) == ("findings", None, 0)
    assert isinstance(first["findings"], list)
    assert [(f["severity"], f["subject"]) for f in first["findings"]] == [
        ("critical", "orders-0 leader-epoch 4"),
        ("critical", "other"),
    ]
    assert second["findings"] == []
    assert second["withdrawn"] == [{"rule": "one-leader-per-epoch", "subject": "other"}]


def test_what_the_webhook_refused_is_sent_again(tmp_path: Path, receiver: Receiver) -> None:
    metrics = Metrics()
    webhook = Webhook(receiver.url, tmp_path, metrics)
    write_findings(OutputFolder(tmp_path), BucketPlace(0, 0), [finding("n/i/0")])
    commit(tmp_path)
    receiver.status = 503
    webhook.update(read_result(tmp_path))
    receiver.status = 200
    webhook.update(read_result(tmp_path))
    assert len(receiver.documents) == 1
    assert samples(metrics)["klamm_audit_webhook_failures_total", ""] == 1


def test_what_the_webhook_refused_is_sent_again_while_nothing_is_found(tmp_path: Path, receiver: Receiver) -> None:
    now_s, metrics = [0.0], Metrics()
    webhook = Webhook(receiver.url, tmp_path, metrics, lambda: now_s[0])
    commit(tmp_path)
    receiver.status = 503
    webhook.update(read_result(tmp_path))
    attempts = []
    for second in range(200):
        now_s[0] = float(second)
        before = samples(metrics)["klamm_audit_webhook_requests_total", ""]
        webhook.retry()
        if samples(metrics)["klamm_audit_webhook_requests_total", ""] > before:
            attempts.append(second)
    assert attempts == [1, 3, 7, 15, 31, 63, 123, 183]
    receiver.status, now_s[0] = 200, 300.0
    webhook.retry()
    webhook.retry()
    assert len(receiver.documents) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_of_the_webhook_is_no_acceptance(tmp_path: Path, receiver: Receiver, status: int) -> None:
    """Whoever follows one asks by GET, without the findings, and is answered 200."""
    metrics = Metrics()
    commit(tmp_path)
    receiver.status = status
    Webhook(receiver.url, tmp_path, metrics).update(read_result(tmp_path))
    assert receiver.gets == 0
    assert samples(metrics)["klamm_audit_webhook_failures_total", ""] == 1
    assert not (tmp_path / "webhook.json").exists()


@pytest.mark.parametrize("answer", [b"220 mail.example ESMTP\r\n", b"\x00\xff\n", b"HTTP/1.1 200 " + b"x" * 100_000])
def test_a_webhook_that_is_no_web_server_does_not_end_the_audit(
    tmp_path: Path, receiver: Receiver, answer: bytes
) -> None:
    metrics = Metrics()
    commit(tmp_path)
    receiver.answer = answer
    Webhook(receiver.url, tmp_path, metrics).update(read_result(tmp_path))
    assert samples(metrics)["klamm_audit_webhook_failures_total", ""] == 1


def test_a_webhook_that_is_down_costs_nothing_but_a_later_attempt(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    commit(tmp_path)
    Webhook(f"http://127.0.0.1:{port}/", tmp_path, Metrics()).update(read_result(tmp_path))
    assert not (tmp_path / "webhook.json").exists()


def test_a_request_to_the_webhook_is_bounded(tmp_path: Path, receiver: Receiver) -> None:
    found = [finding("n/i/0", subject=f"orders-{n}") for n in range(FINDINGS_MAX + 7)]
    write_findings(OutputFolder(tmp_path), BucketPlace(0, 0), found)
    commit(tmp_path)
    Webhook(receiver.url, tmp_path, Metrics()).update(read_result(tmp_path))
    (document,) = receiver.documents
    assert isinstance(document["findings"], list)
    assert (len(document["findings"]), document["more"]) == (FINDINGS_MAX, 7)


@pytest.mark.parametrize("url", ["", "alerts:80", "ftp://a/b", "file:///etc/passwd", "http:///x"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(ValueError, match="must be an address"):
        check_url(url)


def test_a_malformed_address_of_metrics_is_named(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="9090: must be host:port"):
        Alerts([tmp_path], tmp_path, "9090", "", until_clean=False)
