"""The demonstration: produce while the leader's broker and the active controller are killed, then read all back.

It produces lines of a file to a topic with three replicas, kills processes with SIGKILL in the middle of it,
starts them again, and compares what was acknowledged with what can be read.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct, field

from admin.accumulator import ProducerOptions
from admin.client import AdminClient
from admin.consumer import Consumer
from admin.offsets import list_offsets
from admin.producer import Delivery, Producer
from admin.topology import Topology
from cluster.aio.clock import SystemClock
from cluster.model.broker import NO_LEADER, BrokerId, Offset
from cluster.model.errors import ApiError, ClusterError, ErrorCode, PeerUnreachableError, StartupError
from cluster.process.local_cluster import BROKER, CONTROLLER
from cluster.requests.cluster import DescribeClusterResponse
from cluster.requests.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MetadataRequest
from cluster.requests.topics import NewTopic
from deploy.local.cluster import LocalCluster
from launcher.serving import until_serving

LINES: Final = 60_000
PARTITIONS: Final = 6
REPLICATION_FACTOR: Final = 3
_LINES_PER_STEP = 50
_STEP_S = 0.02
_STEP_TIMEOUT_S = 180.0
_POLL_S = 0.02

_T = TypeVar("_T")
Say = Callable[[str], None]


class Outcome(Struct):
    """Result of the demonstration, before the audit. Counts are of lines, durations in ms."""

    topic: str
    acknowledged: int = 0
    acknowledged_by_stage: dict[str, int] = field(default_factory=dict)
    read_back: int = 0
    lost: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    batches_retried: int = 0
    killed_broker: int = -1
    killed_controller: int = -1
    leader_failover_ms: list[int] = field(default_factory=list)
    controller_failover_ms: list[int] = field(default_factory=list)
    in_sync_again_ms: int = -1


class Comparison(Struct, frozen=True):
    """Comparison of the records read with those acknowledged; see `compare`."""

    read_back: int
    lost: int
    duplicates: int
    out_of_order: int


class _Feed:
    """Sends the lines of a file at a steady rate, up to a limit, and keeps the acknowledged ones."""

    def __init__(self, producer_of: Callable[[Callable[[Delivery], None]], Producer], topic: str) -> None:
        self.producer = producer_of(self._delivered)
        self.topic = topic
        self.acknowledged: dict[int, list[bytes]] = {}
        self._ceiling = 0
        self._raised = asyncio.Event()
        self._progress = asyncio.Event()

    def _delivered(self, delivery: Delivery) -> None:
        if delivery.error is None:
            values = [v for v in delivery.values if v is not None]
            self.acknowledged.setdefault(delivery.topic_partition.partition, []).extend(values)
        self._progress.set()

    @property
    def count(self) -> int:
        return self.producer.totals.acknowledged

    def raise_ceiling(self, count: int) -> None:
        """Allow so many lines to be sent in all."""
        self._ceiling = count
        self._raised.set()

    async def run(self, file: Path) -> None:
        with file.open("rb") as lines:
            for sent, line in enumerate(lines):
                while sent >= self._ceiling:
                    self._raised.clear()
                    await self._raised.wait()
                await self.producer.send(self.topic, None, line.rstrip(b"\n"))
                if sent % _LINES_PER_STEP == 0:
                    await asyncio.sleep(_STEP_S)
        await self.producer.flush()

    async def until_acknowledged(self, count: int) -> None:
        async with asyncio.timeout(_STEP_TIMEOUT_S):
            while self.count < count:
                self._progress.clear()
                await self._progress.wait()


def write_lines(file: Path, count: int = LINES) -> None:
    """Write numbered, unique lines."""
    with file.open("w") as lines:
        for number in range(count):
            lines.write(f"{number:08d} {hashlib.sha256(str(number).encode()).hexdigest()[:40]}\n")


async def demonstrate(cluster: LocalCluster, lines: Path, say: Say) -> Outcome:
    """Run it on a cluster that serves. Raises ClusterError when something does not happen in time."""
    async with AdminClient(cluster.bootstrap) as client:
        topic = await _create_topic(client)
        say(f"created topic {topic}: {PARTITIONS} partitions, {REPLICATION_FACTOR} replicas, min.insync.replicas=2")
        outcome = Outcome(topic)
        topology = Topology(client)
        options = ProducerOptions(acks=-1, batch_size=16_384)
        feed = _Feed(lambda deliver: Producer(topology, SystemClock(), options, deliver), topic)
        try:
            async with feed.producer, asyncio.TaskGroup() as tasks:
                feeding = tasks.create_task(feed.run(lines))
                await _kill_and_restart(cluster, client, feed, outcome, say)
                await feeding
        except* ClusterError as group:
            raise group.exceptions[0] from None
        except* TimeoutError:
            raise StartupError(
                f"a step of the demonstration took more than {_STEP_TIMEOUT_S:g} s; logs: {cluster.folder / 'logs'}"
            ) from None
        outcome.acknowledged = feed.count
        outcome.acknowledged_by_stage["after both kills"] = feed.count - sum(outcome.acknowledged_by_stage.values())
        outcome.batches_retried = feed.producer.totals.batches_retried
        say(f"{feed.count:,} of {LINES:,} lines acknowledged; reading them back")
        found = compare(feed.acknowledged, await _read_all(topology, topic))
    outcome.read_back, outcome.lost = found.read_back, found.lost
    outcome.duplicates, outcome.out_of_order = found.duplicates, found.out_of_order
    return outcome


def compare(acknowledged: dict[int, list[bytes]], read: dict[int, list[bytes]]) -> Comparison:
    """Compare per partition; lines are unique in what was sent.

    `read_back` and `lost` count acknowledged lines; `duplicates` what was read more than once;
    `out_of_order` acknowledged lines whose first appearance comes before that of their predecessor.
    """
    read_back = lost = duplicates = out_of_order = 0
    for partition in sorted({*acknowledged, *read}):
        first_seen: dict[bytes, int] = {}
        for position, line in enumerate(read.get(partition, [])):
            first_seen.setdefault(line, position)
        duplicates += len(read.get(partition, [])) - len(first_seen)
        previous = -1
        for line in acknowledged.get(partition, []):
            at = first_seen.get(line)
            if at is None:
                lost += 1
                continue
            read_back += 1
            out_of_order += at < previous
            previous = at
    return Comparison(read_back, lost, duplicates, out_of_order)


async def _kill_and_restart(
    cluster: LocalCluster, client: AdminClient, feed: _Feed, outcome: Outcome, say: Say
) -> None:
    stages = outcome.acknowledged_by_stage
    # Enough that lines are on their way for as long as each failover takes, and few are left to wait for in the end.
    feed.raise_ceiling(LINES * 4 // 10)
    await feed.until_acknowledged(LINES // 10)

    stages["before the kills"] = feed.count
    await _kill_leader(cluster, client, outcome, say)
    feed.raise_ceiling(LINES * 9 // 10)
    await feed.until_acknowledged(LINES // 2)

    stages["between the kills"] = feed.count - stages["before the kills"]
    await _kill_controller(cluster, client, outcome, say)
    feed.raise_ceiling(LINES)

    began = asyncio.get_running_loop().time()
    cluster.start(f"{BROKER}-{outcome.killed_broker}")
    cluster.start(f"{CONTROLLER}-{outcome.killed_controller}")
    await until_serving(cluster, _STEP_TIMEOUT_S)
    await _until(lambda: _is_in_sync(client, outcome.topic))
    outcome.in_sync_again_ms = _ms_since(began)
    say(f"both restarted: all replicas in sync after {outcome.in_sync_again_ms:,} ms")


async def _kill_leader(cluster: LocalCluster, client: AdminClient, outcome: Outcome, say: Say) -> None:
    """SIGKILL the agent that leads partition 0, and time until every partition that it led has a new leader."""
    described = (await client.describe_topics([outcome.topic])).topics[0]
    victim = described.partitions[0].leader
    led = {p.partition for p in described.partitions if p.leader == victim}
    outcome.killed_broker = victim
    say(f"kill -9 of broker {victim}, which leads {len(led)} of {PARTITIONS} partitions, under load")
    began = asyncio.get_running_loop().time()
    cluster.kill(f"{BROKER}-{victim}")
    survivors = [m.address for m in cluster.members(BROKER) if m.id != victim]
    await _until(lambda: _have_other_leaders(client, survivors[0], outcome.topic, led, victim))
    outcome.leader_failover_ms.append(_ms_since(began))
    say(f"new leaders after {outcome.leader_failover_ms[-1]:,} ms (the session timeout is 6,000 ms)")


async def _have_other_leaders(
    client: AdminClient, address: str, topic: str, partitions: set[int], victim: BrokerId
) -> bool | None:
    """True when clients, who ask a broker, see a living leader for each of the partitions; None before."""
    try:
        metadata = await client.metadata(address, MetadataRequest((topic,)), 2_000)
    except PeerUnreachableError:
        return None
    leaders = {p.partition_index: p.leader_id for t in metadata.topics for p in t.partitions}
    return all(leaders.get(p, NO_LEADER) not in (NO_LEADER, victim) for p in partitions) or None


async def _kill_controller(cluster: LocalCluster, client: AdminClient, outcome: Outcome, say: Say) -> None:
    """SIGKILL the active controller, and time until another one answers with the next epoch."""
    before = await client.describe_cluster(require_controller=True)
    outcome.killed_controller = before.controller_id
    say(f"kill -9 of controller {before.controller_id}, active in epoch {before.controller_epoch}")
    began = asyncio.get_running_loop().time()
    cluster.kill(f"{CONTROLLER}-{before.controller_id}")
    after = await _until(lambda: _active_controller(cluster, client, before))
    outcome.controller_failover_ms.append(_ms_since(began))
    say(
        f"controller {after.controller_id} active in epoch {after.controller_epoch}"
        f" after {outcome.controller_failover_ms[-1]:,} ms"
    )
    if after.controller_epoch != before.controller_epoch + 1:
        raise StartupError(f"the controller epoch went from {before.controller_epoch} to {after.controller_epoch}")


async def _active_controller(
    cluster: LocalCluster, client: AdminClient, before: DescribeClusterResponse
) -> DescribeClusterResponse | None:
    for member in cluster.members(CONTROLLER):
        if member.id == before.controller_id:
            continue
        try:
            answer = await client.describe_node(member.address, 1_000)
        except PeerUnreachableError:
            continue
        if answer.controller_id == member.id:
            return answer
    return None


async def _is_in_sync(client: AdminClient, topic: str) -> bool | None:
    described = (await client.describe_topics([topic])).topics[0]
    return all(len(p.isr) == REPLICATION_FACTOR for p in described.partitions) or None


async def _until(probe: Callable[[], Awaitable[_T | None]]) -> _T:
    """Poll until there is a result. Raises TimeoutError."""
    async with asyncio.timeout(_STEP_TIMEOUT_S):
        while True:
            seen = await probe()
            if seen is not None:
                return seen
            await asyncio.sleep(_POLL_S)


async def _create_topic(client: AdminClient) -> str:
    """`demo`, or the first free `demo-N` in a folder where demonstrations ran before."""
    names = {t.name for t in (await client.list_topics()).topics}
    name = next(n for n in ("demo", *(f"demo-{i}" for i in range(2, len(names) + 3))) if n not in names)
    topic = NewTopic(name, PARTITIONS, REPLICATION_FACTOR, configs={"min.insync.replicas": "2"})
    result = (await client.create_topics([topic])).topics[0]
    if result.error_code is not ErrorCode.NONE:
        raise ApiError(result.error_code, result.error_message)
    return name


async def _read_all(topology: Topology, topic: str) -> dict[int, list[bytes]]:
    """Every record of the topic, per partition in the order of the log."""
    partitions = await topology.partitions(topic)
    starts = await list_offsets(topology, topic, dict.fromkeys(partitions, EARLIEST_TIMESTAMP), _STEP_TIMEOUT_S)
    ends = await list_offsets(topology, topic, dict.fromkeys(partitions, LATEST_TIMESTAMP), _STEP_TIMEOUT_S)
    read: dict[int, list[bytes]] = {p: [] for p in partitions}
    next_offsets: dict[int, Offset] = dict(starts)
    async with Consumer(topology, topic, starts, until=ends) as consumer:
        async for part in consumer.fetched():
            assert part.records[0].offset == next_offsets[part.partition], "the log has a gap"
            next_offsets[part.partition] = Offset(part.records[-1].offset + 1)
            read[part.partition] += [r.value for r in part.records if r.value is not None]
    return read


def _ms_since(began: float) -> int:
    return round((asyncio.get_running_loop().time() - began) * 1000)
