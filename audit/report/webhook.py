"""Sends findings to a webhook: those that are new since the last request that was accepted, and those withdrawn.

Each is sent at least once: what the receiver accepted is written down after its answer, so that a crash in between
sends it again. A receiver that is down is tried again with longer pauses, also while nothing new is found.
"""

import hashlib
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec import Struct

from audit.report.report import AuditResult, all_findings
from audit.report.rule_catalogue import severity_of
from audit.storage.file_store import Location, open_store
from audit.storage.output_folder import OutputFolder
from cluster.metrics.registry import Metrics
from cluster.model.errors import DECODE_ERRORS

VERSION: Final = 1
"""The version of the document that is sent."""
FINDINGS_MAX: Final = 100
"""Findings in one request; `more` counts the others."""
_TIMEOUT_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 60.0
"""Between two attempts. The first pause is a second, and each is twice as long as the one before."""
_SENT_FILE: Final = "webhook.json"

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Sent(Struct, frozen=True):
    """Holds what the receiver has accepted: the verdict, and a digest of each finding by its rule and subject."""

    verdict: str = ""
    findings: dict[str, str] = {}


class Webhook:
    """Posts JSON documents to one address."""

    def __init__(
        self, url: str, output: Location, metrics: Metrics, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic_s = monotonic_s
        self._refused: AuditResult | None = None
        """The last result, if the receiver did not accept it."""
        self._pause_s = self._next_attempt_s = 0.0
        self._url, self._output = url, output
        self._files = open_store(output)
        self._failures = metrics.meter("klamm.audit", "Webhook", "Failures")
        self._requests = metrics.meter("klamm.audit", "Webhook", "Requests")

    def update(self, result: AuditResult) -> None:
        """Send what has changed, if anything has."""
        sent, found = self._sent(), all_findings(OutputFolder(self._output))
        now = Sent(result.verdict, {_name(finding): _digest(finding) for finding in found})
        if now == sent or self._post(msgspec.json.encode(document(result, found, sent, now))):
            self._refused, self._pause_s = None, 0.0
            if now != sent:
                self._files.write(_SENT_FILE, msgspec.json.encode(now))
            return
        self._refused = result
        self._pause_s = min(_LONGEST_PAUSE_S, max(1.0, 2 * self._pause_s))
        self._next_attempt_s = self._monotonic_s() + self._pause_s

    def retry(self) -> None:
        """Send again what was not accepted, once the pause is over. Cheap, to be called often."""
        if self._refused is not None and self._monotonic_s() >= self._next_attempt_s:
            self.update(self._refused)

    def _sent(self) -> Sent:
        try:
            return msgspec.json.decode(self._files.read(_SENT_FILE), type=Sent)
        except (FileNotFoundError, *DECODE_ERRORS):
            return Sent()

    def _post(self, body: bytes) -> bool:
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310 - the operator names it.
        self._requests.mark()
        try:
            with _opener.open(request, timeout=_TIMEOUT_S):
                return True
        except (OSError, ValueError, HTTPException) as error:
            self._failures.mark()
            _log.warning(
                "The webhook did not accept the findings; they are sent again", url=self._url, error=str(error)
            )
            return False


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it would be followed by a GET, without the findings."""

    def redirect_request(self, *_: object) -> None:
        return None


_opener: Final = urllib.request.build_opener(_NoRedirects)


def document(result: AuditResult, found: Sequence[Mapping[str, Any]], sent: Sent, now: Sent) -> dict[str, Any]:
    """Make what is sent: the verdict, what was incomplete, findings that are new or changed, names of those
    withdrawn.
    """
    new = [f for f in found if sent.findings.get(_name(f)) != now.findings[_name(f)]]
    gone = sorted(sent.findings.keys() - now.findings.keys())
    return {
        "version": VERSION,
        "verdict": result.verdict,
        "previous_verdict": sent.verdict or None,
        "records": result.records,
        "incomplete": msgspec.to_builtins(result.incomplete),
        "findings": [{**f, "severity": severity_of(f["rule"])} for f in new[:FINDINGS_MAX]],
        "more": max(0, len(new) - FINDINGS_MAX),
        "withdrawn": [dict(zip(("rule", "subject"), name.split("\t", 1), strict=True)) for name in gone],
    }


def check_url(url: str) -> None:
    """Check that a text is an address of HTTP. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an address like http://alerts.example:8080/klamm")


def _name(finding: Mapping[str, Any]) -> str:
    return f"{finding['rule']}\t{finding['subject']}"


def _digest(finding: Mapping[str, Any]) -> str:
    return hashlib.blake2b(msgspec.json.encode(finding), digest_size=8).hexdigest()
