"""One round: producers run, a fault happens, everything is healed, and then the whole is checked."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from admin.connecting.client import AdminClient
from admin.consuming.offsets import list_offsets
from admin.consuming.record_history import check
from admin.describing.topology import Topology
from cluster.model.errors import ApiError, ClusterError, ErrorCode, PeerUnreachableError
from cluster.requests.data import LATEST_TIMESTAMP
from cluster.requests.topics import NewTopic
from state_log.chain import SEQUENCE_GAP
from state_log.invariants import check_all
from state_log.reader import read_state_changes, verify
from tests.chaos.cluster import ChaosCluster
from tests.chaos.faults.registry import Expected, Fault, Round, StuckError
from tests.chaos.health_monitor import Answer, read_answers
from tests.chaos.producers import PARTITIONS, Acknowledgements, IdempotentProducer, run_plain
from tests.chaos.reading import compare_replicas, read_all
from tests.chaos.table import Row, Verdict

WARM_RECORDS: Final = 24
HEALED_RECORDS: Final = 24
HEALTHY_S: Final = 120.0
"""Within so long after the fault the cluster must be healthy and take records, by itself, on a busy machine."""
READ_S: Final = 60.0
UNNOTICED_S: Final = 12.0
"""Producers may wait so long without a finding: sessions, elections and retries take their time."""
_POLL_S: Final = 0.3
_TOPIC: Final[Mapping[str, str]] = {"min.insync.replicas": "2", "segment.bytes": "24000"}
_REPORTED: Final = 20


class HealthMonitor:
    """The process that asks for the health, and its answers."""

    def __init__(self, folder: Path, bootstrap: list[str]) -> None:
        self._file, self._stacks = folder / "health.jsonl", folder / "health-stacks.txt"
        self._command = [sys.executable, "-m", "tests.chaos.health_monitor", ",".join(bootstrap), str(self._file)]
        self._start()

    def _start(self) -> None:
        with self._stacks.open("ab") as errors:
            self._process = subprocess.Popen(self._command, stderr=errors)

    def check(self) -> None:
        """Raises StuckError if the command hung and was ended; it is asked again from then on."""
        if self._process.poll() is not None:
            self._start()
            raise StuckError(f"`klamm cluster health` hung or failed: {self._stacks}")

    def answers(self, since: float) -> list[Answer]:
        """Those to questions that were asked after a moment of the monotonic clock."""
        return [answer for answer in read_answers(self._file) if answer.begin >= since]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class RoundRunner:
    """Carries out rounds on one running cluster."""

    def __init__(self, cluster: ChaosCluster, monitor: HealthMonitor, commit: str) -> None:
        self.cluster, self._monitor, self._commit = cluster, monitor, commit
        self.expected = Expected()

    async def until_healthy(self, since: float, timeout_s: float = HEALTHY_S) -> None:
        """Until all brokers are there and health has nothing to say. Raises StuckError after the deadline."""
        while True:
            answers = self._monitor.answers(since)
            if any(answer.is_healthy and answer.brokers == len(self.cluster.brokers) for answer in answers):
                return
            self._monitor.check()
            if time.monotonic() - since > timeout_s:
                last = answers[-1].named if answers else ["no answer"]
                raise StuckError(f"not healthy {timeout_s:.0f} s after the fault: {'; '.join(last[:4])}")
            await asyncio.sleep(_POLL_S)

    async def run(self, fault: Fault, seed: int) -> Row:
        """One round. Raises nothing that a cluster or a fault may cause."""
        row = Row(seed=seed, fault=fault.name, verdict=Verdict.OK, commit=self._commit, began=_now())
        if self.cluster.security is not None:
            row.choices.append("under TLS")
        acks, begin = Acknowledgements(), time.monotonic()
        exits, traces = len(self.cluster.exits), self.tracebacks()
        try:
            async with AdminClient(self.cluster.bootstrap, timeout_ms=15_000, tls=self.cluster.client_tls) as client:
                topic = topic_of(fault, seed)
                on = Round(fault.name, seed, self.cluster, client, topic, acks, self.expected, row.choices)
                await self._carry_out(fault, on, row)
        except StuckError as error:
            fail(row, Verdict.STUCK, str(error))
        except (ClusterError, TimeoutError, OSError, AssertionError) as error:
            fail(row, Verdict.SUITE, f"{type(error).__name__}: {error}")
        with contextlib.suppress(Exception):
            await self.cluster.heal()
        row.acknowledged = len(acks.records)
        row.lasted = round(time.monotonic() - begin, 1)
        row.exits = [str(e) for e in self.cluster.exits[exits:]]
        row.tracebacks = self.tracebacks() - traces
        if not row.is_good:
            row.evidence = str(self.cluster.keep_evidence(f"{seed}-{fault.name}"))
        return row

    async def _carry_out(self, fault: Fault, on: Round, row: Row) -> None:
        await self.until_healthy(time.monotonic())
        await _create_topic(on)
        topology = Topology(on.client)
        began = time.monotonic()
        async with _producing(on, topology) as failures:
            await _acknowledged(on, WARM_RECORDS, "before the fault", failures)
            await fault.inject(on)
            await self.cluster.heal()
            healed = time.monotonic()
            await _acknowledged(on, HEALED_RECORDS, "after the fault", failures)
        gap = on.acks.longest_gap()
        row.longest_gap = round(gap[1] - gap[0], 1)
        await self.until_healthy(healed)
        row.healthy_after = round(time.monotonic() - healed, 1)
        self._name(row, began, gap)
        await self._check(on, topology, row)
        if row.is_good:
            with contextlib.suppress(ApiError, PeerUnreachableError):
                await on.client.delete_topics([on.topic], wait_ms=1)

    def _name(self, row: Row, began: float, gap: tuple[float, float]) -> None:
        """What health named, and whether it named anything while producers waited."""
        answers = self._monitor.answers(began)
        row.named = sorted({named for answer in answers if not answer.is_healthy for named in answer.named})[:_REPORTED]
        if gap[1] - gap[0] < UNNOTICED_S:
            return
        if all(answer.is_healthy for answer in answers if answer.end >= gap[0] and answer.begin <= gap[1]):
            fail(row, Verdict.SILENT, f"nothing was acknowledged for {gap[1] - gap[0]:.1f} s, and health named nothing")

    async def _check(self, on: Round, topology: Topology, row: Row) -> None:
        """Records, replicas and state-change logs."""
        for refusal in on.acks.refusals:
            fail(row, Verdict.RECORDS, f"refused for good: {refusal}")
        try:
            stored = await read_all(topology, on.topic, PARTITIONS, READ_S)
        except (ClusterError, TimeoutError) as error:
            fail(row, Verdict.RECORDS, f"cannot be read back: {type(error).__name__}: {error}")
            return
        violations = check(on.acks.records, stored, on.acks.producers())
        row.violations = dict(Counter(str(violation.rule) for violation in violations))
        for violation in violations[:_REPORTED]:
            fail(row, Verdict.RECORDS, str(violation))
        ends = await list_offsets(topology, on.topic, dict.fromkeys(range(PARTITIONS), LATEST_TIMESTAMP), READ_S)
        replicas = {partition: await on.replicas(partition) for partition in range(PARTITIONS)}
        disks = {name: self.cluster.disk(name) for name in self.cluster.brokers}
        for difference in (await compare_replicas(disks, on.topic, replicas, ends, READ_S))[:_REPORTED]:
            fail(row, Verdict.REPLICAS, difference)
        found = await asyncio.to_thread(audit, self.cluster.state_changes, self.expected)
        for broken in found[:_REPORTED]:
            fail(row, Verdict.AUDIT, broken)

    def tracebacks(self) -> int:
        """How many there are in the logs of all processes."""
        logs = (self.cluster.folder / "logs").glob("*.log")
        return sum(log.read_bytes().count(b"Traceback (most recent call last)") for log in logs)


def topic_of(fault: Fault, seed: int) -> str:
    return f"chaos-{fault.name}-{seed}"


def fail(row: Row, verdict: Verdict, problem: str) -> None:
    """Add a problem; the first one is the verdict."""
    if row.is_good:
        row.verdict = verdict
    row.problems.append(problem)


def audit(directories: list[Path], expected: Expected) -> list[str]:
    """Breaks of the hash chains, as `klamm audit verify` finds them, and violated invariants, but for the expected."""
    breaks = [b for b in verify(directories) if b.rule != SEQUENCE_GAP or b.node not in expected.unlogged]
    found = [] if expected.was_restored else check_all(read_state_changes(directories))
    return [
        *(f"{b.rule} {b.node}/{b.incarnation}: {b.message}" for b in breaks),
        *(f"{f.rule} {f.topic}-{f.partition}: {f.message} [{', '.join(f.records)}]" for f in found),
    ]


async def _create_topic(on: Round) -> None:
    """A fresh topic, or, if a replayed round finds its own, none."""
    created = await on.client.create_topics([NewTopic(on.topic, PARTITIONS, 3, configs=dict(_TOPIC))])
    result = created.topics[0]
    assert result.error_code is ErrorCode.NONE, f"topic {on.topic}: {result.error_message}"


@contextlib.asynccontextmanager
async def _producing(on: Round, topology: Topology) -> AsyncIterator[list[str]]:
    """Two producers of each kind while the block runs, and until what they sent is acknowledged.

    Yields the failures of producers. Raises StuckError when the rest is not acknowledged in time.
    """
    stop, failures = asyncio.Event(), list[str]()
    on.acks.begin()
    numbered = [IdempotentProducer(f"numbered-{n}", on.topic, topology, on.acks, on.random) for n in range(2)]
    tasks = [
        *(asyncio.create_task(run_plain(f"plain-{n}", on.topic, topology, on.acks, stop)) for n in range(2)),
        *(asyncio.create_task(producer.run(stop)) for producer in numbered),
    ]
    for task in tasks:
        task.add_done_callback(_keep_failure(failures))
    try:
        yield failures
        stop.set()
        _, late = await asyncio.wait(tasks, timeout=HEALTHY_S)
        if late:
            raise StuckError(
                f"{len(late)} producers still wait for acknowledgements {HEALTHY_S:.0f} s after the last record"
            )
        assert not failures, failures[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _keep_failure(failures: list[str]) -> Callable[["asyncio.Task[None]"], None]:
    def keep(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            failures.append(f"a producer failed: {error!r}")

    return keep


async def _acknowledged(on: Round, count: int, when: str, failures: list[str]) -> None:
    """Wait for more acknowledged records in every partition. Raises StuckError after the deadline."""
    wanted = {p: on.acks.counts[p] + count for p in range(PARTITIONS)}
    deadline = time.monotonic() + HEALTHY_S
    while missing := [p for p in wanted if on.acks.counts[p] < wanted[p]]:
        if failures or time.monotonic() > deadline:
            waiting = f"partitions {missing} of {on.topic} take no records {when}"
            raise StuckError("; ".join([waiting, *failures, *on.acks.refusals[:3]]))
        await asyncio.sleep(_POLL_S)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
