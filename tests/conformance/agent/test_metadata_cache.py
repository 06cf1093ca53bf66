"""The metadata cache of an agent: immutable snapshots, and metadata responses to clients."""

import asyncio
from collections.abc import Sequence

import pytest
import structlog
from msgspec.structs import replace

from broker_agent.metadata_cache import MetadataCache
from cluster.model.broker import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.model.listeners import EXTERNAL_LISTENER
from cluster.model.partition import TopicPartition
from cluster.requests.control import UpdateMetadataPartitionState, UpdateMetadataRequest, UpdateMetadataTopicState
from cluster.requests.data import MetadataPartition, MetadataTopic
from tests.brokers.agents import AgentWorld, virtually

ID, OTHER_ID = TopicId("C" * 22), TopicId("B" * 22)


def topics_in(cache: MetadataCache, names: Sequence[str] | None) -> tuple[MetadataTopic, ...]:
    return asyncio.run(cache.describe_topics(names))


def broker(number: int, listener: str = "PLAINTEXT") -> Broker:
    return Broker(BrokerId(number), (Endpoint(f"host-{number}", 9092, listener),), f"rack-{number}")


def state(
    partition: int,
    *,
    leader: int = 1,
    epoch: int = 0,
    replicas: tuple[int, ...] = (1, 2),
    offline: tuple[int, ...] = (),
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=partition,
        controller_epoch=ControllerEpoch(1),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        isr=(BrokerId(1),),
        zk_version=PartitionEpoch(0),
        replicas=tuple(map(BrokerId, replicas)),
        offline_replicas=tuple(map(BrokerId, offline)),
    )


def request(
    *states: UpdateMetadataPartitionState,
    topic_id: TopicId | None = ID,
    brokers: tuple[Broker, ...] = (broker(1), broker(2)),
    controller: int = 7,
    name: str = "t",
) -> UpdateMetadataRequest:
    topics = (UpdateMetadataTopicState(name, topic_id, states),) if states else ()
    return UpdateMetadataRequest(ControllerId(controller), ControllerEpoch(1), BrokerEpoch(-1), topics, brokers)


def described(cache: MetadataCache, partition: int = 0) -> MetadataPartition:
    [topic] = topics_in(cache, ("t",))
    return next(p for p in topic.partitions if p.partition_index == partition)


@pytest.mark.rule("R4.9")
def test_who_holds_a_snapshot_sees_none_of_the_next_one() -> None:
    cache = MetadataCache()
    cache.apply(request(state(0), state(1)))
    held = cache.snapshot
    before = replace(held)
    cache.apply(request(state(0, leader=LEADER_DURING_DELETE), state(1, epoch=5), topic_id=OTHER_ID, brokers=()))
    assert cache.snapshot is not held
    assert held == before
    assert (set(held.brokers), set(held.topics["t"]), held.topic_ids["t"]) == ({1, 2}, {0, 1}, ID)
    with pytest.raises(AttributeError):
        held.controller_id = ControllerId(1)  # type: ignore[misc]


@pytest.mark.rule("R4.10")
def test_brokers_and_controller_are_replaced_by_every_request_partitions_only_where_it_names_them() -> None:
    cache = MetadataCache()
    cache.apply(request(state(0, epoch=9), state(1)))
    cache.apply(request(state(0, epoch=2), brokers=(broker(2),), controller=8))  # No epoch is compared.
    assert (cache.is_alive(BrokerId(1)), cache.is_alive(BrokerId(2))) == (False, True)
    assert described(cache).leader_epoch == 2
    assert cache.contains(TopicPartition("t", 1))
    assert cache.snapshot.controller_id == 8
    cache.apply(request(brokers=(broker(3),), controller=-5))
    assert [b.node_id for b in cache.describe_brokers()] == [3]
    assert cache.snapshot.controller_id == -1
    assert cache.contains(TopicPartition("t", 0))
    assert cache.knows_topic_id(ID)


