"""The open connections of a process's Kafka listeners: how many may be open, and which is closed for a new one.

A stranger may open connections as fast as he likes, so nobody is refused because others came first: the connection that
has been idle for longest gives its place to the new one. A part of the places is for the hosts of registered brokers,
who have to reach the controller, and an address may have half of the rest at most. Every step takes the same time,
however many connections there are. Source: Kafka ConnectionQuotas and its protected listener, KIP-402.

A connection that has sent no request goes before one that has, yet not at once: otherwise who holds all places with
answered connections and opens further ones without end would take the place of each new client before its first byte.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Set
from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from typing import Final

from msgspec import Struct

_RESERVE: Final = 4
"""A quarter of the places is for the hosts of brokers."""
_SHARE_OF_ADDRESS: Final = 2
_FILLING: Final = 4
"""From a quarter of the places on it matters who are brokers: an address may have 3/8."""
_FIRST_REQUEST_S: Final = 2.0
"""Time for the first request, in which an older idle connection goes first, unless half of all have sent none."""


class Use(IntEnum):
    """Names what a connection is doing; those of the lowest use go first."""

    FRESH = 0
    """It has not sent one whole request: no byte, half a request, or half a TLS handshake."""
    IDLE = 1
    """It has been answered. A further request may have begun to arrive."""
    WORKING = 2
    """A request is being handled, or its answer is being sent."""


class ConnectionPlace:
    """The place of one connection. `close`: called when another connection needs it."""

    __slots__ = ("address", "close", "is_open", "opened_s", "use")

    def __init__(self, host: str, opened_s: float, close: Callable[[], None]) -> None:
        self.address, self.opened_s, self.close = address_of(host), opened_s, close
        self.use, self.is_open = Use.FRESH, False


class ConnectionBounds(Struct, frozen=True):
    """Says how many connections may be open.

    `in_all`: `max.connections`, at most what the open files of the process allow; `of_address`:
    `max.connections.per.ip`, of hosts of brokers not counted; `of_named`: `max.connections.per.ip.overrides`, which
    hold for hosts of brokers too.
    """

    in_all: int
    of_address: int
    of_named: Mapping[str, int] = {}


class _Group:
    """Connections that count together, by their use, the one that has been at it for longest first."""

    __slots__ = ("_of_use", "count")

    def __init__(self) -> None:
        self._of_use: tuple[OrderedDict[ConnectionPlace, None], ...] = tuple(OrderedDict() for _ in Use)
        self.count = 0

    def add(self, place: ConnectionPlace) -> None:
        self._of_use[place.use][place] = None
        self.count += 1

    def remove(self, place: ConnectionPlace) -> None:
        del self._of_use[place.use][place]
        self.count -= 1

    def longest_idle(self, now_s: float) -> ConnectionPlace | None:
        """The one to close for another; None if there is none."""
        fresh, idle, _ = self._of_use
        oldest = next(iter(fresh), None)
        if oldest is not None and idle and now_s - oldest.opened_s < _FIRST_REQUEST_S and 2 * len(fresh) < self.count:
            return next(iter(idle))
        return next((next(iter(places)) for places in self._of_use if places), None)

    def places(self) -> list[ConnectionPlace]:
        return [place for places in self._of_use for place in places]


class ConnectionTable:
    """The places. `brokers` are those of the hosts of registered brokers, `others` all the rest."""

    def __init__(self, bounds: ConnectionBounds) -> None:
        self._bounds = bounds
        self._of_others = bounds.in_all - bounds.in_all // _RESERVE
        self._share = max(1, self._of_others // _SHARE_OF_ADDRESS)
        self._named = {address_of(host): limit for host, limit in bounds.of_named.items()}
        self._hosts: frozenset[str] = frozenset()
        self._brokers, self._others = _Group(), _Group()
        self._of_address: dict[str, _Group] = {}

    @property
    def count(self) -> int:
        """The number of open connections."""
        return self._brokers.count + self._others.count

    @property
    def is_filling(self) -> bool:
        """Whether it may soon matter which addresses are those of brokers."""
        return self.count * _FILLING >= self._bounds.in_all

    def enter(self, place: ConnectionPlace) -> ConnectionPlace | None:
        """Give a connection a place. Returns the one that is to be closed for it: it has lost its place.

        That may be the new one itself, where no connection may be open at all.
        """
        scope = self._full_scope(place.address)
        if scope is None:
            self._add(place)
            return None
        closed = scope.longest_idle(place.opened_s)
        if closed is None:
            return place
        self.leave(closed)
        self._add(place)
        return closed

    def leave(self, place: ConnectionPlace) -> None:
        """The connection has ended, or is being closed; any number of times."""
        if not place.is_open:
            return
        place.is_open = False
        own = self._of_address[place.address]
        own.remove(place)
        self._group(place.address).remove(place)
        if not own.count:
            del self._of_address[place.address]

    def use(self, place: ConnectionPlace, use: Use) -> None:
        """A connection does something else, or begins the same again."""
        if not place.is_open:
            return
        for group in (self._of_address[place.address], self._group(place.address)):
            group.remove(place)
        place.use = use
        for group in (self._of_address[place.address], self._group(place.address)):
            group.add(place)

    def give_up(self, now_s: float) -> ConnectionPlace | None:
        """The connection to close where the process has no file left for a new one."""
        found = self._others.longest_idle(now_s) or self._brokers.longest_idle(now_s)
        if found is not None:
            self.leave(found)
        return found

    def expect_brokers_at(self, hosts: Set[str]) -> None:
        """Expect registered brokers at the addresses `hosts`. Costs something only for those that changed."""
        addresses = frozenset(map(address_of, hosts))
        moved = [
            place for a in self._hosts ^ addresses if a in self._of_address for place in self._of_address[a].places()
        ]
        for place in moved:
            self._group(place.address).remove(place)
        self._hosts = addresses
        for place in moved:
            self._group(place.address).add(place)

    def _add(self, place: ConnectionPlace) -> None:
        place.is_open = True
        self._of_address.setdefault(place.address, _Group()).add(place)
        self._group(place.address).add(place)

    def _group(self, address: str) -> _Group:
        return self._brokers if address in self._hosts else self._others

    def _full_scope(self, address: str) -> _Group | None:
        """The connections of which one has to go before a new one of this address can come; None if there is room."""
        own = self._of_address.get(address) or _Group()
        is_broker, named = address in self._hosts, self._named.get(address)
        limit = min(self._bounds.of_address, self._share) if named is None else named
        if own.count >= limit and not (is_broker and named is None):
            return own
        if not is_broker and self._others.count >= self._of_others:
            return self._others
        if self.count < self._bounds.in_all:
            return None
        # The two shares are all there is: whoever has less than his own is not the one to close something.
        return self._brokers if self._brokers.count >= self._bounds.in_all - self._of_others else self._others


def address_of(host: str) -> str:
    """Write each address in one way only: IPv4 as such where a socket of both versions writes it as IPv6, without a
    zone.
    """
    try:
        parsed = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed)
