"""Random clusters under random operations: what no decision may ever do is looked for in every single write.

A real controller on the in-memory ZooKeeper, with brokers that only answer; the test plays the leaders.
"""

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.model.protocol_version import ProtocolVersion
from cluster.model.state_machines import ReplicaState
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, ControlledShutdownRequest
from cluster.requests.control import LeaderAndIsrRequest
from cluster.requests.elections import PREFERRED, UNCLEAN, ElectLeadersRequest
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.znodes.admin_requests import encode_log_dir_event, encode_partitions, encode_reassignments
from cluster.znodes.paths import (
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    REASSIGN_PARTITIONS,
    delete_topic_path,
    state_path,
    topic_path,
)
from cluster.znodes.topics import decode_topic, encode_state, encode_topic
from cluster.zookeeper.port import Create, SetData, Znode
from simulator.partition_znodes import assignments, partition_state
from simulator.recount import recount
from simulator.write_checker import WriteChecker, Writer, partition_of_state_path
from simulator.zookeeper import ServerSession
from tests.controllers.contexts import ids
from tests.controllers.worlds import World, quiesce, run_virtually, until
from tests.examples import examples

BROKERS: Final = (1, 2, 3, 4)
TOPICS: Final = ("a", "b")

versions = st.sampled_from(("3.9", "2.7-IV2", "2.6"))
"""The newest, one without topic ids, and one in which leaders write ISRs themselves."""
brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(TOPICS)
replica_lists = st.lists(brokers, min_size=1, max_size=3, unique=True)
placements = st.lists(replica_lists, min_size=1, max_size=3)
steps = st.one_of(
    st.tuples(st.just("start or stop"), brokers, st.none()),
    st.tuples(st.just("bounce"), brokers, st.none()),
    st.tuples(st.just("leave in order"), brokers, st.none()),
    st.tuples(st.just("lose a disk"), brokers, st.none()),
    st.tuples(st.just("elect"), st.sampled_from((PREFERRED, UNCLEAN)), st.none()),
    st.tuples(st.just("change ISRs"), st.integers(0, 7), st.none()),
    st.tuples(st.just("create"), topics, placements),
    st.tuples(st.just("grow"), topics, replica_lists),
    st.tuples(st.just("delete"), topics, st.none()),
    st.tuples(st.just("move"), topics, st.one_of(st.none(), replica_lists)),
    st.tuples(st.just("move through ZooKeeper"), topics, replica_lists),
    st.tuples(st.just("fail over"), st.none(), st.none()),
)


