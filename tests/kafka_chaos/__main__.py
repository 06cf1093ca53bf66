"""Rounds of faults on real Kafka brokers under klamm's controllers.

    python -m tests.kafka_chaos [--rounds 60] [--seed 1] [--faults 'kill-*'] [--secure] [--audit] [--output DIR]

Three brokers with min.insync.replicas=2, two controllers. In each round two idempotent producers, a group of two and a
transactional producer work on fresh topics while a fault happens; then everything runs again. Every acknowledged
record must be stored once and read by the group, transactions must be whole, and all replicas in sync in two minutes.
With --secure clients without rights ask every node for everything all the time, and are refused.
"""

import argparse
import asyncio
import fnmatch
import itertools
import json
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec import Struct, to_builtins

from cluster.model.errors import ClusterError, PeerUnreachableError
from cluster.process.identity import GONE
from deploy.local.kafka_clients import create_topics, view
from launcher.demo.kafka_load import KafkaLoad
from tests.chaos.isolation import Capability, find_missing, isolate
from tests.chaos.network import Network
from tests.kafka_chaos import faults_by_hand
from tests.kafka_chaos.cluster import HOSTS, KafkaChaosCluster
from tests.kafka_chaos.faults import CUTTING, FAULTS, On
from tests.kafka_chaos.secured import SecuredChaosCluster
from tests.kafka_chaos.siege import besieged
from tests.kafka_chaos.transactions import Transactions
from tests.processes.commands import run_klamm

assert faults_by_hand, "registers its faults"
PARTITIONS: Final = 6
REPLICAS: Final = 3
WARM_RECORDS: Final = 500
HEALED_S: Final = 120.0
_POLL_S: Final = 0.2


class Row(Struct):
    """One round. `replaced`: idempotent producers that refused to go on. `healthy_after`: s from the end of the fault
    until all replicas were in sync. `attacks`: requests of clients without rights that were answered.
    """

    seed: int
    fault: str
    choices: list[str] = []
    acknowledged: int = 0
    committed: int = 0
    replaced: int = 0
    healthy_after: float = 0.0
    attacks: int = 0
    problems: list[str] = []


async def run_round(cluster: KafkaChaosCluster, name: str, seed: int) -> Row:
    """Raises nothing that a cluster or a fault may cause."""
    row, topic = Row(seed, name), f"round-{seed}-{name}"
    on = On(cluster, topic, Random(f"{seed}/{name}"))
    row.choices = on.choices
    try:
        await _create(cluster, topic)
        await _carry_out(on, row)
    except* (ClusterError, TimeoutError, OSError, AssertionError) as group:
        row.problems += [f"{type(error).__name__}: {error}" for error in group.exceptions]
    return row


async def _carry_out(on: On, row: Row) -> None:
    bootstrap, security = on.cluster.bootstrap_of_clients, on.cluster.security_of_clients
    load, transactions = (
        KafkaLoad(bootstrap, on.topic, PARTITIONS, security),
        Transactions(bootstrap, f"{on.topic}-tx", PARTITIONS, security),
    )
    async with load.running(), besieged(on, row.problems) as siege:
        writing = asyncio.create_task(transactions.run())
        try:
            await _until(lambda: load.acknowledged >= WARM_RECORDS and transactions.committed)
            await FAULTS[row.fault](on)
            healed = time.monotonic()
            await _heal(on)
            row.healthy_after = round(time.monotonic() - healed, 1)
            records, committed = load.acknowledged, len(transactions.committed)
            await _until(
                lambda: load.acknowledged >= records + WARM_RECORDS and len(transactions.committed) > committed
            )
        finally:
            transactions.is_over = True
            await writing
        found = await load.finish(HEALED_S)
    row.attacks = 0 if siege is None else siege.answered
    row.acknowledged, row.committed, row.replaced = found.acknowledged, len(transactions.committed), found.replaced
    counts = {**found.anomalies, "not read by the group": found.unread}
    row.problems += [f"{count} records {what}" for what, count in counts.items() if count]
    row.problems += await transactions.problems()


async def _create(cluster: KafkaChaosCluster, topic: str) -> None:
    """By klamm's controller, wherever it is."""
    sizes = {topic: PARTITIONS, f"{topic}-tx": PARTITIONS}
    async with asyncio.timeout(HEALED_S):
        for member in itertools.cycle(cluster.members("controller")):
            try:
                codes = await create_topics(member.kafka_address, sizes, REPLICAS, 10, cluster.tls)
            except PeerUnreachableError:
                codes = [-1]
            if set(codes) <= {0, 36}:  # 36: it was created by an attempt before.
                return
            await asyncio.sleep(_POLL_S)


