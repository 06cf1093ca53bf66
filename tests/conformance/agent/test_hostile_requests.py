"""Requests with names, ids or epochs beyond their bounds: the item is refused, and nothing on the disk is touched."""

import re
from typing import Any

import pytest

from cluster.aio.slices import SLICE
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.control import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from cluster.requests.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    OffsetForLeaderPartition,
    OffsetsForLeaderEpochRequest,
    ProducePartition,
    ProduceRequest,
)
from tests.brokers.agents import CONTROLLER_ID, TOPIC, TOPIC_ID, TP, AgentProcess, AgentWorld, virtually
from tests.turns import turns_during

NAMES = (
    "a" * 300,
    "a" * 250,
    "",
    ".",
    "..",
    "../../x",
    "a/b",
    "/etc/x",
    "nul\0",
    "\ud800",
    "e\u0301te",
    "été",
    "a b",
    "a\n",
    "٣",
)
OTHER = TopicPartition(TOPIC, 1)


def paths(agent: AgentProcess) -> list[str]:
    """Every directory and file of the disk, wherever it is."""
    return sorted({*agent.disk._files, *agent.disk._directories})


def state(partition: int = 0, **changes: Any) -> LeaderAndIsrPartitionState:
    values: dict[str, Any] = {
        "partition_index": partition,
        "controller_epoch": ControllerEpoch(1),
        "leader": BrokerId(1),
        "leader_epoch": LeaderEpoch(0),
        "isr": (BrokerId(1),),
        "partition_epoch": PartitionEpoch(0),
        "replicas": (BrokerId(1),),
        "is_new": True,
    }
    return LeaderAndIsrPartitionState(**{**values, **changes})


def leader_and_isr(*topics: tuple[str, tuple[LeaderAndIsrPartitionState, ...]], epoch: int = 1) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        CONTROLLER_ID,
        ControllerEpoch(epoch),
        BrokerEpoch(-1),
        tuple(LeaderAndIsrTopicState(name, TOPIC_ID if name == TOPIC else None, states) for name, states in topics),
    )


async def one_agent() -> tuple[AgentWorld, AgentProcess]:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    return world, world.agents[1]


