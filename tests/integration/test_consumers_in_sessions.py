"""A consumer fetches in a session with each broker, over real gRPC; it loses and repeats nothing where that ends."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from admin.connecting.client import AdminClient
from admin.consuming import consumer
from admin.consuming.consumer import Consumer, ConsumerOptions
from admin.describing.topology import Topology
from admin.producing.producer import Producer
from cluster.aio.clock import SystemClock
from cluster.model.broker import Offset
from tests.controllers.scripted_cluster import TOPIC, ScriptedCluster, served_cluster
from tests.controllers.worlds import until
from tests.timeouts import TIMEOUT_S

PARTITIONS = range(12)


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedCluster]:
    # A busy machine is no reason to leave without a word.
    monkeypatch.setattr(consumer, "_END_TIMEOUT_MS", TIMEOUT_S * 1000)
    async with served_cluster() as served:
        yield served


@pytest.fixture
async def client(cluster: ScriptedCluster) -> AsyncIterator[AdminClient]:
    async with AdminClient([s.address for s in cluster.servers.values()], timeout_ms=TIMEOUT_S * 1000) as connected:
        yield connected


async def produce(client: AdminClient, values: range, *partitions: int) -> None:
    async with Producer(Topology(client), SystemClock()) as producer:
        for number in values:
            for partition in partitions:
                await producer.send(TOPIC, None, b"%d" % number, partition)


async def consumer_of(client: AdminClient, until: dict[int, Offset] | None = None) -> Consumer:
    topology = Topology(client)
    await topology.partitions(TOPIC)
    starts = dict.fromkeys(PARTITIONS, Offset(0))
    return Consumer(topology, TOPIC, starts, until=until, options=ConsumerOptions(fetch_max_wait_ms=10))


class Reading:
    """What a consumer has read so far, by partition."""

    def __init__(self, reader: Consumer) -> None:
        self.values: dict[int, list[int]] = {partition: [] for partition in PARTITIONS}
        self._fetched = reader.fetched()

    async def read(self, count: int) -> None:
        """Read until there are so many."""
        async with asyncio.timeout(TIMEOUT_S):
            while sum(map(len, self.values.values())) < count:
                part = await anext(self._fetched)
                self.values[part.partition] += [int(record.value or 0) for record in part.records]


@pytest.mark.rule("R5.12")
async def test_a_fetch_names_what_changed_and_the_last_one_ends_the_session(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    await produce(client, range(10), *PARTITIONS)
    async with await consumer_of(client) as reader:
        reading = Reading(reader)
        await reading.read(120)
        await until(lambda: not any(fetch.session_epoch <= 0 or fetch.partitions for fetch in cluster.fetches[-6:]))
        assert len(cluster.sessions) == 3
        await produce(client, range(10, 20), 7)
        await reading.read(130)
        assert reading.values == {p: list(range(20 if p == 7 else 10)) for p in PARTITIONS}
    full = [fetch for fetch in cluster.fetches if fetch.session_epoch == 0]
    assert [len(fetch.partitions) for fetch in full] == [4, 4, 4]
    assert cluster.sessions == {}


@pytest.mark.rule("R5.12")
async def test_partitions_that_are_read_are_forgotten(cluster: ScriptedCluster, client: AdminClient) -> None:
    await produce(client, range(10), *PARTITIONS)
    ends = {partition: Offset(10 if partition < 9 else 20) for partition in PARTITIONS}
    async with await consumer_of(client, ends) as reader:
        reading = Reading(reader)
        await reading.read(120)
        await until(lambda: sum(len(session.partitions) for session in cluster.sessions.values()) == 3)
        await produce(client, range(10, 20), 9, 10, 11)
        await reading.read(150)
    assert {partition: len(values) for partition, values in reading.values.items()} == ends
    assert cluster.sessions == {}


@pytest.mark.rule("R5.12")
async def test_after_a_session_was_lost_or_an_answer_another_begins_and_nothing_is_read_twice(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    async with await consumer_of(client) as reader:
        reading = Reading(reader)
        for turn in range(1, 5):
            await produce(client, range(10 * turn - 10, 10 * turn), *PARTITIONS)
            if turn % 2:
                cluster.sessions.clear()
            else:
                for session in cluster.sessions.values():
                    session.epoch += 1
            await reading.read(120 * turn)
    assert reading.values == {partition: list(range(40)) for partition in PARTITIONS}
    assert len([fetch for fetch in cluster.fetches if fetch.session_epoch == 0]) > 3


@pytest.mark.rule("R5.12")
async def test_a_broker_of_an_earlier_release_grants_no_session_and_is_asked_for_everything(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    cluster.grants_sessions = False
    await produce(client, range(10), *PARTITIONS)
    async with await consumer_of(client) as reader:
        reading = Reading(reader)
        await reading.read(120)
        await produce(client, range(10, 20), *PARTITIONS)
        await reading.read(240)
    assert reading.values == {partition: list(range(20)) for partition in PARTITIONS}
    assert {(len(fetch.partitions), fetch.session_epoch) for fetch in cluster.fetches} == {(4, 0)}


@pytest.mark.rule("R5.12", "R6.23")
async def test_a_partition_that_is_read_elsewhere_leaves_the_session(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    await produce(client, range(10), *PARTITIONS)
    async with await consumer_of(client) as reader:
        reading = Reading(reader)
        await reading.read(120)
        cluster.lead(0, 1)
        await produce(client, range(10, 20), *PARTITIONS)
        await reading.read(240)
        await until(lambda: sorted(len(s.partitions) for s in cluster.sessions.values()) == [3, 4, 5])
    assert reading.values == {partition: list(range(20)) for partition in PARTITIONS}


@pytest.mark.rule("R5.12")
async def test_what_an_old_leader_answers_late_is_dropped_if_the_new_one_was_read(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    await produce(client, range(10), 0, 3)
    cluster.holding[0] = released = asyncio.Event()
    async with await consumer_of(client) as reader:
        reading = Reading(reader)
        of_new_leader = asyncio.create_task(reading.read(10))
        await until(lambda: any(fetch.partitions[0].partition == 0 for fetch in cluster.fetches if fetch.partitions))
        cluster.lead(0, 1)
        # By the error for this one the consumer learns of both new leaders.
        cluster.lead(4, 2)
        await of_new_leader
        assert reading.values[0] == list(range(10))
        await produce(client, range(10, 20), 0)
        await reading.read(20)
        released.set()
        await reading.read(30)
        await produce(client, range(10, 20), 3)
        await reading.read(40)
    assert reading.values == {p: list(range(20 if p in (0, 3) else 0)) for p in PARTITIONS}
