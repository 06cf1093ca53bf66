"""The lives of topics and brokers, from what controllers and brokers recorded, in whatever order it arrives."""

from collections.abc import Sequence
from random import Random

import pytest
from msgspec.structs import replace

from audit.reading.topic_steps import TopicStep, topic_steps_of
from audit.records.columns import to_columns
from audit.records.findings import AuditFinding
from audit.rules.broker_registrations import broker_epoch_findings, broker_findings
from audit.rules.subject_steps import BROKER, BROKER_EPOCH, TOPIC, TOPIC_ID, steps_of
from audit.rules.topic_sequences import topic_findings, topic_id_findings
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from state_log.record import Cause, DecisionInputs, Kind, LoadedPartition, LoggedStateChange
from tests.audits.columnar_audits import table_of

_RULES_OF = {
    TOPIC: topic_findings,
    TOPIC_ID: topic_id_findings,
    BROKER: broker_findings,
    BROKER_EPOCH: broker_epoch_findings,
}
Said = tuple[str, str, int | None]
"""What a record says: kind, state, controller epoch."""


def record(number: int, kind: Kind, to_state: str | None, **fields: object) -> LoggedStateChange:
    named: dict[str, object] = {"controller_epoch": ControllerEpoch(1), "node": "controller-1", "incarnation": "1.1"}
    base = {"v": 2, "seq": number, "at_ms": number, "kind": kind, "to_state": to_state}
    return LoggedStateChange(**{**named, **base, **fields})  # type: ignore[arg-type]


def of_topic(*said: tuple[str, int] | str, topic_id: str | None = "id", topic: str = "t") -> list[LoggedStateChange]:
    """Records such as "topic created", each with its controller epoch, 1 if it says none."""
    found = []
    for number, each in enumerate(said):
        text, epoch = (each, 1) if isinstance(each, str) else each
        kind, _, to_state = text.partition(" ")
        where = {"topic": topic, "topic_id": topic_id, "controller_epoch": epoch}
        found.append(record(number, Kind(kind), to_state, **where))
    return found


def of_broker(*said: tuple[str, int | None], **fields: object) -> list[LoggedStateChange]:
    found = []
    for number, (text, epoch) in enumerate(said):
        kind, _, to_state = text.partition(" ")
        base = {"broker": 7, "broker_epoch": epoch, **fields}
        if kind == Kind.REGISTRATION:
            base |= {"node": "broker-7", "controller_epoch": None}
        found.append(record(number, Kind(kind), to_state, **base))
    return found


def checked(records: Sequence[LoggedStateChange], summed: Sequence[TopicStep] = ()) -> list[AuditFinding]:
    """The findings about all subjects; the same for each of a few orders of the steps."""
    steps = steps_of(table_of(records), summed).to_pylist()
    found = []
    for seed in range(3):
        Random(seed).shuffle(steps)
        by_key: dict[int, list[dict[str, object]]] = {}
        for step in steps:
            by_key.setdefault(step["key"], []).append(step)
        of_all = [f for of in by_key.values() for f in _RULES_OF[str(of[0]["subject"])](of)]
        found.append(sorted(of_all, key=lambda f: (f.rule, f.subject)))
    assert found[0] == found[1] == found[2]
    return found[0]


def rules(records: Sequence[LoggedStateChange], summed: Sequence[TopicStep] = ()) -> list[str]:
    return [finding.rule for finding in checked(records, summed)]


def summed(*records: LoggedStateChange) -> list[TopicStep]:
    return topic_steps_of(to_columns(records))


DELETED = ("topic queued for deletion", "deletion started", "topic deleted", "deletion completed")


@pytest.mark.parametrize(
    ("said", "topic_id", "found"),
    [
        (("topic created", *DELETED), "id", []),
        (("topic created", *DELETED, "topic created", *DELETED), None, []),
        (("topic created", *DELETED, "topic created"), "id", ["topic-gone-after-deletion"]),
        (("topic created", *DELETED, ("topic created", 2)), "id", ["topic-gone-after-deletion"]),
        (("topic created", *DELETED, ("topic created", 2)), None, []),
        (("topic created", *DELETED, "deletion started"), None, ["topic-gone-after-deletion"]),
        (("topic created", *DELETED, ("deletion completed", 2)), "id", ["topic-gone-after-deletion"]),
        (("topic created", "topic removed", "topic created"), None, []),
        (("topic created", "topic created"), "id", ["topic-created-once"]),
        (("topic created", ("topic created", 2)), "id", ["topic-created-once"]),
        (("topic created", ("topic created", 2)), None, []),
        (("topic created", "topic created"), None, ["topic-created-once"]),
        (("topic created", "deletion started", "topic deleted"), "id", ["deletion-in-order"]),
        (("topic created", "topic queued for deletion", "topic deleted"), "id", ["deletion-in-order"]),
        (("topic created", "deletion completed"), "id", ["deletion-in-order"]),
        (("topic deleted", "deletion completed"), "id", []),
    ],
)
def test_a_topic_exists_once(said: tuple[tuple[str, int] | str, ...], topic_id: str | None, found: list[str]) -> None:
    assert rules(of_topic(*said, topic_id=topic_id)) == found