@pytest.mark.rule("R2.1", "BD-1", "BD-3")
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:12]))
@virtually
async def test_leader_and_isr_with_a_bad_name_refuses_that_topic_and_carries_out_the_others(name: str) -> None:
    world, agent = await one_agent()
    before = paths(agent)
    response = await agent.handle(leader_and_isr((name, (state(), state(3))), (TOPIC, (state(1),))))
    codes = {(e.topic_name, e.partition_index): e.error_code for e in response.partition_errors}
    assert response.error_code is ErrorCode.NONE
    assert codes == {
        (name, 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
        (name, 3): ErrorCode.INVALID_TOPIC_EXCEPTION,
        (TOPIC, 1): ErrorCode.NONE,
    }
    assert all(path in before or path.startswith(f"/data/{OTHER}") for path in paths(agent))
    assert len(agent.logs.live_directories) == 1
    assert agent.partition(OTHER).is_leader
    await world.stop()


@pytest.mark.rule("R2.1", "BD-1")
@pytest.mark.parametrize(
    "changes",
    [
        {"partition_index": -1},
        {"partition_index": 2**31},
        {"replicas": (1, -2)},
        {"replicas": (1, 1)},
        {"replicas": tuple(range(40_000))},
        {"isr": (1, 1)},
        {"isr": (-1,)},
        {"leader": -7},
        {"leader": 2**31},
        {"leader_epoch": -2},
        {"leader_epoch": 2**31},
        {"partition_epoch": 2**31},
        {"controller_epoch": 2**40},
        {"adding_replicas": (2, 2)},
        {"removing_replicas": (-1,)},
        {"leader_recovery_state": 2},
    ],
    ids=lambda changes: ascii(changes)[:40],
)
@virtually
async def test_a_bad_partition_state_leaves_the_others_as_they_were(changes: dict[str, Any]) -> None:
    world, agent = await one_agent()
    bad = state(2, **changes)
    response = await agent.handle(leader_and_isr((TOPIC, (bad, state(1)))))
    codes = {e.partition_index: e.error_code for e in response.partition_errors}
    assert codes == {bad.partition_index: ErrorCode.INVALID_REQUEST, 1: ErrorCode.NONE}
    assert f"/data/{TOPIC}-{bad.partition_index}" not in paths(agent)
    assert agent.partition(OTHER).is_leader
    await world.stop()


@pytest.mark.rule("R2.1")
@virtually
async def test_the_largest_partition_and_an_isr_beyond_the_replicas_are_carried_out() -> None:
    """An ISR may name a replica whose removal from it is still to be written."""
    world, agent = await one_agent()
    response = await agent.handle(leader_and_isr((TOPIC, (state(2**31 - 1), state(1, isr=(1, 9))))))
    assert {e.error_code for e in response.partition_errors} == {ErrorCode.NONE}
    assert f"/data/{TOPIC}-2147483647" in paths(agent)
    await world.stop()


@pytest.mark.rule("R4.3", "BD-1", "BD-3")
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:12]))
@virtually
async def test_stop_replica_with_a_bad_name_deletes_nothing(name: str) -> None:
    world, agent = await one_agent()
    agent.disk.make_directory("/x-0")
    before = paths(agent)
    items = (
        StopReplicaPartitionState(name, 0, LeaderEpoch(-2), delete_partition=True),
        StopReplicaPartitionState(TOPIC, -1, LeaderEpoch(-2), delete_partition=True),
        StopReplicaPartitionState(TOPIC, 0, LeaderEpoch(-1)),
    )
    response = await agent.handle(StopReplicaRequest(CONTROLLER_ID, ControllerEpoch(1), BrokerEpoch(-1), items))
    codes = {(e.topic_name, e.partition_index): e.error_code for e in response.partition_errors}
    assert codes == {
        (name, 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
        (TOPIC, -1): ErrorCode.INVALID_REQUEST,
        (TOPIC, 0): ErrorCode.NONE,
    }
    assert paths(agent) == before
    await world.stop()


@pytest.mark.rule("R4.8", "BD-1")
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:12]))
@virtually
async def test_update_metadata_with_a_bad_name_skips_it_and_says_so(name: str) -> None:
    world, agent = await one_agent()
    epochs = ControllerEpoch(1), BrokerId(1), LeaderEpoch(0)
    one = UpdateMetadataPartitionState(0, *epochs, (BrokerId(1),), PartitionEpoch(0), (BrokerId(1),))
    topics = (UpdateMetadataTopicState(name, None, (one,)), UpdateMetadataTopicState("good", None, (one,)))
    brokers = world.metadata().live_brokers
    request = UpdateMetadataRequest(CONTROLLER_ID, ControllerEpoch(1), BrokerEpoch(-1), topics, brokers)
    response = await agent.handle(request)
    assert response.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    known = agent.agent.metadata.snapshot.topics
    assert "good" in known
    assert name not in known
    await world.stop()


@pytest.mark.rule("BD-1")
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:12]))
@virtually
async def test_data_requests_with_a_bad_name_are_refused_by_partition(name: str) -> None:
    world, agent = await one_agent()
    await agent.produce(3)
    before = paths(agent)
    zero = Offset(0)
    requests = (
        ProduceRequest(1, 1000, (ProducePartition(name, 0, b""), ProducePartition(TOPIC, 0, b""))),
        FetchRequest(
            BrokerId(-1),
            (FetchPartition(name, None, 0, zero, 1 << 20), FetchPartition(TOPIC, TOPIC_ID, 0, zero, 1 << 20)),
            0,
            1,
            1 << 20,
        ),
        DeleteRecordsRequest(1000, (DeleteRecordsPartition(name, 0, zero), DeleteRecordsPartition(TOPIC, 0, zero))),
        ListOffsetsRequest(BrokerId(-1), (ListOffsetsPartition(name, 0, -1), ListOffsetsPartition(TOPIC, 0, -1))),
    )
    for request in requests:
        response = await agent.handle(request)
        codes = {item.topic: item.error_code for item in response.partitions}
        assert codes[name] is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert codes[TOPIC] is not ErrorCode.INVALID_TOPIC_EXCEPTION
    assert paths(agent) == before
    await world.stop()


@pytest.mark.rule("R2.2", "BD-2")
@virtually
async def test_a_control_request_with_a_bad_epoch_is_refused_as_a_whole_and_leaves_no_trace() -> None:
    world, agent = await one_agent()
    for epoch in (2**31, 2**63, -2):
        response = await agent.handle(leader_and_isr((TOPIC, (state(1),)), epoch=epoch))
        assert response.error_code is ErrorCode.INVALID_REQUEST
    assert agent.agent.control.known_controller_epoch == 1
    assert f"/data/{OTHER}" not in paths(agent)
    await world.stop()


