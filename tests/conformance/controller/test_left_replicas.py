"""Topics are deleted without brokers that stay away, which delete what they still have before they get anything new."""

import asyncio
from typing import Any

import pytest

from cluster.model.broker import BrokerId, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.state_machines import ReplicaState
from cluster.requests.cluster import DescribeFindingsRequest
from cluster.requests.context import RequestContext
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.requests.topics import DeleteTopicsRequest, DescribeTopicDeletionsRequest, TopicToDelete
from cluster.znodes.left_replicas import LeftReplicas, decode_left_replicas, encode_left_replicas
from cluster.znodes.paths import CONTROLLER_EPOCH, LEFT_REPLICAS, delete_topic_path, left_replicas_path, state_path
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import Create, Delete, SetData
from state_log.record import Kind
from tests.controllers.contexts import ids, leadership, tp
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

GRACE_MS = 600_000
ID = "Wx8MUo0-SnefEGwuS32aMQ"
THREE = BrokerId(3)
RECORD = left_replicas_path(THREE, "t")


async def without_broker_3(**settings: Any) -> tuple[World, RunningController]:
    """Topic t, of two partitions, with replicas on brokers 1 and 3, of which 3 is away; t is marked for deletion."""
    world, c = await running_cluster(1, 2, 3, **settings)
    await world.create_topic("t", [1, 3], [3, 1], topic_id=ID)
    await world.leads("t", 1, leader=3)
    await quiesce()
    await world.stop_broker(3)
    await world.leads("t", 1, leader=1)
    await world.write(Create(delete_topic_path("t")))
    await quiesce()
    return world, c


async def is_gone(world: World) -> bool:
    return not any([await world.tool.get(path) for path in (delete_topic_path("t"), "/brokers/topics/t")])


async def record(world: World, path: str = RECORD) -> LeftReplicas | None:
    znode = await world.tool.get(path)
    return None if znode is None else decode_left_replicas(path, znode.data)


def about_t(c: RunningController, broker: int = 3) -> list[tuple[str, str | None]]:
    """What the broker was asked about replicas of t, in order: kind and topic id."""
    found: list[tuple[str, str | None]] = []
    for to, request in c.brokers.received:
        match request:
            case StopReplicaRequest() if to == broker:
                found += [
                    ("delete" if s.delete_partition else "stop", s.topic_id)
                    for s in request.partition_states
                    if s.topic_name == "t"
                ]
            case LeaderAndIsrRequest() if to == broker:
                found += [("lead or follow", t.topic_id) for t in request.topic_states if t.topic_name == "t"]
            case _:
                pass
    return found


async def create_again(world: World) -> str:
    await world.create_topic("t", [1, 3])
    await world.leads("t", leader=1, isr=(1,))
    await quiesce()
    topic = await world.topic("t")
    assert topic is not None
    assert topic.topic_id not in {None, ID}
    return topic.topic_id or ""


@pytest.mark.rule("D-98")
def test_a_deletion_is_completed_without_a_broker_that_is_away_for_the_grace_time() -> None:
    async def main() -> None:
        world, c = await without_broker_3()
        await quiesce(GRACE_MS / 1000 - 60)
        assert not await is_gone(world)
        assert await record(world) is None
        (described,) = (await c.ask(DescribeTopicDeletionsRequest(("t",)))).deletions
        assert "the topic is deleted without it at" in described.waiting[0].reason
        await quiesce(61)
        assert await is_gone(world)
        assert await record(world) == LeftReplicas(TopicId(ID), (0, 1))
        moved = [r.to_state for r in c.sink.of(Kind.REPLICA) if r.broker == 3 and r.partition == 0]
        assert moved[-4:] == [s.value for s in (S.OFFLINE, S.DELETION_STARTED, S.DELETION_SUCCESSFUL, S.NON_EXISTENT)]
        await c.stop()

    run_virtually(main)


S = ReplicaState


@pytest.mark.rule("D-98")
def test_with_minus_one_a_deletion_waits_for_ever() -> None:
    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=-1)
        await quiesce(100_000)
        assert not await is_gone(world)
        (described,) = (await c.ask(DescribeTopicDeletionsRequest(("t",)))).deletions
        assert described.waiting[0].reason == "broker 3 is not alive"
        await world.start_broker(3)
        await until(lambda: is_gone(world))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-98")
