"""The stream of cluster events for Watch requests, with a bounded history.

One bounded history serves all subscribers of an active controller, so a slow one costs no memory: a subscriber that
falls behind the history is sent a marker that events were missed and continues from there. The history is empty until
the first subscriber, because no cursor can point before it.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Final

from cluster.aio.clock import WallClock
from cluster.aio.parking import parked
from cluster.model import bounds
from cluster.model.bounds import shortened, why_not
from cluster.model.broker import ControllerEpoch, ControllerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.cluster import ClusterEvent, WatchRequest, WatchResponse
from controller.decisions.cluster_events import cluster_events
from controller.decisions.context_view import ContextView
from state_log.record import StateChange

REMEMBERED_MAX: Final = 20_000
"""Length of the history in events, of a few hundred bytes each."""
RESPONSE_EVENTS_MAX: Final = 500
"""Events per response; more are sent in several responses, to limit the message size."""


class EventFeed:
    """The cluster events of one controller epoch. Not thread-safe: used from one event loop."""

    def __init__(self, epoch: ControllerEpoch, controller: ControllerId, clock: WallClock) -> None:
        self._epoch, self._controller, self._clock = epoch, controller, clock
        self._is_followed = False
        self._is_over = False
        self._recorded: list[StateChange] = []
        self._history: dict[int, Sequence[ClusterEvent]] = {}
        """Position -> events. Positions have no gaps; the oldest entries are removed first."""
        self._next = 0
        self._remembered = 0
        self._news = asyncio.Event()

    def record(self, changes: Sequence[StateChange]) -> None:
        """Collect state changes of the current controller event."""
        if self._is_followed:
            self._recorded.extend(changes)

    def publish(self, view: ContextView) -> None:
        """Publish the collected changes after the controller event. No cost until there was a subscriber."""
        if self._recorded:
            recorded, self._recorded = self._recorded, []
            self._append(cluster_events(view, recorded, self._controller, self._clock.now_ms()))

    def publish_settings_of(self, topic: str) -> None:
        """Publish a change of a topic's config, which is not a controller event."""
        if self._is_followed:
            self._append([self._event("configs_changed", topic)])

    def close(self) -> None:
        """End every stream; called on resignation."""
        self._is_over = True
        self._wake()

    def follow(self, request: WatchRequest) -> AsyncIterator[WatchResponse]:
        """Subscribe to events from now on, or after the cursor. The first response is sent at once and carries a
        cursor.

        The stream ends with ApiError(NOT_CONTROLLER) when this controller resigns. Raises ApiError(INVALID_REQUEST) for
        a malformed cursor.
        """
        place, missed = self._next, False
        if request.cursor:
            epoch, behind = _parse_cursor(request.cursor)
            missed = epoch != self._epoch or behind > self._next
            place = self._next if missed else behind
        topics = None if request.topics is None else frozenset(request.topics)
        self._is_followed = True
        greeting = (self._event("controller_changed"),) if missed else ()
        return self._stream(place, WatchResponse(self._cursor(place), greeting, missed), topics)

    async def _stream(
        self, place: int, greeting: WatchResponse, topics: Collection[str] | None
    ) -> AsyncIterator[WatchResponse]:
        yield greeting
        while True:
            oldest = self._next - len(self._history)
            missed, place = place < oldest, max(place, oldest)
            while place in self._history:
                events = _about(self._history[place], topics)
                place += 1
                if events or missed:
                    yield WatchResponse(self._cursor(place), events, missed)
                    missed = False
                    # Other tasks ran meanwhile, and the next position may have been removed from the history.
                    break
            else:
                if self._is_over:
                    raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller stopped being active")
                async with parked():
                    await self._news.wait()

    def _append(self, events: Sequence[ClusterEvent]) -> None:
        for start in range(0, len(events), RESPONSE_EVENTS_MAX):
            self._history[self._next] = events[start : start + RESPONSE_EVENTS_MAX]
            self._next += 1
        self._remembered += len(events)
        while self._remembered > REMEMBERED_MAX:
            oldest = self._next - len(self._history)
            self._remembered -= len(self._history.pop(oldest))
        self._wake()

    def _wake(self) -> None:
        # Waiters hold the old event; they read everything published before they wait for the new one.
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _event(self, kind: str, topic: str = "") -> ClusterEvent:
        return ClusterEvent(kind, self._clock.now_ms(), self._epoch, self._controller, topic)

    def _cursor(self, place: int) -> str:
        return f"{self._epoch}-{place}"


def _about(events: Sequence[ClusterEvent], topics: Collection[str] | None) -> tuple[ClusterEvent, ...]:
    """The events of these topics, and those without a topic."""
    return tuple(event for event in events if topics is None or not event.topic or event.topic in topics)


def _parse_cursor(text: str) -> tuple[int, int]:
    """Parse a cursor: controller epoch and position."""
    if not bounds.CURSOR.accepts(text):
        raise ApiError(ErrorCode.INVALID_REQUEST, why_not(bounds.CURSOR, text), field="cursor", value=shortened(text))
    epoch, _, place = text.partition("-")
    return int(epoch), int(place)
