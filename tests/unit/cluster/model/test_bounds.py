"""The table of bounds, and that every field of every request has one."""

import re
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields

from cluster.model import bounds
from cluster.model.bounds import Number, Text, parse_number, shortened, why_not
from cluster.requests.agents import AllocateProducerIdsRequest, AlterPartitionItem, AlterPartitionRequest
from cluster.requests.control import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrTopicState, LiveLeader
from cluster.requests.data import MetadataRequest
from cluster.rpc.methods import METHOD_OF_REQUEST
from cluster.rpc.request_bounds import check_of

NOT_SENT = {("Broker", "features"), ("Broker", "has_damaged_replicas"), ("Broker", "klamm_version")}


def fields_below(struct: type[Struct]) -> set[tuple[type[Struct], str]]:
    """Every (struct, field) of a request type that is sent and not only true or false; heads of logs apart, which never
    fail a request.
    """
    found = set()
    for name, annotation in get_type_hints(struct).items():
        if (struct.__name__, name) in NOT_SENT or annotation is bool or name == "state_log_head":
            continue
        structs = [a for a in _all_of(annotation) if isinstance(a, type) and issubclass(a, Struct)]
        found |= {(struct, name)}.union(*map(fields_below, structs))
    return found


def _all_of(annotation: Any) -> list[Any]:
    return [annotation, *(inner for arg in get_args(annotation) for inner in _all_of(arg))]


@pytest.mark.rule("BD-1")
@pytest.mark.parametrize("request_type", METHOD_OF_REQUEST, ids=lambda t: t.__name__)
def test_every_field_of_every_request_has_a_bound(request_type: type[Struct]) -> None:
    for struct, name in fields_below(request_type):
        check = check_of(struct)
        names = {field.name for field in check.plain} | {field.name for field in check.nested}
        assert name in names, f"{struct.__name__}.{name}"


@pytest.mark.rule("BD-1")
def test_a_field_without_a_bound_fails_when_the_check_is_built() -> None:
    class NewRequest(Struct, frozen=True):
        something: int

    with pytest.raises(AssertionError, match=re.escape("NewRequest.something has no bound")):
        check_of(NewRequest)


def test_every_row_of_the_table_says_what_and_where_from() -> None:
    assert len(bounds.TABLE) > 30
    assert all(row.what and row.source for row in bounds.TABLE)
    assert len({row.what for row in bounds.TABLE}) == len(bounds.TABLE)
    for row in bounds.TABLE:
        if isinstance(row, Text):
            assert row.rule.startswith("must ")


@pytest.mark.rule("BD-1", "TP-1")
@given(st.text(max_size=300))
def test_a_topic_name_is_what_kafka_takes_for_one(name: str) -> None:
    expected = 1 <= len(name) <= 249 and name not in {".", ".."} and set(name) <= _LEGAL
    assert bounds.TOPIC_NAME.accepts(name) is expected


_LEGAL = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@pytest.mark.parametrize("name", ["a" * 249, "...", ".a", "-", "_", "..-"])
def test_unusual_topic_names_are_names(name: str) -> None:
    assert bounds.TOPIC_NAME.accepts(name)


@given(st.integers(-3, 5) | st.integers(2**31 - 3, 2**31 + 3))
def test_a_number_in_a_name_is_read_as_it_is_written(number: int) -> None:
    expected = number if 0 <= number < 2**31 else None
    assert parse_number(bounds.PARTITION, str(number)) == expected
    assert parse_number(bounds.PARTITION, f"0{number}") is None


@pytest.mark.parametrize("text", ["", "x", "²", "٣", "+1", " 1", "1_0", "9" * 5000])
def test_a_name_that_is_no_number_is_not_read(text: str) -> None:
    assert parse_number(bounds.PARTITION, text) is None


