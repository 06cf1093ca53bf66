"""Holds back what a throttled client sends on a connection, and lets it continue in the order of its arrival.

Calls of one connection run side by side, so the order is kept here: batches of an idempotent producer are numbered, and
one that overtook another would be refused. Source: Kafka ThrottledChannel, Selector.mute; KIP-219.
"""

import asyncio
from typing import Final, NamedTuple

from cluster.aio.parking import parked
from cluster.model.bounds import INT32_MAX

_MUTED_MAX: Final = 10_000
"""Senders that are muted and wait for nothing; of more, the one that was muted first is heard again."""


class Sender(NamedTuple):
    """A connection of a client, and the user who asks on it."""

    user: str
    client_id: str
    connection: str


class _Mute:
    """`until`: on the clock of the event loop. `turn`: held by the first of those that wait, which are `waiting`."""

    __slots__ = ("turn", "until", "waiting")

    def __init__(self) -> None:
        self.until = 0.0
        self.turn = asyncio.Lock()
        self.waiting = 0


class MutedSenders:
    """The senders of one process that are not heard for a time."""

    def __init__(self) -> None:
        self._mutes: dict[Sender, _Mute] = {}
        """In the order in which they were muted first."""

    def __bool__(self) -> bool:
        """Whether somebody may be muted."""
        return bool(self._mutes)

    def mute(self, sender: Sender, throttle_ms: float) -> None:
        """Hold back what the sender sends from now on for this time, or for longer if it is muted for longer.

        At most for what an answer can say, which is 24 days.
        """
        mute = self._mutes.get(sender)
        if mute is None:
            if len(self._mutes) >= _MUTED_MAX:
                self._forget_one()
            mute = self._mutes[sender] = _Mute()
        mute.until = max(mute.until, _now_s() + min(throttle_ms, INT32_MAX) / 1000)

    def left_ms(self, sender: Sender) -> int:
        """The time for which the sender is not heard from now on; 0 if it is heard."""
        mute = self._mutes.get(sender)
        return 0 if mute is None else max(0, min(round((mute.until - _now_s()) * 1000), INT32_MAX))

    async def wait_for_turn(self, sender: Sender) -> None:
        """Return when the sender is heard and what it sent before was let through.

        The caller begins to handle the request without an await, so that nothing overtakes it.
        """
        mute = self._mutes.get(sender)
        if mute is None:
            return
        mute.waiting += 1
        try:
            async with parked(), mute.turn:
                while (left_s := mute.until - _now_s()) > 0:  # noqa: ASYNC110 - it may be put off meanwhile.
                    await asyncio.sleep(left_s)
        finally:
            mute.waiting -= 1
            self._forget_if_over(sender, mute)

    def _forget_if_over(self, sender: Sender, mute: _Mute) -> None:
        if not mute.waiting and mute.until <= _now_s() and self._mutes.get(sender) is mute:
            del self._mutes[sender]

    def _forget_one(self) -> None:
        quiet = next((sender for sender, mute in self._mutes.items() if not mute.waiting), None)
        if quiet is not None:
            del self._mutes[quiet]


def _now_s() -> float:
    return asyncio.get_running_loop().time()
