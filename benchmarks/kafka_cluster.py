"""Benchmarks the control of real Kafka brokers: klamm's controllers and Kafka's own, in turns.

    python -m benchmarks.kafka_cluster [--partitions 1000] [--runs 3] [--only klamm]… [-o json]

Three brokers, ten topics with three replicas. Each round has a cluster of its own, on which one of each is measured.
Times of ZooKeeper are those of its nodes; the others are when the last broker was found to see it in its metadata.

| measure | what |
|---|---|
| create | two CreateTopics requests at once, of five topics each |
| shutdown | SIGTERM of a broker that is not the controller |
| preferred | ElectLeaders for all partitions, after that broker is back |
| death | SIGKILL of that broker |
| controller | SIGKILL of the controller and of a broker that leads: with Kafka's own controller they are the same |

klamm's second controller stands by and knows every partition before the first is killed; with `--only klamm-cold` it
does not follow them, and reads them when it is elected.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from msgspec import Struct
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.kafka_stand import BROKERS, KLAMM, KafkaStand
from benchmarks.report import describe_machine
from cluster.model.partition import TopicPartition
from cluster.znodes.paths import state_path
from cluster.zookeeper.port import Stat
from deploy.local.kafka_clients import View, create_topics, elect_preferred, until_all_see, until_created, view
from deploy.local.kafka_jars import NEWEST

REPLICAS: Final = 3
TOPICS: Final = 10
TOPICS_PER_REQUEST: Final = 5
KLAMMS, KAFKAS, COLD = "klamm", "Kafka", "klamm-cold"
Seconds = dict[str, float]


class Measurement(Struct, frozen=True):
    """`seconds`: by what they end with."""

    controller: str
    run: int
    measure: str
    seconds: Seconds


class Case(Struct, frozen=True):
    """`version` of the brokers, with a heap of `heap_mb` each."""

    version: str
    partitions: int
    heap_mb: int


class Report(Struct, frozen=True):
    machine: str
    case: Case
    measurements: list[Measurement]


class Round:
    """One round on one cluster."""

    def __init__(self, stand: KafkaStand, partitions: int) -> None:
        self._stand, self._partitions = stand, partitions
        self._sizes = {f"t{i}": partitions // TOPICS + (i < partitions % TOPICS) for i in range(TOPICS)}
        self._topics = list(self._sizes)

    async def measure(self) -> dict[str, Seconds]:
        stand, found = self._stand, dict[str, Seconds]()
        found["create"] = await self.create()
        await self._rest()
        controller = await stand.controller()
        victim = next(broker for broker in BROKERS[1:] if broker != controller)
        found["shutdown"] = await self.shutdown(victim)
        found["restart"] = await self.restart(victim)
        await self._rest()
        found["preferred"] = await self.preferred()
        await self._rest()
        found["death"] = await self.death(victim)
        await self.restart(victim)
        await self._rest()
        await self.preferred()
        await self._rest()
        found["controller"] = await self.controller_death(victim)
        return found

    async def create(self) -> Seconds:
        address, began = await self._address_of_controller(), time.time()
        names = self._topics
        requests = [names[first : first + TOPICS_PER_REQUEST] for first in range(0, len(names), TOPICS_PER_REQUEST)]
        sending = [
            asyncio.create_task(create_topics(address, {name: self._sizes[name] for name in some}, REPLICAS))
            for some in requests
        ]
        seen = await self._until_seen(BROKERS, self._is_whole)
        codes = [code for codes in await asyncio.gather(*sending) for code in codes]
        assert not any(codes), f"CreateTopics: error codes {codes}"
        # A broker that is long with its logs falls out of ISRs and comes back: those writes are not of the creation.
        created = max(stat.ctime for stat in await self._states()) / 1000
        return {"states written": created - began, "all brokers know": seen - began}

    async def shutdown(self, victim: int) -> Seconds:
        began = time.time()
        ended = asyncio.create_task(self._stand.shut_down(victim))
        moved = await self._until_seen(_others(victim), self._without(victim))
        written = await self._last_write()
        return {"states written": written - began, "leaders moved": moved - began, "gone": await ended - began}

    async def restart(self, broker: int) -> Seconds:
        began = time.time()
        self._stand.start_broker(broker)
        await self._stand.until_brokers_see_all()
        return {"all in sync": await self._until_seen(BROKERS, self._is_whole) - began}

    async def preferred(self) -> Seconds:
        address, began = await self._address_of_controller(), time.time()
        asking = asyncio.create_task(elect_preferred(address))
        done = await self._until_seen(BROKERS, self._is_preferred)
        assert await asking == 0, "ElectLeaders was refused"
        return {"states written": await self._last_write() - began, "all brokers know": done - began}

    async def death(self, victim: int) -> Seconds:
        self._stand.kill_broker(victim)
        detected = await self._stand.until_gone(victim)
        moved = await self._until_seen(_others(victim), self._without(victim))
        return {"states written": await self._last_write() - detected, "leaders moved": moved - detected}

    async def controller_death(self, victim: int) -> Seconds:
        stand = self._stand
        await stand.until_warm(self._partitions)
        old = await stand.controller()
        assert old is not None, "nobody is the controller"
        if old in KLAMM:
            stand.kill_controller(old)
        else:
            victim = old
        stand.kill_broker(victim)
        candidates = [node for node in (KLAMM if old in KLAMM else BROKERS) if node not in {old, victim}]
        serving = asyncio.create_task(until_created([stand.address(node) for node in candidates], f"probe-{old}"))
        elected = await stand.until_elected(candidates)
        moved = await self._until_seen(_others(victim), self._without(victim))
        found = {"serves": await serving - elected, "leaders moved": moved - elected}
        new = await stand.controller()
        sent = None if new is None else await stand.sent_after_election(new)
        return {"states written": await self._last_write() - elected, **found} | (
            {} if sent is None else {"requests sent": sent}
        )

    async def _address_of_controller(self) -> str:
        controller = await self._stand.controller()
        assert controller is not None, "nobody is the controller"
        return self._stand.address(controller)

    async def _until_seen(self, brokers: Sequence[int], holds: Callable[[View], bool]) -> float:
        return await until_all_see([self._stand.address(broker) for broker in brokers], self._topics, holds)

    async def _last_write(self) -> float:
        """ZooKeeper's time of the last write of a partition's state, in s since the Unix epoch."""
        return max(stat.mtime for stat in await self._states()) / 1000

    async def _states(self) -> list[Stat]:
        """Read the stats of the znodes of partition states."""
        paths = [
            state_path(TopicPartition(topic, partition))
            for topic, size in self._sizes.items()
            for partition in range(size)
        ]
        return [znode.stat for znode in await self._stand.zookeeper.get_many(paths) if znode]

    def _is_whole(self, view: View) -> bool:
        return len(view.partitions) == self._partitions and all(
            partition.leader_id >= 0 and len(partition.isr_nodes) == REPLICAS for partition in view.partitions
        )

    def _is_preferred(self, view: View) -> bool:
        return len(view.partitions) == self._partitions and all(
            partition.leader_id == partition.replica_nodes[0] for partition in view.partitions
        )

    def _without(self, broker: int) -> Callable[[View], bool]:
        def holds(view: View) -> bool:
            leaders = {partition.leader_id for partition in view.partitions}
            return len(view.partitions) == self._partitions and not leaders & {broker, -1}

        return holds

    async def _rest(self) -> None:
        """Wait until what the last measure left behind is done: brokers write checkpoints, and collect garbage."""
        await asyncio.sleep(3 + self._partitions / 2000)
        sizes = [len((await view(self._stand.address(broker), self._topics)).partitions) for broker in BROKERS]
        assert sizes == [self._partitions] * len(BROKERS), f"brokers know {sizes} partitions"


def _others(victim: int) -> list[int]:
    return [broker for broker in BROKERS if broker != victim]


async def measure(case: Case, controllers: Sequence[str], runs: int, say: Callable[[str], None]) -> list[Measurement]:
    """Take all measures `runs` times, one controller after the other in each run."""
    found = []
    for run in range(runs):
        for controller in controllers:
            for name, seconds in (await _round(case, controller)).items():
                shown = {what: round(value, 3) for what, value in seconds.items()}
                found.append(Measurement(controller, run, name, shown))
                say(f"{controller}, run {run + 1}, {name}: {shown}")
    return found


async def _round(case: Case, controller: str) -> dict[str, Seconds]:
    with tempfile.TemporaryDirectory(prefix="klamm-bench-") as folder:
        stand = KafkaStand(
            Path(folder), case.version, case.heap_mb, klamm=controller != KAFKAS, warm=controller == KLAMMS
        )
        try:
            await stand.start()
            await asyncio.sleep(5)
            return await Round(stand, case.partitions).measure()
        finally:
            await stand.stop()


def print_table(report: Report, console: Console) -> None:
    """Medians over the runs, with the fastest and the slowest."""
    case = report.case
    title = f"{report.machine}; Kafka {case.version}, 3 brokers, {case.partitions:,} partitions, 3 replicas"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("measure", "until"):
        table.add_column(heading, no_wrap=True)
    controllers = list(dict.fromkeys(m.controller for m in report.measurements))
    for controller in controllers:
        table.add_column(f"{controller} s", justify="right", no_wrap=True)
    for name, what in dict.fromkeys((m.measure, what) for m in report.measurements for what in m.seconds):
        of_controllers = [
            [
                m.seconds[what]
                for m in report.measurements
                if (m.controller, m.measure) == (who, name) and what in m.seconds
            ]
            for who in controllers
        ]
        table.add_row(name, what, *map(_cell, of_controllers))
    console.print(table)


def _cell(values: Sequence[float]) -> str:
    if len(values) < 2:
        return "".join(f"{value:.2f}" for value in values)
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kafka", default=NEWEST, metavar="VERSION")
    parser.add_argument("--heap", type=int, default=1024, metavar="MB", help="of each broker")
    parser.add_argument(
        "--only", help="repeatable; default: klamm and Kafka, in turns", choices=(KLAMMS, KAFKAS, COLD), action="append"
    )
    parser.add_argument("-o", choices=("table", "json"), default="table")
    given = parser.parse_args()

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    controllers = given.only or (KLAMMS, KAFKAS)
    case = Case(given.kafka, given.partitions, given.heap)
    report = Report(describe_machine(), case, asyncio.run(measure(case, controllers, given.runs, say)))
    if given.o == "json":
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print_table(report, Console())


if __name__ == "__main__":
    main()
