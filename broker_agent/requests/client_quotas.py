"""Quotas of clients: how many bytes a second they may produce and consume, by their client id.

A client over its quota is answered at once with the time for which it is throttled, and nothing that it sends on the
same connection is handled before this time is over. Clients without a quota cost nothing. Source: Kafka
ClientQuotaManager; KIP-13, KIP-219.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from broker_agent.decisions.client_quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    parse_quotas,
    throttle_time_ms,
)
from cluster.aio.parking import parked
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics, Samples
from cluster.model.errors import ErrorCode
from cluster.model.sampled_rate import SampledRate
from cluster.requests.context import RequestContext
from cluster.requests.data import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from cluster.znodes.configs import DEFAULT_ENTITY, entity_name

_KNOWN_MAX: Final = 10_000
"""Client ids whose rates are kept; of more the one that was quiet for longest is forgotten."""
_TYPES: Final = {PRODUCER_BYTE_RATE: "Produce", CONSUMER_BYTE_RATE: "Fetch"}


class _Sender(NamedTuple):
    """A connection of a client."""

    client_id: str
    connection: str


class _Usage:
    """What a client has used of one quota."""

    def __init__(self, samples: int, sample_ms: float) -> None:
        # A client that was quiet may send what it did not use of the whole window.
        self.rate = SampledRate(samples, sample_ms, lowest_ms=(samples - 1) * sample_ms)
        self.throttle_ms = self.byte_rate = 0.0
        """As of its last request."""


class ClientQuotas:
    """The quotas of all clients of one broker, and what they use of them."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._samples = settings.quota_window_num
        self._sample_ms = settings.quota_window_size_seconds * 1000
        self._quotas: dict[str, dict[str, float]] = {}
        """By name of the entity, which is the client id as it is in the path of its znode."""
        self._used: dict[tuple[str, str], _Usage] = {}
        """By quota and client id, the last used last."""
        self._muted_until: dict[_Sender, float] = {}
        for key, type_ in _TYPES.items():
            metrics.readings("kafka.server", type_, "byte-rate", partial(self._read, key, "byte_rate"))
            metrics.readings("kafka.server", type_, "throttle-time", partial(self._read, key, "throttle_ms"))

    @property
    def entities(self) -> tuple[str, ...]:
        """The names of the entities that have quotas."""
        return tuple(self._quotas)

    def set_quotas(self, entities: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the quotas of these client ids, or of the default, by those in their configs."""
        for name, overrides in entities.items():
            quotas = parse_quotas(overrides)
            if quotas:
                self._quotas[name] = quotas
            else:
                self._quotas.pop(name, None)

    def quota(self, key: str, client_id: str) -> float | None:
        """The client's own quota, else the default; None without one. In bytes per second."""
        own = self._quotas.get(entity_name(client_id)) if client_id else None
        if own is not None and key in own:
            return own[key]
        return self._quotas.get(DEFAULT_ENTITY, {}).get(key)

    async def handle(self, context: RequestContext, request: Any, handle: Callable[[Any], Awaitable[Any]]) -> Any:
        """The response of `handle`, within the quota of the client that asked. Followers have quotas of their own."""
        key = _key_of(request) if self._quotas else None
        quota = None if key is None else self.quota(key, context.client_id)
        if key is None or quota is None:
            return await handle(request)
        sender = _Sender(context.client_id, context.peer)
        await self._until_unmuted(sender)
        if isinstance(request, FetchRequest):
            # More would never fit into the window.
            window_s = (self._samples - 1) * self._sample_ms / 1000
            largest = max(1, int(min(request.max_bytes, quota * max(window_s, 1))))
            response = await handle(replace(request, max_bytes=largest))
            return self._count_fetch(sender, quota, response)
        response = await handle(request)
        return self._count_produce(sender, quota, request, response)

    async def _until_unmuted(self, sender: _Sender) -> None:
        while (left_s := self._muted_until.get(sender, 0) - _now_s()) > 0:
            async with parked():
                await asyncio.sleep(left_s)
        self._muted_until.pop(sender, None)

    def _count_produce(
        self, sender: _Sender, quota: float, request: ProduceRequest, response: ProduceResponse
    ) -> ProduceResponse:
        usage = self._usage(PRODUCER_BYTE_RATE, sender.client_id)
        usage.rate.record(sum(len(item.records) for item in request.partitions), _now_s() * 1000)
        throttle_ms = self._throttle(sender, usage, quota, more=0)
        return replace(response, throttle_time_ms=throttle_ms) if throttle_ms else response

    def _count_fetch(self, sender: _Sender, quota: float, response: FetchResponse) -> FetchResponse:
        """Over the quota, the records are not sent: the client fetches them again, later."""
        usage, now_ms = self._usage(CONSUMER_BYTE_RATE, sender.client_id), _now_s() * 1000
        size = sum(len(item.records) for item in response.partitions)
        # A batch that is larger than the whole window would never be sent: it passes after a window without any.
        is_first = usage.rate.per_second(now_ms) == 0
        throttle_ms = self._throttle(sender, usage, quota, more=size)
        if throttle_ms and not is_first:
            return FetchResponse(ErrorCode.NONE, throttle_time_ms=throttle_ms)
        usage.rate.record(size, now_ms)
        return replace(response, throttle_time_ms=throttle_ms) if throttle_ms else response

    def _throttle(self, sender: _Sender, usage: _Usage, quota: float, *, more: int) -> int:
        now_ms = _now_s() * 1000
        usage.byte_rate = usage.rate.per_second(now_ms, more=more)
        throttle_ms = throttle_time_ms(usage.byte_rate, quota, usage.rate.window_ms(now_ms))
        usage.throttle_ms = throttle_ms
        if throttle_ms:
            if len(self._muted_until) >= _KNOWN_MAX:
                del self._muted_until[next(iter(self._muted_until))]
            self._muted_until[sender] = (now_ms + throttle_ms) / 1000
        return throttle_ms

    def _usage(self, key: str, client_id: str) -> _Usage:
        usage = self._used.pop((key, client_id), None) or _Usage(self._samples, self._sample_ms)
        if len(self._used) >= _KNOWN_MAX:
            del self._used[next(iter(self._used))]
        self._used[key, client_id] = usage
        return usage

    def _read(self, key: str, field: str) -> Samples:
        for (of, client_id), usage in [*self._used.items()]:
            if of == key:
                yield {"client-id": client_id}, getattr(usage, field)


def _key_of(request: Any) -> str | None:
    match request:
        case ProduceRequest():
            return PRODUCER_BYTE_RATE
        case FetchRequest(replica_id=replica) if replica < 0:
            return CONSUMER_BYTE_RATE
    return None


def _now_s() -> float:
    return asyncio.get_running_loop().time()
