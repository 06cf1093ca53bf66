"""The bound of every field of every request, and the check of a request against them.

Derived from the request types, as the codec is: a field without a bound fails when the check is built, on import, so a
new request is covered by itself. A whole list is checked by its distinct values, so that a LeaderAndIsr of 100,000
partitions costs little more than reading its fields. BD-1
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from cluster.model import bounds
from cluster.model.bounds import Bound, Count
from cluster.model.errors import ErrorCode
from cluster.requests import configs, data
from cluster.rpc.codec import NOT_SENT

_BOUND_OF_TYPE: Final[dict[str, Bound]] = {
    "BrokerId": bounds.BROKER_ID,
    "ControllerId": bounds.BROKER_ID_OR_NONE,
    "ControllerEpoch": bounds.CONTROLLER_EPOCH,
    "LeaderEpoch": bounds.LEADER_EPOCH_OR_NONE,
    "PartitionEpoch": bounds.PARTITION_EPOCH,
    "BrokerEpoch": bounds.BROKER_EPOCH,
    "Offset": bounds.INT64,
    "TopicId": bounds.TOPIC_ID,
}
"""By the distinct types of ids and epochs; the others by the name of the field."""
_BOUND_OF_FIELD: Final[dict[str, Bound]] = {
    "topic": bounds.TOPIC_NAME,
    "topic_name": bounds.TOPIC_NAME,
    "partition_index": bounds.PARTITION,
    "partition": bounds.INT32,
    "host": bounds.HOST,
    "listener": bounds.LISTENER,
    "security_protocol": bounds.LISTENER,
    "port": bounds.PORT,
    "rack": bounds.TEXT,
    "event": bounds.EVENT_NAME,
    "id": bounds.EVENT_ID,
    "leader_recovery_state": bounds.RECOVERY_STATE,
    "records": bounds.BYTES,
    "cursor": bounds.CURSOR,
    "acks": bounds.INT32,
    "isolation_level": bounds.INT8_CODE,
    "election_type": bounds.INT32,
    "resource_type": bounds.INT32,
    "config_operation": bounds.INT32,
    "upgrade_type": bounds.INT32,
    "timeout_ms": bounds.INT32,
    "max_wait_ms": bounds.INT32,
    "min_bytes": bounds.INT32,
    "max_bytes": bounds.INT32,
    "partition_max_bytes": bounds.INT32,
    "timestamp": bounds.INT64,
    "max_version_level": bounds.INT32,
    "num_partitions": bounds.NEW_PARTITIONS,
    "count": bounds.NEW_PARTITIONS,
    "size": bounds.OFFSET,
    "found_by": bounds.TEXT,
    "replication_factor": bounds.REPLICATION_FACTOR,
    # Names that administrators give: unknown ones are answered by the handler.
    "topics": bounds.TEXT,
    "name": bounds.TEXT,
    "resource_name": bounds.TEXT,
    "configuration_keys": bounds.TEXT,
    "configs": bounds.TEXT,
    "value": bounds.TEXT,
    "feature": bounds.TEXT,
    "partitions": bounds.INT32,
    "partition_indexes": bounds.INT32,
}
_EXCEPTIONS: Final[dict[tuple[str, str], Bound]] = {
    # No leader, or none because of a deletion.
    ("LeaderAndIsrPartitionState", "leader"): bounds.BROKER_ID_OR_NONE,
    ("LeaderAndIsrPartitionState", "leader_epoch"): bounds.LEADER_EPOCH,
    ("UpdateMetadataPartitionState", "leader"): bounds.LEADER,
    # Not brokers.
    ("FetchRequest", "replica_id"): bounds.FETCHER_ID,
    ("ListOffsetsRequest", "replica_id"): bounds.FETCHER_ID,
    ("OffsetsForLeaderEpochRequest", "replica_id"): bounds.FETCHER_ID,
    # Given by administrators, and answered by the handler in Kafka's words.
    ("ElectLeadersTopic", "topic"): bounds.TEXT,
    ("NewTopic", "assignments"): bounds.INT32,
    ("NewPartitionsAssignment", "broker_ids"): bounds.INT32,
    ("ReassignablePartition", "partition_index"): bounds.INT32,
    ("ReassignablePartition", "replicas"): bounds.INT32,
    ("PlanControlledShutdownRequest", "broker_id"): bounds.INT32,
    ("ShutdownRequest", "broker_id"): bounds.INT32,
    ("AcknowledgeDamageRequest", "broker_id"): bounds.INT32,
    # A topic with an id needs no name; all topics have none.
    ("AlterPartitionItem", "topic_name"): bounds.TOPIC_NAME_OR_NONE,
    ("ReadStateChangesRequest", "topic"): bounds.TOPIC_NAME_OR_NONE,
}
_COUNT_OF_FIELD: Final[dict[tuple[str, str], Count]] = {
    (struct, name): bounds.REPLICAS
    for struct, names in {
        "LeaderAndIsrPartitionState": ("isr", "replicas", "adding_replicas", "removing_replicas"),
        "UpdateMetadataPartitionState": ("isr", "replicas", "offline_replicas"),
        "AlterPartitionItem": ("new_isr",),
    }.items()
    for name in names
}


class Violation(NamedTuple):
    """A field whose value is beyond its bound; `field` is its path in the request, `value` is shortened."""

    field: str
    value: str
    code: ErrorCode
    why: str

    @property
    def message(self) -> str:
        return f"{self.field}: {self.why}"


class _Plain(Struct, frozen=True):
    """A field of numbers, texts or bytes. `flat`: the numbers or texts in a value; `is_hashable`: so are its values."""

    name: str
    get: Callable[[Any], Any]
    bound: Bound
    count: Count | None
    flat: Callable[[Any], Iterable[Any]]
    is_hashable: bool

    def accepts_all(self, structs: Sequence[Any]) -> bool:
        """Whether the field is within its bound in each struct."""
        values = {*map(self.get, structs)} if self.is_hashable else list(map(self.get, structs))
        if self.count is None:
            values.discard(None)  # type: ignore[union-attr]
            return self.bound.accepts_all(values)
        return all(value is None or self._accepts(value) for value in values)

    def violation(self, struct: Any, where: str) -> Violation | None:
        value = self.get(struct)
        if value is None or self._accepts(value):
            return None
        bound: Bound | Count = self.bound
        code = self.bound.code
        if self.count is not None and not self.count.accepts(value):
            bound, code = self.count, ErrorCode.INVALID_REQUEST
        else:
            value = next(single for single in self.flat(value) if not self.bound.accepts(single))
        return Violation(f"{where}{self.name}", bounds.shortened(value), code, bounds.why_not(bound, value))

    def _accepts(self, value: Any) -> bool:
        if self.count is not None and not self.count.accepts(value):
            return False
        return self.bound.accepts_all([*self.flat(value)])


class Checked(Struct, frozen=True):
    """The check of a request type, or of a struct in one. `nested`: its lists of structs, each with its check."""

    plain: tuple[_Plain, ...]
    nested: tuple["_Nested", ...]

    def accepts_all(self, structs: Sequence[Any]) -> bool:
        """Whether everything in these structs is within its bounds."""
        return all(field.accepts_all(structs) for field in self.plain) and all(
            field.accepts_all(structs) for field in self.nested
        )

    def own_violation(self, struct: Any, where: str) -> Violation | None:
        """The first field beyond its bounds, those of nested structs not included."""
        fields: tuple[_Plain | _Nested, ...] = (*self.plain, *self.nested)
        found = (field.violation(struct, where) for field in fields)
        return next((violation for violation in found if violation is not None), None)

    def violation(self, struct: Any, where: str = "") -> Violation | None:
        """The first field beyond its bounds, anywhere in the struct; None if there is none."""
        own = self.own_violation(struct, where)
        if own is not None or not self.nested:
            return own
        below = (
            field.check.violation(item, f"{where}{field.name}.")
            for field in self.nested
            for item in field.items(struct)
        )
        return next((violation for violation in below if violation is not None), None)


class _Nested(Struct, frozen=True):
    """A field with a tuple of structs; None counts as empty."""

    name: str
    struct: type[Struct]
    check: Checked
    count: Count

    def items(self, struct: Any) -> Sequence[Any]:
        items: Sequence[Any] | None = getattr(struct, self.name)
        return () if items is None else items

    def accepts_all(self, structs: Sequence[Any]) -> bool:
        if not all(self.count.accepts(self.items(struct)) for struct in structs):
            return False
        items = [item for struct in structs for item in self.items(struct)]
        return not items or self.check.accepts_all(items)

    def violation(self, struct: Any, where: str) -> Violation | None:
        """Only if there are too many items."""
        count = len(self.items(struct))
        if count <= self.count.maximum:
            return None
        why = f"{count} items: the {self.count.what} {self.count.rule}"
        return Violation(f"{where}{self.name}", f"{count} items", ErrorCode.INVALID_REQUEST, why)


_CHECKED_BY_ITS_READER: Final = "state_log_head"
"""A head that is malformed is ignored, and never fails its request (`state_log.witnessed_heads`)."""
_OF_CLIENTS: Final = frozenset({configs.__name__, data.__name__})


@cache
def check_of(struct: Any) -> Checked:
    """The check of a request type or of a struct in one. Fails where a field has no bound."""
    plain: list[_Plain] = []
    nested: list[_Nested] = []
    for name, annotation in get_type_hints(struct).items():
        if (struct.__name__, name) in NOT_SENT or name == _CHECKED_BY_ITS_READER:
            continue
        inner, is_list = _inner(annotation)
        if isinstance(inner, type) and issubclass(inner, Struct):
            assert is_list, f"{struct.__name__}.{name}: requests nest lists of structs only"
            nested.append(_Nested(name, inner, check_of(inner), _items(struct)))
        elif inner is not bool:
            plain.append(_plain(struct, name, annotation))
    return Checked(tuple(plain), tuple(nested))


def _plain(struct: type[Struct], name: str, annotation: Any) -> _Plain:
    inner, is_list = _inner(annotation)
    bound = (
        _EXCEPTIONS.get((struct.__name__, name))
        or _BOUND_OF_TYPE.get(getattr(inner, "__name__", ""))
        or _BOUND_OF_FIELD.get(name)
    )
    assert bound is not None, f"{struct.__name__}.{name} has no bound: add one in {__name__}"
    get = attrgetter(name)
    count = _COUNT_OF_FIELD.get((struct.__name__, name), _items(struct)) if is_list else None
    if get_origin(inner) is dict:
        return _Plain(name, get, bound, bounds.ITEMS, _keys_and_values, False)
    if inner is bytes:
        return _Plain(name, lambda value: len(get(value)), bound, None, _itself, True)
    return _Plain(name, get, bound, count, tuple if is_list else _itself, True)


def _items(struct: type[Struct]) -> Count:
    """How many items a list may have; one of a client no more than are answered within a fraction of a second."""
    return bounds.CLIENT_ITEMS if struct.__module__ in _OF_CLIENTS else bounds.ITEMS


def _inner(annotation: Any) -> tuple[Any, bool]:
    """The type of a field or of its items, and whether it is a tuple."""
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (a for a in get_args(annotation) if a is not type(None))
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0], True
    return annotation, False


def _itself(value: Any) -> Iterable[Any]:
    return (value,)


def _keys_and_values(value: dict[Any, Any]) -> Iterable[Any]:
    for key, item in value.items():
        yield key
        yield from item if isinstance(item, tuple) else (item,)
