"""A failover to a controller that has followed the partitions while it stood by."""

import pytest

from cluster.model.partition import TopicPartition
from cluster.requests.cluster import DescribeFindingsRequest
from cluster.requests.control import LeaderAndIsrRequest
from cluster.znodes.paths import state_path
from cluster.zookeeper.port import SetData
from tests.controllers.worlds import quiesce, run_virtually, running_cluster, until

T1 = TopicPartition("t", 1)


@pytest.mark.rule("D-122", "FO-9")
def test_a_change_of_which_zookeeper_did_not_tell_is_found_and_adopted() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2], [2, 1])
        await world.leads("t", 1, leader=2)
        second = world.start_controller(1002)
        await until(lambda: second.controller.standby.is_warm)
        assert len(second.controller.standby.known.states) == 2
        for session in world.server._sessions.values():
            session.watches.subtrees.clear()
        before = await world.state("t", 1)
        assert before is not None
        znode = world.server.tree.get(state_path(T1))
        assert znode is not None
        await world.write(SetData(state_path(T1), znode.data.replace(b"[2,1]", b"[2]")))
        first.crash()
        await until(lambda: second.is_active)
        await quiesce()
        assert second.context.leaderships.known[T1].isr == (2, 1)
        await until(lambda: second.controller.standby.difference, "it is found")
        await quiesce(5)
        assert second.is_active
        assert second.context.epoch == 3
        assert second.context.leaderships.known[T1].isr == (2,)
        last = second.brokers.of(2, LeaderAndIsrRequest)[-1]
        assert {s.partition_index: s.isr for s in last.topic_states[0].partition_states}[1] == (2,)
        asked = await second.ask(DescribeFindingsRequest())
        (finding,) = (found for found in asked.findings if found.kind == "standby_differed")
        assert state_path(T1) in finding.detail
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("D-122", "FO-9", "EL-12")
def test_a_controller_that_resigned_follows_again() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        second = world.start_controller(1002)
        await until(lambda: second.controller.standby.is_warm)
        assert not first.controller.standby.is_warm
        first.zookeeper.expire()
        await until(lambda: second.is_active)
        await until(lambda: first.controller.standby.is_warm, "the first one follows")
        second.crash()
        await until(lambda: first.is_active)
        await quiesce(60)
        assert first.context.leaderships.known == {TopicPartition("t", 0): await world.state("t")}
        assert not first.controller.standby.difference
        asked = await first.ask(DescribeFindingsRequest())
        assert "standby_differed" not in {found.kind for found in asked.findings}
        await first.stop()

    run_virtually(main)
