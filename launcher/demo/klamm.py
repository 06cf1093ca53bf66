"""The demonstration on klamm's brokers: a leader's broker and the active controller are killed under load.

Both are killed with SIGKILL, and started again at the end.
"""

import contextlib
from typing import Final

from msgspec import Struct, field

from admin.connecting.client import AdminClient
from admin.consuming.consumer import Consumer
from admin.consuming.offsets import list_offsets
from admin.consuming.record_batches import Record
from admin.consuming.record_history import Acknowledged, RecordId
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.producer import Delivery, Producer
from cluster.aio.clock import SystemClock
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError, StartupError
from cluster.process.local_cluster import BROKER, CONTROLLER
from cluster.requests.cluster import DescribeClusterResponse
from cluster.requests.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MetadataRequest
from cluster.requests.topics import NewTopic
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_clients import View
from launcher.demo.load import LoadOutcome, RecordLoad
from launcher.demo.steps import PARTITIONS, REPLICAS, STEP_TIMEOUT_S, Demonstration, Say, timed, until
from launcher.serving import until_serving

LINES: Final = 60_000
_ANSWER_MS: Final = 2_000
_OPTIONS: Final = ProducerOptions(acks=-1, batch_size=16_384)


class KlammResult(Struct):
    """Result of the demonstration, before the audit. Counts are of records, durations in ms."""

    topic: str
    outcome: LoadOutcome = LoadOutcome()
    acknowledged_by_stage: dict[str, int] = field(default_factory=dict)
    killed_broker: int = -1
    killed_controller: int = -1
    leader_failover_ms: list[int] = field(default_factory=list)
    controller_failover_ms: list[int] = field(default_factory=list)
    in_sync_again_ms: int = -1


