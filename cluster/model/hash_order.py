"""Orders broker ids as Scala's hash tables iterate over them.

Kafka's controller processes brokers, and its leaders list large ISRs, in this order. It is visible in ZooKeeper: in the
last remaining member of an ISR, and in the order of ISR members. Up to broker 4 it is the order of ids. Source: Scala
2.13 immutable.HashMap, HashSet and collection.Hashing.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from cluster.model.broker import BrokerId

_WORD: Final = 0xFFFF_FFFF
_BITS_PER_LEVEL: Final = 5


def in_hash_order(brokers: Iterable[BrokerId]) -> list[BrokerId]:
    """List every broker once in hash order, whatever the given order."""
    return _at_level(set(brokers), 0)


def _at_level(brokers: Iterable[BrokerId], shift: int) -> list[BrokerId]:
    """List a node of the trie: first the brokers alone in their slot, then the slots with several."""
    slots: dict[int, list[BrokerId]] = {}
    for broker in brokers:
        slots.setdefault(_improved_hash(broker) >> shift & (1 << _BITS_PER_LEVEL) - 1, []).append(broker)
    alone = [broker for sharing in _in_order(slots) if len(sharing) == 1 for broker in sharing]
    shared = [sharing for sharing in _in_order(slots) if len(sharing) > 1]
    return [*alone, *(broker for sharing in shared for broker in _at_level(sharing, shift + _BITS_PER_LEVEL))]


def _in_order(slots: Mapping[int, list[BrokerId]]) -> list[list[BrokerId]]:
    return [slots[slot] for slot in sorted(slots)]


def _improved_hash(broker: BrokerId) -> int:
    """Mix the bits as Scala does: a bijection on 32 bits, so that different brokers separate at some level."""
    mixed = (broker + ~(broker << 9)) & _WORD
    mixed ^= mixed >> 14
    mixed = (mixed + (mixed << 4)) & _WORD
    return mixed ^ mixed >> 10
