"""Requests to a broker that fail again and again, until somebody changes something: at the broker, here, or in between.

Epochs that a broker refuses are in `refusals`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from cluster.model.broker import UNKNOWN_BROKER_EPOCH, BrokerId
from cluster.model.errors import ErrorCode
from cluster.requests.cluster import Finding
from cluster.requests.control import ControlRequest, ControlResponse

SILENT_BROKER: Final = "silent_broker"
REQUESTS_NOT_UNDERSTOOD: Final = "requests_not_understood"
REQUESTS_NOT_AUTHORIZED: Final = "requests_not_authorized"
REQUESTS_FAIL: Final = "requests_fail"
SILENCE_MAX_S: Final = 30
"""As long as `request.timeout.ms` by default: the request was sent more than once."""
UNREACHED_MAX_S: Final = 3
"""Where an attempt failed, so that the broker is not merely slow; a connection that only broke is back by then. Over
one that is cut an attempt fails when nothing was acknowledged for four seconds (`cluster.rpc.channels`), so that a
broker that is paused for less is none of these.
"""
REFUSED: Final = {
    ErrorCode.UNSUPPORTED_VERSION: REQUESTS_NOT_UNDERSTOOD,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: REQUESTS_NOT_AUTHORIZED,
    ErrorCode.SASL_AUTHENTICATION_FAILED: REQUESTS_NOT_AUTHORIZED,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: REQUESTS_NOT_AUTHORIZED,
    ErrorCode.ILLEGAL_SASL_STATE: REQUESTS_NOT_AUTHORIZED,
}
"""What the next attempt does not change: reported at once."""


class Failure(Struct, frozen=True):
    """Why the last attempt to send a request failed. `code`: of the broker's refusal, or NETWORK_EXCEPTION."""

    code: ErrorCode
    why: str


def errors_after(
    before: Mapping[str, ErrorCode],
    request: ControlRequest,
    response: ControlResponse,
    *,
    is_further_part: bool = False,
) -> Mapping[str, ErrorCode]:
    """Map the name of a request to the error that the broker answered it with, until it carries out the next of that
    kind. Not those that `refusals` knows more about.

    `is_further_part`: of a request that was divided; that the broker carries it out says nothing of the parts before.
    """
    name, code = type(request).__name__.removesuffix("Request"), response.error_code
    is_known = code is ErrorCode.STALE_CONTROLLER_EPOCH or (
        code is ErrorCode.STALE_BROKER_EPOCH and response.broker_epoch != UNKNOWN_BROKER_EPOCH
    )
    if code is not ErrorCode.NONE and not is_known:
        return {**before, name: code}
    if name not in before or is_further_part:
        return before
    return {kind: error for kind, error in before.items() if kind != name}


def failure_findings(
    broker: BrokerId, failure: Failure | None, silent_s: float, errors: Mapping[str, ErrorCode]
) -> Iterator[Finding]:
    """Say what keeps the broker from being told."""
    kind = None if failure is None else REFUSED.get(failure.code)
    if failure is not None and kind is not None:
        yield Finding(kind, f"broker {broker} cannot be governed: {failure.why}", broker=broker)
    elif silent_s > (SILENCE_MAX_S if failure is None else UNREACHED_MAX_S):
        detail = f"broker {broker} is registered, but has not responded to a request for {silent_s:.0f} s"
        why = "" if failure is None else f"; the last attempt: {failure.why}"
        yield Finding(SILENT_BROKER, detail + why, broker=broker)
    for name, code in sorted(errors.items()):
        detail = (
            f"broker {broker} answered the last {name} with {code.name}, so it does not do what it was told; see in "
            "its log why, and restart it: it is told everything again"
        )
        yield Finding(REFUSED.get(code, REQUESTS_FAIL), detail, broker=broker)
