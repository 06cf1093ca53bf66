"""`python -m tests.chaos.one_way_cuts`: what is known how soon when packets of one direction are lost.

For each cut, on a real cluster whose processes are hosts of their own: the seconds until the cluster acts, until
`klamm cluster health` names it, and until a metric and a line of a log do. Prints a table of medians.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import statistics
import sys
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from admin.cli.clusters import examine
from admin.connecting.client import AdminClient
from admin.describing.topology import Topology
from cluster.model.errors import ClusterError
from cluster.process.local_cluster import ZOOKEEPER
from cluster.requests.topics import NewTopic
from tests.chaos.cluster import BROKERS, CONTROLLERS, ChaosCluster, Process
from tests.chaos.isolation import Capability, find_missing, isolate
from tests.chaos.network import CUT, Network, one_way
from tests.chaos.producers import PARTITIONS, Acknowledgements, run_plain

ROOT: Final = Path(__file__).resolve().parents[2]
SIGNALS: Final = ("acts", "health", "metric", "log")
DEADLINE_S: Final = 120.0
_POLL_S: Final = 0.2
_ASK_MS: Final = 4_000


class Roles(NamedTuple):
    """Who is what when a sample begins: the active controller, the leader of partition 0, one of its followers."""

    controller: str
    leader: str
    follower: str
    zookeeper: str = ZOOKEEPER


class Cut(NamedTuple):
    """`health`: in the kind of a finding, or in what a command says that waits; `metric`: a series and from which value
    on; `log`: in a line; `acts`: in what changes, empty if nothing does. `is_asked`: a topic is created, so that the
    controller has something to say.
    """

    source: str
    target: str
    health: str
    metric: tuple[str, float]
    log: str
    acts: str = ""
    is_asked: bool = False

    def signals(self) -> tuple[str, ...]:
        return SIGNALS if self.acts else SIGNALS[1:]


_UNANSWERED: Final = ("klamm_controller_controllerchannelmanager_unansweredrequestagems", 1000.0)
_DISCONNECTED: Final = ('kafka_server_sessionexpirelistener_sessionstate{value="DISCONNECTED"}', 1.0)
_SHRUNK: Final = ("kafka_server_replicamanager_underreplicatedpartitions", 1.0)
_SESSION: Final = "ZooKeeper session state changed"
_FETCHES: Final = "Fetching from the leader failed"
_REQUESTS: Final = "Sending a request to a broker failed"
_NO_ZOOKEEPER: Final = "cannot reach ZooKeeper"
CUTS: Final = {
    "controller-to-broker": Cut("controller", "leader", "silent_broker", _UNANSWERED, _REQUESTS, is_asked=True),
    "broker-to-controller": Cut("leader", "controller", "silent_broker", _UNANSWERED, _REQUESTS, is_asked=True),
    "follower-to-leader": Cut("follower", "leader", "unanswered_fetches", _SHRUNK, _FETCHES, "isr"),
    "leader-to-follower": Cut("leader", "follower", "unanswered_fetches", _SHRUNK, _FETCHES, "isr"),
    "broker-to-zookeeper": Cut("leader", "zookeeper", "zookeeper_disconnected", _DISCONNECTED, _SESSION, "leader"),
    "zookeeper-to-broker": Cut("zookeeper", "leader", "zookeeper_disconnected", _DISCONNECTED, _SESSION, "leader"),
    "controller-to-zookeeper": Cut("controller", "zookeeper", _NO_ZOOKEEPER, _DISCONNECTED, _SESSION, "elected"),
    "zookeeper-to-controller": Cut("zookeeper", "controller", _NO_ZOOKEEPER, _DISCONNECTED, _SESSION, "elected"),
}


class Observer:
    """Keeps when each signal of one cut was seen first, in seconds since `cut`."""

    def __init__(self, cluster: ChaosCluster, topic: str, cut: Cut) -> None:
        self._cluster, self._topic, self._cut = cluster, topic, cut
        self._read = {name: self._cluster.log(name).stat().st_size for name in (*CONTROLLERS, *BROKERS)}
        self._leadership: tuple[int, frozenset[int]] | None = None
        self._began: float | None = None
        self.seen: dict[str, float] = {}

    def begin(self) -> None:
        self._began = time.monotonic()

    def _see(self, signal: str) -> None:
        if self._began is not None:
            self.seen.setdefault(signal, round(time.monotonic() - self._began, 1))

    def watches(self) -> list[Coroutine[Any, Any, None]]:
        """Each runs until cancelled."""
        scraped = (self._scrape(process) for process in self._cluster.processes.values() if process.name != ZOOKEEPER)
        return [self._read_logs(), self._ask_health(), self._describe(), *scraped]

    async def until_known(self) -> None:
        """Raises TimeoutError when a signal does not come."""
        async with asyncio.timeout(DEADLINE_S):
            while not self.seen.keys() >= set(self._cut.signals()):  # noqa: ASYNC110 - seen by other tasks.
                await asyncio.sleep(_POLL_S)

    async def _read_logs(self) -> None:
        while True:
            for name, read in self._read.items():
                with self._cluster.log(name).open("rb") as log:
                    log.seek(read)
                    new = log.read()
                self._read[name] += len(new)
                if self._cut.log.encode() in new:
                    self._see("log")
                if self._cut.acts == "elected" and b"Elected as the active controller" in new:
                    self._see("acts")
            await asyncio.sleep(_POLL_S)

    async def _scrape(self, process: Process) -> None:
        url, (series, least) = f"http://{process.host}:{process.metrics_port}/metrics", self._cut.metric
        while True:
            with contextlib.suppress(OSError):
                text = await asyncio.to_thread(_get, url)
                if any(
                    float(line.rpartition(" ")[2]) >= least for line in text.splitlines() if line.startswith(series)
                ):
                    self._see("metric")
            await asyncio.sleep(_POLL_S)

    async def _ask_health(self) -> None:
        """As commands that somebody types again and again, each with connections of its own."""
        while True:
            try:
                async with self._client(lambda notice: self._hear(notice.text)) as client:
                    issues, _ = await examine(client)
                for issue in issues:
                    self._hear(issue.trouble)
            except (ClusterError, TimeoutError) as error:
                self._hear(str(error))
            await asyncio.sleep(_POLL_S)

    def _hear(self, said: str) -> None:
        if self._cut.health in said:
            self._see("health")

    async def _describe(self) -> None:
        """Leader and ISR of partition 0, as the active controller knows them."""
        while self._cut.acts != "elected":
            with contextlib.suppress(ClusterError, TimeoutError):
                async with self._client() as client:
                    partition = (await client.describe_topics([self._topic])).topics[0].partitions[0]
                now = (partition.leader, frozenset(partition.isr))
                before, self._leadership = self._leadership or now, now
                if before[0] != now[0] if self._cut.acts == "leader" else not before[1] <= now[1]:
                    self._see("acts")
            await asyncio.sleep(_POLL_S)

    def _client(self, on_wait: Callable[[Any], None] | None = None) -> AdminClient:
        return AdminClient(self._cluster.bootstrap, timeout_ms=_ASK_MS, on_wait=on_wait)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=2) as answer:
        return str(answer.read().decode())


async def until_healthy(cluster: ChaosCluster) -> None:
    """Raises TimeoutError after the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with contextlib.suppress(ClusterError):
                async with AdminClient(cluster.bootstrap, timeout_ms=_ASK_MS) as client:
                    issues, counts = await examine(client)
                if not issues and counts["brokers"] == len(BROKERS):
                    return
            await asyncio.sleep(_POLL_S)


