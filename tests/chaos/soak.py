"""`python -m tests.chaos.soak --minutes 20 --seed 1`: faults and moves without a pause, on five brokers with two log
directories each; see README.md beside this file.

Producers write to a plain topic and to a compacted one from the beginning to the end. A step makes one fault or two,
while replicas move, heals everything, and waits until the cluster has recovered. Its line is printed when it has.
"""

import argparse
import asyncio
import contextlib
import itertools
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

from admin.connecting.client import AdminClient
from admin.consuming.record_history import Anomaly, HistoryRule, Stored, check
from admin.describing.topology import Topology
from cluster.model.errors import ErrorCode
from cluster.requests.topics import NewTopic
from launcher.demo.klamm import read_records
from tests.chaos.__main__ import ROOT, running
from tests.chaos.cluster import Shape
from tests.chaos.faults.directories import (
    bring_back,
    fail_directory,
    fill_directory,
    move_between_brokers,
    move_between_directories,
)
from tests.chaos.faults.registry import FAULTS, Round, StuckError
from tests.chaos.isolation import Capability, find_missing, isolate
from tests.chaos.keyed import KeyedLoad
from tests.chaos.producers import PARTITIONS, Acknowledgements, IdempotentProducer, id_of, run_plain
from tests.chaos.rounds import RoundRunner, audit
from tests.chaos.spark import SparkAudits
from tests.commits import described_commit

Inject = Callable[[Round], Awaitable[None]]

PLAIN: Final = "plain"
COMPACTED: Final = "compacted"
TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    PLAIN: {"min.insync.replicas": "2", "segment.bytes": "1000000"},
    COMPACTED: {
        "min.insync.replicas": "2",
        "segment.bytes": "100000",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.1",
        "delete.retention.ms": "60000",
    },
}
SHAPE: Final = Shape(
    brokers=tuple(f"broker-{number}" for number in range(1, 6)),
    log_dirs=2,
    settings={
        # So slow that faults happen in the middle of moves and of compaction.
        "replica.alter.log.dirs.io.max.bytes.per.second": 2_000_000,
        "log.cleaner.io.max.bytes.per.second": 500_000,
        "log.cleaner.backoff.ms": 200,
        "log.segment.delete.delay.ms": 500,
    },
)
FAULTS_BY_KIND: Final[Mapping[str, Sequence[Inject]]] = {
    "kill -9": [
        FAULTS[f"kill-{name}"].inject
        for name in (
            "leader",
            "controller",
            "leader-and-controller",
            "two-replicas",
            "replicas-in-turn",
            "all-brokers",
            "repeatedly",
        )
    ],
    "SIGSTOP": [
        FAULTS[f"pause-{name}"].inject
        for name in (
            "leader-short",
            "leader-long",
            "two-brokers",
            "leader-kill-follower",
            "controller-long",
            "repeatedly",
        )
    ],
    "directory failure": [fail_directory],
    "full disk": [fill_directory],
}
MOVES: Final[Mapping[str, Inject]] = {
    "move between directories": move_between_directories,
    "move between brokers": move_between_brokers,
}
RECOVERED_S: Final = 300.0
"""Within so long after a step everything must be as before, on a machine that does much else."""
READ_S: Final = 300.0
_TWO_AT_ONCE: Final = 0.3
_RECORDS: Final = 24
_REPORTED: Final = 20


