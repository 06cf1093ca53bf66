"""Random clusters under random operations: what no decision may ever do is looked for in every single write.

A real controller on the in-memory ZooKeeper, with brokers that only answer; the test plays the leaders.
"""

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster.broker import BrokerId
from cluster.errors import ErrorCode
from cluster.partition import RECOVERING, Leadership, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.protocol_version import ProtocolVersion
from cluster.requests import (
    PREFERRED,
    UNCLEAN,
    AlterPartitionItem,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ElectLeadersRequest,
    LeaderAndIsrRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from cluster.state_tables import ReplicaState
from cluster.znodes import (
    BROKERS_TOPICS,
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    REASSIGN_PARTITIONS,
    decode_state,
    decode_topic,
    delete_topic_path,
    encode_log_dir_event,
    encode_partitions,
    encode_reassignments,
    encode_state,
    encode_topic,
    state_path,
    topic_path,
)
from cluster.zookeeper.port import Create, Op, OpResult, SetData
from simulator.zookeeper import ServerSession
from tests.contexts import ids
from tests.controllers import RunningController, World, run_virtually, settle, until

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


class Watchman:
    """Looks at every write that a controller makes, against what was there before it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.written: set[tuple[TopicPartition, int, int, int, tuple[BrokerId, ...]]] = set()
        """Everything that state nodes ever said: partition, partition epoch, leader epoch, leader, ISR."""
        self.controller: RunningController | None = None
        self._carry_out = world.server.write
        world.server.write = self._write  # type: ignore[method-assign]

    def _write(self, session: ServerSession, ops: Sequence[Op]) -> list[OpResult]:
        before = {op.path: self._read(op.path) for op in ops}
        controller = self.controller
        by_controller = controller is not None and session.client is controller.zookeeper
        results = self._carry_out(session, ops)
        for path, old in before.items():
            new = self._read(path)
            if isinstance(new, Leadership):
                tp = _partition_of(path)
                self.written.add((tp, new.partition_epoch, new.leader_epoch, new.leader, new.isr))
                if by_controller and all(result.ok for result in results):
                    assert old is None or isinstance(old, Leadership)
                    self._check_state(tp, old, new)
            elif isinstance(new, TopicAssignment) and isinstance(old, TopicAssignment) and by_controller:
                self._check_topic(path.rpartition("/")[2], old, new)
        return results

    def state(self, tp: TopicPartition) -> Leadership | None:
        node = self.world.server.tree.get(state_path(tp))
        return None if node is None else decode_state(tp, node.data, node.stat.version)  # type: ignore[arg-type]

    def topic(self, topic: str) -> TopicAssignment | None:
        node = self.world.server.tree.get(topic_path(topic))
        return None if node is None else decode_topic(topic, node.data)

    def partitions(self) -> dict[TopicPartition, ReplicaAssignment]:
        found: dict[TopicPartition, ReplicaAssignment] = {}
        for topic in sorted(self.world.server.tree.children(BROKERS_TOPICS) or ()):
            assignment = self.topic(topic)
            assert assignment is not None
            found |= {TopicPartition(topic, p): a for p, a in assignment.partitions.items()}
        return found

    def _read(self, path: str) -> Leadership | TopicAssignment | None:
        if path.endswith("/state"):
            return self.state(_partition_of(path))
        parent, _, topic = path.rpartition("/")
        return self.topic(topic) if parent == BROKERS_TOPICS else None

    def _check_state(self, tp: TopicPartition, old: Leadership | None, new: Leadership) -> None:
        assert self.controller is not None
        context = self.controller.context
        assert new.isr, f"the ISR of {tp} is empty"
        assert new.leader == -1 or new.leader in new.isr, f"{new.leader} leads {tp} out of sync"
        if old is None:
            assert (new.leader_epoch, new.partition_epoch) == (0, 0)
            assert set(new.isr) <= context.live_broker_ids
            return
        assert new.partition_epoch == old.partition_epoch + 1
        assert new.leader_epoch in {old.leader_epoch, old.leader_epoch + 1}
        if new.leader in {-1, old.leader}:
            return
        assert new.leader_epoch == old.leader_epoch + 1
        assert new.leader in context.online_brokers(tp), f"{new.leader} is elected for {tp} and is not online"
        assert new.leader in context.assignment(tp).replicas
        if new.leader not in old.isr:
            assert context.online_brokers(tp).isdisjoint(old.isr), f"{tp} need not have lost records"
            assert new.isr == (new.leader,)
            marks = self.controller.controller.config.protocol_version.has_leader_recovery_state
            assert not marks or new.leader_recovery_state == RECOVERING

    def _check_topic(self, topic: str, old: TopicAssignment, new: TopicAssignment) -> None:
        """Who leaves the list was on its way in, or everybody who stays is in sync."""
        assert old.topic_id in {None, new.topic_id}
        for partition, before in old.partitions.items():
            if partition not in new.partitions:
                # Taken out of a topic that waits for its deletion.
                continue
            after, state = new.partitions[partition], self.state(TopicPartition(topic, partition))
            gone = set(before.replicas) - set(after.replicas)
            if not gone <= set(before.adding):
                assert state is not None
                assert set(after.replicas) <= set(state.isr), f"{topic}-{partition} has given up {gone} too early"


def _partition_of(path: str) -> TopicPartition:
    _, _, _, topic, _, partition, _ = path.split("/")
    return TopicPartition(topic, int(partition))


class Drill:
    """One cluster, what is done to it, and what must hold after each step and at the end."""

    def __init__(self, world: World, version: str, *, is_hasty: bool) -> None:
        """`is_hasty`: one thing follows the other before the controller is done with it."""
        self.world = world
        self.is_hasty = is_hasty
        self.watchman = Watchman(world)
        self.version = ProtocolVersion.parse(version)
        self.alive: set[int] = set()
        self.reigns = 0

    async def take_office(self) -> None:
        self.reigns += 1
        self.controller = self.world.start_controller(
            1000 + self.reigns, auto_leader_rebalance_enable=False, protocol_version=self.version
        )
        self.watchman.controller = self.controller
        await until(lambda: self.controller.rules)

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
                await self.take_office()
            case _:
                pass
        if self.is_hasty:
            await asyncio.sleep(0.003)
        else:
            await settle()
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
        hosted = [tp for tp, assignment in self.watchman.partitions().items() if broker in assignment.replicas]
        self.controller.brokers.results[BrokerId(broker)] = dict.fromkeys(hosted, ErrorCode.KAFKA_STORAGE_ERROR)
        path = f"{LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_"
        await self.world.tool.multi([Create(path, encode_log_dir_event(BrokerId(broker)), sequential=True)])

    async def _change_isrs(self, members: int) -> None:
        """Leaders let the followers in or out that the bits of `members` say."""
        for tp, assignment in self.watchman.partitions().items():
            state = self.watchman.state(tp)
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

    async def _write_isr(self, tp: TopicPartition, state: Leadership) -> None:
        """As leaders do it that do not ask the controller."""
        path = f"{ISR_CHANGE_NOTIFICATION}/isr_change_"
        await self.world.tool.multi(
            [
                SetData(state_path(tp), encode_state(state), state.partition_epoch),
                Create(path, encode_partitions([tp]), sequential=True),
            ]
        )

    async def _write_topic(self, topic: str, added: Sequence[Sequence[int]], *, create: bool) -> None:
        known = self.watchman.topic(topic)
        if (known is None) is not create:
            return
        partitions = {} if known is None else dict(known.partitions)
        first = len(partitions)
        partitions |= {first + i: ReplicaAssignment(ids(*replicas)) for i, replicas in enumerate(added)}
        body = encode_topic(TopicAssignment(partitions, None if known is None else known.topic_id))
        path = topic_path(topic)
        await self.world.tool.multi([Create(path, body) if known is None else SetData(path, body)])

    def check(self) -> None:
        context, watchman = self.controller.context, self.watchman
        assert context.recount() == (context.offline_partition_count, context.preferred_replica_imbalance_count)
        for tp, assignment in watchman.partitions().items():
            assert context.assignment(tp) == assignment
            strangers = [b for b in assignment.replicas if context.replica_state(b, tp) is ReplicaState.NON_EXISTENT]
            assert not strangers, f"replicas of {tp} on {strangers} do not exist for the controller"
            known, state = context.leaderships.get(tp), watchman.state(tp)
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
                        assert (*said, s.leader_epoch, s.leader, s.isr) in watchman.written
        self.controller.brokers.received.clear()

    async def come_to_rest(self) -> None:
        """Everybody lives and catches up: nothing is left to wait for."""
        await settle()
        for broker in BROKERS:
            # Whoever was leaving or had lost a disk comes back as another incarnation.
            if broker in self.alive:
                await self._start_or_stop(broker)
                await settle()
            await self._start_or_stop(broker)
            await settle()
        for _ in range(3):
            await self._change_isrs(members=0b11111)
            await settle()
        self.check()
        tree = self.world.server.tree
        assert not tree.children(DELETE_TOPICS), "every deletion is done"
        assert tree.get(REASSIGN_PARTITIONS) is None, "every request to move is done"
        assert not self.controller.context.partitions_being_reassigned
        for tp, assignment in self.watchman.partitions().items():
            state = self.watchman.state(tp)
            assert state is not None
            assert state.leader in BROKERS
            assert set(state.isr) == set(assignment.replicas)
            assert not assignment.is_being_reassigned
        assert self.controller.context.offline_partition_count == 0


@pytest.mark.rule("INV-1", "INV-2", "INV-3", "INV-4", "INV-7", "INV-8", "INV-10", "TI-3")
@settings(max_examples=120, deadline=None)
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
        await drill.take_office()
        for broker in sorted(present):
            await drill.do("start or stop", broker, None)
        await drill.do("create", TOPICS[0], list(placed))
        for step in story:
            await drill.do(*step)
        await drill.come_to_rest()
        await drill.controller.stop()

    run_virtually(main)
