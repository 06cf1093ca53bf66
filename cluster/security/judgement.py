"""Judges one request by the table of rights: whether it is refused, which of its items are, and what may be shown."""

from collections.abc import Callable, Iterator
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


class Caller(Struct, frozen=True):
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


class DeniedItem(NamedTuple):
    """The position of an item in its list, and its resource. `is_named`: whether the item has the name of it, and not
    an id by which the caller does not know the name.
    """

    position: int
    resource: Resource
    is_named: bool = True


class Judgement(Struct, frozen=True):
    """`is_refused`: the request as a whole. Otherwise `denied` has the items that are to be left out of it.

    `requirement`: what was needed, which for a follower differs from what its request needs of clients.
    `filters`: whether the response may show what the caller may not see.
    """

    requirement: Requirement
    is_refused: bool = False
    denied: tuple[DeniedItem, ...] = ()
    filters: bool = False


def judge(requirement: Requirement, request: Any, caller: Caller, topic_of: Callable[[Any], str | None]) -> Judgement:
    """Judge a request. `topic_of`: the name of the topic with an id, None if it is not known."""
    if requirement.follower_id and getattr(request, requirement.follower_id) >= 0:
        requirement = FROM_FOLLOWER
    if requirement.operation is None:
        return Judgement(requirement)
    listed, _, _ = requirement.items.partition(".")
    if requirement.shown and (not listed or getattr(request, listed) is None):
        return Judgement(requirement, filters=True)
    if requirement.sender is not None:
        return Judgement(requirement, is_refused=not caller.may_send(requirement, request))
    if not requirement.items:
        allowed = caller.may(requirement.operation, CLUSTER) or (
            requirement.somewhere is not None and caller.may_somewhere(*requirement.somewhere)
        )
        return Judgement(requirement, is_refused=not allowed)
    if requirement.on_cluster and caller.may(requirement.operation, CLUSTER):
        return Judgement(requirement)
    return Judgement(requirement, denied=tuple(_denied_items(requirement, request, caller, topic_of)))


def may_be_shown(requirement: Requirement, item: Any, caller: Caller) -> bool:
    """Whether an item of a response may be shown; one without a name is of no resource."""
    _, _, field = requirement.shown.partition(".")
    name = getattr(item, field)
    assert requirement.operation is not None, "what needs no right is not filtered"
    return not name or caller.may(requirement.operation, Resource(requirement.resource_type, name))


def _denied_items(
    requirement: Requirement, request: Any, caller: Caller, topic_of: Callable[[Any], str | None]
) -> Iterator[DeniedItem]:
    listed, _, field = requirement.items.partition(".")
    assert requirement.operation is not None, "what needs no right is not judged"
    # A request names few topics with many partitions each.
    known: dict[Resource, bool] = {}
    for position, item in enumerate(getattr(request, listed)):
        name = getattr(item, field) if field else item
        resource = _resource(requirement, item, topic_of(item.topic_id) if name is None else name)
        if resource is None:
            continue
        if resource not in known:
            known[resource] = caller.may(requirement.operation, resource)
        if not known[resource]:
            yield DeniedItem(position, resource, is_named=name is not None)


def _resource(requirement: Requirement, item: Any, name: str | None) -> Resource | None:
    """The resource that an item names; None for a topic id that nobody has."""
    kind = requirement.resource_type
    if requirement.types:
        kind = requirement.type_of(getattr(item, requirement.types))
    if kind is ResourceType.CLUSTER:
        return CLUSTER
    return None if name is None else Resource(kind, name)
