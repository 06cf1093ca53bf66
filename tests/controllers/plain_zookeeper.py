"""ZooKeeper as any tool of an operator sees it: kazoo's own client, beside ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kazoo.client import KazooClient

from tests.timeouts import TIMEOUT_S

_SESSION_S: Final = 40
"""The longest that a server of default configuration grants."""


@contextmanager
def plain_client(connect: str, **options: Any) -> Iterator[KazooClient]:
    """Connected, with a long session. `options` are kazoo's.

    Makes the chroot if it is not there yet: kazoo warns of one that comes later.
    """
    hosts, slash, chroot = connect.partition("/")
    client = KazooClient(hosts, timeout=_SESSION_S, **options)
    try:
        client.start(TIMEOUT_S)
        client.ensure_path(f"/{chroot}")
        client.chroot = slash + chroot
        yield client
    finally:
        client.stop()
        client.close()
