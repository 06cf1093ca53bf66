"""Agents with several log directories: what is asked of them, and what is in their directories."""

from broker_agent.log.partition_log import PartitionLog
from cluster.model.bounds import INT64_MAX
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribedLogDir,
    DescribeLogDirsRequest,
)
from cluster.znodes.configs import (
    CONFIG_CHANGE_PREFIX,
    DEFAULT_ENTITY,
    ConfigEntity,
    encode_config,
    encode_config_change,
)
from cluster.zookeeper.port import Create, SetData
from tests.brokers.agents import TP, AgentProcess, AgentWorld, connect, until

A, B, C = "/a", "/b", "/c"
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def world_of_directories(*paths: str, **settings: object) -> AgentWorld:
    world = AgentWorld(replica_fetch_backoff_ms=100, **settings)
    world.log_dirs = paths or (A, B)
    return world


async def move(process: AgentProcess, path: str, *partitions: TopicPartition, dry_run: bool = False) -> list[ErrorCode]:
    """Ask to move replicas there; by default that of TP."""
    wanted = tuple(AlterReplicaLogDirTopic(tp.topic, (tp.partition,)) for tp in partitions or (TP,))
    response = await process.handle(AlterReplicaLogDirsRequest((AlterReplicaLogDir(path, wanted),), dry_run))
    return [partition.error_code for topic in response.results for partition in topic.partitions]


async def describe(process: AgentProcess, *partitions: TopicPartition) -> dict[str, DescribedLogDir]:
    """The log directories by path; with the replicas of these partitions only, or of all without any."""
    chosen = tuple(DescribableLogDirTopic(tp.topic, (tp.partition,)) for tp in partitions) or None
    response = await process.handle(DescribeLogDirsRequest(chosen))
    return {described.log_dir: described for described in response.results}


def directory_of(process: AgentProcess, tp: TopicPartition = TP) -> str:
    log = process.partition(tp).log
    assert log is not None
    return log.directory


def other_than(path: str) -> str:
    return B if path == A else A


def partition_dirs(process: AgentProcess) -> dict[str, list[str]]:
    """The kinds of the directories of partitions in each log directory: plain, `future` or `delete`."""
    found: dict[str, list[str]] = {}
    for path in process.world.log_dirs:
        names = [name for name in process.disk.list_directory(path) if process.disk.is_directory(f"{path}/{name}")]
        found[path] = [name.rpartition(".")[2][33:] if "." in name else name for name in names]
    return found


async def moved(process: AgentProcess, path: str, tp: TopicPartition = TP, *, within_s: float = 60.0) -> None:
    """Wait until the replica is in this log directory, and nothing is left to do about it."""

    def is_there() -> bool:
        partition = process.agent.manager.online(tp)
        log = None if partition is None else partition.log
        marker = log is not None and f"{log.path}/swap-in-progress" in process.disk._files
        return log is not None and log.directory == path and not marker and process.logs.futures.get(tp) is None

    await until(is_there, within_s)


async def limit_copies(
    world: AgentWorld, bytes_per_second: int | None, broker: int = 1, *, of_all: bool = False
) -> None:
    """Set the throttle of copies of a broker, or of all, as tools do, and wait until the broker has it; None removes
    it.
    """
    tool = await connect(world.zookeeper)
    entity = ConfigEntity("brokers", DEFAULT_ENTITY if of_all else str(broker))
    content = encode_config({} if bytes_per_second is None else {RATE: str(bytes_per_second)})
    exists = world.zookeeper.tree.exists(entity.path) is not None
    write = SetData(entity.path, content) if exists else Create(entity.path, content)
    change = Create(CONFIG_CHANGE_PREFIX, encode_config_change(entity), sequential=True)
    assert all(result.ok for result in await tool.multi([write, change]))
    throttle = world.agents[broker].agent.copies.throttle
    expected = INT64_MAX if bytes_per_second is None else bytes_per_second
    await until(lambda: throttle.bytes_per_second == expected)


def content(log: PartitionLog | None) -> bytes:
    """All batches from the log start on."""
    assert log is not None
    return log.read(log.log_start_offset, 1 << 30, log.log_end_offset, at_least_one=True)