async def find_roles(client: AdminClient, topic: str) -> Roles:
    controller = (await client.describe_controller()).controller_id
    partition = (await client.describe_topics([topic])).topics[0].partitions[0]
    follower = next(broker for broker in partition.replicas if broker != partition.leader)
    return Roles(f"controller-{controller}", f"broker-{partition.leader}", f"broker-{follower}")


@contextlib.asynccontextmanager
async def running_in_background(*work: Coroutine[Any, Any, None]) -> Any:
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def measure(cluster: ChaosCluster, name: str, number: int) -> dict[str, float]:
    """One sample: when each signal was seen first, in seconds after the cut."""
    cut, topic, network = CUTS[name], f"{name}-{number}", cluster.network
    assert network is not None, "a capability that was checked"
    await until_healthy(cluster)
    async with AdminClient(cluster.bootstrap, timeout_ms=15_000) as client:
        await client.create_topics([NewTopic(topic, PARTITIONS, 3)])
        await until_healthy(cluster)
        roles = await find_roles(client, topic)
        observer, acks = Observer(cluster, topic, cut), Acknowledgements()
        producing = run_plain("records", topic, Topology(client), acks, asyncio.Event())
        async with running_in_background(producing, *observer.watches()):
            async with asyncio.timeout(DEADLINE_S):
                while len(acks.counts) < PARTITIONS:  # noqa: ASYNC110 - what is waited for has no event of its own.
                    await asyncio.sleep(_POLL_S)
            network.set(one_way([getattr(roles, cut.source)], [getattr(roles, cut.target)]), CUT)
            observer.begin()
            if cut.is_asked:
                await client.create_topics([NewTopic(f"{topic}-asked", PARTITIONS, 3)])
            try:
                await observer.until_known()
            finally:
                network.clear()
    return observer.seen


def table(samples: dict[str, list[dict[str, float]]]) -> Iterator[str]:
    """In Markdown: medians, with the shortest and the longest time."""
    yield "| nothing passes from … | the cluster acts | `cluster health` | metric | log |"
    yield "|---|---|---|---|---|"
    for name, of_cut in samples.items():
        cells = []
        for signal in SIGNALS:
            times = [sample[signal] for sample in of_cut if signal in sample]
            cells.append(f"{statistics.median(times):g} ({min(times):g} to {max(times):g})" if times else "not")
        yield f"| {name.replace('-', ' ')} | {' | '.join(cells)} |"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.one_way_cuts", description=__doc__)
    parser.add_argument("--samples", type=int, default=3, help="of each cut")
    parser.add_argument("--cuts", default=",".join(CUTS), help="comma-separated; default: all")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of all processes")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "one-way-cuts", help="samples.json, and logs")
    return parser.parse_args(arguments)


async def run(options: argparse.Namespace) -> None:
    missing = find_missing()
    if Capability.NETWORK in missing:
        raise SystemExit(missing[Capability.NETWORK])
    shutil.rmtree(options.output, ignore_errors=True)
    network = Network((ZOOKEEPER, *CONTROLLERS, *BROKERS))
    cluster = ChaosCluster(options.output / "cluster", missing, network)
    for process in cluster.processes.values():
        process.settings = dict(pair.split("=", 1) for pair in options.set)
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in options.cuts.split(",")}
    try:
        await cluster.start_all()
        async with running_in_background(cluster.supervise()):
            for number in range(options.samples):
                for name, of_cut in samples.items():
                    of_cut.append(await measure(cluster, name, number))
                    print(f"{name}: {of_cut[-1]}", file=sys.stderr)
    finally:
        await cluster.end()
        network.close()
    (options.output / "samples.json").write_text(json.dumps(samples, indent=1))
    print("\n".join(table(samples)))


if __name__ == "__main__":
    isolate("tests.chaos.one_way_cuts", sys.argv[1:])
    asyncio.run(run(parse(sys.argv[1:])))