@pytest.mark.parametrize(
    ("state", "event", "principal", "found"),
    [
        ("created", "TopicChange", None, []),
        ("created", "BrokerChange", "ANONYMOUS", []),
        ("created", "BrokerChange", None, ["plan-by-request"]),
        ("queued for deletion", "TopicDeletion", None, []),
        ("queued for deletion", "Reelect", None, ["plan-by-request"]),
        ("deleted", "Reelect", None, []),
    ],
)
def test_somebody_asks_for_a_topic_and_for_its_end(
    state: str, event: str, principal: str | None, found: list[str]
) -> None:
    fields = {"topic": "t", "cause": Cause(event, 4), "principal": principal}
    assert rules([record(0, Kind.TOPIC, state, **fields)]) == found


def partition(number: int, seq: int, before: str, after: str, **fields: object) -> LoggedStateChange:
    where = {"topic": "t", "topic_id": TopicId("id"), "partition": number, "replicas": (1, 2), **fields}
    return record(
        seq, Kind.PARTITION, f"{after}Partition", from_state=f"{before}Partition", cause=Cause("E", 9), **where
    )


def replica(number: int, seq: int, broker: int, cause_id: int = 9) -> LoggedStateChange:
    where = {"topic": "t", "topic_id": TopicId("id"), "partition": number, "broker": broker}
    states = {"from_state": "ReplicaDeletionSuccessful", "cause": Cause("E", cause_id)}
    return record(seq, Kind.REPLICA, "NonExistentReplica", **states, **where)


@pytest.mark.parametrize(("cause_ids", "found"), [((9, 9), []), ((9, 8), ["deleted-with-all-replicas"])])
def test_a_topic_is_deleted_when_each_of_its_replicas_was(cause_ids: tuple[int, int], found: list[str]) -> None:
    records = [r for r in of_topic("topic queued for deletion", "deletion started") if r]
    end = record(9, Kind.TOPIC, "deleted", topic="t", topic_id="id", cause=Cause("E", 9))
    gone = [replica(0, 5 + broker, broker, cause_ids[broker]) for broker in (0, 1)]
    assert rules([*records, end], summed(partition(0, 2, "Offline", "NonExistent"), *gone)) == found


@pytest.mark.parametrize(
    ("numbers", "found"), [((0, 1, 2), []), ((0, 2), ["partition-never-created"]), ((1,), ["partition-never-created"])]
)
def test_partitions_have_all_numbers(numbers: tuple[int, ...], found: list[str]) -> None:
    new = [partition(number, 1 + number, "NonExistent", "New") for number in numbers]
    assert rules(of_topic("topic created"), summed(*new)) == found
    # Who did not see the topic's creation does not know how many it had.
    assert rules(of_topic(), summed(*new)) == []


def test_what_is_loaded_counts_as_created() -> None:
    none = (BrokerId(-1), LeaderEpoch(-1), PartitionEpoch(-1), (), (), ControllerEpoch(-1))
    partitions = tuple(LoadedPartition(number, *none) for number in (0, 1))
    loaded = record(0, Kind.LOADED, None, topic="t", topic_id=TopicId("id"), partitions=partitions)
    (steps,) = topic_steps_of(to_columns([loaded]))
    assert (steps.count, steps.highest) == (2, 1)
    assert rules([], [steps, *summed(partition(2, 3, "NonExistent", "New"))]) == []
    assert rules([], [steps, *summed(partition(3, 3, "NonExistent", "New"))]) == ["partition-never-created"]


