"""Short constructors for the values that controller tests are made of."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cluster.model.broker import (
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    PartitionEpoch,
    RegisteredBroker,
    TopicId,
    ZkVersion,
)
from cluster.model.partition import RECOVERED, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller.changes import BrokersJoined, LeadershipsRead, ReassignmentsWritten, TopicIdRead, TopicsListed
from controller.context.controller_context import ControllerContext

EPOCH = ControllerEpoch(7)
PARTS: Final = ("brokers", "topics", "leaderships", "replicas", "deletions", "damage")


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(b) for b in brokers)


def tp(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))


def broker(number: int, rack: str | None = None) -> Broker:
    return Broker(BrokerId(number), (Endpoint(f"host{number}", 9092),), rack)


def registered(number: int, epoch: int | None = None) -> RegisteredBroker:
    return RegisteredBroker(broker(number), BrokerEpoch(100 + number if epoch is None else epoch))


def leadership(
    leader: int,
    isr: Sequence[int],
    *,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    controller_epoch: int = 1,
    recovery: int = RECOVERED,
) -> LeaderAndIsr:
    return LeaderAndIsr(
        BrokerId(leader),
        LeaderEpoch(leader_epoch),
        ids(*isr),
        ControllerEpoch(controller_epoch),
        PartitionEpoch(partition_epoch),
        recovery,
    )


def assignment(replicas: Sequence[int], adding: Sequence[int] = (), removing: Sequence[int] = ()) -> ReplicaAssignment:
    return ReplicaAssignment(ids(*replicas), ids(*adding), ids(*removing))


def context(
    brokers: Sequence[int] = (),
    assignments: Mapping[str, Sequence[int]] | None = None,
    leaderships: Mapping[str, LeaderAndIsr] | None = None,
) -> ControllerContext:
    """`assignments`: "topic-0" -> replicas; every topic gets the id "id-of-topic"."""
    built = ControllerContext(EPOCH, ZkVersion(3))
    built.apply(BrokersJoined(tuple(registered(b) for b in brokers)))
    parsed = {tp(name): ids(*replicas) for name, replicas in (assignments or {}).items()}
    built.apply(TopicsListed(tuple({p.topic for p in parsed})))
    for topic in sorted(built.topics.names):
        built.apply(TopicIdRead(topic, TopicId(f"id-of-{topic}")))
    for partition, replicas in parsed.items():
        built.apply(ReassignmentsWritten({partition: ReplicaAssignment(replicas)}))
    built.apply(LeadershipsRead({tp(name): value for name, value in (leaderships or {}).items()}))
    return built


def facts(view: ControllerContext) -> dict[str, dict[str, Any]]:
    """Part of the context -> its attributes, without the other parts that it reads and the clock; "" -> its epochs."""
    peers = ("_topics", "_deletions", "_brokers", "_now")
    parts = {part: vars(getattr(view, part)) for part in PARTS}
    epochs = {"epoch": view.epoch, "epoch_zk_version": view.epoch_zk_version}
    return {"": epochs} | {p: {name: of[name] for name in of if name not in peers} for p, of in parts.items()}