def test_the_time_away_counts_from_the_last_departure_and_not_from_the_deletion() -> None:
    async def main() -> None:
        world, c = await without_broker_3()
        await world.write(Delete(delete_topic_path("t")))
        await quiesce(GRACE_MS / 1000 - 10)
        await world.create_topic("u", [1, 3])
        await world.write(Create(delete_topic_path("u")))
        await quiesce(20)
        assert await record(world, left_replicas_path(THREE, "u")) is not None
        # Away long enough: it is not waited for again.
        await world.create_topic("v", [1, 3])
        await world.leads("v", leader=1)
        await world.write(Create(delete_topic_path("v")))
        await quiesce(1)
        assert await record(world, left_replicas_path(THREE, "v")) is not None
        await world.start_broker(3)
        await quiesce()
        await world.stop_broker(3)
        await quiesce()
        await world.create_topic("w", [1, 3])
        await world.write(Create(delete_topic_path("w")))
        await quiesce(GRACE_MS / 1000 - 10)
        assert await world.topic("w") is not None, "it was there a short time ago"
        await quiesce(20)
        assert await world.topic("w") is None
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-98", "BK-34")
def test_a_broker_that_dies_while_it_deletes_is_given_up_later() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 3)
        await world.create_topic("t", [1, 3], topic_id=ID)
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.unreachable.add(THREE)
        await world.write(Create(delete_topic_path("t")))
        await quiesce(GRACE_MS / 1000)
        assert not await is_gone(world), "a broker that is registered is waited for"
        await world.stop_broker(3)
        await quiesce(GRACE_MS / 1000 + 1)
        assert await is_gone(world)
        assert await record(world) == LeftReplicas(TopicId(ID), (0,))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-98")
def test_a_failed_disk_of_a_live_broker_holds_a_deletion_however_long() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 3, delete_topic_absent_broker_grace_ms=0)
        await world.create_topic("t", [1, 3], topic_id=ID)
        await world.leads("t", leader=1)
        c.brokers.deletions[THREE] = ErrorCode.KAFKA_STORAGE_ERROR
        await world.write(Create(delete_topic_path("t")))
        await quiesce(3600)
        assert not await is_gone(world)
        assert await record(world) is None
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-99")
@pytest.mark.parametrize("with_failover", [False, True])
def test_a_broker_that_is_back_deletes_first_and_gets_the_newer_topic_when_it_has_answered(with_failover: bool) -> None:
    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=0)
        new_id = await create_again(world)
        if with_failover:
            await c.stop()
            c = world.start_controller(1002, delete_topic_absent_broker_grace_ms=0)
            await until(lambda: c.is_active)
        c.brokers.received.clear()
        c.brokers.unreachable.add(THREE)
        await world.start_broker(3)
        await quiesce(5)
        assert c.context.brokers.online_for(tp("t-0")) == {1, 2}
        assert (await findings(c))[0][1].startswith("broker 3 still has replicas of 1 topics")
        c.brokers.unreachable.clear()
        await quiesce()
        assert isinstance(next(request for broker, request in c.brokers.received if broker == 3), StopReplicaRequest)
        assert about_t(c) == [("delete", ID), ("delete", ID), ("lead or follow", new_id)]
        assert await record(world) is None
        assert c.context.brokers.online_for(tp("t-0")) == {1, 2, 3}
        assert await findings(c) == []
        await c.stop()

    run_virtually(main)


async def findings(c: RunningController) -> list[tuple[str, str]]:
    found = (await c.ask(DescribeFindingsRequest())).findings
    return [(f.kind, f.detail) for f in found if f.kind == "left_replicas"]


@pytest.mark.rule("D-99")
@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INCONSISTENT_TOPIC_ID])
def test_only_a_broker_that_has_nothing_left_gets_the_newer_topic(code: ErrorCode) -> None:
    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=0)
        new_id = await create_again(world)
        c.brokers.received.clear()
        c.brokers.deletions[THREE] = code
        await world.start_broker(3)
        await quiesce(5)
        has_all = code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (await record(world) is not None) is has_all
        assert (("lead or follow", new_id) not in about_t(c)) is has_all
        c.brokers.deletions.clear()
        await world.stop_broker(3)
        await quiesce()
        await world.start_broker(3)
        await quiesce()
        assert await record(world) is None
        assert about_t(c)[-1] == ("lead or follow", new_id)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-99")