async def _heal(on: On) -> None:
    """Everything runs, klamm is the controller, and all replicas are in sync; started again as by a supervisor."""
    cluster, klamm = on.cluster, {member.id for member in on.cluster.members("controller")}
    if cluster.network is not None:
        cluster.network.clear()
    async with asyncio.timeout(HEALED_S):
        while True:
            for member in cluster.state.members:
                if cluster.state_of(member.name) == GONE:
                    cluster.start(member.name)
            try:
                views = [await view(address, [on.topic, f"{on.topic}-tx"], on.tls) for address in on.brokers.values()]
            except PeerUnreachableError:
                views = []
            if views and all(
                seen.controller in klamm
                and len(seen.partitions) == 2 * PARTITIONS
                and all(len(partition.isr_nodes) == REPLICAS for partition in seen.partitions)
                for seen in views
            ):
                return
            await asyncio.sleep(_POLL_S)


async def _until(holds: Any) -> None:
    async with asyncio.timeout(HEALED_S):
        while not holds():  # noqa: ASYNC110 (clients count)
            await asyncio.sleep(_POLL_S)


async def run(
    folder: Path,
    names: list[str],
    rounds: int,
    seed: int,
    network: Network | None = None,
    *,
    kind: type[KafkaChaosCluster] = KafkaChaosCluster,
) -> list[Row]:
    """Round after round on one cluster; a line for each in `rounds.jsonl`."""
    cluster = kind.create(folder / "cluster", network)
    rows = []
    try:
        await cluster.begin()
        for number in range(rounds):
            row = await run_round(cluster, names[number % len(names)], seed + number // len(names))
            rows.append(row)
            line = json.dumps(to_builtins(row))
            print(line, flush=True)
            with (folder / "rounds.jsonl").open("a") as table:
                table.write(f"{line}\n")
        heads = await cluster.command_of_operator("audit", "heads")
        (folder / "heads.json").write_text(heads.stdout)
    finally:
        cluster.stop_all()
    return rows


def audit(folder: Path) -> bool:
    """Whether the audit of klamm's and of the brokers' logs, after the rounds, finds nothing; prints what it says."""
    logs = [option for log in (folder / "cluster" / "state-changes").iterdir() for option in ("--log-dir", str(log))]
    into = ["--heads", str(folder / "heads.json"), "--output", str(folder / "audit")]
    done = run_klamm("audit", "run", "--once", *logs, *into, timeout_s=3600)
    print(done.stdout, done.stderr, sep="\n")
    return done.returncode == 0


def summary(rows: list[Row]) -> str:
    """By fault: rounds, and those with problems."""
    all_of, bad = Counter(row.fault for row in rows), Counter(row.fault for row in rows if row.problems)
    lines = [f"{fault:30} {count:4} rounds  {bad[fault]:3} with problems" for fault, count in sorted(all_of.items())]
    records = sum(row.acknowledged for row in rows)
    attacks = sum(row.attacks for row in rows)
    refused = f", {attacks:,} requests of clients without rights" if attacks else ""
    return "\n".join(
        [*lines, f"{len(rows)} rounds, {records:,} records acknowledged{refused}, {sum(bad.values())} with problems"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default="*")
    parser.add_argument("--output", type=Path, default=Path("build/kafka-chaos"))
    parser.add_argument("--secure", action="store_true", help="SASL_SSL, rights, and a ZooKeeper with TLS and owners")
    parser.add_argument("--audit", action="store_true", help="audit all state-change logs after the rounds")
    given = parser.parse_args()
    isolate("tests.kafka_chaos", sys.argv[1:])
    patterns = given.faults.split(",")
    names = [name for name in FAULTS if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    missing = find_missing().get(Capability.NETWORK)
    if missing and CUTTING & set(names):
        print(f"left out: {', '.join(sorted(CUTTING & set(names)))}: {missing}")
        names = [name for name in names if name not in CUTTING]
    given.output.mkdir(parents=True, exist_ok=True)
    network = None if missing else Network(HOSTS)
    kind = SecuredChaosCluster if given.secure else KafkaChaosCluster
    try:
        rows = asyncio.run(run(given.output, names, given.rounds, given.seed, network, kind=kind))
    finally:
        if network is not None:
            network.close()
    print(summary(rows))
    is_clean = not given.audit or audit(given.output)
    sys.exit(not is_clean or any(row.problems for row in rows))


if __name__ == "__main__":
    main()
