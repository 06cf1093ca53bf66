"""Chooses the ACL of a znode, which depends on its path only, and compares it with the one that it has.

Pure, so that every client of a cluster sets the same ACL. Source: Kafka ZkData.defaultAcls.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

SECRET_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""The paths of znodes that hold secrets, as their children do: only the cluster itself may read them."""
CONSUMERS: Final = "/consumers"
"""The path below which consumers of Kafka before 2.0 created their znodes, each under its own identity. Kafka leaves it
open for them; klamm creates it with an owner, as it has no such consumers, and whoever may create znodes can fill the
disk of ZooKeeper.
"""


class Access(Enum):
    OPEN = "open"
    """All permissions for everyone."""
    CREATOR_AND_READERS = "creator_and_readers"
    """All permissions for the identities of the creator's session; read for everyone."""
    CREATOR = "creator"
    """All permissions for the identities of the creator's session, none for others."""


class AclEntry(Struct, frozen=True):
    """Grants `permissions`, the sum of ZooKeeper's bits, to one identity of a scheme."""

    permissions: int
    scheme: str
    identity: str

    @property
    def is_for_everyone(self) -> bool:
        return self.scheme == "world"


class AccessList(Struct, frozen=True):
    """The ACL that a znode has. `version`: the number of its changes, by which a further one is conditional."""

    entries: tuple[AclEntry, ...]
    version: int


READ: Final = 1
ALL: Final = 31
_EVERYONE: Final = ("world", "anyone")
# The server replaces it with the identities of the session.
_CREATOR: Final = ("auth", "")
ACCESS_LISTS: Final[Mapping[Access, tuple[AclEntry, ...]]] = {
    Access.OPEN: (AclEntry(ALL, *_EVERYONE),),
    Access.CREATOR_AND_READERS: (AclEntry(ALL, *_CREATOR), AclEntry(READ, *_EVERYONE)),
    Access.CREATOR: (AclEntry(ALL, *_CREATOR),),
}


def access_of(path: str, *, sets_acl: bool) -> Access:
    """Choose the ACL for a new znode; `path` is without the chroot.

    `sets_acl`: `zookeeper.set.acl`. It requires an authenticated session, whose identity is the creator.
    """
    if not sets_acl:
        return Access.OPEN
    is_secret = any(path == secret or path.startswith(f"{secret}/") for secret in SECRET_PATHS)
    return Access.CREATOR if is_secret else Access.CREATOR_AND_READERS


def has_access(found: AccessList, wanted: Access) -> bool:
    """Whether a znode has this ACL, whoever owns it: an ACL with an owner may have several, as one for each of the
    identities of a session.
    """
    everyone = sum(entry.permissions for entry in found.entries if entry.is_for_everyone)
    is_owned = any(entry.permissions == ALL and not entry.is_for_everyone for entry in found.entries)
    match wanted:
        case Access.OPEN:
            return everyone == ALL
        case Access.CREATOR_AND_READERS:
            return is_owned and everyone in (0, READ)
        case Access.CREATOR:
            return is_owned and everyone == 0


def is_open(found: AccessList) -> bool:
    """Whether everyone may do more with a znode than read it."""
    return any(entry.is_for_everyone and entry.permissions & ~READ for entry in found.entries)
