"""Sends control requests to brokers: one queue and one sender task per registered broker, in order, with retries.

A request stays at the head of its queue until the broker responds or the channel is removed, because a broker that
missed one request would stay wrong until the next failover. Its epochs are those of the time it was built, so a broker
can detect that it is stale (RQ-31 to RQ-33). Source: Kafka ControllerChannelManager, RequestSendThread.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog
from msgspec import Struct

from cluster.aio.tasks import TaskSet
from cluster.metrics.registry import Gauge, Metrics, Samples, Timer
from cluster.model.broker import Broker, BrokerId
from cluster.model.errors import ErrorCode, PeerUnreachableError
from cluster.model.listeners import ListenerNames
from cluster.requests.control import ControlRequest, ControlResponse
from controller.decisions.brokers.failures import REFUSED, Failure, errors_after
from controller.decisions.brokers.refusals import NO_REFUSALS, ChannelState, refusals_after
from controller.metrics import DOMAIN, FailoverTimings
from controller.ports import BrokerClient
from state_log.witnessed_heads import WitnessedHeads

RETRY_PAUSE_S: Final = 0.1
REFUSED_PAUSE_S: Final = 1.0
"""Where only a change of settings helps."""
_UNANSWERED: Final = ("klamm.controller", "ControllerChannelManager", "UnansweredRequestAgeMs")
_log = structlog.stdlib.get_logger()

OnAnswer = Callable[[BrokerId, ControlRequest, ControlResponse], None]
"""Called with each response; must only enqueue an event."""


class _Queued(Struct, frozen=True):
    request: ControlRequest
    since: float
    of_failover: bool
    is_further_part: bool


class _Channel:
    def __init__(self, broker: Broker, size: Gauge, queue_time: Timer) -> None:
        self.broker = broker
        self.queue: asyncio.Queue[_Queued] = asyncio.Queue()
        self.size = size
        self.queue_time = queue_time
        self.task: asyncio.Task[None] | None = None
        self.queued = self.answered = 0
        self.refusals = NO_REFUSALS
        self.failure: Failure | None = None
        self.errors: Mapping[str, ErrorCode] = {}
        self.sending_since: float | None = None
        """When the request at the head was sent first; None while the broker has responded to everything."""
        self.awaited: list[tuple[int, asyncio.Future[bool]]] = []
        """Waiters for the response to the n-th request: (n, future), ascending."""

    def silent_s(self, now: float) -> float:
        since = self.sending_since
        return 0 if since is None else now - since

    def state(self, now: float) -> ChannelState:
        return ChannelState(self.refusals, self.silent_s(now), self.failure, self.errors)

    def take(self, queued: _Queued, response: ControlResponse) -> None:
        """Remember what the response says of the broker."""
        request = queued.request
        self.sending_since = self.failure = None
        self.refusals = refusals_after(self.refusals, request, response)
        self.errors = errors_after(self.errors, request, response, is_further_part=queued.is_further_part)

    def answer(self) -> None:
        """Count one more response and complete its waiters."""
        self.answered += 1
        while self.awaited and self.awaited[0][0] <= self.answered:
            _resolve(self.awaited.pop(0)[1], delivered=True)

    def give_up(self) -> None:
        for _, waiter in self.awaited:
            _resolve(waiter, delivered=False)


class BrokerChannels:
    """The channels of one active controller, one per broker."""

    def __init__(
        self,
        client: BrokerClient,
        tasks: TaskSet,
        registry: Metrics,
        *,
        listeners: ListenerNames,
        timings: FailoverTimings,
        on_answer: OnAnswer,
        heads: WitnessedHeads,
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._registry = registry
        self._listeners = listeners
        self._timings = timings
        self._on_answer = on_answer
        self._heads = heads
        self._channels: dict[BrokerId, _Channel] = {}
        self._leaving: dict[BrokerId, asyncio.Task[None]] = {}
        self._total = registry.gauge(DOMAIN, "ControllerChannelManager", "TotalQueueSize")
        registry.readings(*_UNANSWERED, self._ages(asyncio.get_running_loop().time))

    def add(self, broker: Broker) -> None:
        """Open a channel to a broker, which must offer a listener for it; no effect if there is one already (RQ-35)."""
        has_endpoint = self._listeners.control_endpoint(broker.endpoints) is not None
        assert has_endpoint, f"broker {broker.id} offers no listener of {self._listeners}"
        if broker.id in self._channels:
            return
        tag = {"broker-id": broker.id}
        channel = _Channel(
            broker,
            self._registry.gauge(DOMAIN, "ControllerChannelManager", "QueueSize", **tag),
            self._registry.timer(DOMAIN, "ControllerChannelManager", "RequestRateAndQueueTimeMs", **tag),
        )
        channel.task = self._tasks.start(
            self._serve(channel, self._leaving.pop(broker.id, None)), name=f"channel to broker {broker.id}"
        )
        self._channels[broker.id] = channel

    def remove(self, broker: BrokerId) -> None:
        """Cancel the sender, drop its queue and close the connection."""
        channel = self._channels.pop(broker, None)
        if channel is None:
            return
        self._total.dec(channel.queue.qsize())
        assert channel.task is not None, "a channel in the table has a sender"
        channel.task.cancel()
        channel.give_up()
        self._leaving[broker] = channel.task
        for name in ("QueueSize", "RequestRateAndQueueTimeMs"):
            self._registry.remove(DOMAIN, "ControllerChannelManager", name, **{"broker-id": broker})

    def stop(self) -> None:
        """Remove every channel. Unsent requests are lost; the next controller sends the full state."""
        for broker in sorted(self._channels):
            self.remove(broker)
        self._registry.remove(*_UNANSWERED)

    def send(self, broker: BrokerId, request: ControlRequest, *, is_further_part: bool = False) -> None:
        """Queue a request; logged and dropped if the broker has no channel (RQ-36)."""
        channel = self._channels.get(broker)
        if channel is None:
            _log.warning(
                "Dropped a request to a broker without a channel", broker=broker, request=type(request).__name__
            )
            return
        channel.queue.put_nowait(_Queued(request, _now(), self._timings.request_queued(), is_further_part))
        channel.queued += 1
        channel.size.inc()
        self._total.inc()

    def delivered(self, broker: BrokerId) -> asyncio.Future[bool]:
        """True once the broker responded to every request queued for it now; False if its channel is removed before."""
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        channel = self._channels.get(broker)
        if channel is None or channel.answered == channel.queued:
            waiter.set_result(channel is not None)
        else:
            channel.awaited.append((channel.queued, waiter))
        return waiter

    def states(self) -> dict[BrokerId, ChannelState]:
        """Report what each broker refuses, for how long it has not responded, and why."""
        now = _now()
        return {broker: channel.state(now) for broker, channel in self._channels.items()}

    def _ages(self, clock: Callable[[], float]) -> Callable[[], Samples]:
        """Make the reading for scrapes, which run on another thread."""

        def read() -> Samples:
            now = clock()
            for broker, channel in [*self._channels.items()]:
                yield {"broker_id": str(broker)}, max(0.0, channel.silent_s(now)) * 1000

        return read

    async def _serve(self, channel: _Channel, predecessor: asyncio.Task[None] | None) -> None:
        broker = channel.broker
        try:
            if predecessor is not None:
                # The predecessor closes its connection to the same broker when it ends; it must not close this one.
                await asyncio.wait([predecessor])
            while True:
                queued = await channel.queue.get()
                channel.size.dec()
                self._total.dec()
                channel.queue_time.update_ms((_now() - queued.since) * 1000)
                channel.sending_since = _now()
                response = await self._deliver(channel, queued.request)
                channel.take(queued, response)
                if queued.of_failover:
                    self._timings.request_answered(_now())
                channel.answer()
                self._heads.received(f"broker-{broker.id}", response)
                self._on_answer(broker.id, queued.request, response)
                # While there is nothing to send: that of a failover has every partition.
                del queued, response
        finally:
            await self._client.forget(broker)

    async def _deliver(self, channel: _Channel, request: ControlRequest) -> ControlResponse:
        while True:
            try:
                return await self._client.send(channel.broker, self._heads.attached_to(request))
            except PeerUnreachableError as error:
                failed, channel.failure = channel.failure, Failure(error.code, str(error))
            if failed is None or failed.code is not channel.failure.code:
                why, broker = channel.failure.why, channel.broker.id
                _log.warning("Sending a request to a broker failed; retrying", broker=broker, error=why)
            # The same request again and again: to skip it would let the next one, which builds on it, arrive first.
            is_refused = channel.failure.code in REFUSED
            await asyncio.sleep(REFUSED_PAUSE_S if is_refused else RETRY_PAUSE_S)


def _resolve(waiter: asyncio.Future[bool], *, delivered: bool) -> None:
    # A future that is done was cancelled by its caller.
    if not waiter.done():
        waiter.set_result(delivered)


def _now() -> float:
    return asyncio.get_running_loop().time()
