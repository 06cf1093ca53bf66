"""Topics and brokers whose lives controllers recorded wrongly: others have seen these lines."""

from collections.abc import Callable
from typing import Final

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.faults_of_moves import drop, last
from tests.audit_corpus.faults_of_records import first, of_controller
from tests.audit_corpus.logs import EARLIER_CONTROLLER, Change, Logs, Record, later_cause

OTHER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
DELETED: Final = "t6"
"""A topic that the later controller deletes."""


def again(topic: str, kind: str, to_state: str, /, **fields: object) -> Change:
    """The controller records this of a topic at the end of its log."""

    def change(records: list[Record]) -> None:
        named = next(r for r in records if r.get("topic") == topic)
        names = ("v", "node", "incarnation", "controller_epoch", "topic", "topic_id")
        record = {name: named[name] for name in names} | {"cause": {"event": "TopicChange", "id": 9_000}}
        record |= {"kind": kind, "to_state": to_state, "at_ms": records[-1]["at_ms"], **fields}
        records.append(record)

    return change


def each(*changes: Change) -> Callable[[Logs], object]:
    """Several things that the later controller recorded."""
    return of_controller(lambda records: [change(records) for change in changes])


def delete_before_it_was_loaded(logs: Logs) -> None:
    """The earlier controller deletes a topic that the later one loads."""
    whole = (("deletion", "started"), ("topic", "deleted"), ("deletion", "completed"))
    changes = [again("t5", kind, state) for kind, state in (("topic", "queued for deletion"), *whole)]

    def change(records: list[Record]) -> None:
        for each_change in changes:
            each_change(records)
        records[-4]["cause"]["event"] = "TopicDeletion"

    logs.write_wrongly(EARLIER_CONTROLLER, change)


def restore(records: list[Record]) -> None:
    """A partition of the deleted topic is created again."""
    new = last(records, "partition", to_state="NewPartition")
    gone = first(records, "topic", to_state="deleted", topic=DELETED)
    names = ("topic", "topic_id", "at_ms")
    base = {name: value for name, value in new.items() if name != "seq"} | {name: gone[name] for name in names}
    records.append({**base, "partition": 0, "cause": later_cause(records, base)})


def skip_a_partition(records: list[Record]) -> None:
    """A topic is created with partitions 0 and 2."""
    topic, new = last(records, "topic", to_state="created"), last(records, "partition", to_state="NewPartition")
    named = {"topic": "t77", "topic_id": OTHER_ID, "at_ms": records[-1]["at_ms"], "cause": later_cause(records, topic)}
    added = [topic, {**new, "partition": 0}, {**new, "partition": 2}]
    records.extend({name: value for name, value in record.items() if name != "seq"} | named for record in added)


def registered(records: list[Record], which: int) -> Record:
    return [r for r in records if r["kind"] == "registration" and r["to_state"] == "registered"][which]


def with_epoch(records: list[Record], epoch: int) -> None:
    """The broker's last registration has this epoch."""
    record = registered(records, -1)
    before = record["broker_epoch"]
    for each_record in records:
        if each_record["kind"] == "registration" and each_record["broker_epoch"] == before:
            each_record["broker_epoch"] = epoch


def see_again(broker: int, to_state: str, by: int = 0) -> Change:
    """The controller sees something of a broker at the end of its log; `by`: how much higher its epoch is."""

    def change(records: list[Record]) -> None:
        record = [r for r in records if r["kind"] == "broker" and r["broker"] == broker and "broker_epoch" in r][-1]
        copied = {name: value for name, value in record.items() if name != "seq"}
        epoch = {} if to_state == "dead" else {"broker_epoch": record["broker_epoch"] + by}
        copied.pop("broker_epoch")
        then = {"to_state": to_state, "at_ms": records[-1]["at_ms"], "cause": later_cause(records, copied)}
        records.append({**copied, **epoch, **then})

    return change


def create_again(records: list[Record]) -> None:
    new = {name: value for name, value in last(records, "partition", to_state="NewPartition").items() if name != "seq"}
    records.append({**new, "at_ms": records[-1]["at_ms"], "cause": later_cause(records, new)})


def load_older(records: list[Record], *, leader_epochs: int) -> None:
    """A controller begins with a state that was replaced: that of the partition with the most versions."""
    loaded = max((r for r in records if r["kind"] == "loaded"), key=lambda r: max(p[3] for p in r["partitions"]))
    partition = max(loaded["partitions"], key=lambda each: each[3])
    partition[2], partition[3] = partition[2] - leader_epochs, partition[3] - 1


def register_again(records: list[Record]) -> None:
    record = registered(records, -1)
    records.append({name: v for name, v in record.items() if name != "seq"} | {"at_ms": records[-1]["at_ms"]})


