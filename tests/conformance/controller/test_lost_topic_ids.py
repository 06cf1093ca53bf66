"""A topic whose znode loses its id keeps the one that its brokers know it by."""

from collections.abc import Sequence
from random import Random

import pytest

from cluster.model.broker import LEADER_DURING_DELETE, BrokerId, PartitionEpoch, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.requests.control import UpdateMetadataRequest
from cluster.requests.topics import CreatePartitionsRequest, CreateTopicsRequest, NewPartitions, NewTopic
from cluster.znodes.paths import delete_topic_path, state_path, topic_path
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import Op, OpResult, SetData
from controller.decisions.topics.creation import new_topic_id
from tests.controllers.contexts import leadership, tp
from tests.controllers.refused_writes import Refusal, WriteRefusals
from tests.controllers.topics_without_ids import (
    KNOWN,
    OTHER,
    KafkasBrokers,
    describe,
    fail_over_without_id,
    findings,
    id_in_znode,
    ids_sent,
    led_topic,
)
from tests.controllers.worlds import RecordingBrokers, quiesce, run_virtually, running_cluster, until
from tests.kafka.old_tools import body_of_old_tool, rewrite_as_old_tool


@pytest.mark.rule("D-102", "TP-24", "TP-23")
@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("protocol", ["3.9", "2.7"])
def test_an_id_that_a_tool_drops_is_written_back_at_once(grows: bool, protocol: str) -> None:
    async def main() -> None:
        world, c = await led_topic(1, 2, protocol_version=ProtocolVersion.parse(protocol))
        await rewrite_as_old_tool(world.tool, "t", {1: [2, 1]} if grows else {})
        await quiesce()
        topic = await world.topic("t")
        assert topic is not None
        assert topic.topic_id == KNOWN
        assert set(topic.partitions) == ({0, 1} if grows else {0})
        if grows:
            await world.leads("t", 1, leader=2)
        assert await findings(c) == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
def test_another_id_is_left_alone_because_the_topic_may_be_another() -> None:
    async def main() -> None:
        world, c = await led_topic(1)
        await rewrite_as_old_tool(world.tool, "t", {}, topic_id=OTHER)
        await quiesce()
        assert await id_in_znode(world) == OTHER
        assert c.context.topics.ids["t"] == KNOWN
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
def test_what_a_tool_writes_while_the_id_is_written_back_stays() -> None:
    """Two writes in a row, the second between the controller's read and its write, again and again."""

    async def main() -> None:
        world, c = await led_topic(1)
        for partition in range(1, 20):
            await rewrite_as_old_tool(world.tool, "t", {partition: [1]})
        await until(lambda: len(c.context.topics.assignments["t"]) == 20)
        await quiesce()
        topic = await world.topic("t")
        assert topic is not None
        assert (topic.topic_id, len(topic.partitions)) == (KNOWN, 20)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102", "TI-1", "TI-3")