@pytest.mark.rule("BD-2")
@virtually
async def test_a_refusal_names_field_and_value_shortened() -> None:
    world, agent = await one_agent()
    request = ListOffsetsRequest(BrokerId(-99), ())
    with pytest.raises(ApiError, match=re.escape("replica_id: -99")) as refused:
        await agent.handle(request)
    assert (refused.value.field, refused.value.value) == ("replica_id", "-99")
    bad = ListOffsetsRequest(BrokerId(-1), (ListOffsetsPartition(TOPIC, 0, -1, LeaderEpoch(2**31)),))
    assert (await agent.handle(bad)).partitions[0].error_code is ErrorCode.INVALID_REQUEST
    await world.stop()


@pytest.mark.rule("BD-3")
@pytest.mark.parametrize("name", ["../x", "", ".", "a/b", "a" * 300])
@virtually
async def test_a_log_is_only_created_directly_below_its_log_directory(name: str) -> None:
    world, agent = await one_agent()
    before = paths(agent)
    config = agent.partition().log.config  # type: ignore[union-attr]
    with pytest.raises(Exception, match="topic name"):
        await agent.logs.get_or_create(TopicPartition(name, 0), topic_id=None, is_new=True, config=config)
    with pytest.raises(Exception, match="partition"):
        await agent.logs.get_or_create(TopicPartition(TOPIC, -1), topic_id=None, is_new=True, config=config)
    assert paths(agent) == before
    assert agent.logs.live_directories == ("/data",)
    await world.stop()


@pytest.mark.rule("BD-4", "R10.1")
@virtually
async def test_a_directory_with_an_unacceptable_name_is_left_alone_and_the_broker_starts() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    agent = world.agents[1]
    await agent.produce(3)
    await agent.stop()
    names = ("-0", "x", "a b-0", "x-0x", f"{TP.topic}-007", f"{TP.topic}-99999999999", f"..-1.{'0' * 32}-delete")
    for name in names:
        agent.disk.make_directory(f"/data/{name}")
        agent.disk.open_file(f"/data/{name}/kept").append([b"kept"])
    await agent.start()
    await world.tell(1)
    assert agent.offsets()[1] == 3
    await agent.logs.remove_deleted()
    assert all(agent.disk.read_file(f"/data/{name}/kept") == b"kept" for name in names)
    assert dict(agent.logs.unacceptable_names) == {"/data": tuple(sorted(names))}
    await world.stop()


MANY = 20 * SLICE


@pytest.mark.rule("BD-9")
@pytest.mark.parametrize(
    "request_",
    [
        ListOffsetsRequest(BrokerId(-1), tuple(ListOffsetsPartition("unknown", n, -1) for n in range(MANY))),
        OffsetsForLeaderEpochRequest(
            BrokerId(-1),
            tuple(OffsetForLeaderPartition("unknown", n, LeaderEpoch(-1), LeaderEpoch(0)) for n in range(MANY)),
        ),
        DeleteRecordsRequest(1, tuple(DeleteRecordsPartition("unknown", n, Offset(-1)) for n in range(MANY))),
        FetchRequest(
            BrokerId(-1), tuple(FetchPartition("unknown", None, n, Offset(0), 1) for n in range(MANY)), 0, 1, 1
        ),
    ],
    ids=lambda request: type(request).__name__,
)
@virtually
async def test_a_request_of_many_items_lets_others_have_their_turn(request_: Any) -> None:
    world, agent = await one_agent()
    assert await turns_during(agent.handle(request_)) >= MANY // SLICE
    await world.stop()


@pytest.mark.rule("R6.21", "BD-9")
@virtually
async def test_a_partition_that_a_request_names_twice_is_refused_each_time() -> None:
    world, agent = await one_agent()
    items = [ListOffsetsPartition(TOPIC, n, -1) for n in (0, 1, 0)]
    listed = await agent.handle(ListOffsetsRequest(BrokerId(-1), tuple(items)))
    assert [(r.partition, r.error_code) for r in listed.partitions] == [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, ErrorCode.INVALID_REQUEST),
    ]
    await world.stop()
