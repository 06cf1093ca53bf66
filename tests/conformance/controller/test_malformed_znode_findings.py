"""A malformed znode is a finding with its path and why, is skipped, and is forgotten when it is repaired."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.model.broker import BrokerEpoch, BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests.cluster import DescribeClusterRequest, DescribeFindingsRequest, Finding
from cluster.requests.control import LeaderAndIsrRequest
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.znodes.checks import why_malformed
from cluster.znodes.paths import CLUSTER_ID, delete_topic_path, state_path, topic_path
from cluster.znodes.topics import encode_state, encode_topic
from cluster.zookeeper.port import Delete, SetData
from tests.controllers.contexts import ids, leadership, tp
from tests.controllers.repairing import GARBAGE, REPAIRS, Repair, has_topic, is_gone, is_quiet
from tests.controllers.worlds import RunningController, World, run_virtually, until
from tests.examples import number_of_examples

BAD_NAMES = ("a" * 300, "a b", "été", "e\u0301te", "x\u2028y")
SKIPPED_PATHS = (
    "/brokers/topics/bad",
    "/brokers/topics/t/partitions/0/state",
    "/brokers/ids/9",
    "/brokers/ids/x",
    "/controllers/ids/1009",
    "/config/topics/t",
    "/config/topics/none",
    "/config/brokers/1",
    "/config/brokers/<default>",
    "/config/changes/config_change_0000000007",
    "/admin/reassign_partitions",
    "/feature",
    "/latest_producer_id_block",
    "/cluster/id",
    *(f"/brokers/topics/{name}" for name in BAD_NAMES),
)
"""What stays until an operator repairs it."""
REMOVED_PATHS = (
    "/admin/preferred_replica_election",
    "/admin/delete_topics/none",
    f"/admin/delete_topics/{'a' * 300}",
    "/isr_change_notification/isr_change_0000000001",
    "/log_dir_event_notification/log_dir_event_0000000001",
)
"""What the controller deletes after it has read it."""
CONTENTS = (GARBAGE, b"", b"[]", b"null", b'{"version":1}', b"9" * 5000, b'{"a":' * 5000, b"\x00", b'{"id":"a\\nb"}')


async def findings(c: RunningController) -> dict[str, Finding]:
    response = await c.ask(DescribeFindingsRequest())
    return {f.detail.partition(": ")[0]: f for f in response.findings if f.kind == "malformed_znode"}


async def overwrite_or_create(world: World, path: str, data: bytes) -> bytes | None:
    """Write garbage; returns what was there."""
    before = await world.tool.get(path)
    if before is None:
        await world.create(path, data)
        return None
    await world.write(SetData(path, data))
    return before.data


async def restore(world: World, path: str, before: bytes | None) -> None:
    if await world.tool.get(path) is not None:
        await world.write(Delete(path) if before is None else SetData(path, before))


async def creates_topics(world: World, c: RunningController, name: str) -> None:
    response = await c.ask(CreateTopicsRequest((NewTopic(name, 1, 2),)))
    assert [result.error_code for result in response.topics] == [0]
    assert (await world.state(name)).leader in (1, 2)  # type: ignore[union-attr]


@pytest.mark.rule("BD-5")
@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: ascii(content[:20]))
def test_a_malformed_cluster_id_is_a_finding_and_the_cluster_is_described_without_it(content: bytes) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        standby = world.start_controller(1002)
        await is_quiet(c)
        before = await overwrite_or_create(world, CLUSTER_ID, content)
        for each, brokers in ((c, 2), (standby, 0)):
            described = await each.ask(DescribeClusterRequest())
            assert (described.cluster_id, described.controller_id, len(described.brokers)) == ("", 1001, brokers)
        detail = (await findings(c))[CLUSTER_ID].detail
        assert detail.endswith(
            "; brokers cannot start until it has the id again that is cluster.id in the meta.properties of their log"
            " directories; do not delete it: the next process to start would make up another id"
        )
        await creates_topics(world, c, "other")
        await restore(world, CLUSTER_ID, before)
        assert (await c.ask(DescribeClusterRequest())).cluster_id
        await standby.stop()

    run_virtually(main)


async def fail_over(world: World, c: RunningController) -> RunningController:
    await c.stop()
    second = world.start_controller(1002)
    await until(lambda: second.is_active and second.context.epoch == 2, "active")
    return second


def shown(path: str) -> str:
    return path if len(path) < 100 and path.isascii() else ""


@pytest.mark.rule("BD-5", "ZC-5")
@pytest.mark.parametrize("found_at_failover", [False, True])
@pytest.mark.parametrize("path", SKIPPED_PATHS, ids=lambda path: ascii(path[:40]))
def test_a_malformed_znode_is_a_finding_until_it_is_repaired(path: str, found_at_failover: bool) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        before = await overwrite_or_create(world, path, GARBAGE)
        if found_at_failover:
            c = await fail_over(world, c)
        elif path.endswith("/state"):
            # The controller reads it when it writes it the next time.
            await world.stop_broker(1)
            await world.start_broker(1)
        await is_quiet(c)
        epoch = c.context.epoch
        found = await findings(c)
        assert len(found) == 1
        [(named, finding)] = found.items()
        assert named == (shown(path) or named)
        if path == topic_path("bad"):
            assert finding.topic == "bad"
            assert finding.detail.endswith("or delete the topic with its records: klamm topics delete bad")
        elif path != CLUSTER_ID:
            assert finding.detail.endswith("; it is skipped until it is repaired or deleted")
        assert len(finding.detail) < 1000
        await creates_topics(world, c, "other")
        await restore(world, path, before)
        await is_quiet(c)
        assert await findings(c) == {}
        await creates_topics(world, c, "another")
        assert c.context.epoch == epoch
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-5", "TP-1")
@pytest.mark.parametrize("found_at_failover", [False, True])
def test_a_name_that_a_malformed_znode_has_taken_is_refused_with_what_to_do(found_at_failover: bool) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        await overwrite_or_create(world, topic_path("bad"), GARBAGE)
        if found_at_failover:
            c = await fail_over(world, c)
        await is_quiet(c)
        (result,) = (await c.ask(CreateTopicsRequest((NewTopic("bad", 1, 2),)))).topics
        assert result.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert result.error_message == (
            "topic bad already exists, but its znode /brokers/topics/bad is malformed:"
            " repair the znode, or delete the topic with its records: klamm topics delete bad"
        )
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-5")
@pytest.mark.parametrize("found_at_failover", [False, True])
@pytest.mark.parametrize("path", REMOVED_PATHS, ids=lambda path: ascii(path[:40]))
def test_a_malformed_request_or_notification_is_removed(path: str, found_at_failover: bool) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        await world.create(path, GARBAGE)
        if found_at_failover:
            c = await fail_over(world, c)
        await until(lambda: is_gone(world, path))
        assert await findings(c) == {}
        await creates_topics(world, c, "other")
        await is_quiet(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-5", "BD-6")
@settings(max_examples=number_of_examples(24, deep=60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    path=st.sampled_from((*SKIPPED_PATHS, *REMOVED_PATHS, "/brokers/topics/t", "/brokers/ids/1", "/controller_epoch")),
    data=st.sampled_from(CONTENTS) | st.binary(max_size=30),
    found_at_failover=st.booleans(),
)
def test_whatever_a_znode_contains_a_controller_is_active_and_the_repair_is_enough(
    path: str, data: bytes, found_at_failover: bool
) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        second = world.start_controller(1002)
        await asyncio.sleep(1)
        before = await overwrite_or_create(world, path, data)
        if found_at_failover:
            await c.stop()
        await asyncio.sleep(10)
        await restore(world, path, before)
        await asyncio.sleep(90)
        if path == "/controller_epoch":
            # The first write is refused, and an election follows: somebody else may have been elected.
            await world.create_topic("first", [1, 2])
            await asyncio.sleep(10)
        active = second if second.is_active else c
        assert active.is_active
        assert await findings(active) == {}
        await creates_topics(world, active, "other")
        assert (await world.state("t")).leader in (1, 2)  # type: ignore[union-attr]
        assert active.context.leaderships.offline_partition_count == 0
        await active.stop()

    run_virtually(main)


# What was led all the time


@pytest.mark.rule("BD-6", "TP-20")
@pytest.mark.parametrize("repair", REPAIRS[2:])
def test_a_topic_that_was_malformed_at_a_failover_is_led_again_once_it_is_repaired(repair: Repair) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        znode = await world.tool.get(topic_path("t"))
        assert znode is not None
        await world.write(SetData(topic_path("t"), GARBAGE))
        c = await fail_over(world, c)
        assert "/brokers/topics/t" in await findings(c)
        await repair(world, topic_path("t"), znode.data)
        await until(lambda: tp("t-0") in c.context.leaderships.known)
        await is_quiet(c)
        assert await findings(c) == {}
        assert c.context.leaderships.known[tp("t-0")].leader == 1
        assert c.context.leaderships.offline_partition_count == 0
        assert [r.topic_states[0].topic_name for b in (1, 2) for r in c.brokers.of(b, LeaderAndIsrRequest)] == [
            "t",
            "t",
        ]
        # Its leader dies: the other replica is elected without another failover.
        await world.stop_broker(1)
        state = await world.leads("t", leader=2, isr=[2])
        assert (state.leader_epoch, c.context.epoch) == (1, 2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-6")
def test_a_topic_repaired_after_its_leader_died_gets_another_leader() -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        znode = await world.tool.get(topic_path("t"))
        assert znode is not None
        await world.write(SetData(topic_path("t"), GARBAGE))
        c = await fail_over(world, c)
        await world.stop_broker(1)
        await asyncio.sleep(1)
        await world.write(SetData(topic_path("t"), znode.data))
        await world.leads("t", leader=2, isr=[2])
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-6", "PS-30")
@pytest.mark.parametrize("has_alter_partition", [True, False])
@pytest.mark.parametrize("dies", [False, True])
def test_a_state_that_was_malformed_at_a_failover_is_taken_over_once_it_is_repaired(
    dies: bool, has_alter_partition: bool
) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        good = encode_state(leadership(1, [1, 2], leader_epoch=3))
        await world.write(SetData(state_path(tp("t-0")), GARBAGE))
        await c.stop()
        version = ProtocolVersion.parse("3.6" if has_alter_partition else "2.6")
        c = world.start_controller(1002, protocol_version=version)
        await until(lambda: c.is_active and c.context.epoch == 2, "active")
        [finding] = (await findings(c)).values()
        assert (finding.topic, finding.partition) == ("t", 0)
        assert finding.detail.startswith(f"{state_path(tp('t-0'))}: ")
        if dies:
            await world.stop_broker(1)
        await asyncio.sleep(1)
        await world.write(SetData(state_path(tp("t-0")), good))
        if dies:
            assert (await world.leads("t", leader=2, isr=[2])).leader_epoch > 3
        else:
            await until(lambda: tp("t-0") in c.context.leaderships.known)
        await is_quiet(c)
        assert c.context.leaderships.offline_partition_count == 0
        assert await findings(c) == {}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-5", "BK-1")
def test_a_running_broker_whose_registration_is_damaged_stays_in_the_cluster() -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        znode = await world.tool.get("/brokers/ids/1")
        assert znode is not None
        await world.write(SetData("/brokers/ids/1", GARBAGE))
        # The list of brokers changes, so every registration is read again.
        await world.start_broker(3)
        await until(lambda: 3 in c.context.brokers.live_ids)
        await is_quiet(c)
        assert c.context.brokers.live_ids == {1, 2, 3}
        assert c.context.brokers.epochs[BrokerId(1)] == BrokerEpoch(znode.stat.czxid)
        assert list(await findings(c)) == ["/brokers/ids/1"]
        assert (await world.leads("t", leader=1)).leader_epoch == 0
        await world.stop_broker(1)
        await world.leads("t", leader=2)
        assert await findings(c) == {}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-5", "TD-10")
@pytest.mark.parametrize("found_at_failover", [False, True])
def test_a_topic_with_an_unacceptable_name_is_removed_by_a_deletion_marker(found_at_failover: bool) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        bad = topic_path("a" * 300)
        await world.create(bad, encode_topic(TopicAssignment({0: ReplicaAssignment(ids(1, 2))})))
        await is_quiet(c)
        assert len(await findings(c)) == 1
        assert not c.brokers.received or all("aaa" not in str(request) for _, request in c.brokers.received)
        if found_at_failover:
            await c.stop()
        await world.create(delete_topic_path("a" * 300))
        if found_at_failover:
            c = world.start_controller(1002)
            await until(lambda: c.is_active and c.context.epoch == 2, "active")
        await until(lambda: is_gone(world, bad))
        await until(lambda: is_gone(world, delete_topic_path("a" * 300)))
        await asyncio.sleep(1)
        assert await findings(c) == {}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-5")
def test_a_malformed_epoch_is_named_by_a_standby() -> None:
    async def main() -> None:
        world = await World().start()
        await world.create("/controller_epoch", b"x")
        c = world.start_controller(governs_kafka=True)
        await asyncio.sleep(5)
        assert not c.controller.is_active
        assert list(await findings(c)) == ["/controller_epoch"]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-5")
@given(st.binary(max_size=40) | st.sampled_from(CONTENTS))
@pytest.mark.parametrize("path", [*SKIPPED_PATHS, *REMOVED_PATHS, "/controller", "/controller_epoch"])
def test_every_znode_is_checked_by_its_path(path: str, data: bytes) -> None:
    why = why_malformed(path, data)
    assert why is None or (why and len(why) < 500)


def test_a_znode_that_klamm_does_not_read_is_never_malformed() -> None:
    assert why_malformed("/consumers/x", GARBAGE) is None
    assert why_malformed("/config/users/x", GARBAGE) is None