@pytest.mark.rule("R4.10")
def test_a_topic_goes_with_its_last_partition_and_its_id_with_a_request_that_has_none() -> None:
    cache = MetadataCache()
    cache.apply(request(state(0), state(1)))
    cache.apply(request(state(0, leader=LEADER_DURING_DELETE)))
    assert not cache.contains(TopicPartition("t", 0))
    assert cache.knows_topic_id(ID)
    cache.apply(request(state(1), topic_id=None))
    assert not cache.knows_topic_id(ID)
    cache.apply(request(state(1), topic_id=OTHER_ID))
    cache.apply(request(state(1, leader=LEADER_DURING_DELETE), topic_id=OTHER_ID))
    assert not cache.knows_topic_id(OTHER_ID)
    [topic] = topics_in(cache, ("t",))
    assert (topic.error_code, topic.topic_id) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    assert topics_in(cache, None) == ()


@pytest.mark.rule("R4.13")
@pytest.mark.parametrize(
    ("leader", "brokers", "code", "expected_leader"),
    [
        (1, (broker(1), broker(2)), ErrorCode.NONE, 1),
        (1, (broker(2),), ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER),
        (-1, (broker(1), broker(2)), ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER),
        (1, (broker(1, "INTERNAL"), broker(2)), ErrorCode.LISTENER_NOT_FOUND, NO_LEADER),
    ],
    ids=["alive", "dead", "none", "other listener"],
)
def test_clients_get_a_leader_that_they_can_reach_or_why_there_is_none(
    leader: int, brokers: tuple[Broker, ...], code: ErrorCode, expected_leader: int
) -> None:
    cache = MetadataCache()
    cache.apply(request(state(0, leader=leader, epoch=4), brokers=brokers))
    partition = described(cache)
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (code, expected_leader, 4)
    assert (partition.replica_nodes, partition.isr_nodes) == ((1, 2), (1,))


@pytest.mark.rule("R4.13")
def test_replicas_on_dead_brokers_and_in_failed_directories_are_reported_as_offline() -> None:
    cache = MetadataCache()
    cache.apply(request(state(0, replicas=(3, 1, 2), offline=(2,))))
    partition = described(cache)
    assert (partition.error_code, partition.offline_replicas) == (ErrorCode.NONE, (3, 2))


@pytest.mark.rule("R4.12", "R4.8")
@virtually
async def test_brokers_with_different_listeners_are_logged_and_taken_over_all_the_same() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]
    with structlog.testing.capture_logs() as lines:
        answer = await agent.handle(request(state(0), brokers=(broker(1), broker(2))))
        assert answer.error_code is ErrorCode.NONE
        with_external = Broker(BrokerId(2), (*broker(2).endpoints, Endpoint("outside", 9094, EXTERNAL_LISTENER)))
        await agent.handle(request(state(0), brokers=(broker(1), with_external)))
        assert [line for line in lines if line["log_level"] == "error"] == []
        answer = await agent.handle(request(state(0), brokers=(broker(1), broker(2, "INTERNAL"))))
    assert answer.error_code is ErrorCode.NONE
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["Brokers have different listeners"]
    assert agent.agent.metadata.is_alive(BrokerId(2))
    assert agent.agent.metadata.endpoint(BrokerId(2)) is None
    assert agent.agent.control.known_controller_epoch == 1
    await world.stop()


@pytest.mark.rule("R4.13")
def test_a_topic_that_is_named_many_times_is_described_once() -> None:
    cache = MetadataCache()
    assert [topic.name for topic in topics_in(cache, ("t", "u", "t", "t"))] == ["t", "u"]


@pytest.mark.rule("R4.13")
def test_a_topic_is_described_again_only_when_a_request_names_it_or_other_brokers_live() -> None:
    cache = MetadataCache()
    cache.apply(request(state(0), topic_id=None, name="a"))
    cache.apply(request(state(0), topic_id=None, name="b"))
    a, b = topics_in(cache, None)
    assert topics_in(cache, ["a"])[0] is a
    cache.apply(request(state(0, epoch=1), topic_id=None, name="b"))
    again, changed = topics_in(cache, None)
    assert again is a
    assert changed is not b
    assert changed.partitions[0].leader_epoch == 1
    cache.apply(request(brokers=(broker(2),)))
    assert topics_in(cache, ["a"])[0].partitions[0].error_code is ErrorCode.LEADER_NOT_AVAILABLE
    cache.apply(request(state(0, leader=LEADER_DURING_DELETE), topic_id=None, name="a"))
    assert topics_in(cache, ["a"])[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