@pytest.mark.parametrize(
    ("answers", "given"),
    [
        ({1: {"t": KNOWN}, 2: {"t": KNOWN}}, KNOWN),
        ({1: {"t": KNOWN}, 2: {"t": None}}, KNOWN),
        ({1: {}, 2: {"t": KNOWN}}, KNOWN),
        ({1: {"t": None}, 2: {"t": None}}, "invented"),
        ({1: {"t": KNOWN}, 2: {"t": OTHER}}, "broker 1 knows it as {KNOWN}; broker 2 knows it as {OTHER}"),
    ],
)
def test_brokers_are_asked_for_an_id_that_was_lost_while_nobody_ruled(
    answers: dict[int, dict[str, TopicId | None]], given: str
) -> None:
    async def main() -> None:
        world, c = await led_topic(1, 2)
        c = await fail_over_without_id(world, c, "t", answers=answers)
        written, known = await id_in_znode(world), c.context.topics.ids.get("t")
        assert written == known
        if given in (KNOWN, "invented"):
            assert known is not None
            assert (known == KNOWN) is (given == KNOWN)
            assert await findings(c) == []
            for broker in (1, 2):
                assert set(ids_sent(c, broker)) == {None, known}
                assert ids_sent(c, broker)[-1] == known
                metadata = [t for r in c.brokers.of(broker, UpdateMetadataRequest) for t in r.topic_states]
                assert metadata[-1].topic_id == known
        else:
            assert known is None
            (finding,) = await findings(c)
            assert (finding.kind, finding.topic) == ("topic_id_lost", "t")
            assert given.format(KNOWN=KNOWN, OTHER=OTHER) in finding.detail
            assert set(ids_sent(c, 1)) == {None}
        assert known != OTHER
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
def test_a_topic_that_was_never_led_gets_its_id_at_once() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await c.stop()
        await world.create_topic("new", [1])
        c = world.start_controller(1002)
        c.brokers.unreachable.add(1)
        await until(lambda: c.is_active)
        assert await id_in_znode(world, "new") == c.context.topics.ids["new"] is not None
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
@pytest.mark.parametrize("state", ["registered", "dead"])
def test_no_id_is_invented_while_a_broker_that_may_have_one_is_silent(state: str) -> None:
    """Until it is there again and says so; the failover does not wait for it."""

    async def main() -> None:
        world, c = await led_topic(1, 2)
        await c.stop()
        await rewrite_as_old_tool(world.tool, "t", {})
        if state == "dead":
            await world.stop_broker(2)
        c = world.start_controller(1002)
        describe(c, 2, {"t": KNOWN})
        if state == "registered":
            c.brokers.unreachable.add(2)
        await until(lambda: c.is_active, deadline_s=8)
        await quiesce(15)
        assert await id_in_znode(world) is None
        assert ids_sent(c, 1)
        assert set(ids_sent(c, 1)) == {None}
        (finding,) = await findings(c)
        assert finding.kind == "topic_id_lost"
        assert "no broker knows its id, and broker 2 has a replica, but does not answer" in finding.detail
        assert "/brokers/topics/t" in finding.detail
        await world.create_topic("meanwhile", [1])
        await world.leads("meanwhile", leader=1)
        c.brokers.unreachable.clear()
        if state == "dead":
            await world.start_broker(2)
        await until(lambda: c.context.topics.ids.get("t") == KNOWN)
        await quiesce()
        assert await id_in_znode(world) == KNOWN
        assert ids_sent(c, 1)[-1] == ids_sent(c, 2)[-1] == KNOWN
        assert await findings(c) == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
def test_an_operator_writes_the_id_back_and_it_is_taken_over_without_a_failover() -> None:
    async def main() -> None:
        world, c = await led_topic(1, 2)
        c = await fail_over_without_id(world, c, "t", answers={1: {"t": KNOWN}, 2: {"t": OTHER}})
        assert await findings(c)
        await rewrite_as_old_tool(world.tool, "t", {}, topic_id=KNOWN)
        await until(lambda: c.context.topics.ids.get("t") == KNOWN)
        await quiesce()
        assert ids_sent(c, 2)[-1] == KNOWN
        assert await findings(c) == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
def test_a_topic_without_an_id_grows_is_moved_and_is_deleted() -> None:
    async def main() -> None:
        world, c = await led_topic(1, 2)
        c = await fail_over_without_id(world, c, "t", answers={1: {"t": KNOWN}, 2: {"t": OTHER}})
        await c.ask(CreatePartitionsRequest((NewPartitions("t", 2),), 5000))
        await world.leads("t", 1, leader=(await world.topic("t")).partitions[1].replicas[0])  # type: ignore[union-attr]
        assert await id_in_znode(world) is None
        await world.create(delete_topic_path("t"))
        await until(lambda: "t" not in c.context.topics.names)
        (created,) = (await c.ask(CreateTopicsRequest((NewTopic("t", 1, 2),), 5000))).topics
        assert created.error_code is ErrorCode.NONE
        assert await id_in_znode(world) not in (None, KNOWN, OTHER)
        await quiesce(100)
        assert await findings(c) == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
def test_the_invented_id_is_the_same_whoever_asks_for_it() -> None:
    async def main() -> None:
        ids = set()
        for successor in (1002, 1003):
            world, c = await led_topic(1)
            await c.stop()
            await rewrite_as_old_tool(world.tool, "t", {})
            c = world.start_controller(successor)
            await quiesce(10)
            ids.add(c.context.topics.ids["t"])
            await c.stop()
        assert len(ids) == 1

    run_virtually(main)