def test_a_topic_that_only_the_broker_hosts_is_led_when_it_has_answered() -> None:
    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=0)
        await world.create_topic("t", [3])
        await quiesce()
        assert await world.state("t") is None
        await world.start_broker(3)
        await world.leads("t", leader=3, isr=(3,))
        assert about_t(c)[-1][0] == "lead or follow"
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-99", "BK-15")
def test_a_move_to_the_broker_begins_there_when_it_has_answered() -> None:
    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=0)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        c.brokers.received.clear()
        c.brokers.unreachable.add(THREE)
        await world.start_broker(3)
        await quiesce()
        move = ReassignableTopic("t", (ReassignablePartition(0, ids(3)),))
        await c.ask(AlterPartitionReassignmentsRequest((move,)))
        await quiesce()
        c.brokers.unreachable.clear()
        await quiesce()
        kinds = [kind for kind, _ in about_t(c)]
        assert kinds[:2] == ["delete", "delete"]
        assert "lead or follow" in kinds[2:]
        last = c.brokers.of(3, LeaderAndIsrRequest)[-1].topic_states[0].partition_states[0]
        assert last.adding_replicas == (3,)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-99")
def test_the_newer_topic_is_deleted_as_any_other_and_the_record_stays_that_of_the_first() -> None:
    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=0)
        await create_again(world)
        await world.write(Create(delete_topic_path("t")))
        await quiesce()
        assert await is_gone(world)
        assert await record(world) == LeftReplicas(TopicId(ID), (0, 1)), "nothing of the newer one ever was there"
        third = await create_again(world)
        c.brokers.unreachable.add(THREE)
        await world.start_broker(3)
        await quiesce()
        await world.write(Create(delete_topic_path("t")))
        await quiesce(5)
        (described,) = (await c.ask(DescribeTopicDeletionsRequest(("t",)))).deletions
        assert [w.reason for w in described.waiting] == ["broker 3 has not deleted an earlier topic of the name yet"]
        c.brokers.received.clear()
        c.brokers.unreachable.clear()
        await until(lambda: is_gone(world))
        assert about_t(c) == [("delete", ID), ("delete", ID), ("stop", third), ("delete", third)]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-99")
