"""Divides a budget among kinds of calls: each kind has a reserve that lower kinds cannot take.

The amount that a kind and all lower kinds use together is limited, and the limit rises with the kind. So a higher kind
may use what lower ones leave, but not the other way round. Source: the Russian dolls model of bandwidth reservation
(RFC 4127).
"""

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from cluster.rpc.call_kinds import CallKind

EIGHTHS: Final[Mapping[CallKind, int]] = {
    CallKind.CONTROL: 8,
    CallKind.REPLICATION: 7,
    CallKind.ADMIN: 6,
    CallKind.PRODUCE: 5,
    CallKind.FETCH: 3,
    CallKind.WATCH: 1,
}
"""The share of a budget, in eighths, that a kind and all lower kinds may use together."""
RESERVES: Final = 8
"""Each kind's reserve is at least this fraction of a budget: 1 / RESERVES."""
_SHARE_OF_CONNECTION: Final = 4
_SHARE_OF_ADDRESS: Final = 2


class Peer(NamedTuple):
    """Names the other end of a connection: `connection` is gRPC's name of it, `address` the same without the port."""

    connection: str
    address: str

    @classmethod
    def parse(cls, name: str) -> "Peer":
        """Parse gRPC's name, e.g. `ipv4:127.0.0.1:4711` or `ipv6:%5B::1%5D:4711`."""
        return cls(name, name.rpartition(":")[0])


class Bound(Enum):
    """Says which part of a budget is used up."""

    KIND = "all calls of this kind"
    CONNECTION = "one connection"
    ADDRESS = "one address"


class Budget:
    """Counts the amounts in use, by kind, connection and address.

    An address may use half of a kind's share and a connection a quarter, but both at least `smallest`, the largest
    amount of one call. Control calls are limited by the whole budget only, not by connection and address: a node sends
    all of its own over one connection.
    """

    def __init__(self, total: int, *, smallest: int = 1) -> None:
        self.total = total
        self._limits = [total * EIGHTHS[kind] // 8 for kind in CallKind]
        self._of_connection = [max(smallest, limit // _SHARE_OF_CONNECTION) for limit in self._limits]
        self._of_address = [max(smallest, limit // _SHARE_OF_ADDRESS) for limit in self._limits]
        self._used = [0] * len(CallKind)
        self._held: Counter[tuple[CallKind, str]] = Counter()
        """Keyed by kind, and connection or address: gRPC's names of the two differ."""

    @property
    def used(self) -> int:
        """The amount that all kinds use."""
        return sum(self._used)

    def used_by(self, kind: CallKind) -> int:
        """The amount that the kind uses, without lower kinds."""
        return self._used[kind]

    def limit(self, kind: CallKind, bound: Bound = Bound.KIND) -> int:
        """The largest amount that `kind` may use; for `Bound.KIND`, all its calls together with lower kinds."""
        match bound:
            case Bound.KIND:
                return self._limits[kind]
            case Bound.CONNECTION:
                return self._of_connection[kind]
            case Bound.ADDRESS:
                return self._of_address[kind]

    def obstacle(self, kind: CallKind, peer: Peer, amount: int) -> Bound | None:
        """Find the bound that leaves no room for `amount` more; None if there is room."""
        below = 0
        for lower in reversed(CallKind):
            below += self._used[lower]
            if lower <= kind and below + amount > self._limits[lower]:
                return Bound.KIND
        if kind is CallKind.CONTROL:
            return None
        if self._held[kind, peer.connection] + amount > self._of_connection[kind]:
            return Bound.CONNECTION
        if self._held[kind, peer.address] + amount > self._of_address[kind]:
            return Bound.ADDRESS
        return None

    def take(self, kind: CallKind, peer: Peer, amount: int) -> None:
        """Use `amount` more, without a check: `obstacle` was asked, or the bytes are in memory already."""
        self._used[kind] += amount
        self._held[kind, peer.connection] += amount
        self._held[kind, peer.address] += amount

    def give_back(self, kind: CallKind, peer: Peer, amount: int) -> None:
        """Use `amount` less."""
        self._used[kind] -= amount
        for holder in peer:
            self._held[kind, holder] -= amount
            assert self._held[kind, holder] >= 0, f"{holder} gave back more than it took"
            if not self._held[kind, holder]:
                del self._held[kind, holder]