@pytest.mark.rule("D-103", "BD-10")
@pytest.mark.parametrize(
    ("answers", "expected", "kinds"),
    [
        ({"a": KNOWN, "b": OTHER}, {"a": KNOWN, "b": OTHER}, []),
        ({"a": None, "b": OTHER}, {"b": OTHER}, ["topic_id_conflict"]),
        ({"a": KNOWN, "b": None}, {"a": KNOWN, "b": OTHER}, []),
        ({"a": None, "b": None}, {"a": OTHER}, ["topic_id_conflict"]),
        (None, {}, ["topic_id_conflict", "topic_id_conflict"]),
    ],
    ids=["both known", "one known", "the other known", "none known", "silent"],
)
def test_of_two_topics_with_one_id_the_brokers_say_whose_it_is(
    answers: dict[str, TopicId | None] | None, expected: dict[str, TopicId], kinds: list[str]
) -> None:
    """The id of the older one, a, was overwritten with that of b."""

    async def main() -> None:
        world, c = await led_topic(1, topic="a")
        await world.create_topic("b", [1], topic_id=OTHER)
        await world.leads("b", leader=1)
        await quiesce()
        await c.stop()
        await rewrite_as_old_tool(world.tool, "a", {}, topic_id=OTHER)
        c = world.start_controller(1002)
        if answers is None:
            c.brokers.unreachable.add(1)
        else:
            describe(c, 1, answers)
        await until(lambda: c.is_active)
        await quiesce(15)
        assert c.context.topics.ids == expected
        assert [f.kind for f in await findings(c)] == kinds
        assert await id_in_znode(world, "b") == OTHER
        assert await id_in_znode(world, "a") == expected.get("a", OTHER)
        if answers is not None:
            assert ids_sent(c, 1, "b")[-1] == expected.get("b")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
def test_a_thousand_topics_are_asked_about_at_a_time() -> None:
    count = 1_100

    async def main() -> None:
        world, c = await running_cluster(1)
        await c.stop()
        for number in range(count):
            tp = TopicPartition(f"t{number}", 0)
            await world.create(topic_path(tp.topic), body_of_old_tool({0: [1]}))
            await world.create(state_path(tp), encode_state(leadership(1, [1])))
        c = world.start_controller(1002)
        describe(c, 1, {f"t{number}": new_topic_id(Random(number)) for number in range(count)})
        await until(lambda: c.is_active)
        await until(lambda: len(c.context.topics.ids) == count)
        assert c.context.topics.ids["t7"] == new_topic_id(Random(7))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