@pytest.mark.rule("BD-2")
@pytest.mark.parametrize(
    "value", ["x" * 10_000, "\n\0\ud800" * 100, 10**5000, -(10**5000), (1,) * 10_000, "é", b"x" * 99], ids=type
)
def test_a_value_in_a_message_is_short_and_on_one_line(value: object) -> None:
    text = shortened(value)
    assert len(text) <= 60
    assert text.isprintable()
    assert why_not(Number("size", 0, 9, "test"), value).startswith(text)


def state(partition: int = 0, **changes: Any) -> LeaderAndIsrPartitionState:
    values: dict[str, Any] = dict.fromkeys((f.name for f in fields(LeaderAndIsrPartitionState) if f.required), 1)
    values |= {"partition_index": partition, "isr": (1,), "replicas": (1, 2), **changes}
    return LeaderAndIsrPartitionState(**values)


numbers = st.integers(-3, 3) | st.integers(2**31 - 2, 2**31 + 2)
ids = st.lists(numbers, max_size=3).map(tuple)


@pytest.mark.rule("BD-1")
@given(st.lists(st.builds(state, numbers, replicas=ids, isr=ids, leader=numbers, leader_epoch=numbers), max_size=4))
def test_a_request_is_accepted_if_each_of_its_items_is(states: list[LeaderAndIsrPartitionState]) -> None:
    check = check_of(LeaderAndIsrPartitionState)
    violations = [check.violation(each) for each in states]
    request = LeaderAndIsrRequest(1, 1, -1, (LeaderAndIsrTopicState("t", None, tuple(states)),))  # type: ignore[arg-type]
    assert check_of(LeaderAndIsrRequest).accepts_all((request,)) is (not any(violations))
    for each, violation in zip(states, violations, strict=True):
        expected = (
            0 <= each.partition_index < 2**31
            and all(len(set(ids)) == len(ids) and all(0 <= b < 2**31 for b in ids) for ids in (each.isr, each.replicas))
            and -1 <= each.leader < 2**31
            and -1 <= each.leader_epoch < 2**31
        )
        assert (violation is None) is expected


@pytest.mark.rule("BD-2")
def test_a_violation_names_the_path_of_the_field() -> None:
    topic = LeaderAndIsrTopicState("t", None, (state(-5),))
    request = LeaderAndIsrRequest(1, 1, -1, (topic,), (LiveLeader(1, "a b", 1),))  # type: ignore[arg-type]
    violation = check_of(LeaderAndIsrRequest).violation(request)
    assert violation is not None
    assert (violation.field, violation.value) == ("topic_states.partition_states.partition_index", "-5")
    assert violation.message.startswith("topic_states.partition_states.partition_index: -5: the partition number must")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (AllocateProducerIdsRequest(-1), "broker_id"),  # type: ignore[arg-type]
        (AllocateProducerIdsRequest(1, -2), "broker_epoch"),  # type: ignore[arg-type]
        (AlterPartitionRequest(1, 1, (AlterPartitionItem("", "x", 0, 0, (1,), 0),)), "partitions.topic_id"),  # type: ignore[arg-type]
    ],
)
def test_ids_and_epochs_of_brokers_are_bounded(request_: Struct, field: str) -> None:
    violation = check_of(type(request_)).violation(request_)
    assert violation is not None
    assert violation.field == field


@pytest.mark.rule("BD-1")
def test_a_client_gets_fewer_items_into_a_request_than_a_controller() -> None:
    names = tuple(str(n) for n in range(bounds.CLIENT_ITEMS.maximum + 1))
    check = check_of(MetadataRequest)
    assert check.accepts_all((MetadataRequest(names[1:]),))
    violation = check.violation(MetadataRequest(names))
    assert violation is not None
    assert "at most 50000 items" in violation.why
    states = tuple(state(n) for n in range(bounds.CLIENT_ITEMS.maximum + 1))
    topics = (LeaderAndIsrTopicState("t", None, states),)
    assert check_of(LeaderAndIsrRequest).accepts_all((LeaderAndIsrRequest(1, 1, -1, topics),))  # type: ignore[arg-type]