class Soak:
    """The load, the steps and the checks on one running cluster, and what came of them."""

    def __init__(self, runner: RoundRunner, client: AdminClient, seed: int) -> None:
        self._runner, self._cluster, self._client, self._seed = runner, runner.cluster, client, seed
        self._random = Random(seed)
        self._topology = Topology(client)
        self.acks = {topic: Acknowledgements() for topic in TOPICS}
        self._keyed = KeyedLoad("keyed", COMPACTED, self._topology, self.acks[COMPACTED])
        self.steps = 0
        self.recovered_s: dict[str, list[float]] = defaultdict(list)
        """By kind of fault, how long the steps with it took from the end of the fault to recovery."""
        self.found: dict[str, str] = {}
        """What each check of the end found, for the summary."""
        self.problems: list[str] = []

    async def run(self, minutes: float) -> None:
        """All of it. A step after which the cluster does not recover is the last one."""
        for topic, configs in TOPICS.items():
            created = (await self._client.create_topics([NewTopic(topic, PARTITIONS, 3, configs=dict(configs))])).topics
            assert created[0].error_code is ErrorCode.NONE, created[0].error_message
        stop = asyncio.Event()
        numbered = IdempotentProducer("numbered", PLAIN, self._topology, self.acks[PLAIN], self._random)
        load = asyncio.gather(
            run_plain("plain", PLAIN, self._topology, self.acks[PLAIN], stop), numbered.run(stop), self._keyed.run(stop)
        )
        try:
            await self._acknowledged(load)
            await self._make_steps(time.monotonic() + minutes * 60, load)
            stop.set()
            async with asyncio.timeout(RECOVERED_S):
                await load
            await self._check()
        except (StuckError, TimeoutError) as error:
            self._problem(f"stuck: {error or 'producers still wait for acknowledgements'}")
        finally:
            load.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await load

    async def _make_steps(self, ends_at: float, load: "asyncio.Future[object]") -> None:
        kinds, moves = _shuffled(FAULTS_BY_KIND, self._random), _shuffled(MOVES, self._random)
        while time.monotonic() < ends_at:
            self.steps += 1
            chosen = [next(kinds)]
            if self._random.random() < _TWO_AT_ONCE and (second := next(kinds)) not in chosen:
                chosen.append(second)
            await self._make_step(next(moves), chosen, load)

    async def _make_step(self, move: str, kinds: Sequence[str], load: "asyncio.Future[object]") -> None:
        """Faults of these kinds, of the same topic or not, while replicas move; until the cluster has recovered."""
        parts = {kind: self._round(kind) for kind in (move, *kinds)}
        await MOVES[move](parts[move])
        began = time.monotonic()
        injections = [self._random.choice(FAULTS_BY_KIND[kind])(parts[kind]) for kind in kinds]
        try:
            await asyncio.gather(*injections)
            await self._cluster.heal()
            healed = time.monotonic()
            await parts[move].until(lambda: bring_back(parts[move]), "directories in service, and the end of all moves")
            await self._acknowledged(load)
            await self._runner.until_healthy(healed, RECOVERED_S)
            seconds = time.monotonic() - healed
            for kind in kinds:
                self.recovered_s[kind].append(seconds)
            outcome = f"recovered after {seconds:.1f} s"
        except StuckError as error:
            outcome = f"not recovered: {error}"
            raise
        finally:
            happened = "; ".join(f"{kind}, {part.topic}: {', '.join(part.choices)}" for kind, part in parts.items())
            say(f"step {self.steps}, {time.monotonic() - began:.1f} s: {happened}: {outcome}; {self._counted()}")
        self._report("wrong latest values", await self._wrong_values())

    def _round(self, kind: str) -> Round:
        topic = self._random.choice(list(TOPICS))
        of_step = f"step {self.steps}, {kind}"
        acks, expected = self.acks[topic], self._runner.expected
        return Round(of_step, self._seed, self._cluster, self._client, topic, acks, expected, [], RECOVERED_S)

    async def _acknowledged(self, load: "asyncio.Future[object]") -> None:
        """Until every partition has taken some more records. Raises StuckError; and what a producer raised."""
        wanted = {(t, p): self.acks[t].counts[p] + _RECORDS for t in TOPICS for p in range(PARTITIONS)}
        deadline = time.monotonic() + RECOVERED_S
        while missing := [f"{t}-{p}" for (t, p), count in wanted.items() if self.acks[t].counts[p] < count]:
            if load.done():
                await load
            if time.monotonic() > deadline:
                raise StuckError(f"{', '.join(missing)} take no records")
            await asyncio.sleep(0.3)

    async def _wrong_values(self) -> list[str]:
        known = dict(self._keyed.acknowledged)
        return self._keyed.wrong_values(await read_records(self._topology, COMPACTED, READ_S), known)

    async def _check(self) -> None:
        """Everything at the end, when all that was sent is acknowledged."""
        await self._runner.until_healthy(time.monotonic(), RECOVERED_S)
        for topic, acks in self.acks.items():
            self._report(f"refused for good, {topic}", acks.refusals)
        read = {topic: await read_records(self._topology, topic, READ_S) for topic in TOPICS}
        plain = {p: [Stored(r.offset, id_of(r.value)) for r in records] for p, records in read[PLAIN].items()}
        acks = self.acks[PLAIN]
        self._report_anomalies(PLAIN, check(acks.records, plain, acks.producers()))
        self._report_anomalies(COMPACTED, self._keyed.anomalies(read[COMPACTED]))
        self._report("wrong latest values", self._keyed.wrong_values(read[COMPACTED], self._keyed.last_sent()))
        self.found["records left by compaction"] = str(sum(map(len, read[COMPACTED].values())))
        self.found["verify replicas"] = await self._verify_replicas()
        self._report(
            "audit of state-change logs",
            await asyncio.to_thread(audit, self._cluster.state_changes, self._runner.expected),
        )

    async def _verify_replicas(self) -> str:
        command = [sys.executable, "-P", "-m", "klamm", "verify", "replicas", "--timeout", str(READ_S)]
        command += ["--bootstrap", ",".join(self._cluster.bootstrap)]
        ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        if ran.returncode:
            self._problem(f"verify replicas, exit code {ran.returncode}:\n{ran.stdout}{ran.stderr}")
            return f"exit code {ran.returncode}"
        return f"exit code 0: {' '.join((ran.stderr or ran.stdout).split()[-20:])}"

    def _report_anomalies(self, topic: str, anomalies: Sequence[Anomaly]) -> None:
        counts = Counter(anomaly.rule for anomaly in anomalies)
        named = {HistoryRule.LOST: "lost", HistoryRule.DUPLICATED: "there twice"}
        others = sum(count for rule, count in counts.items() if rule not in named)
        shown = [f"{counts[rule]} {name}" for rule, name in named.items()]
        self.found[f"records of {topic}"] = ", ".join([*shown, f"{others} otherwise wrong"])
        self.problems += [f"{topic}: {anomaly}" for anomaly in anomalies[:_REPORTED]]

    def _report(self, what: str, found: Sequence[str]) -> None:
        """Count what a check found, and keep the first of it as problems."""
        self.found[what] = str(int(self.found.get(what, "0")) + len(found))
        for problem in found[:_REPORTED]:
            self._problem(f"{what}: {problem}")

    def _problem(self, problem: str) -> None:
        self.problems.append(problem)
        say(f"PROBLEM {problem}")

    def _counted(self) -> str:
        return ", ".join(f"{sum(acks.counts.values())} {topic}" for topic, acks in self.acks.items())

    def summary(self) -> Iterator[str]:
        """The lines of the table at the end."""
        yield f"{'fault':24} {'times':>6} {'slowest recovery':>17}"
        for kind, seconds in sorted(self.recovered_s.items()):
            yield f"{kind:24} {len(seconds):>6} {max(seconds):>15.1f} s"
        rows = {
            "steps, each with a move": str(self.steps),
            "records acknowledged": self._counted(),
            **self.found,
            "tracebacks in logs": str(self._runner.tracebacks()),
            "problems": str(len(self.problems)),
        }
        by_code = Counter(exit_.code for exit_ in self._cluster.exits)
        rows |= {f"ended by itself, exit code {code}": str(times) for code, times in sorted(by_code.items())}
        yield from (f"{what:36} {value}" for what, value in rows.items())


