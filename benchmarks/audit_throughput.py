"""Benchmarks the audit: records a second, and CPU time a record of the JVM and of Python, on logs that it makes.

Run as `python -m benchmarks.audit_throughput [--records N] [--keys N] [--batch-mb N] [--data DIR]`. Three controllers
and five agents log elections and ISR changes of so many partitions, without a fault. The first batch is counted apart:
it has the start of Spark in it. Nothing else should run on the machine.
"""

import argparse
import json
import os
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Final

from audit.job import run_audit
from audit.options import AuditOptions
from audit.report.report import AuditResult
from cluster.broker import BrokerId, ControllerEpoch, ControllerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from deploy.local.java import find_java, spark_environment
from state_log.record import Cause, Kind, Stamper, StateChange
from state_log.writer import SegmentName

_INCARNATION: Final = "1795356180123.4711"
_CONTROLLERS: Final = (1001, 1002, 1003)
_BROKERS: Final = (1, 2, 3, 4, 5)
_AT_ONCE: Final = 1000
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass
class Partition:
    topic: str
    topic_id: TopicId
    number: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    epoch: int = -1
    version: int = -1


@dataclass
class Measured:
    """CPU seconds and records at each progress of the audit."""

    points: list[tuple[float, int, dict[str, float]]] = field(default_factory=list)

    def add(self, result: AuditResult) -> None:
        self.points.append((time.monotonic(), result.records, cpu_seconds(os.getpid())))


