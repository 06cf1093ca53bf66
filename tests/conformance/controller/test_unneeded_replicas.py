"""Replicas that a cancelled or replaced move no longer needs: no live replica in sync is ever without a leader
(KAFKA-14808), and brokers of every release obey (KAFKA-13972).
"""

from collections.abc import Sequence

import pytest

from cluster.model.partition import LeaderAndIsr
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest
from cluster.requests.elections import PREFERRED, UNCLEAN, ElectLeadersRequest, ElectLeadersTopic
from cluster.znodes.admin_requests import encode_reassignments
from cluster.znodes.paths import REASSIGN_PARTITIONS, state_path
from cluster.znodes.topics import decode_state, encode_state
from cluster.zookeeper.port import Create, Delete, Op, OpResult, SetData, ZkError
from controller.events import UncleanLeaderElectionEnable
from simulator.recount import recount
from simulator.zookeeper import ServerSession
from tests.controllers.contexts import assignment, ids, leadership
from tests.controllers.fault_injection import RefusingFenced
from tests.controllers.reassignments import T0, Cluster, E, cluster
from tests.controllers.worlds import quiesce, run_virtually, until


class States:
    """Every state of t-0 that is written from now on."""

    def __init__(self, c: Cluster) -> None:
        self.written: list[LeaderAndIsr] = []
        carry_out = c.world.server.write

        def follow(session: ServerSession, ops: Sequence[Op]) -> list[OpResult]:
            results = carry_out(session, ops)
            for op in ops:
                if isinstance(op, SetData) and op.path == state_path(T0) and results[0].ok:
                    state = decode_state(T0, op.data, 0)  # type: ignore[arg-type]
                    assert state is not None
                    self.written.append(state)
            return results

        c.world.server.write = follow  # type: ignore[method-assign]

    @property
    def leaders_and_isrs(self) -> list[tuple[int, tuple[int, ...]]]:
        return [(state.leader, state.isr) for state in self.written]


def leader_epochs_sent(c: Cluster, broker: int) -> tuple[list[int], list[tuple[int, bool]]]:
    """Leader epochs of LeaderAndIsr, and of StopReplica with whether it deletes, about t-0."""
    led = {
        s.leader_epoch
        for request in c.controller.brokers.of(broker, LeaderAndIsrRequest)
        for t in request.topic_states
        for s in t.partition_states
    }
    stops = [
        (s.leader_epoch, s.delete_partition)
        for request in c.controller.brokers.of(broker, StopReplicaRequest)
        for s in request.partition_states
    ]
    return sorted(led), stops


async def moving_with_a_new_leader(
    originals: Sequence[int], target: Sequence[int], *, protocol_version: ProtocolVersion | None = None
) -> Cluster:
    """Broker 3, which is being added, is in sync and leads."""
    settings = {} if protocol_version is None else {"protocol_version": protocol_version}
    c = await cluster(1, 2, 3, 4, 5, topic=[originals], **settings)
    assert await c.alter({0: target}) == [E.NONE]
    isr = (*originals, 3)
    if protocol_version is None:
        await c.in_sync(*isr)
    else:
        state = leadership(originals[0], isr, leader_epoch=1)
        await c.world.write(SetData(state_path(T0), encode_state(state)))
    await c.controller.ask(ElectLeadersRequest(PREFERRED, (ElectLeadersTopic("t", (0,)),), timeout_ms=1000))
    await quiesce()
    assert (await c.state())[0] == 3
    return c


async def ask_in_the_znode(c: Cluster, *target: int) -> None:
    entry = encode_reassignments({T0: ids(*target)})
    if await c.world.tool.get(REASSIGN_PARTITIONS) is not None:
        await c.world.write(Delete(REASSIGN_PARTITIONS))
    await c.world.write(Create(REASSIGN_PARTITIONS, entry))
    await quiesce()


