"""Znodes that contradict one another, and many bad ones: findings that an operator can read."""

import pytest

from cluster.model.bounds import LEADER_EPOCH_IN_ZNODE
from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.requests.cluster import DescribeFindingsRequest, Finding
from cluster.znodes.paths import state_path
from cluster.znodes.registrations import encode_broker
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import SetData
from tests.controllers.contexts import leadership, tp
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

ID = "A" * 21 + "g"


async def findings(c: RunningController, kind: str) -> list[Finding]:
    return [f for f in (await c.ask(DescribeFindingsRequest())).findings if f.kind == kind]


async def fail_over(world: World, c: RunningController) -> RunningController:
    successor = world.start_controller(1002)
    await c.stop()
    await until(lambda: successor.is_active)
    # It is active before it has read the topics.
    await quiesce()
    return successor


@pytest.mark.rule("BD-10")
@pytest.mark.parametrize(("older", "newer"), [("a", "z"), ("z", "a")])
@pytest.mark.parametrize("together", [True, False], ids=["read at a failover", "read one by one"])
def test_of_two_topics_with_one_id_the_older_keeps_it(older: str, newer: str, together: bool) -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        for topic in (older, newer):
            await world.create_topic(topic, [1], topic_id=ID)
            await world.leads(topic, leader=1)
        await quiesce()
        if together:
            c = await fail_over(world, c)
        assert c.context.topics.ids == {older: ID}
        assert set(c.context.topics.names) == {older, newer}
        (finding,) = await findings(c, "topic_id_conflict")
        assert finding.topic == newer
        assert f"topics {newer} and {older} have the same id {ID}" in finding.detail
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-10")
def test_two_brokers_at_one_endpoint_are_a_finding_until_one_goes() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        assert await findings(c, "endpoint_conflict") == []
        copy = Broker(BrokerId(7), (Endpoint("host1", 9092),))
        await world.create("/brokers/ids/7", encode_broker(copy, 1))
        await until(lambda: c.gauge("ActiveBrokerCount") == 2)
        (finding,) = await findings(c, "endpoint_conflict")
        assert finding.broker == 7
        assert "brokers 1, 7 are registered with the same endpoint host1:9092" in finding.detail
        await world.stop_broker(1)
        await until(lambda: c.gauge("ActiveBrokerCount") == 1)
        assert await findings(c, "endpoint_conflict") == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-11")
@pytest.mark.parametrize(("count", "expected"), [(10, 10), (11, 1), (200, 1)])
def test_many_bad_znodes_are_one_finding_with_their_number(count: int, expected: int) -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        for number in range(count):
            await world.create(f"/config/changes/config_change_{number:010}", b"{")
        found = await findings(c, "malformed_znode")
        assert len(found) == expected
        if expected == 1:
            assert found[0].detail.startswith(
                f"{count} of this kind, the first 3: /config/changes/config_change_0000000000: "
            )
            assert "config_change_0000000002" in found[0].detail
            assert "config_change_0000000003" not in found[0].detail
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-43")
def test_a_partition_at_the_last_leader_epoch_keeps_its_state_and_the_others_are_led() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, auto_leader_rebalance_enable=False)
        for topic in ("t", "u"):
            await world.create_topic(topic, [1, 2])
            await world.leads(topic, leader=1)
        last = leadership(1, [1, 2], leader_epoch=LEADER_EPOCH_IN_ZNODE.maximum)
        await world.write(SetData(state_path(tp("t-0")), encode_state(last)))
        c = await fail_over(world, c)
        written = await world.state("t")
        await world.stop_broker(1)
        await world.leads("u", leader=2)
        await quiesce()
        assert await world.state("t") == written
        (finding,) = await findings(c, "no_leader_epoch_left")
        assert (finding.topic, finding.partition) == ("t", 0)
        await c.stop()

    run_virtually(main)