def _shuffled(kinds: Mapping[str, object], random: Random) -> Iterator[str]:
    """All of them in any order, again and again."""
    for _ in itertools.count():
        yield from random.sample(list(kinds), len(kinds))


def say(line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {line}", flush=True)


async def soak(options: argparse.Namespace, missing: Mapping[Capability, str]) -> bool:
    """Whether everything was right. The folder of a cluster with problems is kept."""
    folder = options.output / f"soak-{int(time.time())}"
    audits = SparkAudits(options.output, described_commit())
    say(f"{audits.commit}, seed {options.seed}, {options.minutes:g} minutes, {folder}")
    async with running(folder, missing, audits.commit, SHAPE) as runner:
        runner.expected.flaps = True
        await runner.until_healthy(time.monotonic(), RECOVERED_S)
        async with AdminClient(runner.cluster.bootstrap, timeout_ms=15_000) as client:
            done = Soak(runner, client, options.seed)
            await done.run(options.minutes)
        if done.problems:
            say(f"evidence: {runner.cluster.keep_evidence('soak')}")
        await asyncio.to_thread(audits.read_heads, runner.cluster)
    audited = audits.run(runner.cluster, done.steps, runner.expected)
    print("\n".join([*done.summary(), str(audited)]), flush=True)
    is_good = not done.problems and not audited.unexpected
    if is_good:
        shutil.rmtree(folder)
    return is_good


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="begin no step after so long")
    parser.add_argument("--seed", type=int, default=1, help="chooses all faults and moves")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "chaos", help="folder of the cluster")
    options = parser.parse_args(arguments)
    isolate("tests.chaos.soak", arguments)
    # The first process of a namespace ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    missing = find_missing()
    if needed := missing.keys() & {Capability.MOUNTS, Capability.SHIM}:
        raise SystemExit("; ".join(missing[capability] for capability in sorted(needed)))
    options.output.mkdir(parents=True, exist_ok=True)
    options.output = options.output.resolve()
    # All processes on one host: switching their packets would be most of the work.
    without_network = {**missing, Capability.NETWORK: "not used by the soak"}
    return 0 if asyncio.run(soak(options, without_network)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
