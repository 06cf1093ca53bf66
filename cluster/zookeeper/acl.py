"""Who may do what with a node of ZooKeeper, decided by its path alone.

Pure, so that every client of a cluster gives the same node the same access list. Source: Kafka ZkData.defaultAcls.
"""

from enum import Enum
from typing import Final

SECRET_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Secrets stand in these nodes and below them: only the cluster itself may read them."""
ALWAYS_OPEN: Final = "/consumers"
"""Consumers of old times keep their nodes below it, each under an identity of its own."""


class Access(Enum):
    OPEN = "open"
    """Everything to everyone."""
    CREATOR_AND_READERS = "creator_and_readers"
    """Everything to the identities of the creator's session; everyone may read."""
    CREATOR = "creator"
    """Everything to the identities of the creator's session, nothing to others."""


def access_of(path: str, *, sets_acl: bool) -> Access:
    """The access list with which a node is created; `path` without the chroot.

    `sets_acl` is `zookeeper.set.acl`. It needs a session with an identity, because only that can be the creator.
    """
    if not sets_acl or path == ALWAYS_OPEN:
        return Access.OPEN
    is_secret = any(path == secret or path.startswith(f"{secret}/") for secret in SECRET_PATHS)
    return Access.CREATOR if is_secret else Access.CREATOR_AND_READERS