def test_an_answer_of_an_earlier_incarnation_of_the_broker_does_not_count() -> None:
    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=0)
        new_id = await create_again(world)
        c.brokers.received.clear()
        await world.start_broker(3)
        # Dies and returns at once: what the first incarnation has answered is not known to be on its disk.
        await until(lambda: c.brokers.of(3, StopReplicaRequest))
        await world.stop_broker(3)
        await world.start_broker(3)
        await quiesce()
        kinds = about_t(c)
        assert kinds[-1] == ("lead or follow", new_id)
        assert kinds.index(("lead or follow", new_id)) >= 2
        assert await record(world) is None
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-98", "TD-28")
def test_a_controller_that_dies_after_the_record_leaves_a_deletion_that_waits_no_second_time() -> None:
    async def main() -> None:
        world, c = await without_broker_3()
        await c.stop()
        await world.create(RECORD, encode_left_replicas(LeftReplicas(TopicId(ID), (0, 1))))
        second = world.start_controller(1002)
        await until(lambda: is_gone(world), deadline_s=20)
        assert await record(world) is not None
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("D-100")
@pytest.mark.parametrize("isr", [(1, 3), (1,)])
def test_records_end_when_another_controller_has_made_a_topic_of_the_name(isr: tuple[int, ...]) -> None:
    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=0)
        await c.stop()
        # As a broker of Kafka that was the controller meanwhile.
        epoch = await world.tool.get(CONTROLLER_EPOCH)
        assert epoch is not None
        await world.write(SetData(CONTROLLER_EPOCH, str(int(epoch.data) + 1).encode()))
        await world.create_topic("t", [1, 3], topic_id="xx" + ID[2:])
        state = leadership(1, list(isr), controller_epoch=int(epoch.data) + 1)
        await world.create(state_path(tp("t-0")), encode_state(state))
        await world.start_broker(3)
        second = world.start_controller(1002)
        await until(lambda: second.is_active)
        await quiesce()
        assert await record(world) is None
        assert {kind for kind, _ in about_t(second)} == {"lead or follow"}
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("D-100")
def test_records_stay_when_another_controller_had_nothing_to_do_with_the_name() -> None:
    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=0)
        await c.stop()
        epoch = await world.tool.get(CONTROLLER_EPOCH)
        assert epoch is not None
        await world.write(SetData(CONTROLLER_EPOCH, str(int(epoch.data) + 5).encode()))
        second = world.start_controller(1002)
        await until(lambda: second.is_active)
        await world.start_broker(3)
        await quiesce()
        assert about_t(second) == [("delete", ID), ("delete", ID)]
        assert await record(world) is None
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("D-98", "BD-5")
@pytest.mark.parametrize(
    ("path", "data"),
    [
        (LEFT_REPLICAS, b"not JSON"),
        (f"{LEFT_REPLICAS}/many", b""),
        (f"{LEFT_REPLICAS}/3/a..b c", b"{}"),
        (RECORD, b"{}"),
        (RECORD, b'{"topic_id":"short","partitions":[0]}'),
        (RECORD, b'{"topic_id":null,"partitions":[-1]}'),
        (RECORD, b'{"topic_id":null,"partitions":[0],"version":2}'),
    ],
)
def test_malformed_records_stop_nobody(path: str, data: bytes) -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(path, data)
        c = world.start_controller(delete_topic_absent_broker_grace_ms=0)
        await until(lambda: c.is_active)
        await world.start_broker(1, 3)
        await world.create_topic("t", [1, 3], topic_id=ID)
        await world.leads("t", leader=1)
        await world.stop_broker(3)
        await quiesce()
        await world.write(Create(delete_topic_path("t")))
        await until(lambda: is_gone(world))
        assert await record(world) == LeftReplicas(TopicId(ID), (0,))
        await world.start_broker(3)
        await quiesce()
        assert await record(world) is None
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-98")
def test_who_is_away_for_good_is_a_finding_that_says_what_to_delete() -> None:
    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=0)
        ((kind, detail),) = await findings(c)
        assert kind == "left_replicas"
        assert detail == (
            "broker 3 still has replicas of 1 topics that were deleted while it was away (t); they are deleted when it "
            "is back; if it never will be, delete the znode /klamm/left_replicas/3 and everything below it"
        )
        await world.write(Delete(RECORD), Delete("/klamm/left_replicas/3"))
        assert await findings(c) == []
        # It is back all the same: nothing is lost by asking it.
        new_id = await create_again(world)
        c.brokers.received.clear()
        await world.start_broker(3)
        await quiesce()
        assert about_t(c) == [("delete", ID), ("delete", ID), ("lead or follow", new_id)]
        await world.stop_broker(3)
        await quiesce()
        await world.write(Create(delete_topic_path("t")))
        await until(lambda: is_gone(world), "the parent is created again", deadline_s=120)
        assert await record(world) is not None
        await c.stop()

    run_virtually(main)


def test_the_other_brokers_forget_the_topic_while_one_is_away() -> None:
    async def main() -> None:
        _, c = await without_broker_3()
        leaders = [
            p.leader
            for r in c.brokers.of(2, UpdateMetadataRequest)
            for t in r.topic_states
            if t.topic_name == "t"
            for p in t.partition_states
        ]
        assert leaders[-2:] == [-2, -2]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-101", "TP-4")
@pytest.mark.parametrize("is_kafka_client", [True, False])
def test_clients_of_kafka_wait_only_until_the_topic_is_forgotten(is_kafka_client: bool) -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 3)
        await world.create_topic("t", [1, 3])
        await world.leads("t", leader=1)
        await world.stop_broker(3)
        await quiesce()
        request = DeleteTopicsRequest((TopicToDelete("t"),), timeout_ms=30_000)
        for _ in range(2):
            began = asyncio.get_running_loop().time()
            answer = await c.node.handle(RequestContext(is_kafka_client=is_kafka_client), request)
            code = ErrorCode.NONE if is_kafka_client else ErrorCode.REQUEST_TIMED_OUT
            assert [result.error_code for result in answer.responses] == [code]
            assert (asyncio.get_running_loop().time() - began < 1) is is_kafka_client
        assert "t" in c.context.topics.names
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-101", "INV-12")
def test_clients_of_kafka_are_answered_when_the_controller_resigns() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        active = c.controller._active
        assert active is not None
        begun = active.topic_deletion_begun("t")
        await c.stop()
        assert begun.done()
        assert not begun.result()

    run_virtually(main)