@pytest.mark.parametrize("refusal", [Refusal.NO_AUTH, Refusal.SERVER_ERROR, Refusal.BAD_VERSION])
def test_a_refused_write_of_a_known_id_is_repeated(refusal: Refusal) -> None:
    async def main() -> None:
        world, c = await led_topic(1)
        c.zookeeper.refuse_writes(WriteRefusals(refusal, 0))
        await rewrite_as_old_tool(world.tool, "t", {})
        await quiesce(5)
        # A conflict is no refusal: the znode is read again at once.
        assert await id_in_znode(world) == (KNOWN if refusal is Refusal.BAD_VERSION else None)
        await quiesce(40)
        assert await id_in_znode(world) == KNOWN
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
@pytest.mark.parametrize("refusal", [Refusal.NO_AUTH, Refusal.SERVER_ERROR, Refusal.BAD_VERSION, Refusal.FENCED])
def test_a_refused_write_of_a_recovered_id_is_repeated(refusal: Refusal) -> None:
    async def main() -> None:
        world, c = await led_topic(1)
        await c.stop()
        await rewrite_as_old_tool(world.tool, "t", {})
        c = world.start_controller(1002)
        describe(c, 1, {"t": KNOWN})
        refused: list[Sequence[Op]] = []

        def refuse_the_id(ops: Sequence[Op]) -> list[OpResult] | None:
            named = any(isinstance(op, SetData) and op.path == topic_path("t") for op in ops)
            if not named or refused:
                return None
            refused.append(ops)
            return WriteRefusals(refusal, 0)(ops)

        c.zookeeper.refuse_writes(refuse_the_id)
        await until(lambda: c.is_active)
        await quiesce(100)
        assert refused
        assert await id_in_znode(world) == KNOWN
        assert c.context.topics.ids["t"] == KNOWN
        assert ids_sent(c, 1)[-1] == KNOWN
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
@pytest.mark.parametrize("others", [0, 3])
def test_a_leader_names_a_lost_id_when_it_proposes_an_isr(others: int) -> None:
    """Its metadata have forgotten it, its log has it; other topics in the same plight can be meant as well."""

    async def main() -> None:
        topics = ["t", *(f"other-{number}" for number in range(others))]
        known = {topic: new_topic_id(Random(number)) for number, topic in enumerate(topics)}
        world, c = await running_cluster(1, 2)
        for topic in topics:
            await world.create_topic(topic, [1, 2], topic_id=known[topic])
            await world.leads(topic, leader=1)
        await quiesce()
        await c.stop()
        for topic in topics:
            await rewrite_as_old_tool(world.tool, topic, {})
        c = world.start_controller(1002)
        KafkasBrokers.of(c, {1: {}, 2: {}}).logged = {1: dict(known), 2: dict(known)}
        await until(lambda: c.is_active)
        await quiesce()
        assert len(await findings(c)) == len(topics)
        for topic in reversed(topics):
            state = c.context.leaderships.known[TopicPartition(topic, 0)]
            item = AlterPartitionItem(
                "", known[topic], 0, state.leader_epoch, state.isr[:1], PartitionEpoch(state.partition_epoch)
            )
            epoch = await world.broker_epoch(1)
            (answer,) = (await c.ask(AlterPartitionRequest(BrokerId(1), epoch, (item,)))).partitions
            assert answer.error_code is ErrorCode.INELIGIBLE_REPLICA
            await quiesce()
            assert c.context.topics.ids.get(topic) == known[topic]
            (answer,) = (await c.ask(AlterPartitionRequest(BrokerId(1), epoch, (item,)))).partitions
            assert answer.error_code is ErrorCode.NONE
        assert await findings(c) == []
        assert {topic: await id_in_znode(world, topic) for topic in topics} == known
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102", "RQ-8")
def test_brokers_hear_of_a_deletion_while_other_metadata_of_the_topic_are_held_back() -> None:
    async def main() -> None:
        world, c = await led_topic(1, 2)
        await c.stop()
        await rewrite_as_old_tool(world.tool, "t", {})
        await world.create(delete_topic_path("t"))
        c = world.start_controller(1002)
        KafkasBrokers.of(c, {1: {}, 2: {"t": KNOWN}})
        await until(lambda: c.is_active and "t" not in c.context.topics.names)
        await quiesce(20)
        requests = RecordingBrokers.of(c.brokers, 1, UpdateMetadataRequest)
        leaders = [s.leader for r in requests for t in r.topic_states for s in t.partition_states]
        assert leaders
        assert set(leaders) == {LEADER_DURING_DELETE}
        assert await findings(c) == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
def test_no_id_is_invented_while_a_broker_has_its_replica_on_a_failed_disk() -> None:
    async def main() -> None:
        world, c = await led_topic(1, 2)
        await c.stop()
        await rewrite_as_old_tool(world.tool, "t", {})
        second = world.start_controller(1002)
        second.brokers.results[BrokerId(1)] = {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR}
        for broker in (1, 2):
            # The second one came with an empty disk.
            describe(second, broker, {})
        await until(lambda: second.is_active)
        await quiesce(20)
        assert await id_in_znode(world) is None
        (found,) = await findings(second)
        assert found.kind == "topic_id_lost"
        # The disk is mended.
        second.brokers.results.clear()
        describe(second, 1, {"t": KNOWN})
        await world.stop_broker(1)
        await world.start_broker(1)
        await quiesce(60)
        assert await id_in_znode(world) == KNOWN
        await second.stop()

    run_virtually(main)
