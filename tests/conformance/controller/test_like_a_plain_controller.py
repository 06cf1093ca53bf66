"""The controller compared with a plain one: after every random step both have written and sent the same."""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from msgspec.structs import replace

from cluster.model.broker import Broker, BrokerEpoch, BrokerId, Endpoint
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.model.state_machines import PartitionState
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, ControlledShutdownRequest
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest
from cluster.requests.elections import PREFERRED, UNCLEAN, ElectLeadersRequest, ElectLeadersTopic
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.znodes.paths import broker_path, topic_path
from cluster.znodes.registrations import encode_broker
from cluster.znodes.topics import encode_topic
from cluster.zookeeper.port import Create, Delete, Op, SetData
from tests.controllers.plain_controller import PlainController, SentState, sent_by_partition
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

BROKERS = [BrokerId(number) for number in (1, 2, 5, 6, 14, 20)]
"""Their order is not that in which the controller takes them: 5, 14, 20, 1, 6, 2."""
TOPICS, STEPS, SEEDS = 3, 40, 12


class Comparison:
    """One random life of a cluster. Brokers are registrations, and only take what they are told."""

    def __init__(self, seed: int, world: World) -> None:
        self.random, self.world, self.plain = Random(seed), world, PlainController()
        self.number = 1001
        self.controller = self._start_controller()
        self.read = 0

    async def take_step(self) -> str:
        steps: list[Callable[[], Awaitable[str]]] = [
            *[self.change_brokers] * 4,
            *[self.add_partitions] * 2,
            *[self.change_isr] * 6,
            *[self.move] * 3,
            self.shut_down,
            self.elect,
            self.fail_over,
        ]
        return await self.random.choice(steps)()

    async def compare(self) -> None:
        """Both are asked for what is in ZooKeeper, and what was told since the last time."""
        await quiesce()
        for tp in self.plain.assignments:
            assert await self.world.state(tp.topic, tp.partition) == self.plain.states.get(tp), tp
        for topic, partitions in self.plain.topics.items():
            written = await self.world.topic(topic)
            assert written is not None, topic
            assert written.partitions == partitions, topic
        assert sent_by_partition(self._received()) == sent_by_partition(self.plain.sent)
        self.plain.sent.clear()

    # Steps: what happens is done to ZooKeeper or asked of the controller, and then the plain one hears of it.

    async def change_brokers(self) -> str:
        """Several at once: some come, some go, and some come back before anybody sees that they were gone."""
        changed = self.random.sample(BROKERS, self.random.choice((1, 1, 2, 3)))
        ops: list[Op] = []
        for broker in changed:
            if broker in self.plain.brokers:
                ops.append(Delete(broker_path(broker)))
            if broker not in self.plain.brokers or self.random.random() < 0.4:
                record = Broker(broker, (Endpoint(f"host{broker}", 9092),))
                ops.append(Create(broker_path(broker), encode_broker(record, 1)))
        await self.world.write(*ops)
        for broker in changed:
            stat = await self.world.tool.exists(broker_path(broker))
            self.plain.brokers.pop(broker, None)
            if stat is not None:
                self.plain.brokers[broker] = BrokerEpoch(stat.czxid)
        self.plain.brokers_changed()
        return f"brokers {sorted(self.plain.brokers)} after a change of {changed}"

    async def add_partitions(self) -> str:
        """A new topic, or one that grows."""
        topic = f"t{self.random.randrange(TOPICS)}"
        written = await self.world.topic(topic)
        known = {} if written is None else written.partitions
        added = {len(known) + i: ReplicaAssignment(self._some_brokers()) for i in range(self.random.choice((1, 2)))}
        body = encode_topic(TopicAssignment(known | added, None if written is None else written.topic_id))
        await self.world.write(Create(topic_path(topic), body) if written is None else SetData(topic_path(topic), body))
        self.plain.topics[topic] = known | added
        self.plain.partitions_added()
        return f"{topic} gets {added}"

    async def change_isr(self) -> str:
        """A leader takes replicas in, or lets some go."""
        led = [tp for tp, now in self.plain.states.items() if now.leader in self.plain.known]
        if not led:
            return "nobody leads"
        tp = self.random.choice([tp for tp in led if tp in self.plain.moving] or led)
        now = self.plain.states[tp]
        outside = [b for b in self.plain.assignments[tp].replicas if b in self.plain.live and b not in now.isr]
        if outside and self.random.random() < 0.8:
            isr = (*now.isr, *self.random.sample(outside, self.random.choice((1, len(outside)))))
        else:
            isr = tuple(b for b in now.isr if b == now.leader or self.random.random() < 0.6)
        if not self.plain.live.issuperset(isr):
            return "somebody in sync is not alive"
        item = AlterPartitionItem(tp.topic, None, tp.partition, now.leader_epoch, isr, now.partition_epoch)
        request = AlterPartitionRequest(now.leader, self.plain.known[now.leader], (item,))
        (answer,) = (await self.controller.ask(request)).partitions
        assert answer.error_code is ErrorCode.NONE
        self.plain.isr_asked_for(tp, isr)
        return f"{tp} has the ISR {isr}"

    async def move(self) -> str:
        """A move begins, takes the place of another, or is cancelled."""
        if not self.plain.states:
            return "nothing to move"
        tp = self.random.choice(sorted(self.plain.states))
        now = self.plain.assignments[tp]
        cancels = now.is_being_reassigned and self.random.random() < 0.4
        wanted = now.reassign_to(now.original if cancels else self._some_brokers())
        if not self.plain.live.issuperset(wanted.adding) or set(wanted.replicas).isdisjoint(self.plain.states[tp].isr):
            return "a move that is refused"
        target = None if cancels else wanted.target
        entry = ReassignableTopic(tp.topic, (ReassignablePartition(tp.partition, target),))
        (answer,) = (await self.controller.ask(AlterPartitionReassignmentsRequest((entry,)))).responses
        assert answer.partitions[0].error_code is ErrorCode.NONE
        self.plain.reassign(tp, wanted)
        return f"{tp} moves to {target}"

    async def shut_down(self) -> str:
        if not self.plain.known:
            return "nobody is there"
        broker = self.random.choice(sorted(self.plain.known))
        await self.controller.ask(ControlledShutdownRequest(broker))
        self.plain.shut_down(broker)
        return f"broker {broker} shuts down"

    async def elect(self) -> str:
        """Where the preferred replica does not lead, or nobody does."""
        kind = self.random.choice((PREFERRED, UNCLEAN))
        wanted = [tp for tp, now in sorted(self.plain.states.items()) if self._needs_election(kind, tp)]
        entries = tuple(ElectLeadersTopic(tp.topic, (tp.partition,)) for tp in wanted)
        await self.controller.ask(ElectLeadersRequest(kind, entries, timeout_ms=1000))
        choose = self.plain.preferred if kind == PREFERRED else self.plain.unclean
        self.plain.move_partitions(wanted, PartitionState.ONLINE, choose)
        return f"elections of type {kind} for {wanted}"

    async def fail_over(self) -> str:
        await self.controller.stop()
        self.number += 1
        self.controller, self.read = self._start_controller(), 0
        await until(lambda: self.controller.is_active)
        self.plain.become_active()
        return "the next controller becomes active"

    def _start_controller(self) -> RunningController:
        return self.world.start_controller(self.number, auto_leader_rebalance_enable=False)

    def _some_brokers(self) -> tuple[BrokerId, ...]:
        return tuple(self.random.sample(BROKERS, self.random.choice((1, 2, 3))))

    def _needs_election(self, kind: int, tp: TopicPartition) -> bool:
        leader = self.plain.states[tp].leader
        if kind == PREFERRED:
            return leader != self.plain.assignments[tp].replicas[0]
        return leader not in self.plain.live

    def _received(self) -> dict[tuple[BrokerId, TopicPartition], list[SentState]]:
        sent: dict[tuple[BrokerId, TopicPartition], list[SentState]] = defaultdict(list)
        everything = self.controller.brokers.received
        for broker, request in everything[self.read :]:
            if isinstance(request, StopReplicaRequest):
                for stop in request.partition_states:
                    sent[broker, TopicPartition(stop.topic_name, stop.partition_index)].append(
                        replace(stop, topic_id=None)  # The plain one knows no ids.
                    )
                continue
            kind = "LeaderAndIsr" if isinstance(request, LeaderAndIsrRequest) else "UpdateMetadata"
            assert request.controller_epoch == self.plain.epoch, kind
            for topic in request.topic_states:
                for state in topic.partition_states:
                    sent[broker, TopicPartition(topic.topic_name, state.partition_index)].append(state)
        self.read = len(everything)
        return sent


@pytest.mark.rule("PS-10", "PS-13", "RM-4", "RM-6", "RM-10", "RM-11", "RQ-4", "RQ-10", "BK-3", "CS-8", "RA-13", "RA-18")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_controller_writes_and_tells_what_a_plain_one_does(seed: int) -> None:
    async def main() -> None:
        comparison = Comparison(seed, await World().start())
        await until(lambda: comparison.controller.is_active)
        for number in range(STEPS):
            step = await comparison.take_step()
            try:
                await comparison.compare()
            except AssertionError as error:
                error.add_note(f"step {number}: {step}")
                raise
        await comparison.controller.stop()

    run_virtually(main)
