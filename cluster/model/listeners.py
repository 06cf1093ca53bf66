"""The listeners of a process: one for clients and replication, one for control requests, and perhaps one for clients
that reach the cluster by other addresses, as those outside of a network of containers.

The second is the control plane of Kafka's KIP-291, so that clients can neither delay nor send control requests. A Kafka
broker without a control plane, or an agent of klamm 0.2, has only the first, which then answers both (LS-3).
"""

import ipaddress
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from cluster.model.broker import DEFAULT_LISTENER, Endpoint

DEFAULT_CONTROL_LISTENER: Final = "CONTROL"
EXTERNAL_LISTENER: Final = "EXTERNAL"


class ListenerNames(Struct, frozen=True):
    """`client`: the name in `inter.broker.listener.name`; `control`: the name in `control.plane.listener.name`."""

    client: str = DEFAULT_LISTENER
    control: str = DEFAULT_CONTROL_LISTENER

    def client_endpoint(self, endpoints: Iterable[Endpoint]) -> Endpoint | None:
        """Find where a process answers clients and followers; None if it does not offer that listener."""
        return next((e for e in endpoints if e.listener == self.client), None)

    def control_endpoint(self, endpoints: Iterable[Endpoint]) -> Endpoint | None:
        """Find where a process answers control requests: without a control listener, where it answers clients
        (RQ-30).
        """
        endpoints = tuple(endpoints)
        found = next((e for e in endpoints if e.listener == self.control), None)
        return self.client_endpoint(endpoints) if found is None else found


def needed_listeners(endpoints: Iterable[Endpoint]) -> tuple[str, ...]:
    """The names that all brokers need to share; an external listener may be added to one broker after the other."""
    return tuple(sorted(e.listener for e in endpoints if e.listener != EXTERNAL_LISTENER))


def has_one_address(endpoints: Iterable[Endpoint]) -> bool:
    """Whether clients and controllers must share a port, as with klamm 0.2, which may register it under two names."""
    return len({endpoint.address for endpoint in endpoints}) <= 1


def is_loopback(host: str) -> bool:
    """Whether only this host reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
