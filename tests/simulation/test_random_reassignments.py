"""Random reassignments, cancellations, crashes, restarts, ISR changes and failovers lose no record."""

import contextlib
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from cluster.model.broker import BrokerId
from cluster.model.errors import MalformedZnodeError
from cluster.model.partition import TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest
from cluster.requests.elections import PREFERRED, ElectLeadersRequest, ElectLeadersTopic
from cluster.znodes.admin_requests import decode_reassignments, encode_reassignments
from cluster.znodes.paths import REASSIGN_PARTITIONS
from cluster.zookeeper.port import Create, Delete, SetData
from simulator.recount import recount
from tests.controllers.contexts import ids
from tests.controllers.reassignments import Cluster, cluster
from tests.controllers.worlds import quiesce, run_virtually, until
from tests.examples import examples

BROKERS = (1, 2, 3, 4, 5)
PARTITIONS = ((1, 2), (2, 3, 4))

targets = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True)
partitions = st.integers(0, len(PARTITIONS) - 1)
steps = st.one_of(
    st.tuples(st.just("api"), partitions, st.one_of(st.none(), targets)),
    st.tuples(st.just("znode"), partitions, targets),
    st.tuples(st.just("add"), partitions, targets),
    st.tuples(st.just("overwrite"), partitions, st.one_of(targets, st.sampled_from(["{nonsense", "", "nosuch"]))),
    st.tuples(st.just("drop"), st.none(), st.none()),
    st.tuples(st.just("elect"), partitions, st.none()),
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
            case "add" | "overwrite":
                assert subject is not None
                await self._write_request(subject, detail, keep=kind == "add")
            case "drop":
                await self.c.world.tool.multi([Delete(REASSIGN_PARTITIONS)])
            case "elect":
                assert subject is not None
                preferred = (ElectLeadersTopic("t", (subject,)),)
                await self.c.controller.ask(ElectLeadersRequest(PREFERRED, preferred, timeout_ms=1000))
            case "catch up":
                assert subject is not None
                await self._catch_up(subject, all_of_them=bool(detail))
            case "broker":
                assert subject is not None
                await self._start_or_stop(subject)
            case _:
                await self._fail_over()
        await quiesce()

    async def _write_request(self, partition: int, detail: object, *, keep: bool) -> None:
        """Rewrite the request node, whatever is in it, or make it; with what was in it, or instead."""
        tool, entry = self.c.world.tool, TopicPartition("t", partition)
        znode = await tool.get(REASSIGN_PARTITIONS)
        entries: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        if keep and znode is not None:
            with contextlib.suppress(MalformedZnodeError):
                entries = decode_reassignments(znode.data)
        if isinstance(detail, str):
            entries[TopicPartition("nosuch", 0)] = ids(1)
            data = encode_reassignments(entries) if detail == "nosuch" else detail.encode()
        else:
            assert isinstance(detail, list)
            entries[entry] = ids(*detail)
            data = encode_reassignments(entries)
        op = Create(REASSIGN_PARTITIONS, data) if znode is None else SetData(REASSIGN_PARTITIONS, data)
        await tool.multi([op])

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
            assert context.topics.assignment(tp) == lists
            # Who lives and is in sync can lead, unless he is only on his way out.
            led = state.leader != -1 or not self.alive & set(state.isr)
            assert led, (state, lists)
            assert (tp in context.topics.being_reassigned) == lists.is_being_reassigned
        await self._check_request()
        assert recount(context) == (
            context.leaderships.offline_partition_count,
            context.leaderships.preferred_replica_imbalance_count,
        )

    async def _check_request(self) -> None:
        """What is in the request node is under way, but for entries that list a broker twice or are malformed."""
        znode = await self.c.world.tool.get(REASSIGN_PARTITIONS)
        if znode is None:
            return
        with contextlib.suppress(MalformedZnodeError):
            for entry, target in decode_reassignments(znode.data).items():
                lists = self.c.controller.context.topics.assignment(entry)
                assert lists.is_being_reassigned, (entry, target)
                assert lists.target == target


@examples(24, deep=60)
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