def cpu_seconds(parent: int) -> dict[str, float]:
    """CPU seconds of the descendants of a process, by the name of their program."""
    children: dict[int, list[tuple[int, str, float]]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            name = (folder / "comm").read_text().strip()
        except OSError:
            continue
        used = sum(map(int, fields[11:15])) / _TICKS
        children.setdefault(int(fields[1]), []).append((int(folder.name), name, used))
    found: dict[str, float] = {}
    waiting = [parent]
    while waiting:
        for child, name, used in children.get(waiting.pop(), ()):
            found[name] = found.get(name, 0) + used
            waiting.append(child)
    return found


def histories(random: Random, keys: int) -> Iterator[list[tuple[str, StateChange]]]:
    """The records of one event after the other, each with the node that writes it."""
    topics = max(1, keys // 100)
    partitions = [_partition(number, topics) for number in range(keys)]
    for event in range(1, 1 << 62):
        epoch = ControllerEpoch(1 + event // 100_000)
        controller = ControllerId(_CONTROLLERS[epoch % 3])
        if event == 1 or event % 100_000 == 0:
            change = StateChange(
                kind=Kind.CONTROLLER,
                cause=Cause("Reelect", event),
                controller_epoch=epoch,
                broker=controller,
                to_state="active",
            )
            yield [(f"controller-{controller}", change)]
        yield _next_event(random, random.choice(partitions), event, controller, epoch)


def _partition(number: int, topics: int) -> Partition:
    topic = f"topic-{number % topics:05d}"
    topic_id = TopicId(urlsafe_b64encode(blake2b(topic.encode(), digest_size=16).digest()).decode().rstrip("="))
    replicas = tuple(BrokerId((number + shift) % 5 + 1) for shift in range(3))
    return Partition(topic, topic_id, number // topics, replicas, replicas, replicas[0])


def _next_event(
    random: Random, partition: Partition, event: int, controller: ControllerId, epoch: ControllerEpoch
) -> list[tuple[str, StateChange]]:
    is_new = partition.version < 0
    elects = is_new or random.random() < 0.5
    partition.version += 1
    partition.epoch += elects
    if elects and not is_new:
        partition.leader = random.choice(partition.isr)
    elif not elects:
        shrinks = len(partition.isr) == len(partition.replicas)
        partition.isr = (partition.leader,) if shrinks else partition.replicas
    cause = Cause("BrokerChange", event)
    state = StateChange(
        kind=Kind.PARTITION if elects else Kind.ISR, cause=cause, controller_epoch=epoch, topic=partition.topic,
        topic_id=partition.topic_id, partition=partition.number, leader=partition.leader,
        leader_epoch=LeaderEpoch(partition.epoch), partition_epoch=PartitionEpoch(partition.version),
        isr=partition.isr, replicas=partition.replicas,
        from_state=("NewPartition" if is_new else "OnlinePartition") if elects else None,
        to_state="OnlinePartition" if elects else None,
    )  # fmt: skip
    return [(f"controller-{controller}", state), *(_roles(state, controller) if elects else ())]


def _roles(state: StateChange, controller: ControllerId) -> Iterator[tuple[str, StateChange]]:
    assert state.cause is not None
    cause = Cause(state.cause.event, state.cause.id, controller, state.controller_epoch)
    for broker in state.replicas or ():
        change = StateChange(
            kind=Kind.ROLE, cause=cause, controller_epoch=state.controller_epoch, topic=state.topic,
            topic_id=state.topic_id, partition=state.partition, broker=broker, leader=state.leader,
            to_state="leader" if broker == state.leader else "follower", leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch, isr=state.isr, replicas=state.replicas,
            high_watermark=Offset(state.partition_epoch or 0), log_end_offset=Offset(state.partition_epoch or 0),
            min_insync_replicas=1 if broker == state.leader else None,
        )  # fmt: skip
        yield f"broker-{broker}", change


def write_logs(folder: Path, records: int, keys: int) -> int:
    """Write at least so many records; returns how many bytes."""
    nodes = [*(f"controller-{id_}" for id_ in _CONTROLLERS), *(f"broker-{id_}" for id_ in _BROKERS)]
    stampers = {node: Stamper(node, _INCARNATION) for node in nodes}
    waiting: dict[str, list[StateChange]] = {node: [] for node in nodes}
    events = histories(Random(1), keys)
    written = size = done = 0
    while written < records:
        # Each partition has an event in ten minutes: more would be a cluster in which all leaders change all the time.
        at_ms = 1_795_356_181_000 + done * 600_000 // keys
        for _ in range(_AT_ONCE):
            for node, change in next(events):
                waiting[node].append(change)
        done += _AT_ONCE
        for node, changes in waiting.items():
            lines = stampers[node].stamp(changes, at_ms)
            block = b"".join(line + b"\n" for line in lines)
            with (folder / str(SegmentName(node, _INCARNATION, 0))).open("ab") as file:
                file.write(block)
            written, size = written + len(changes), size + len(block)
            changes.clear()
    return size


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_throughput", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=10_000, help="partitions")
    parser.add_argument("--batch-mb", type=int, default=128)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.data) as name:
        logs, output = Path(name, "logs"), Path(name, "output")
        logs.mkdir()
        size = write_logs(logs, arguments.records, arguments.keys)
        os.environ.update(spark_environment(find_java(), Path(name)))
        measured = Measured()
        result = run_audit(
            [logs], output, AuditOptions(once=True, batch_bytes=arguments.batch_mb << 20), on_progress=measured.add
        )
        print(json.dumps(_report(measured, result, size), indent=2))  # noqa: T201


def _report(measured: Measured, result: AuditResult, size: int) -> dict[str, object]:
    (began, first, before), (ended, last, after) = measured.points[0], measured.points[-1]
    counted = last - first
    cpu = {name: (used - before.get(name, 0)) / max(1, counted) * 1e6 for name, used in after.items()}
    return {
        "verdict": result.verdict,
        "records": result.records,
        "bytes_a_line": round(size / result.records),
        "records_per_s_after_the_first_batches": round(counted / max(1e-9, ended - began)),
        "cpu_us_a_record": {name: round(used, 2) for name, used in sorted(cpu.items()) if used >= 0.01},
    }


if __name__ == "__main__":
    main()