@pytest.mark.parametrize(
    ("second", "epoch", "found"),
    [("topic created", 1, ["topic-id-stays"]), ("topic created", 2, []), ("topic deleted", 1, [])],
)
def test_a_topic_keeps_its_id_until_it_is_deleted(second: str, epoch: int, found: list[str]) -> None:
    first = of_topic("topic created", *(DELETED if second == "topic deleted" else ()))
    other = record(9, Kind.TOPIC, "created", topic="t", topic_id="other", controller_epoch=epoch)
    none = record(10, Kind.TOPIC, "created", topic="t", controller_epoch=epoch)
    assert rules([*first, other, none]) == found


def test_a_topic_id_is_of_one_topic() -> None:
    (found,) = checked([*of_topic("topic created"), *of_topic(("topic created", 2), topic="u")])
    assert (found.rule, found.message) == ("topic-id-of-one-topic", "topics t and u have the id id")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ((("broker live", 5), ("broker changed", 5), ("broker shutting_down", 5), ("broker dead", None)), []),
        ((("broker live", 5), ("broker bounced", 6), ("broker dead", None), ("broker live", 7)), []),
        ((("broker dead", None), ("broker dead", None)), ["broker-states-in-order"]),
        ((("broker live", 5), ("broker live", 6)), ["broker-states-in-order"]),
        ((("broker dead", None), ("broker bounced", 6)), ["broker-states-in-order"]),
        ((("broker live", 5), ("broker bounced", 5)), ["broker-epoch-rises"]),
        ((("broker live", 5), ("broker changed", 6)), ["broker-states-in-order"]),
        ((("broker live", None), ("broker changed", 6)), []),
        ((("registration registered", 5), ("registration expired", 5), ("registration registered", 6)), []),
        ((("registration registered", 5), ("registration registered", 5)), ["broker-epoch-rises"]),
        ((("registration registered", 5), ("registration registered", None), ("registration registered", 6)), []),
        ((("registration registered", 5), ("registration expired", 4)), ["broker-states-in-order"]),
        (
            (("registration registered", 5), ("registration registered", 9), ("broker live", 7), ("broker dead", None)),
            ["broker-epoch-nobody-registered"],
        ),
        ((("registration registered", 5), ("registration registered", 9), ("broker live", 10)), []),
    ],
)
def test_a_broker_is_live_until_it_is_dead(said: tuple[tuple[str, int | None], ...], found: list[str]) -> None:
    assert rules(of_broker(*said)) == found


def test_what_two_terms_or_two_runs_say_is_not_in_one_order() -> None:
    seen = [*of_broker(("broker live", 5)), *of_broker(("broker live", 5), controller_epoch=2)]
    runs = [*of_broker(("registration registered", 5)), *of_broker(("registration expired", 6), incarnation="2.1")]
    between = [
        *of_broker(("registration registered", 5)),
        *of_broker(("registration registered", 9), incarnation="2.1"),
    ]
    assert rules(seen) == rules(runs) == rules([*between, *of_broker(("broker live", 7))]) == []


def test_an_epoch_that_two_controllers_see_and_nobody_registered_is_found_once() -> None:
    own = of_broker(("registration registered", 5), ("registration registered", 9))
    seen = [*of_broker(("broker live", 7)), *of_broker(("broker live", 7), controller_epoch=2)]
    (found,) = checked([*own, *seen])
    assert found.message == "broker 7 is live with epoch 7, and never registered with it"


def test_a_broker_epoch_is_of_one_broker() -> None:
    (found,) = checked([*of_broker(("broker live", 5)), *of_broker(("broker live", 5), broker=8)])
    assert (found.rule, found.message) == ("broker-epoch-of-one-broker", "brokers 7 and 8 have the broker epoch 5")


def test_a_record_without_its_subject_is_passed_over() -> None:
    assert rules([record(0, Kind.BROKER, "live"), record(1, Kind.TOPIC, "created")]) == []


LIVE = "broker live"
REGISTERED = "registration registered"
GONE = [replica(0, 5 + broker, broker, cause_id) for broker, cause_id in ((0, 9), (1, 8))]


