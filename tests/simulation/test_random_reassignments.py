"""Random reassignments, cancellations, crashes, restarts, ISR changes and failovers lose no record."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.partition import TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest
from cluster.znodes.admin_requests import encode_reassignments
from cluster.znodes.paths import REASSIGN_PARTITIONS
from cluster.zookeeper.port import Create
from simulator.recount import recount
from tests.contexts import ids
from tests.controllers import quiesce, run_virtually, until
from tests.reassignments import Cluster, cluster

BROKERS = (1, 2, 3, 4, 5)
PARTITIONS = ((1, 2), (2, 3, 4))

targets = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True)
partitions = st.integers(0, len(PARTITIONS) - 1)
steps = st.one_of(
    st.tuples(st.just("api"), partitions, st.one_of(st.none(), targets)),
    st.tuples(st.just("znode"), partitions, targets),
    st.tuples(st.just("catch up"), partitions, st.booleans()),
    st.tuples(st.just("broker"), st.sampled_from(BROKERS), st.booleans()),
    st.tuples(st.just("failover"), st.none(), st.none()),
)


class Drill:
    """One cluster, and what must hold between any two steps."""

    def __init__(self, c: Cluster) -> None:
        self.c = c
        self.alive = set(BROKERS)
        self.holding: dict[int, set[int]] = {p: set(replicas) for p, replicas in enumerate(PARTITIONS)}
        """Partition -> living brokers that were told to host it and not to delete it."""

    async def do(self, kind: str, subject: int | None, detail: object) -> None:
        match kind:
            case "api":
                assert subject is not None
                await self.c.alter({subject: detail})  # type: ignore[dict-item]
            case "znode":
                entry = {TopicPartition("t", int(subject or 0)): ids(*detail)}  # type: ignore[misc]
                await self.c.world.tool.multi([Create(REASSIGN_PARTITIONS, encode_reassignments(entry))])
            case "catch up":
                assert subject is not None
                await self._catch_up(subject, all_of_them=bool(detail))
            case "broker":
                assert subject is not None
                await self._start_or_stop(subject)
            case _:
                await self._fail_over()
        await quiesce()

    async def _catch_up(self, partition: int, *, all_of_them: bool) -> None:
        """The leader takes one more live replica into the ISR, or all."""
        state = await self.c.world.state("t", partition)
        assert state is not None
        if state.leader < 0:
            return
        lists = await self.c.lists(partition)
        missing = [b for b in lists.replicas if b in self.alive and b not in state.isr]
        grown = (*state.isr, *(missing if all_of_them else missing[:1]))
        item = AlterPartitionItem("t", None, partition, state.leader_epoch, grown, state.partition_epoch)
        epoch = await self.c.world.broker_epoch(state.leader)
        await self.c.controller.ask(AlterPartitionRequest(state.leader, epoch, (item,)))

    async def _start_or_stop(self, broker: int) -> None:
        if broker in self.alive:
            self.alive.discard(broker)
            await self.c.world.stop_broker(broker)
            for holding in self.holding.values():
                holding.discard(broker)
        else:
            self.alive.add(broker)
            await self.c.world.start_broker(broker)

    async def _fail_over(self) -> None:
        self._hear()
        await self.c.controller.stop()
        successor = self.c.world.start_controller(1001)
        await until(lambda: successor.is_active)
        self.c = Cluster(self.c.world, successor)

    def _hear(self) -> None:
        for broker, request in self.c.controller.brokers.received:
            match request:
                case LeaderAndIsrRequest():
                    for state in (s for t in request.topic_states for s in t.partition_states):
                        self.holding[state.partition_index].add(broker)
                case StopReplicaRequest():
                    for stop in request.partition_states:
                        if stop.delete_partition:
                            self.holding[stop.partition_index].discard(broker)
                case _:
                    pass
        self.c.forget()

    async def check(self) -> None:
        self._hear()
        context = self.c.controller.context
        for partition in range(len(PARTITIONS)):
            tp = TopicPartition("t", partition)
            state, lists = await self.c.world.state("t", partition), await self.c.lists(partition)
            assert state is not None
            assert state.isr
            assert set(state.isr) <= set(lists.replicas)
            assert state.leader == -1 or state.leader in state.isr
            assert state.leader == -1 or state.leader in self.alive
            # Who lives and holds data is known to ZooKeeper (INV-8); nobody gave up data before its successors had it.
            assert self.holding[partition] & self.alive <= set(lists.replicas)
            if lists.is_being_reassigned:
                assert not set(lists.target) <= set(state.isr)
                assert set(lists.original) & self.alive <= self.holding[partition]
            assert context.assignment(tp) == lists
            assert (tp in context.partitions_being_reassigned) == lists.is_being_reassigned
        assert recount(context) == (context.offline_partition_count, context.preferred_replica_imbalance_count)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=1, max_size=10))
def test_whatever_happens_data_stays_until_its_successors_have_it(
    story: Sequence[tuple[str, int | None, object]],
) -> None:
    async def main() -> None:
        drill = Drill(await cluster(*BROKERS, topic=PARTITIONS))
        for step in story:
            await drill.do(*step)
            await drill.check()
        await drill.c.controller.stop()

    run_virtually(main)