class Znodes:
    """What ZooKeeper says, and everything that its state nodes ever said."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.written: set[tuple[TopicPartition, int, int, int, tuple[BrokerId, ...]]] = set()
        """Partition, partition epoch, leader epoch, leader, ISR."""
        world.server.write_observers.append(self._record)

    def _record(self, _session: ServerSession, before: Mapping[str, Znode | None], _is_done: bool) -> None:
        for path in before:
            if path.endswith("/state"):
                tp = partition_of_state_path(path)
                state = self.state(tp)
                if state is not None:
                    self.written.add((tp, state.partition_epoch, state.leader_epoch, state.leader, state.isr))

    def state(self, tp: TopicPartition) -> LeaderAndIsr | None:
        return partition_state(self.world.server.tree, tp)

    def topic(self, topic: str) -> TopicAssignment | None:
        znode = self.world.server.tree.get(topic_path(topic))
        return None if znode is None else decode_topic(topic, znode.data)

    def partitions(self) -> dict[TopicPartition, ReplicaAssignment]:
        return dict(sorted(assignments(self.world.server.tree).items()))


class Drill:
    """One cluster, what is done to it, and what must hold after each step and at the end."""

    def __init__(self, world: World, version: str, *, is_hasty: bool) -> None:
        """`is_hasty`: one thing follows the other before the controller is done with it."""
        self.world = world
        self.is_hasty = is_hasty
        self.znodes = Znodes(world)
        self.writes = WriteChecker(world.server, self._writer_of)
        self.version = ProtocolVersion.parse(version)
        self.alive: set[int] = set()
        self.failovers = 0

    def _writer_of(self, session: ServerSession) -> Writer | None:
        if session.client is not self.controller.zookeeper or not self.controller.controller.is_active:
            return None
        return Writer(self.controller.context, self.version.has_leader_recovery_state)

    async def become_active(self) -> None:
        self.failovers += 1
        self.controller = self.world.start_controller(
            1000 + self.failovers, auto_leader_rebalance_enable=False, protocol_version=self.version
        )
        await until(lambda: self.controller.is_active)

    async def do(self, kind: str, subject: int | str | None, detail: object) -> None:
        match kind, subject, detail:
            case "start or stop", int(broker), _:
                await self._start_or_stop(broker)
            case "bounce", int(broker), _ if broker in self.alive:
                await self._start_or_stop(broker)
                await self._start_or_stop(broker)
            case "leave in order", int(broker), _:
                await self.controller.ask(ControlledShutdownRequest(BrokerId(broker)))
            case "lose a disk", int(broker), _:
                await self._lose_disk(broker)
            case "elect", int(election_type), _:
                await self.controller.ask(ElectLeadersRequest(election_type, None, 1000))
            case "change ISRs", int(members), _:
                await self._change_isrs(members)
            case "create", str(topic), list(replicas):
                await self._write_topic(topic, replicas, create=True)
            case "grow", str(topic), list(replicas):
                await self._write_topic(topic, [replicas], create=False)
            case "delete", str(topic), _:
                await self.world.tool.multi([Create(delete_topic_path(topic))])
            case "move", str(topic), target:
                move = ReassignablePartition(0, None if target is None else ids(*target))  # type: ignore[misc]
                await self.controller.ask(AlterPartitionReassignmentsRequest((ReassignableTopic(topic, (move,)),)))
            case "move through ZooKeeper", str(topic), list(target):
                body = encode_reassignments({TopicPartition(topic, 0): ids(*target)})
                await self.world.tool.multi([Create(REASSIGN_PARTITIONS, body)])
            case "fail over", _, _:
                await self.controller.stop()
                await self.become_active()
            case _:
                pass
        if self.is_hasty:
            await asyncio.sleep(0.003)
            self.writes.raise_first_error()
        else:
            await quiesce()
            self.check()

    async def _start_or_stop(self, broker: int) -> None:
        self.controller.brokers.results.pop(BrokerId(broker), None)
        if broker in self.alive:
            self.alive.discard(broker)
            await self.world.stop_broker(broker)
        else:
            self.alive.add(broker)
            await self.world.start_broker(broker)

    async def _lose_disk(self, broker: int) -> None:
        """Every replica on the broker is gone until it starts again."""
        hosted = [tp for tp, assignment in self.znodes.partitions().items() if broker in assignment.replicas]
        self.controller.brokers.results[BrokerId(broker)] = dict.fromkeys(hosted, ErrorCode.KAFKA_STORAGE_ERROR)
        path = f"{LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_"
        await self.world.tool.multi([Create(path, encode_log_dir_event(BrokerId(broker)), sequential=True)])

    async def _change_isrs(self, members: int) -> None:
        """Leaders let the followers in or out that the bits of `members` say."""
        for tp, assignment in self.znodes.partitions().items():
            state = self.znodes.state(tp)
            if state is None or state.leader not in self.alive:
                continue
            others = [b for b in assignment.replicas if b != state.leader]
            isr = (state.leader, *(b for i, b in enumerate(others) if members >> i & 1))
            if not self.version.has_alter_partition:
                await self._write_isr(tp, replace(state, isr=isr))
                continue
            item = AlterPartitionItem(tp.topic, None, tp.partition, state.leader_epoch, isr, state.partition_epoch)
            epoch = await self.world.broker_epoch(state.leader)
            await self.controller.ask(AlterPartitionRequest(state.leader, epoch, (item,)))

    async def _write_isr(self, tp: TopicPartition, state: LeaderAndIsr) -> None:
        """As leaders do it that do not ask the controller."""
        path = f"{ISR_CHANGE_NOTIFICATION}/isr_change_"
        await self.world.tool.multi(
            [
                SetData(state_path(tp), encode_state(state), state.partition_epoch),
                Create(path, encode_partitions([tp]), sequential=True),
            ]
        )

    async def _write_topic(self, topic: str, added: Sequence[Sequence[int]], *, create: bool) -> None:
        known = self.znodes.topic(topic)
        if (known is None) is not create:
            return
        partitions = {} if known is None else dict(known.partitions)
        first = len(partitions)
        partitions |= {first + i: ReplicaAssignment(ids(*replicas)) for i, replicas in enumerate(added)}
        body = encode_topic(TopicAssignment(partitions, None if known is None else known.topic_id))
        path = topic_path(topic)
        await self.world.tool.multi([Create(path, body) if known is None else SetData(path, body)])

    def check(self) -> None:
        self.writes.raise_first_error()
        context, znodes = self.controller.context, self.znodes
        assert recount(context) == (
            context.leaderships.offline_partition_count,
            context.leaderships.preferred_replica_imbalance_count,
        )
        for tp, assignment in znodes.partitions().items():
            assert context.topics.assignment(tp) == assignment
            strangers = [b for b in assignment.replicas if context.replicas.state(b, tp) is ReplicaState.NON_EXISTENT]
            assert not strangers, f"replicas of {tp} on {strangers} do not exist for the controller"
            known, state = context.leaderships.known.get(tp), znodes.state(tp)
            assert (known is None) is (state is None)
            if known is not None and state is not None:
                assert (known.leader, known.leader_epoch, known.isr, known.partition_epoch) == (
                    (state.leader, state.leader_epoch, state.isr, state.partition_epoch)
                )
        for _, request in self.controller.brokers.received:
            if isinstance(request, LeaderAndIsrRequest):
                for topic in request.topic_states:
                    for s in topic.partition_states:
                        said = (TopicPartition(topic.topic_name, s.partition_index), s.partition_epoch)
                        assert (*said, s.leader_epoch, s.leader, s.isr) in znodes.written
        self.controller.brokers.received.clear()

    async def come_to_rest(self) -> None:
        """Everybody lives and catches up: nothing is left to wait for."""
        await quiesce()
        for broker in BROKERS:
            # Whoever was leaving or had lost a disk comes back as another incarnation.
            if broker in self.alive:
                await self._start_or_stop(broker)
                await quiesce()
            await self._start_or_stop(broker)
            await quiesce()
        for _ in range(3):
            await self._change_isrs(members=0b11111)
            await quiesce()
        self.check()
        tree = self.world.server.tree
        assert not tree.children(DELETE_TOPICS), "every deletion is done"
        assert tree.get(REASSIGN_PARTITIONS) is None, "every request to move is done"
        assert not self.controller.context.topics.being_reassigned
        for tp, assignment in self.znodes.partitions().items():
            state = self.znodes.state(tp)
            assert state is not None
            assert state.leader in BROKERS
            assert set(state.isr) == set(assignment.replicas)
            assert not assignment.is_being_reassigned
        assert self.controller.context.leaderships.offline_partition_count == 0


@pytest.mark.rule("INV-1", "INV-2", "INV-3", "INV-4", "INV-7", "INV-8", "INV-10", "TI-3")
@examples(48, deep=120)
@given(versions, st.booleans(), st.sets(brokers), placements, st.lists(steps, min_size=1, max_size=20))
def test_no_decision_ever_does_what_no_decision_may_do(
    version: str,
    is_hasty: bool,
    present: AbstractSet[int],
    placed: Sequence[Sequence[int]],
    story: Sequence[tuple[str, int | str | None, object]],
) -> None:
    async def main() -> None:
        world = await World().start()
        drill = Drill(world, version, is_hasty=is_hasty)
        await drill.become_active()
        for broker in sorted(present):
            await drill.do("start or stop", broker, None)
        await drill.do("create", TOPICS[0], list(placed))
        for step in story:
            await drill.do(*step)
        await drill.come_to_rest()
        await drill.controller.stop()

    run_virtually(main)
