"""Budgets that kinds of calls share: each kind has a reserve that lower kinds cannot take.

What a kind and all lower ones use together is limited, and the limit rises with the kind; so a higher kind may use what
lower ones leave, but not the other way round. Source: the Russian dolls model of bandwidth reservation (RFC 4127).
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
"""The share of a budget that a kind and all lower ones may use together."""
RESERVES: Final = 8
"""Each kind's reserve is at least this part of a budget."""
_SHARE_OF_CONNECTION: Final = 4
_SHARE_OF_ADDRESS: Final = 2


class Peer(NamedTuple):
    """The other end of a connection: `connection` is gRPC's name of it, `address` the same without the port."""

    connection: str
    address: str

    @classmethod
    def parse(cls, name: str) -> "Peer":
        """Parse gRPC's name, e.g. `ipv4:127.0.0.1:4711` or `ipv6:%5B::1%5D:4711`."""
        return cls(name, name.rpartition(":")[0])


class Bound(Enum):
    """The part of a budget that is used up."""

    KIND = "all calls of this kind"
    CONNECTION = "one connection"
    ADDRESS = "one address"


class Budget:
    """Amounts in use, by kind, connection and address. An address may use half, a connection a quarter of the share of
    a kind, but at least `smallest`: the largest amount of one call.

    Control calls are limited by the whole budget only, not by connection and address.
    """

    def __init__(self, total: int, *, smallest: int = 1) -> None:
        self.total = total
        self._limits = [total * EIGHTHS[kind] // 8 for kind in CallKind]
        self._of_connection = [max(smallest, limit // _SHARE_OF_CONNECTION) for limit in self._limits]
        self._of_address = [max(smallest, limit // _SHARE_OF_ADDRESS) for limit in self._limits]
        self._used = [0] * len(CallKind)
        self._held: Counter[tuple[CallKind, str]] = Counter()
        """By kind, and connection or address: gRPC's names of the two differ."""

    @property
    def used(self) -> int:
        return sum(self._used)

    def used_by(self, kind: CallKind) -> int:
        return self._used[kind]

    def limit(self, kind: CallKind, bound: Bound = Bound.KIND) -> int:
        """The most that `kind` may use; for all calls of the kind, together with lower kinds."""
        match bound:
            case Bound.KIND:
                return self._limits[kind]
            case Bound.CONNECTION:
                return self._of_connection[kind]
            case Bound.ADDRESS:
                return self._of_address[kind]

    def obstacle(self, kind: CallKind, peer: Peer, amount: int) -> Bound | None:
        """Which bound leaves no room for `amount` more; None if there is room."""
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
        """Use `amount` more. It is not checked: `obstacle` was asked, or the amount is there already."""
        self._used[kind] += amount
        self._held[kind, peer.connection] += amount
        self._held[kind, peer.address] += amount

    def give_back(self, kind: CallKind, peer: Peer, amount: int) -> None:
        self._used[kind] -= amount
        for holder in peer:
            self._held[kind, holder] -= amount
            assert self._held[kind, holder] >= 0, f"{holder} gave back more than it took"
            if not self._held[kind, holder]:
                del self._held[kind, holder]