class KlammLoad(RecordLoad):
    """One producer of klamm, and no group."""

    def __init__(self, topology: Topology, topic: str) -> None:
        super().__init__(topic, LINES)
        self._topology = topology

    async def _produce(self, producer: str) -> None:
        self._idempotent.add(producer)
        async with Producer(self._topology, SystemClock(), _OPTIONS, self._deliver) as client:
            async for id_ in self._ids(producer):
                await client.send(self.topic, None, id_.value())
        self._failed, self._batches_retried = client.totals.failed, client.totals.batches_retried

    def _deliver(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            return
        for offset, value in enumerate(delivery.values, delivery.base_offset):
            id_ = RecordId.of(value)
            assert id_ is not None, "sent by this load"
            self._acknowledged.append(
                Acknowledged(id_, delivery.topic_partition.partition, offset, resent=delivery.attempts > 1)
            )

    async def _read_all(self, timeout_s: float) -> dict[int, list[tuple[int, bytes | None]]]:
        return await read_all(self._topology, self.topic, timeout_s)


async def demonstrate(cluster: LocalCluster, say: Say) -> KlammResult:
    """Run it on a cluster that serves. Raises ClusterError when something does not happen in time."""
    async with AdminClient(cluster.bootstrap, tls=cluster.client_tls) as client:
        topic = await _create_topic(client)
        say(f"created topic {topic}: {PARTITIONS} partitions, {REPLICAS} replicas, min.insync.replicas=2")
        demonstration = _Demonstration(cluster, client, topic, say)
        return await demonstration.run_steps(demonstration.run())


async def read_all(topology: Topology, topic: str, timeout_s: float) -> dict[int, list[tuple[int, bytes | None]]]:
    """Read the offsets and values of a topic, by partition. Raises what the consumer raises."""
    read = await read_records(topology, topic, timeout_s)
    return {partition: [(record.offset, record.value) for record in records] for partition, records in read.items()}


async def read_records(topology: Topology, topic: str, timeout_s: float) -> dict[int, list[Record]]:
    """Read the records that a topic has now, by partition. Raises what the consumer raises."""
    partitions = await topology.partitions(topic)
    starts = await list_offsets(topology, topic, dict.fromkeys(partitions, EARLIEST_TIMESTAMP), timeout_s)
    ends = await list_offsets(topology, topic, dict.fromkeys(partitions, LATEST_TIMESTAMP), timeout_s)
    read: dict[int, list[Record]] = {partition: [] for partition in partitions}
    async with Consumer(topology, topic, starts, until=ends) as consumer:
        async for fetched in consumer.fetched():
            read[fetched.partition] += fetched.records
    return read


class _Demonstration(Demonstration):
    def __init__(self, cluster: LocalCluster, client: AdminClient, topic: str, say: Say) -> None:
        super().__init__(cluster, topic, say)
        self._client = client
        self._load = KlammLoad(Topology(client), topic)
        self._result = KlammResult(topic)

    async def view(self, broker: int) -> View:
        """Ask a broker as clients do."""
        seen = await self._client.metadata(self.brokers[broker], MetadataRequest((self.topic,)), _ANSWER_MS)
        partitions = tuple(partition for topic in seen.topics for partition in topic.partitions)
        return View(frozenset(broker.node_id for broker in seen.brokers), seen.controller_id, partitions)

    async def run(self) -> KlammResult:
        load, result, stages = self._load, self._result, self._result.acknowledged_by_stage
        async with load.running():
            # Enough that records are on their way while each failover lasts, and few are left to wait for in the end.
            await self._produce(LINES * 4 // 10, LINES // 10)
            stages["before the kills"] = load.acknowledged
            result.killed_broker, seconds = await self.kill_leader()
            result.leader_failover_ms.append(_ms(seconds))
            self.say(f"new leaders after {_ms(seconds):,} ms (the session timeout is 6,000 ms)")
            await self._produce(LINES * 9 // 10, LINES // 2)
            stages["between the kills"] = load.acknowledged - stages["before the kills"]
            await self._kill_controller()
            load.allowed = LINES
            await self._restart()
            await load.stop(STEP_TIMEOUT_S)
            stages["after both kills"] = load.acknowledged - sum(stages.values())
            self.say(f"{load.acknowledged:,} of {LINES:,} lines acknowledged; reading them back")
            result.outcome = await load.finish(STEP_TIMEOUT_S)
        return result

    async def _produce(self, allowed: int, acknowledged: int) -> None:
        """Allow this many records to be sent in all, and wait until the second number is acknowledged."""
        self._load.allowed = allowed

        async def is_reached() -> bool:
            return self._load.acknowledged >= acknowledged

        await until(is_reached)

    async def _kill_controller(self) -> None:
        """Kill the active controller, and time until another one answers with the next epoch."""
        before = await self._client.describe_cluster(require_controller=True)
        victim = self._result.killed_controller = before.controller_id
        self.say(f"kill -9 of controller {victim}, active in epoch {before.controller_epoch}")
        seconds, after = await timed(
            until(lambda: self._active_controller(victim)), after=lambda: self.cluster.kill(f"{CONTROLLER}-{victim}")
        )
        self._result.controller_failover_ms.append(_ms(seconds))
        self.say(f"controller {after.controller_id} active in epoch {after.controller_epoch} after {_ms(seconds):,} ms")
        if after.controller_epoch != before.controller_epoch + 1:
            raise StartupError(f"the controller epoch went from {before.controller_epoch} to {after.controller_epoch}")

    async def _active_controller(self, killed: int) -> DescribeClusterResponse | None:
        for member in self.cluster.members(CONTROLLER):
            if member.id == killed:
                continue
            with contextlib.suppress(PeerUnreachableError):
                answer = await self._client.describe_node(member.address, 1_000)
                if answer.controller_id == member.id:
                    return answer
        return None

    async def _restart(self) -> None:
        """Start both again, and time until all replicas are in sync."""

        def start() -> None:
            self.cluster.start(f"{BROKER}-{self._result.killed_broker}")
            self.cluster.start(f"{CONTROLLER}-{self._result.killed_controller}")

        async def serving_and_repaired() -> None:
            await until_serving(self.cluster, STEP_TIMEOUT_S)
            await until(self.is_repaired)

        self._result.in_sync_again_ms = _ms((await timed(serving_and_repaired(), after=start))[0])
        self.say(f"both restarted: all replicas in sync after {self._result.in_sync_again_ms:,} ms")


async def _create_topic(client: AdminClient) -> str:
    """Create `demo`, or the first free `demo-N` in a folder where demonstrations ran before."""
    names = {t.name for t in (await client.list_topics()).topics}
    name = next(n for n in ("demo", *(f"demo-{i}" for i in range(2, len(names) + 3))) if n not in names)
    topic = NewTopic(name, PARTITIONS, REPLICAS, configs={"min.insync.replicas": "2"})
    result = (await client.create_topics([topic])).topics[0]
    if result.error_code is not ErrorCode.NONE:
        raise ApiError(result.error_code, result.error_message)
    return name


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
