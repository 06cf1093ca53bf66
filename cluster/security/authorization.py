"""Authorises one request by the table of rights: as a whole, or by the items that name resources."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from cluster.security.acls import CLUSTER_NAME, Authorizer, Operation, ResourceType
from cluster.security.identities import Identity
from cluster.security.operations import FROM_FOLLOWER, Requirement


class Resource(NamedTuple):
    """What something is done to. It reads as in the lines of Kafka's authorizer."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type}:LITERAL:{self.name}"


CLUSTER: Final = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


class FixedRules(Struct, frozen=True):
    """Holds rules that nobody changes, as a process without access control lists has them."""

    authorizer: Authorizer
    problems: Mapping[str, tuple[str, ...]] = {}


class CallerRights(Struct, frozen=True):
    """Who asks, and the rules that hold at this moment."""

    identity: Identity
    authorizer: Authorizer

    def may(self, operation: Operation, resource: Resource) -> bool:
        """Whether the rules allow it."""
        return self.authorizer.allows(self.identity.principal, self.identity.host, operation, *resource)

    def may_somewhere(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the rules allow it on some resource of the type."""
        return self.authorizer.allows_somewhere(self.identity.principal, self.identity.host, operation, resource_type)

    def may_send(self, requirement: Requirement, request: Any) -> bool:
        """Whether it may send what nodes send to each other.

        A certificate that names a node speaks for that node alone, whatever other rights its principal has, because all
        nodes of a cluster may share one principal. Others need ClusterAction, as Kafka's brokers do.
        """
        node = self.identity.node
        if node is None:
            return self.may(Operation.CLUSTER_ACTION, CLUSTER)
        own_id = not requirement.sender_id or getattr(request, requirement.sender_id) == node.id
        return node.role is requirement.sender and own_id


class NamedResource(NamedTuple):
    """The resource of an item. `is_named`: whether the item has the name of it, and not an id by which the caller does
    not know the name.
    """

    resource: Resource
    is_named: bool = True


class Authorization(Struct, frozen=True):
    """What the rights of a caller say of a request. `is_refused`: it is refused as a whole.

    `requirement`: what was needed, which for a follower differs from what its request needs of clients.
    `items`: those that are to be authorised one by one. `filters`: whether the response may show what the caller may
    not see.
    """

    requirement: Requirement
    is_refused: bool = False
    items: Sequence[Any] = ()
    filters: bool = False


def authorize(requirement: Requirement, request: Any, caller: CallerRights) -> Authorization:
    """Authorise a request, but for the items that name resources of their own."""
    if requirement.follower_id and getattr(request, requirement.follower_id) >= 0:
        requirement = FROM_FOLLOWER
    if requirement.operation is None:
        return Authorization(requirement)
    listed, _, _ = requirement.items.partition(".")
    items = getattr(request, listed) if listed else None
    if requirement.shown and items is None:
        return Authorization(requirement, filters=True)
    if requirement.sender is not None:
        return Authorization(requirement, is_refused=not caller.may_send(requirement, request))
    if items is None:
        allowed = caller.may(requirement.operation, CLUSTER) or (
            requirement.somewhere is not None and caller.may_somewhere(*requirement.somewhere)
        )
        return Authorization(requirement, is_refused=not allowed)
    is_enough = requirement.on_cluster and caller.may(requirement.operation, CLUSTER)
    return Authorization(requirement, items=() if is_enough else items)


def resource_of(requirement: Requirement, item: Any, topic_of: Callable[[Any], str | None]) -> NamedResource | None:
    """The resource that an item names. `topic_of`: the name of the topic with an id; None for an id that nobody has."""
    kind = requirement.resource_type
    if requirement.types:
        kind = requirement.type_of(getattr(item, requirement.types))
    if kind is ResourceType.CLUSTER:
        return NamedResource(CLUSTER)
    _, _, field = requirement.items.partition(".")
    name = getattr(item, field) if field else item
    if name is not None:
        return NamedResource(Resource(kind, name))
    found = topic_of(item.topic_id)
    return None if found is None else NamedResource(Resource(kind, found), is_named=False)


def may_be_shown(requirement: Requirement, item: Any, caller: CallerRights) -> bool:
    """Whether an item of a response may be shown; one without a name is of no resource."""
    _, _, field = requirement.shown.partition(".")
    name = getattr(item, field)
    assert requirement.operation is not None, "what needs no right is not filtered"
    return not name or caller.may(requirement.operation, Resource(requirement.resource_type, name))
