"""Checks after every callback of the event loop where the replicas of one partition are on the disks of their brokers.

A replica is in one live log directory; a copy of it in another one serves nobody, and takes its place as it is.
"""

from typing import NamedTuple

from broker_agent.agent import Agent
from broker_agent.log.directory_names import DirectoryKind
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replication.hosted_partition import HostedPartition
from cluster.model.partition import TopicPartition
from simulator.cluster import SimulatedCluster
from simulator.nodes import SimulatedAgent
from simulator.violations import violated

_FUTURE = f"-{DirectoryKind.FUTURE.value}"


class _Seen(NamedTuple):
    """A log of a hosted partition as it was at the last callback."""

    partition: HostedPartition
    log: PartitionLog
    offsets: tuple[int, int, int]
    epochs: tuple[tuple[int, int], ...]


class DirectoryChecker:
    """`swaps`: how many copies have taken the place of their logs. `observe` raises ViolationError."""

    def __init__(self, cluster: SimulatedCluster, tp: TopicPartition) -> None:
        self.swaps = 0
        self._cluster, self._tp = cluster, tp
        self._seen: dict[int, _Seen] = {}

    def observe(self) -> None:
        """Check every running agent (P14, R11.12)."""
        for simulated in self._cluster.agents.values():
            agent = simulated.agent
            partition = None if agent is None or not simulated.is_running else agent.manager.online(self._tp)
            if agent is None or partition is None or partition.log is None:
                self._seen.pop(simulated.id, None)
                continue
            if partition.log.is_closed and partition.log.directory in agent.manager.logs.failures:
                continue  # Its directory has just failed: it serves nothing, and goes offline next.
            self._check_places(simulated, agent, partition, partition.log)
            self._check_swap(simulated.id, partition, partition.log)

    def _check_places(
        self, simulated: SimulatedAgent, agent: Agent, partition: HostedPartition, log: PartitionLog
    ) -> None:
        broker, logs, future = simulated.id, agent.manager.logs, partition.future_log
        if logs.get(self._tp) is not log or log.directory not in logs.live_directories:
            raise violated("P14", f"broker {broker} serves {log.path}, which is not its log of {self._tp}")
        if future is not None and future.is_closed and future.directory in logs.failures:
            return  # It goes next.
        if future is not None and (logs.futures.get(self._tp) is not future or future.directory == log.directory):
            raise violated("P14", f"broker {broker} copies {log.path} to {future.path}")
        if agent.manager.swapped == self._tp:
            return
        if log.path.endswith(_FUTURE):
            raise violated("P14", f"broker {broker} serves the copy {log.path}")
        plain = [path for path in logs.live_directories if simulated.disk.is_directory(f"{path}/{self._tp}")]
        if plain != [log.directory]:
            raise violated("P14", f"broker {broker} has {self._tp} in {plain}, and serves it from {log.directory}")

    def _check_swap(self, broker: int, partition: HostedPartition, log: PartitionLog) -> None:
        before = self._seen.get(broker)
        offsets = log.log_end_offset, log.high_watermark, log.log_start_offset
        if before is not None and before.partition is partition and before.log is not log:
            self.swaps += 1
            if before.offsets != offsets or before.epochs != log.epoch_entries:
                raise violated("R11.12", f"broker {broker}: {before.offsets} {before.epochs} then {offsets}")
        if before is None or before.log is not log or before.offsets != offsets:
            self._seen[broker] = _Seen(partition, log, offsets, log.epoch_entries)
        elif before.epochs != log.epoch_entries:
            self._seen[broker] = before._replace(epochs=log.epoch_entries)