FAULTS_OF_TOPICS: Final[dict[str, Fault]] = {
    "a topic created twice": Fault(each(again("t8", "topic", "created")), {"topic-created-once": 1}),
    "a partition created twice": Fault(of_controller(create_again), {"partition-transition-continues": 1}),
    "a controller that loads an older version of a state": Fault(
        of_controller(lambda records: load_older(records, leader_epochs=0)),
        {"controller-epoch-never-back": 1, "one-state-per-partition-epoch": 1},
    ),
    "a controller that loads an older leader epoch": Fault(
        of_controller(lambda records: load_older(records, leader_epochs=1)),
        {"controller-epoch-never-back": 1, "one-leader-per-epoch": 1, "one-state-per-partition-epoch": 1},
    ),
    "a broker that registers twice with one epoch": Fault(
        lambda logs: logs.write_wrongly("broker-4-", register_again), {"broker-epoch-rises": 1}
    ),
    "a topic created that was loaded": Fault(each(again("t4", "topic", "created")), {"topic-created-once": 1}),
    "a topic created again under the id it had": Fault(
        each(again(DELETED, "topic", "created")), {"topic-gone-after-deletion": 1}
    ),
    "a deletion that begins after the topic was deleted": Fault(
        each(again(DELETED, "deletion", "started")), {"topic-gone-after-deletion": 1}
    ),
    "a topic loaded after its deletion": Fault(
        delete_before_it_was_loaded, {"topic-gone-after-deletion": 1, "event-of-one-name": 1}
    ),
    "a partition created after the deletion of its topic": Fault(
        of_controller(restore), {"topic-gone-after-deletion": 1}
    ),
    "a topic deleted whose deletion never began": Fault(
        of_controller(drop("deletion", to_state="started")), {"deletion-in-order": 1}
    ),
    "a deletion completed of a topic that was not deleted": Fault(
        each(again("t8", "deletion", "completed")), {"deletion-in-order": 1}
    ),
    "a deletion begun that nobody queued": Fault(each(again("t8", "deletion", "started")), {"deletion-in-order": 1}),
    "a topic deleted though a replica never answered": Fault(
        of_controller(drop("replica", to_state="NonExistentReplica", topic=DELETED)), {"deleted-with-all-replicas": 1}
    ),
    "a topic deleted while a new controller had replicas to delete": Fault(
        of_controller(
            lambda records: [
                records.remove(r)
                for r in [r for r in records if r.get("topic") == DELETED and r.get("to_state") == "NonExistentReplica"]
                if r["cause"]["event"] == "TopicDeletionStopReplicaResponseReceived"
            ]
        ),
        {"deleted-with-all-replicas": 1},
    ),
    "a topic id that changes": Fault(each(again("t8", "topic", "created", topic_id=OTHER_ID)), {"topic-id-stays": 1}),
    "a topic id that changes when a partition is added": Fault(
        of_controller(lambda records: last(records, "partition", to_state="NewPartition").update(topic_id=OTHER_ID)),
        {"topic-id-stays": 1},
    ),
    "a topic id of two topics": Fault(each(again("t8", "topic", "created", topic="t77")), {"topic-id-of-one-topic": 1}),
    "a partition never created": Fault(of_controller(skip_a_partition), {"partition-never-created": 1}),
    "a partition that a controller did not load": Fault(
        of_controller(
            lambda records: max((r for r in records if r["kind"] == "loaded"), key=lambda r: len(r["partitions"]))[
                "partitions"
            ].pop(0)
        ),
        {"partition-never-created": 1},
    ),
    "a deletion that a broker's death asked for": Fault(
        of_controller(
            lambda records: first(records, "topic", to_state="queued for deletion").update(
                cause={"event": "BrokerChange", "id": 93}, principal=None
            )
        ),
        {"plan-by-request": 1},
    ),
    "a topic that a controller created by itself": Fault(
        of_controller(
            lambda records: last(records, "topic", to_state="created").update(cause={"event": "Reelect", "id": 57})
        ),
        {"plan-by-request": 1, "event-of-one-name": 1},
    ),
    "a broker epoch used twice": Fault(
        lambda logs: logs.write_wrongly(
            "broker-4-", lambda records: with_epoch(records, registered(records, -2)["broker_epoch"])
        ),
        {"broker-epoch-rises": 1},
    ),
    "a broker epoch that falls": Fault(
        lambda logs: logs.write_wrongly("broker-4-", lambda records: with_epoch(records, 150)),
        {"broker-epoch-rises": 1},
    ),
    "a broker epoch that ends though it never began": Fault(
        lambda logs: logs.write_wrongly(
            "broker-4-",
            lambda records: first(records, "registration", to_state="expired").update(broker_epoch=77),
        ),
        {"broker-states-in-order": 1},
    ),
    "a broker epoch of two brokers": Fault(
        of_controller(
            lambda records: last(records, "broker", to_state="live", broker=3).update(
                broker_epoch=[r for r in records if r["kind"] == "broker" and r["broker"] == 1][-1]["broker_epoch"]
            )
        ),
        {"broker-epoch-of-one-broker": 1},
    ),
    "a broker that lives twice": Fault(each(see_again(1, "live")), {"broker-states-in-order": 1}),
    "a broker that dies twice": Fault(each(see_again(1, "dead"), see_again(1, "dead")), {"broker-states-in-order": 1}),
    "a dead broker that bounces": Fault(
        each(see_again(1, "dead"), see_again(1, "bounced", 500)), {"broker-states-in-order": 1}
    ),
    "a dead broker that shuts down": Fault(
        each(see_again(1, "dead"), see_again(1, "shutting_down")), {"broker-states-in-order": 1}
    ),
    "a broker that bounces to the epoch it had": Fault(each(see_again(1, "bounced")), {"broker-epoch-rises": 1}),
    "a broker that shuts down with another epoch": Fault(
        each(see_again(1, "shutting_down", 5)), {"broker-states-in-order": 1}
    ),
    "a broker epoch that was never registered": Fault(
        lambda logs: logs.write_wrongly(
            EARLIER_CONTROLLER,
            lambda records: first(records, "broker", to_state="live", broker=4).update(broker_epoch=150),
        ),
        {"broker-epoch-nobody-registered": 1},
    ),
}
"""Name -> fault."""
