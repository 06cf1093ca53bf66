"""The SASL exchanges that are under way at one process: few, for a few seconds only, because strangers begin them."""

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from cluster.model.errors import ApiError, ErrorCode
from cluster.sasl.mechanisms import ServerExchange

EXCHANGES_MAX: Final = 1024
EXCHANGES_OF_HOST_MAX: Final = 64
"""More than a host with many clients begins at once; an attacker tries no more passwords than these at a time."""
LASTS_S: Final = 10.0
"""From its first message to its last one."""


class SaslExchange(Struct):
    """One exchange, of a host at a listener, and until when it lasts."""

    of: ServerExchange
    listener: str
    host: str
    ends_at: float


class Exchanges:
    """Holds the exchanges between two messages, by a random id, and counts all that are being worked on.

    `now`: seconds on a clock that never goes back.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._waiting: dict[str, SaslExchange] = {}
        """The oldest first."""
        self._busy: Counter[str] = Counter()
        """Those whose message is being handled, by host."""

    def __len__(self) -> int:
        return len(self._waiting) + self._busy.total()

    @contextmanager
    def handling(self, exchange: SaslExchange) -> Iterator[None]:
        """Count an exchange while its message is handled.

        Where there are too many, those that wait longest end, first of its host: their clients may have gone, or never
        meant to continue. Raises ApiError(THROTTLING_QUOTA_EXCEEDED) if too many are being handled.
        """
        self._end_old()
        waiting = [exchange_id for exchange_id, one in self._waiting.items() if one.host == exchange.host]
        of_host = self._busy[exchange.host] + len(waiting)
        if of_host >= EXCHANGES_OF_HOST_MAX:
            self._make_room(waiting, "this host", EXCHANGES_OF_HOST_MAX)
        elif len(self) >= EXCHANGES_MAX:
            self._make_room(list(self._waiting), "all", EXCHANGES_MAX)
        self._busy[exchange.host] += 1
        try:
            yield
        finally:
            self._busy[exchange.host] -= 1
            if not self._busy[exchange.host]:
                del self._busy[exchange.host]

    def begin(self, of: ServerExchange, listener: str, host: str) -> SaslExchange:
        """Make an exchange; it is held only once its first message has been handled."""
        return SaslExchange(of, listener, host, self._now() + LASTS_S)

    def keep(self, exchange: SaslExchange) -> str:
        """Hold an exchange until its next message, and return the id that this names."""
        exchange_id = secrets.token_urlsafe(16)
        self._waiting[exchange_id] = exchange
        return exchange_id

    def take(self, exchange_id: str, listener: str) -> SaslExchange:
        """Take out the exchange of this id. Raises ApiError(ILLEGAL_SASL_STATE) if there is none."""
        self._end_old()
        exchange = self._waiting.pop(exchange_id, None)
        if exchange is None or exchange.listener != listener:
            raise ApiError(
                ErrorCode.ILLEGAL_SASL_STATE,
                f"no such exchange is under way at this process: it lasts {LASTS_S:g} s at most; begin another one",
                field="exchange_id",
                value=exchange_id[:40],
            )
        return exchange

    def _make_room(self, waiting: list[str], whose: str, limit: int) -> None:
        if not waiting:
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{limit} authentications of {whose} are under way; try again"
            )
        del self._waiting[waiting[0]]

    def _end_old(self) -> None:
        """End those that have lasted for too long."""
        now = self._now()
        while self._waiting and next(iter(self._waiting.values())).ends_at <= now:
            del self._waiting[next(iter(self._waiting))]
