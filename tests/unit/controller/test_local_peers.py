"""Who counts as a caller on this host."""

import socket

import pytest

from controller.node import is_on_this_host


@pytest.mark.rule("D-112")
@pytest.mark.parametrize(
    ("peer", "is_here"),
    [
        ("", True),
        ("unix:/run/klamm", True),
        ("ipv4:127.0.0.1:4711", True),
        ("ipv4:127.8.8.8:4711", True),
        ("ipv6:%5B::1%5D:4711", True),
        ("ipv6:[::1]:4711", True),
        ("ipv6:%5B::ffff:127.0.0.1%5D:4711", True),
        # Addresses for documentation: no interface has them.
        ("ipv4:192.0.2.1:4711", False),
        ("ipv6:%5B2001:db8::1%5D:4711", False),
        ("ipv6:%5B::ffff:192.0.2.1%5D:4711", False),
        # A socket can be bound to these, but nobody calls from them.
        ("ipv4:0.0.0.0:4711", False),
        ("ipv6:%5B::%5D:4711", False),
        ("ipv4:224.0.0.1:4711", False),
        ("ipv4:localhost:4711", False),
        ("ipv4:", False),
        ("nonsense", False),
    ],
)
def test_callers(peer: str, is_here: bool) -> None:
    assert is_on_this_host(peer) is is_here


def test_an_address_of_an_interface_is_here() -> None:
    # Sends nothing: it only chooses the interface.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host has no route to other hosts")
        own = probe.getsockname()[0]
    assert is_on_this_host(f"ipv4:{own}:4711")
