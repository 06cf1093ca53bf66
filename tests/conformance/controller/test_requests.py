"""Requests of agents and administrators to the active controller."""

import asyncio

import pytest

from cluster.model.broker import BrokerEpoch, BrokerId, PartitionEpoch
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import LeaderAndIsr
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, AlterPartitionResponse
from cluster.requests.cluster import DescribeClusterRequest
from cluster.requests.control import UpdateMetadataRequest
from cluster.requests.topics import CreateTopicsRequest, DescribeTopicsRequest, ListTopicsRequest, NewTopic
from cluster.znodes.configs import decode_config, encode_config
from cluster.znodes.controller import encode_controller_epoch
from cluster.znodes.paths import topic_config_path
from cluster.zookeeper.port import SetData
from state_log.record import Kind
from tests.controllers.contexts import ids
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster

E = ErrorCode


def proposal(state: LeaderAndIsr, *isr: int, partition: int = 0, behind: int = 0) -> AlterPartitionItem:
    return AlterPartitionItem(
        "t", None, partition, state.leader_epoch, ids(*isr), PartitionEpoch(state.partition_epoch - behind)
    )


async def propose(
    world: World, c: RunningController, sender: int, *items: AlterPartitionItem
) -> AlterPartitionResponse:
    epoch = await world.broker_epoch(sender)
    answer: AlterPartitionResponse = await c.ask(AlterPartitionRequest(BrokerId(sender), epoch, items))
    return answer


