"""Request rate, size and time metrics per API. Source: Kafka RequestMetrics, RequestChannel.

There are no response queues, and no request queue but the one for memory (`cluster.rpc.memory_pool`), which comes
before the time of a request begins. Those times are 0, and exposed, because dashboards made for Kafka add them up.
"""

import asyncio
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Self

from cluster.metrics.registry import Histogram, Meter, Metrics, Timer
from cluster.model.errors import ErrorCode

_MBEAN: Final = ("kafka.network", "RequestMetrics")
_NEVER_SPENT: Final = ("RequestQueueTimeMs", "ResponseQueueTimeMs")


class _OfApi(NamedTuple):
    requests: Meter
    bytes: Histogram
    total: Timer
    local: Timer
    remote: Timer
    send: Timer
    throttle: Timer
    never_spent: tuple[Timer, ...]


class RequestMetrics:
    """The metrics of one server by API; created with the first request."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._of_api: dict[str, _OfApi] = {}
        self._errors: dict[tuple[str, ErrorCode], Meter] = {}
        metrics.gauge("kafka.network", "RequestChannel", "ResponseQueueSize")

    def measure(self, api: str, request_bytes: int) -> "MeasuredRequest":
        """Measure one request, in its context."""
        return MeasuredRequest(self, api, request_bytes)

    def of_api(self, api: str) -> _OfApi:
        """The metrics of one API, registered when it is first called."""
        known = self._of_api.get(api)
        if known is None:

            def timer(name: str) -> Timer:
                return self._metrics.timer(*_MBEAN, name, request=api)

            known = self._of_api[api] = _OfApi(
                requests=self._metrics.meter(*_MBEAN, "RequestsPerSec", request=api),
                bytes=self._metrics.histogram(*_MBEAN, "RequestBytes", request=api),
                total=timer("TotalTimeMs"),
                local=timer("LocalTimeMs"),
                remote=timer("RemoteTimeMs"),
                send=timer("ResponseSendTimeMs"),
                throttle=timer("ThrottleTimeMs"),
                never_spent=tuple(map(timer, _NEVER_SPENT)),
            )
        return known

    def errors(self, api: str, code: ErrorCode) -> Meter:
        """The meter of one error code in the responses of an API."""
        meter = self._errors.get((api, code))
        if meter is None:
            meter = self._metrics.meter(*_MBEAN, "ErrorsPerSec", request=api, error=code.name)
            self._errors[api, code] = meter
        return meter


class MeasuredRequest:
    """One request from arrival to completion. `api` may be set later, once the request is parsed.

    `error_code` is that of the whole request; NONE is counted as well, as in Kafka.
    """

    def __init__(self, metrics: RequestMetrics, api: str, request_bytes: int) -> None:
        self.api, self.error_code = api, ErrorCode.NONE
        self.waited_ms = self._throttle_ms = 0.0
        self._metrics, self._bytes = metrics, request_bytes
        self._clock = asyncio.get_running_loop().time
        self._handled_at: float | None = None

    def __enter__(self) -> Self:
        self._token = _in_hand.set(self)
        self._began_at = self._clock()
        return self

    def handled(self, error_code: ErrorCode, *, throttle_time_ms: int = 0) -> None:
        """The response is ready; what follows is sending it. `throttle_time_ms`: for which the client is throttled."""
        self.error_code, self._throttle_ms = error_code, throttle_time_ms
        self._handled_at = self._clock()

    def __exit__(self, *_: Any) -> None:
        _in_hand.reset(self._token)
        ended_at = self._clock()
        of_api = self._metrics.of_api(self.api)
        of_api.requests.mark()
        of_api.bytes.update(self._bytes)
        self._metrics.errors(self.api, self.error_code).mark()
        total_ms = (ended_at - self._began_at) * 1000
        send_ms = 0 if self._handled_at is None else (ended_at - self._handled_at) * 1000
        of_api.total.update_ms(total_ms)
        of_api.remote.update_ms(self.waited_ms)
        of_api.send.update_ms(send_ms)
        of_api.local.update_ms(total_ms - self.waited_ms - send_ms)
        of_api.throttle.update_ms(self._throttle_ms)
        for timer in of_api.never_spent:
            timer.update_ms(0)


# The request being processed in this context; tasks started by it inherit it.
_in_hand: ContextVar[MeasuredRequest | None] = ContextVar("_in_hand", default=None)


def record_waiting(waited_ms: float) -> None:
    """Add time that the current request waited: for replicas, for records or for its timeout."""
    request = _in_hand.get()
    if request is not None:
        request.waited_ms += waited_ms
