"""The identity of a caller: the principal for rights, the node that its certificate names, and the host it calls from.

A node's certificate has one URI, `klamm://controller/1001` or `klamm://broker/1`; a client's has none. Source: Kafka
KafkaPrincipal and RequestContext, which know no nodes.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from cluster.model.errors import ConfigError
from cluster.security.principals import ANONYMOUS, Principal

NODE_SCHEME: Final = "klamm://"
_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")


class NodeRole(StrEnum):
    """What a node of the cluster is, as its certificate's URI says."""

    CONTROLLER = "controller"
    BROKER = "broker"


class NodeName(Struct, frozen=True):
    """A node of the cluster: its role and its id."""

    role: NodeRole
    id: int

    def __str__(self) -> str:
        return f"{NODE_SCHEME}{self.role}/{self.id}"


class Identity(Struct, frozen=True):
    """Who a caller is. `host`: the address it calls from, as text without port; empty if there is none.

    `node`: the node whose certificate it showed; None for clients. Only verified data are in here: a caller at a
    plaintext listener is ANONYMOUS whatever it says.
    """

    principal: Principal = ANONYMOUS
    host: str = ""
    node: NodeName | None = None


def node_named_by(uris: Iterable[str]) -> NodeName | None:
    """The node that a certificate's URIs name; URIs of other schemes are left aside. None if none names a node.

    Raises ConfigError for two that name nodes, or one that is malformed: such a certificate is no identity at all.
    """
    named = [uri for uri in uris if uri.startswith(NODE_SCHEME)]
    if not named:
        return None
    if len(named) > 1:
        raise ConfigError([f"certificate: has {len(named)} URIs of nodes, {', '.join(named)}: exactly one is allowed"])
    role, _, number = named[0].removeprefix(NODE_SCHEME).partition("/")
    # One URI for each node: an authority that compares texts must not issue 01 to another one than 1.
    if role not in list(NodeRole) or not _ID.fullmatch(number) or int(number) > 2**31 - 1:
        raise ConfigError([f"certificate: its URI {named[0]!r} is not klamm://controller/ID or klamm://broker/ID"])
    return NodeName(NodeRole(role), int(number))