@pytest.mark.parametrize(
    ("records", "steps", "said", "of_records"),
    [
        (
            of_topic("topic created", *DELETED, "topic created"),
            [],
            "topic t was deleted, and is recorded again: topic created",
            (3, 5),
        ),
        (of_topic("topic created", ("topic created", 2)), [], "topic t is created, and was there before", (0, 1)),
        (
            of_topic("topic created", "deletion started"),
            [],
            "topic t is deleted, and was not queued for deletion",
            (1,),
        ),
        (
            of_topic("topic created", "topic queued for deletion", "topic deleted"),
            [],
            "topic t is deleted, and its deletion was not started",
            (2,),
        ),
        (
            of_topic("topic created", "deletion completed"),
            [],
            "topic t has a deletion that is completed, and was not started",
            (1,),
        ),
        (
            [
                *of_topic("topic queued for deletion", "deletion started"),
                record(9, Kind.TOPIC, "deleted", topic="t", topic_id="id", cause=Cause("E", 9)),
            ],
            summed(partition(0, 2, "Offline", "NonExistent"), *GONE),
            "topic t is deleted with 2 replicas, of which the controller recorded 1 as deleted",
            (1, 9),
        ),
        (
            of_topic("topic created"),
            summed(*[partition(number, 1 + number, "NonExistent", "New") for number in (0, 2)]),
            "topic t has partitions up to 2, and only 2 of these were created",
            (1,),
        ),
        (
            [record(3, Kind.TOPIC, "created", topic="t", topic_id="id", cause=Cause("Reelect", 4))],
            [],
            "topic t is recorded as topic created, caused by Reelect, and nobody who asked for it",
            (3,),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_topic_did_wrong_is_said_with_the_records_that_show_it(
    records: list[LoggedStateChange], steps: list[TopicStep], said: str, of_records: tuple[int, ...]
) -> None:
    (found,) = checked(records, steps)
    named = tuple(f"controller-1/1.1/{number}" for number in of_records)
    assert (found.message, found.records, found.at_ms) == (said, named, of_records[-1])
    assert (found.subject, found.topic, found.topic_id) == (f"t (id) record {named[-1]}", "t", "id")


def test_ids_and_names_that_are_of_two_topics_are_said_with_the_records_that_show_it() -> None:
    other = record(9, Kind.TOPIC, "created", topic="t", topic_id="other")
    (found,) = checked([*of_topic("topic created"), other])
    assert (found.message, found.at_ms) == ("topic t has the id other, and had id", 9)
    assert (found.subject, found.topic_id) == ("t (other) record controller-1/1.1/9", "other")
    assert found.records == ("controller-1/1.1/0", "controller-1/1.1/9")
    (found,) = checked([*of_topic("topic created"), record(9, Kind.TOPIC, "created", topic="u", topic_id="id")])
    assert (found.subject, found.message, found.at_ms) == ("topic id id", "topics t and u have the id id", 9)
    assert found.records == ("controller-1/1.1/0", "controller-1/1.1/9")
    (found,) = checked(of_topic("topic created", "topic created", topic_id=None))
    assert (found.subject, found.topic_id) == ("t record controller-1/1.1/1", None)


@pytest.mark.parametrize(
    ("said", "message", "of_records"),
    [
        (((LIVE, 5), ("broker bounced", 5)), "broker 7 bounced to epoch 5 from epoch 5", (0, 1)),
        (((LIVE, 5), ("broker changed", 6)), "broker 7 is changed with epoch 6, and had epoch 5", (0, 1)),
        (((LIVE, 5), (LIVE, 5)), "broker 7 is live after it was live", (0, 1)),
        (((LIVE, 5), ("broker shutting_down", 5), (LIVE, 5)), "broker 7 is live after it was shutting down", (1, 2)),
        (((REGISTERED, 5), (REGISTERED, 5)), "broker 7 registered with epoch 5 after epoch 5", (0, 1)),
        (
            ((REGISTERED, 5), ("registration expired", 4)),
            "broker 7 recorded that epoch 4 expired, and had epoch 5",
            (0, 1),
        ),
        (
            ((REGISTERED, 5), (REGISTERED, 9), (LIVE, 7)),
            "broker 7 is live with epoch 7, and never registered with it",
            (0, 1, 2),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_broker_did_wrong_is_said_with_the_records_that_show_it(
    said: tuple[tuple[str, int | None], ...], message: str, of_records: tuple[int, ...]
) -> None:
    (found,) = checked(of_broker(*said))
    nodes = ["broker-7" if said[number][0].startswith("registration") else "controller-1" for number in of_records]
    named = tuple(f"{node}/1.1/{number}" for node, number in zip(nodes, of_records, strict=True))
    assert (found.message, found.records, found.at_ms) == (message, named, of_records[-1])
    assert found.subject == f"broker 7 record {named[-1]}"


def loaded_up_to(seq: int, epoch: int, highest: int, topic_id: str | None = "id") -> LoggedStateChange:
    parts = tuple(
        LoadedPartition(n, BrokerId(1), LeaderEpoch(0), PartitionEpoch(0), (), (), ControllerEpoch(1))
        for n in range(highest + 1)
    )
    where = {"topic": "t", "topic_id": topic_id, "controller_epoch": ControllerEpoch(epoch)}
    return record(seq, Kind.LOADED, None, partitions=parts, cause=Cause("Reelect", epoch), **where)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([loaded_up_to(1, 1, 3), loaded_up_to(2, 2, 3), loaded_up_to(3, 3, 5)], []),
        ([loaded_up_to(1, 1, 3), loaded_up_to(2, 2, 2)], ["partitions-stay"]),
        # Two that follow lack it too.
        ([loaded_up_to(1, 1, 3), loaded_up_to(2, 2, 2), loaded_up_to(3, 3, 2)], ["partitions-stay"] * 2),
        # Without an id it may be another topic.
        ([loaded_up_to(1, 1, 3, None), loaded_up_to(2, 2, 2, None)], []),
    ],
)
def test_a_topic_keeps_its_partitions(steps: Sequence[LoggedStateChange], found: Sequence[str]) -> None:
    assert rules([], summed(*steps)) == list(found)


def test_a_broker_that_was_there_does_not_become_live() -> None:
    active = record(0, Kind.CONTROLLER, "active", inputs=DecisionInputs(live=(BrokerId(7), BrokerId(8))), broker=1)
    assert rules([active, *moved_on(of_broker(("broker dead", None), ("broker live", 9)))]) == []
    (finding,) = checked([active, *moved_on(of_broker(("broker live", 9)))])
    assert (finding.rule, finding.message) == ("broker-states-in-order", "broker 7 is live after it was there")


def moved_on(records: Sequence[LoggedStateChange]) -> list[LoggedStateChange]:
    return [replace(each, seq=each.seq + 1) for each in records]


def registrations(*at_ms: int, until: str = "registered") -> list[LoggedStateChange]:
    """Registrations of a broker, the last one `until`, with epochs of 20 and more."""
    states = [*["registered"] * (len(at_ms) - 1), until]
    steps = of_broker(*((f"registration {state}", 20 + n) for n, state in enumerate(states)))
    return [replace(step, at_ms=at) for step, at in zip(steps, at_ms, strict=True)]


def seen(*steps: tuple[int, int], epoch: int = 1) -> list[LoggedStateChange]:
    """What a controller saw of the broker: broker epoch, and when."""
    found = of_broker(("broker live", steps[0][0]), *(("broker bounced", each) for each, _ in steps[1:]))
    terms = [ControllerEpoch(1), *[ControllerEpoch(epoch)] * (len(steps) - 1)]
    return [
        replace(step, at_ms=at_ms, controller_epoch=term)
        for step, (_, at_ms), term in zip(found, steps, terms, strict=True)
    ]


@pytest.mark.parametrize(
    ("own", "by_controller", "is_found"),
    [
        (registrations(2_000, 400_000), seen((9, 1_000), (21, 500_000)), True),
        (registrations(2_000, 302_000), seen((9, 1_000), (21, 500_000)), False),
        (registrations(2_000, 400_000), seen((20, 1_000), (21, 500_000)), False),
        (registrations(2_000, 400_000), seen((9, 1_000), (20, 500_000)), False),
        # It was not active all the time, by what is known of it.
        (registrations(2_000, 400_000), seen((9, 1_000), (21, 399_000)), False),
        (registrations(2_000, 400_000), seen((9, 3_000), (21, 500_000)), False),
        (registrations(2_000, 400_000), seen((9, 1_000), (21, 500_000), epoch=2), False),
        (registrations(2_000, 400_000, 900_000), seen((9, 1_000), (20, 300_000), (22, 950_000)), True),
    ],
)
def test_the_controller_takes_note_of_registrations(
    own: Sequence[LoggedStateChange], by_controller: Sequence[LoggedStateChange], is_found: bool
) -> None:
    assert ("registration-noted" in rules([*own, *by_controller])) == is_found


def test_a_registration_without_an_epoch_is_not_compared() -> None:
    own = [replace(each, broker_epoch=None) for each in registrations(2_000, 400_000)]
    assert "registration-noted" not in rules([*own, *seen((9, 1_000), (21, 500_000))])
    expired = registrations(2_000, 400_000, until="expired")
    assert "registration-noted" in rules([*expired, *seen((9, 1_000), (22, 500_000))])