@pytest.mark.rule("D-96", "RA-11", "RA-61", "RA-60")
@pytest.mark.parametrize("through_the_znode", [False, True])
@pytest.mark.parametrize("target", [(1, 4), (4, 5), (1, 2), (2, 5)])
@pytest.mark.parametrize("protocol_version", [None, ProtocolVersion((2, 6))])
def test_a_replica_that_is_given_up_hands_its_leadership_on_before_it_leaves(
    target: tuple[int, ...], through_the_znode: bool, protocol_version: ProtocolVersion | None
) -> None:
    async def main() -> None:
        c = await moving_with_a_new_leader([1, 2], [3, 4], protocol_version=protocol_version)
        _, epoch, _ = await c.state()
        states = States(c)
        c.forget()
        if through_the_znode:
            await ask_in_the_znode(c, *target)
        else:
            assert await c.alter({0: target}) == [E.NONE]
        heir = next(b for b in (*target, 1, 2) if b in (1, 2))
        # Handed on while broker 3 is still assigned; it leaves; the move begins or is complete.
        assert states.leaders_and_isrs == [(heir, (1, 2, 3)), (heir, (1, 2)), (heir, (1, 2))]
        assert await c.state() == (heir, epoch + 3, (1, 2))
        led, stops = leader_epochs_sent(c, 3)
        assert led == [epoch + 1]
        assert stops == [(epoch + 1, False), (epoch + 2, True)]
        # Broker 4 was outside the ISR; where it is given up too, it hears of it under an epoch that is new to it.
        led, stops = leader_epochs_sent(c, 4)
        deleted = [stopped for stopped, deletes in stops if deletes]
        assert bool(deleted) is (4 not in target)
        assert all(max(led) < stopped for stopped in deleted)
        assert c.controller.gauge("OfflinePartitionsCount") == 0
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-96", "RA-60", "RA-61", "RA-14")
@pytest.mark.parametrize("through_the_znode", [False, True])
@pytest.mark.parametrize(("target", "kept"), [((1, 2), ()), ((1, 4), ()), ((4, 3), (3,)), ((4, 5), ())])
def test_a_replica_outside_the_isr_is_stopped_under_an_epoch_that_its_broker_does_not_know(
    target: tuple[int, ...], kept: tuple[int, ...], through_the_znode: bool
) -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, 4, 5, topic=[[1, 2]])
        await c.alter({0: [1, 3]})
        assert await c.state() == (1, 1, (1, 2))
        if through_the_znode:
            await ask_in_the_znode(c, *target)
        else:
            assert await c.alter({0: target}) == [E.NONE]
        # Not one epoch more than Kafka's.
        assert await c.state() == (1, 2, (1, 2))
        led, stops = leader_epochs_sent(c, 3)
        assert stops == ([] if kept else [(2, False), (2, True)])
        assert led == ([1, 2] if kept else [1])
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-96")
def test_a_request_that_would_leave_live_replicas_in_sync_without_a_leader_is_refused() -> None:
    async def main() -> None:
        c = await moving_with_a_new_leader([1, 2], [3, 4])
        # Broker 1 and 2 are in sync by ZooKeeper, but on failed disks.
        context = c.controller.context
        for broker in (1, 2):
            context.brokers.offline_directories[broker] = {T0: None}
        before = await c.state(), await c.lists()
        c.forget()
        assert await c.alter({0: None}) == [E.INVALID_REPLICA_ASSIGNMENT]
        answer = await c.ask_for({0: [1, 4]})
        (refused,) = answer.responses[0].partitions
        assert "This would remove the leader, 3," in (refused.error_message or "")
        await ask_in_the_znode(c, 1, 2)
        assert await c.requested() is None
        assert (await c.state(), await c.lists()) == before
        assert c.controller.brokers.received == []
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-96", "D-28")
def test_a_refused_election_keeps_the_move_as_it_is() -> None:
    async def main() -> None:
        c = await moving_with_a_new_leader([1, 2], [3, 4])
        lists, state = await c.lists(), await c.state()
        newer = leadership(3, [1, 2, 3], leader_epoch=2, controller_epoch=99)
        await c.world.write(SetData(state_path(T0), encode_state(newer)))
        assert await c.alter({0: None}) == [E.UNKNOWN_SERVER_ERROR]
        assert (await c.lists(), await c.state()) == (lists, state)
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-96", "D-28")
def test_an_election_that_zookeeper_refuses_changes_nothing_and_the_request_may_be_repeated() -> None:
    async def main() -> None:
        c = await moving_with_a_new_leader([1, 2], [3, 4])
        lists, state = await c.lists(), await c.state()
        refusing = RefusingFenced(c.controller, state_path(T0), ZkError.NO_AUTH)
        assert await c.alter({0: None}) == [E.UNKNOWN_SERVER_ERROR]
        assert (await c.lists(), await c.state()) == (lists, state)
        refusing.is_over = True
        assert await c.alter({0: None}) == [E.NONE]
        assert (await c.lists(), (await c.state())[0]) == (assignment([1, 2]), 1)
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-97", "CX-20", "INV-10")
@pytest.mark.parametrize("healed_by", ["a broker", "an election", "a setting", "a failover"])
def test_a_partition_without_a_leader_counts_as_offline_and_is_elected_when_anything_changes(healed_by: str) -> None:
    async def main() -> None:
        c = await cluster(1, 2, topic=[[1, 2]])
        # Somebody has taken the leader away; the controller meets that when it raises the leader epoch.
        await c.world.write(SetData(state_path(T0), encode_state(leadership(-1, [1, 2], leader_epoch=4))))
        assert await c.alter({0: [1, 2]}) == [E.NONE]
        assert await c.state() == (-1, 5, (1, 2))
        assert c.controller.gauge("OfflinePartitionsCount") == 1
        match healed_by:
            case "a broker":
                await c.world.start_broker(3)
            case "an election":
                await c.controller.ask(ElectLeadersRequest(UNCLEAN, (ElectLeadersTopic("t", (0,)),), timeout_ms=1000))
            case "a setting":
                c.controller.controller.events.put(UncleanLeaderElectionEnable())
            case _:
                await c.controller.stop()
                c = Cluster(c.world, c.world.start_controller(1002))
                await until(lambda: c.controller.is_active)
        await quiesce()
        assert await c.state() == (1, 6, (1, 2))
        assert c.controller.gauge("OfflinePartitionsCount") == 0
        context = c.controller.context
        assert recount(context) == (
            context.leaderships.offline_partition_count,
            context.leaderships.preferred_replica_imbalance_count,
        )
        await c.controller.stop()

    run_virtually(main)
