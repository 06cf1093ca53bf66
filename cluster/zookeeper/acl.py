"""Chooses the ACL of a znode, which depends on its path only.

Pure, so that every client of a cluster sets the same ACL. Source: Kafka ZkData.defaultAcls.
"""

from enum import Enum
from typing import Final

SECRET_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""The paths of znodes that hold secrets, as their children do: only the cluster itself may read them."""
ALWAYS_OPEN: Final = "/consumers"
"""The path below which old consumers create their znodes, each under its own identity."""


class Access(Enum):
    OPEN = "open"
    """All permissions for everyone."""
    CREATOR_AND_READERS = "creator_and_readers"
    """All permissions for the identities of the creator's session; read for everyone."""
    CREATOR = "creator"
    """All permissions for the identities of the creator's session, none for others."""


def access_of(path: str, *, sets_acl: bool) -> Access:
    """Choose the ACL for a new znode; `path` is without the chroot.

    `sets_acl`: `zookeeper.set.acl`. It requires an authenticated session, whose identity is the creator.
    """
    if not sets_acl or path == ALWAYS_OPEN:
        return Access.OPEN
    is_secret = any(path == secret or path.startswith(f"{secret}/") for secret in SECRET_PATHS)
    return Access.CREATOR if is_secret else Access.CREATOR_AND_READERS
