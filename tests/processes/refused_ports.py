"""Ports of this machine that refuse connections, and that no other test gets meanwhile."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager


@contextmanager
def refused_addresses(count: int) -> Iterator[list[str]]:
    """Ports of this machine at which nobody listens, and which nobody else gets meanwhile."""
    with ExitStack() as bound:
        sockets = [bound.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        yield [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


@contextmanager
def kept_refused(addresses: Sequence[str]) -> Iterator[None]:
    """Keep the ports of servers that have stopped: another test could start one there."""
    with ExitStack() as bound:
        for address in addresses:
            each = bound.enter_context(socket.socket())
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", int(address.rpartition(":")[2])))
        yield