@pytest.mark.rule("IS-13", "IS-14", "IS-15", "IS-16", "IS-18")
def test_an_accepted_isr_is_written_once_and_sent_to_every_broker() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2, 3], [1, 2])
        state = await world.leads("t", leader=1)
        other = await world.leads("t", 1, leader=1)
        await quiesce()
        c.brokers.received.clear()
        answer = await propose(
            world, c, 1, proposal(state, 1, 3), proposal(other, 1, 9, partition=1), proposal(state, 1, partition=7)
        )
        assert [r.error_code for r in answer.partitions] == [
            E.NONE,
            E.OPERATION_NOT_ATTEMPTED,
            E.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert (answer.partitions[0].partition_epoch, answer.partitions[0].leader_epoch) == (1, 0)
        written = await world.state("t")
        assert written is not None
        assert (written.isr, written.leader_epoch, written.partition_epoch) == ((1, 3), 0, 1)
        await quiesce()
        for broker in (1, 2, 3):
            (request,) = c.brokers.of(broker, UpdateMetadataRequest)
            assert [s.partition_index for s in request.topic_states[0].partition_states] == [0, 1]
        assert {type(r) for _, r in c.brokers.received} == {UpdateMetadataRequest}
        (record,) = c.sink.of(Kind.ISR)
        assert (record.isr, record.partition_epoch, record.cause.event) == ((1, 3), 1, "AlterPartitionReceived")  # type: ignore[union-attr]
        again = await propose(world, c, 1, proposal(state, 1, 3))
        assert again.partitions[0].error_code is E.NONE
        assert await world.state("t") == written
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("IS-13", "PS-10")
def test_a_state_that_moved_on_in_zookeeper_is_an_invalid_version_without_retry() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        state = await world.leads("t", leader=1)
        await quiesce()
        path = "/brokers/topics/t/partitions/0/state"
        znode = await world.tool.get(path)
        assert znode is not None
        await world.write(SetData(path, znode.data))
        answer = await propose(world, c, 1, proposal(state, 1))
        assert answer.partitions[0].error_code is E.INVALID_UPDATE_VERSION
        # An election meets the same conflict, reads the node again and goes on from there.
        await world.stop_broker(1)
        moved = await world.leads("t", leader=2)
        assert (moved.leader_epoch, moved.partition_epoch) == (1, 2)
        await c.stop()

    run_virtually(main)


def test_of_two_proposals_for_one_partition_the_first_counts() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        state = await world.leads("t", leader=1)
        await quiesce()
        answer = await propose(world, c, 1, proposal(state, 1), proposal(state, 2, 1))
        assert [r.error_code for r in answer.partitions] == [E.NONE, E.INVALID_UPDATE_VERSION]
        assert (await world.state("t")).isr == (1,)  # type: ignore[union-attr]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("IS-5", "IS-6", "IS-7")
def test_whole_requests_are_refused_by_code() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        state = await world.leads("t", leader=1)
        await quiesce()
        unknown = await c.ask(AlterPartitionRequest(BrokerId(9), BrokerEpoch(1), (proposal(state, 1),)))
        assert unknown == AlterPartitionResponse(E.STALE_BROKER_EPOCH)
        standby = world.start_controller(1002)
        await quiesce()
        refused = await standby.ask(AlterPartitionRequest(BrokerId(1), BrokerEpoch(1), ()))
        assert refused == AlterPartitionResponse(E.NOT_CONTROLLER)
        await c.stop()
        await standby.stop()

    run_virtually(main)


@pytest.mark.rule("IS-19", "FN-4", "INV-12", "D-6")
def test_a_fenced_isr_change_is_answered_not_controller() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        state = await world.leads("t", leader=1)
        await quiesce()
        # The news of it has not come yet.
        c.zookeeper.listen(lambda _: None)
        await world.write(SetData("/controller_epoch", encode_controller_epoch(9)))  # type: ignore[arg-type]
        answer = await propose(world, c, 1, proposal(state, 1))
        assert answer == AlterPartitionResponse(E.NOT_CONTROLLER)
        assert await world.state("t") == state
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-1", "TP-4", "TP-5")
def test_created_topics_are_led_when_the_answer_comes() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        asked = CreateTopicsRequest(
            (
                NewTopic("orders", 6, 3, configs={"retention.ms": "1000"}),
                NewTopic("a.b", 1, 1),
                NewTopic("a_b", 1, 1),
                NewTopic("twice", 1, 1),
                NewTopic("twice", 1, 1),
                NewTopic("many", 1, 9),
            )
        )
        answer = await c.ask(asked)
        assert [(r.name, r.error_code) for r in answer.topics] == [
            ("orders", E.NONE),
            ("a.b", E.NONE),
            ("a_b", E.INVALID_TOPIC_EXCEPTION),
            ("twice", E.INVALID_REQUEST),
            ("twice", E.INVALID_REQUEST),
            ("many", E.INVALID_REPLICATION_FACTOR),
        ]
        orders = answer.topics[0]
        assert (orders.num_partitions, orders.replication_factor) == (6, 3)
        assert (answer.topics[5].error_field, answer.topics[5].error_value) == ("replication_factor", "9")
        for partition in range(6):
            state = await world.state("orders", partition)
            assert state is not None
            assert len(state.isr) == 3
        node = await world.topic("orders")
        assert node is not None
        assert node.topic_id == orders.topic_id
        config = await world.tool.get(topic_config_path("orders"))
        assert config is not None
        assert decode_config("", config.data) == {"retention.ms": "1000"}
        again = await c.ask(CreateTopicsRequest((NewTopic("orders", 1, 1),)))
        assert again.topics[0].error_code is E.TOPIC_ALREADY_EXISTS
        listed = await c.ask(ListTopicsRequest())
        assert [(t.name, t.partitions, t.replication_factor) for t in listed.topics] == [
            ("a.b", 1, 1),
            ("orders", 6, 3),
        ]
        described = await c.ask(DescribeTopicsRequest(("orders", "nope")))
        assert [t.error_code for t in described.topics] == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
        assert described.topics[0].configs == {"retention.ms": "1000"}
        assert [p.partition for p in described.topics[0].partitions] == list(range(6))
        await c.stop()

    run_virtually(main)


def test_validation_alone_writes_nothing() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        answer = await c.ask(CreateTopicsRequest((NewTopic("t", 2, 1), NewTopic("u", 0)), validate_only=True))
        assert [r.error_code for r in answer.topics] == [E.NONE, E.INVALID_PARTITIONS]
        assert (answer.topics[0].num_partitions, answer.topics[0].topic_id) == (2, None)
        await quiesce()
        assert await world.topic("t") is None
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-4")
@pytest.mark.parametrize("timeout_ms", [0, 300])
def test_a_topic_that_nobody_can_lead_is_created_but_times_out_and_blocks_nobody(timeout_ms: int) -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        request = CreateTopicsRequest((NewTopic("t", assignments={0: ids(7)}),), timeout_ms=timeout_ms)
        waiting = asyncio.ensure_future(c.ask(request))
        await asyncio.sleep(0.1)
        assert len((await c.ask(ListTopicsRequest())).topics) == 1
        answer = await waiting
        assert answer.topics[0].error_code is E.REQUEST_TIMED_OUT
        assert await world.topic("t") is not None
        marked = await c.ask(DescribeTopicsRequest())
        (partition,) = marked.topics[0].partitions
        assert (partition.leader, partition.leader_epoch, partition.offline_replicas) == (-1, -1, (7,))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-4")
def test_who_waits_for_leaders_is_answered_when_the_last_of_them_comes() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        assignments = {0: ids(1), 1: ids(7), 2: ids(8)}
        request = CreateTopicsRequest((NewTopic("t", assignments=assignments),), timeout_ms=600_000)
        waiting = asyncio.ensure_future(c.ask(request))
        await world.leads("t", leader=1)
        for broker in (7, 8):
            await quiesce()
            assert not waiting.done()
            await world.start_broker(broker)
            await world.leads("t", 1 if broker == 7 else 2, leader=broker)
        assert (await waiting).topics[0].error_code is E.NONE
        assert c.controller._active is not None
        assert not c.controller._active._awaiting_leaders
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-1")
def test_left_over_settings_are_replaced_and_marked_or_existing_names_refused() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create(topic_config_path("t"), encode_config({"retention.ms": "5"}))
        # The request comes before the news of the marker, which is dropped then: there is no such topic.
        c.zookeeper.pause()
        await world.create("/admin/delete_topics/gone")
        asked = asyncio.ensure_future(c.ask(CreateTopicsRequest((NewTopic("t", 1, 1), NewTopic("gone", 1, 1)))))
        await quiesce(0.01)
        c.zookeeper.resume()
        answer = await asked
        assert [r.error_code for r in answer.topics] == [E.NONE, E.TOPIC_ALREADY_EXISTS]
        config = await world.tool.get(topic_config_path("t"))
        assert config is not None
        assert decode_config("", config.data) == {}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EV-6", "INV-12", "D-7")
def test_requests_that_wait_when_the_session_ends_are_answered_not_controller() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        state = await world.leads("t", leader=1)
        await quiesce()
        c.zookeeper.disconnect(1)
        creation = asyncio.ensure_future(c.ask(CreateTopicsRequest((NewTopic("s", 1, 1),))))
        others = [
            asyncio.ensure_future(propose(world, c, 1, proposal(state, 1))),
            asyncio.ensure_future(c.ask(CreateTopicsRequest((NewTopic("u", 1, 1),)))),
            asyncio.ensure_future(c.ask(DescribeTopicsRequest())),
        ]
        await asyncio.sleep(0.05)
        c.zookeeper.expire()
        done, pending = await asyncio.wait([creation, *others], timeout=30)
        assert not pending
        assert len(done) == 4
        assert others[0].result() == AlterPartitionResponse(E.NOT_CONTROLLER)
        for answer in (creation, others[1], others[2]):
            error = answer.exception()
            assert isinstance(error, ApiError)
            assert error.code is E.NOT_CONTROLLER
        await c.stop()

    run_virtually(main)


def test_what_a_controller_does_not_serve_is_refused() -> None:
    async def main() -> None:
        _, c = await running_cluster(1)
        with pytest.raises(ApiError) as refused:
            await c.ask("anything")
        assert refused.value.code is E.UNSUPPORTED_VERSION
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("PS-20", "PS-21", "IS-20", "D-18")
def test_only_a_topic_that_allows_it_gets_an_unclean_leader() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        key = "unclean.leader.election.enable"
        for topic, configs in {"clean": {}, "unclean": {key: "true"}, "wrong": {key: "maybe"}}.items():
            await world.create(topic_config_path(topic), encode_config(configs))
            await world.create_topic(topic, [1, 2])
            await world.leads(topic, leader=1)
        await world.stop_broker(2)
        for topic in ("clean", "unclean", "wrong"):
            await world.leads(topic, leader=1, isr=[1])
        await world.stop_broker(1)
        await world.leads("clean", leader=-1)
        await world.start_broker(2)
        state = await world.leads("unclean", leader=2)
        assert (state.isr, state.leader_recovery_state, state.leader_epoch) == ((2,), 1, 3)
        await quiesce()
        for topic in ("clean", "wrong"):
            await world.leads(topic, leader=-1, isr=[1])
        assert c.metrics.meter("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec").count == 1
        assert c.gauge("OfflinePartitionsCount") == 2
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RQ-13", "FN-9")
def test_refusals_of_brokers_do_not_end_the_controller() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        c.brokers.answers[BrokerId(1)] = E.STALE_CONTROLLER_EPOCH
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await quiesce()
        assert c.gauge("ActiveControllerCount") == 1
        await c.stop()

    run_virtually(main)


def test_every_controller_tells_which_ones_there_are_active_or_not() -> None:
    async def main() -> None:
        world, first = await running_cluster(1)
        second = world.start_controller(1002)
        await world.create("/controllers/ids/999", b"no registration")
        await quiesce()
        for controller in (first, second):
            described = await controller.ask(DescribeClusterRequest())
            assert (described.node_id, described.controller_id) == (controller.controller.config.id, 1001)
            assert [c.id for c in described.controllers] == [1001, 1002]
            assert described.controllers[0].address == described.controller_address
        await second.stop()
        await first.stop()

    run_virtually(main)
