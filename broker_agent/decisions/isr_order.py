"""The order in which a leader lists the ISR that it proposes, and which so comes into the state node.

Kafka's leader keeps the ISR in a Scala Set. That lists up to four members as they came, and more of them by their
hashes; whoever compares state nodes with Kafka's sees it. Source: Kafka Partition.scala; Scala 2.13 immutable.Set,
HashSet and collection.Hashing.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from cluster.broker import BrokerId

LISTED_AS_THEY_CAME: Final = 4
"""Scala's largest set without hashing; taking members out of a larger one does not bring their order back."""

_WORD: Final = 0xFFFF_FFFF
_BITS_PER_LEVEL: Final = 5


def listed(members: tuple[BrokerId, ...], *, size_before: int) -> tuple[BrokerId, ...]:
    """`members` in the order in which Kafka's leader would list them, `size_before` being that of the set changed."""
    if max(size_before, len(members)) <= LISTED_AS_THEY_CAME:
        return members
    return tuple(_by_hash(members, 0))


def _by_hash(members: Iterable[BrokerId], shift: int) -> list[BrokerId]:
    """A node of the hash trie: members that are alone in their slot first, then the slots that several share."""
    slots: dict[int, list[BrokerId]] = {}
    for broker in members:
        slots.setdefault(_improved_hash(broker) >> shift & (1 << _BITS_PER_LEVEL) - 1, []).append(broker)
    alone = [broker for sharing in _in_order(slots) if len(sharing) == 1 for broker in sharing]
    shared = [sharing for sharing in _in_order(slots) if len(sharing) > 1]
    return [*alone, *(broker for sharing in shared for broker in _by_hash(sharing, shift + _BITS_PER_LEVEL))]


def _in_order(slots: Mapping[int, list[BrokerId]]) -> list[list[BrokerId]]:
    return [slots[slot] for slot in sorted(slots)]


def _improved_hash(broker: BrokerId) -> int:
    """A bijection on 32 bits, so that different brokers part at some level."""
    mixed = (broker + ~(broker << 9)) & _WORD
    mixed ^= mixed >> 14
    mixed = (mixed + (mixed << 4)) & _WORD
    return mixed ^ mixed >> 10
