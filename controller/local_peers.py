"""Whether a caller is on this host."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import unquote


def is_on_this_host(peer: str) -> bool:
    """Whether a peer is on this host. `peer`: gRPC's name of the other end, such as `ipv4:10.0.0.7:4711`; empty for a
    request of the process itself.
    """
    kind, _, rest = unquote(peer).partition(":")
    if kind in ("", "unix"):
        return True
    host, _, _ = rest.rpartition(":")
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_loopback or _is_own(address)


def _is_own(address: IPv4Address | IPv6Address) -> bool:
    """Whether an interface of this host has it: only then a socket can be bound to it."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return not (address.is_multicast or address.is_unspecified)
