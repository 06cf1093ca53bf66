"""Quotas of clients: how many bytes a second they may produce and consume, and how much of a thread their requests may
take, by user, client id, or both.

A client over its quota is answered at once with the time for which it is throttled. Nothing that it sends on the same
connection is handled before this time is over, and then in the order of its arrival. Clients without a quota cost
nothing. Source: Kafka ClientQuotaManager, ClientRequestQuotaManager; KIP-13, KIP-124, KIP-219.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from broker_agent.decisions.client_quotas import throttle_time_ms
from cluster.aio.handling_time import HandlingTime, Stopwatch
from cluster.config.client_quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotaConfigs,
    Quota,
    QuotaOwner,
)
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics, Samples
from cluster.model.sampled_rate import SampledRate
from cluster.requests.context import RequestContext
from cluster.requests.data import FetchRequest, FetchResponse, ProduceRequest
from cluster.rpc.muted_senders import MutedSenders, Sender

_KNOWN_MAX: Final = 10_000
"""Owners whose rates are kept; of more the one that was quiet for longest is forgotten."""
_SHOWN_MAX: Final = 200
"""Owners that metrics show for each quota: those that asked last. Every one of them is a time series."""
_METRICS: Final = {
    PRODUCER_BYTE_RATE: ("Produce", "byte-rate"),
    CONSUMER_BYTE_RATE: ("Fetch", "byte-rate"),
    REQUEST_PERCENTAGE: ("Request", "request-time"),
}
"""Type of the metrics of a quota, and the name of that of its rate."""


class _Usage:
    """What a client has used of one quota."""

    def __init__(self, samples: int, sample_ms: float) -> None:
        # A client that was quiet may send what it did not use of the whole window.
        self.rate = SampledRate(samples, sample_ms, lowest_ms=(samples - 1) * sample_ms)
        self.throttle_ms = self.per_second = 0.0
        """As of its last request."""


class ClientQuotas:
    """The quotas of all clients of one broker, and what they use of them."""

    def __init__(self, settings: Settings, metrics: Metrics, stopwatch: Stopwatch) -> None:
        """Measure by these settings. `stopwatch`: the clock for the time that requests take."""
        self._samples = settings.quota_window_num
        self._sample_ms = settings.quota_window_size_seconds * 1000
        self._stopwatch = stopwatch
        self.configs = ClientQuotaConfigs(tuple(_METRICS))
        self._used: dict[str, dict[QuotaOwner, _Usage]] = {key: {} for key in _METRICS}
        """By quota and those whose use counts together, the last used last."""
        self._muted = MutedSenders()
        for key, (type_, rate) in _METRICS.items():
            metrics.readings("kafka.server", type_, rate, partial(self._read, key, "per_second"))
            metrics.readings("kafka.server", type_, "throttle-time", partial(self._read, key, "throttle_ms"))

    async def handle(
        self, context: RequestContext, request: Any, handle: Callable[[Any], Coroutine[Any, Any, Any]]
    ) -> Any:
        """The response of `handle`, within the quotas of the client that asked. Requests of followers have none."""
        if not (self.configs or self._muted) or getattr(request, "replica_id", -1) >= 0:
            return await handle(request)
        sender = Sender(context.identity.principal.name, context.client_id, context.peer)
        await self._muted.wait_for_turn(sender)
        if isinstance(request, ProduceRequest):
            self._count_produce(sender, request)
        percentage = self._quota(REQUEST_PERCENTAGE, sender)
        if percentage is None:
            response = await self._handle_within_bytes(sender, request, handle)
        else:
            response = await self._handle_within_time(sender, request, handle, percentage)
        throttle_ms = self._muted.left_ms(sender)
        if throttle_ms and "throttle_time_ms" in response.__struct_fields__:
            return replace(response, throttle_time_ms=throttle_ms)
        return response

    async def _handle_within_time(
        self, sender: Sender, request: Any, handle: Callable[[Any], Coroutine[Any, Any, Any]], percentage: Quota
    ) -> Any:
        """Count the time that the request took, be it refused."""
        time = HandlingTime(self._stopwatch)
        try:
            return await time.measure(self._handle_within_bytes(sender, request, handle))
        finally:
            usage, now_ms = self._usage(REQUEST_PERCENTAGE, percentage.owner), _now_s() * 1000
            usage.rate.record(time.seconds * 100, now_ms)
            # As in Kafka no longer than one sample: a single long request must not silence a client for minutes.
            self._throttle(sender, usage, percentage.rate, most_ms=self._sample_ms)

    async def _handle_within_bytes(
        self, sender: Sender, request: Any, handle: Callable[[Any], Coroutine[Any, Any, Any]]
    ) -> Any:
        quota = self._quota(CONSUMER_BYTE_RATE, sender) if isinstance(request, FetchRequest) else None
        if quota is None:
            return await handle(request)
        # More would never fit into the window.
        window_s = (self._samples - 1) * self._sample_ms / 1000
        largest = max(1, int(min(request.max_bytes, quota.rate * max(window_s, 1))))
        return self._count_fetch(sender, quota, await handle(replace(request, max_bytes=largest)))

    def _count_produce(self, sender: Sender, request: ProduceRequest) -> None:
        """Count the records before they are appended: of requests in flight together, the next one waits for them."""
        quota = self._quota(PRODUCER_BYTE_RATE, sender)
        if quota is None:
            return
        usage = self._usage(PRODUCER_BYTE_RATE, quota.owner)
        usage.rate.record(sum(len(item.records) for item in request.partitions), _now_s() * 1000)
        self._throttle(sender, usage, quota.rate)

    def _count_fetch(self, sender: Sender, quota: Quota, response: FetchResponse) -> FetchResponse:
        """Over the quota, the records are not sent: the client fetches them again, later. In a session the broker does,
        as long as the client names no other offset.
        """
        usage, now_ms = self._usage(CONSUMER_BYTE_RATE, quota.owner), _now_s() * 1000
        size = sum(len(item.records) for item in response.partitions)
        # A batch that is larger than the whole window would never be sent: it passes after a window without any.
        is_first = usage.rate.per_second(now_ms) == 0
        if self._throttle(sender, usage, quota.rate, more=size) and not is_first:
            return replace(response, partitions=tuple(item for item in response.partitions if not item.records))
        usage.rate.record(size, now_ms)
        return response

    def _throttle(
        self, sender: Sender, usage: _Usage, quota: float, *, more: float = 0, most_ms: float = float("inf")
    ) -> bool:
        """Mute the sender if the client is over its quota; returns whether it is."""
        now_ms = _now_s() * 1000
        usage.per_second = usage.rate.per_second(now_ms, more=more)
        usage.throttle_ms = min(throttle_time_ms(usage.per_second, quota, usage.rate.window_ms(now_ms)), most_ms)
        if usage.throttle_ms:
            self._muted.mute(sender, usage.throttle_ms)
        return usage.throttle_ms > 0

    def _quota(self, key: str, sender: Sender) -> Quota | None:
        return self.configs.quota(key, sender.user, sender.client_id)

    def _usage(self, key: str, owner: QuotaOwner) -> _Usage:
        used = self._used[key]
        usage = used.pop(owner, None) or _Usage(self._samples, self._sample_ms)
        if len(used) >= _KNOWN_MAX:
            del used[next(iter(used))]
        used[owner] = usage
        return usage

    def _read(self, key: str, field: str) -> Samples:
        used = self._used[key]
        shown: Iterable[QuotaOwner] = islice(reversed(tuple(used)), _SHOWN_MAX)
        for owner in shown:
            usage = used.get(owner)
            if usage is not None:
                yield {"user": owner.user, "client-id": owner.client_id}, getattr(usage, field)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
