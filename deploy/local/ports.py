"""Which ports the members of a local cluster get: free ones, or fixed ones, which are counted from the first.

| port | of |
|---|---|
| first | ZooKeeper |
| first + n | broker n: with 9091, broker 1 has Kafka's port 9092 |
| first + 100 + n | the nth controller |
| + 200 | metrics of either |
| + 400 | control requests to either |
| + 600 | Kafka's requests to a controller, in a cluster of Kafka's brokers |
| + 800 | users with passwords, at either, if such a cluster is secured |
"""

import itertools
from collections.abc import Iterable
from typing import Final, NamedTuple

from cluster.process.local_cluster import BROKER
from deploy.local.processes import choose_free_ports

MAX_MEMBERS: Final = 100
"""Brokers, and as many controllers."""
_METRICS, _CONTROL, _KAFKA, _SASL = (number * MAX_MEMBERS for number in (2, 4, 6, 8))
LAST_FIRST_PORT: Final = 65_535 - _SASL - 2 * MAX_MEMBERS


class Ports(NamedTuple):
    """Of one member, for clients, metrics, control requests, Kafka's requests and users with passwords; `Member` names
    its own.
    """

    client: int
    metrics: int
    control: int
    kafka: int
    sasl: int


def ports_of_members(first: int, role: str, numbers: Iterable[int], taken: Iterable[int]) -> list[Ports]:
    """Choose ports for the members of these numbers, from 1 on.

    `first` 0: free ports but for those `taken`. Raises StartupError if there are too few.
    """
    if first:
        base = first + (0 if role == BROKER else MAX_MEMBERS)
        steps = (0, _METRICS, _CONTROL, _KAFKA, _SASL)
        return [Ports(*(base + n + step for step in steps)) for n in numbers]
    wanted = len(list(numbers))
    chosen = iter(choose_free_ports(wanted * len(Ports._fields), taken))
    return [Ports(*itertools.islice(chosen, len(Ports._fields))) for _ in range(wanted)]
