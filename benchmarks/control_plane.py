"""Benchmarks the controller: failover, failure and return of an agent, elections, reassignment, topics.

A real ZooKeeper, a real controller process, and stub agents in separate processes. The clock starts at the cause and
stops at the last acknowledgement of an agent. After each case every agent's table is compared with ZooKeeper; a
difference fails the run.
"""

import asyncio
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from rich.console import Console

from benchmarks.children import ProcessFailedError
from benchmarks.control_plane_cases import CASES, RefusedError
from benchmarks.control_plane_round import DifferenceError, Round, say
from benchmarks.embedded_zookeeper import EmbeddedZooKeeper, client_tls, connect_to, make_certificates
from benchmarks.processes import ControllerProcess, StubProcesses
from benchmarks.report import CaseRun, Report, describe_machine, print_table, summarise
from benchmarks.synthetic_cluster import Shape, populate
from cluster.model.broker import BrokerId
from cluster.model.errors import ClusterError
from cluster.tls.authority import node
from cluster.tls.settings import AUTHORITY
from deploy.local.zookeeper import ServerSettings

CONTROLLER_ID: Final = 1001
STANDBY_ID: Final = 1002
REPLICATION_FACTOR: Final = 3
PARTITIONS_PER_TOPIC: Final = 50
STUB_PROCESSES: Final = 2
AGENTS_PER_PROCESS: Final = 25
# With 100,000 partitions in the default heap, Java's garbage collector would be measured.
HEAP_MB: Final = 2048
HEAP_MB_PER_100_000: Final = 1024
# A table of a million partitions keeps a process from renewing its session for long on a machine that does other work.
SESSION_MS_PER_PARTITION: Final = 1.0
SESSION_MS_MIN: Final = 18_000
SESSION_MS_MAX: Final = 600_000
SETTINGS: Final[dict[str, Any]] = {
    # By a timer, whatever the controller does: what it moves would be counted with a case.
    "auto.leader.rebalance.enable": False,
}


class Plan(Struct, frozen=True):
    """What is measured. `cases`: names of `CASES`; all if there are none. `idle_s`: how long nothing is sent before a
    case is looked at, whether it is over. `is_compared`: whether every agent's table is compared with ZooKeeper.
    """

    partitions: int = 10_000
    runs: int = 3
    brokers: int = 5
    cases: tuple[str, ...] = ()
    is_secured: bool = False
    idle_s: float = 1.0
    is_compared: bool = True

    @property
    def shape(self) -> Shape:
        topics = max(1, self.partitions // PARTITIONS_PER_TOPIC)
        brokers = tuple(BrokerId(broker) for broker in range(1, self.brokers + 1))
        return Shape(topics, min(self.partitions, PARTITIONS_PER_TOPIC), min(REPLICATION_FACTOR, self.brokers), brokers)


def run(plan: Plan, output_json: bool = False) -> int:
    """Measure and print; returns 0, or 1 if an agent's table differed from ZooKeeper, or a process or request failed.

    Progress goes to stderr. Raises StartupError if ZooKeeper does not start.
    """
    with tempfile.TemporaryDirectory(prefix="klamm-bench-") as folder:
        try:
            report = asyncio.run(measure(plan, Path(folder)))
        except asyncio.CancelledError:
            return 128 + signal.SIGTERM
        except (DifferenceError, RefusedError, ProcessFailedError, TimeoutError, ClusterError) as error:
            sys.stderr.write(f"the measurement failed:\n{error}\n")
            return 1
    if output_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print_table(report, Console())
    return 0


async def measure(plan: Plan, folder: Path) -> Report:
    """Run every case `runs` times, each round with its own chroot, controller and agents."""
    found: dict[str, list[CaseRun]] = {}
    program = asyncio.current_task()
    assert program is not None, "coroutines run in tasks"
    # Child processes are ended in `finally` blocks, which a plain SIGTERM would skip.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, program.cancel)
    certificates = folder / "certificates" if plan.is_secured else None
    tls = None if certificates is None else make_certificates(certificates, CONTROLLER_ID)
    heap_mb = max(HEAP_MB, HEAP_MB_PER_100_000 * plan.partitions // 100_000)
    settings = ServerSettings(heap_mb=heap_mb, warms_up=True, tls=tls, max_session_timeout_ms=SESSION_MS_MAX)
    with EmbeddedZooKeeper(folder / "zookeeper", settings=settings) as server:
        for number in range(1, plan.runs + 1):
            say(f"round {number} of {plan.runs}")
            directory = folder / f"round-{number}"
            directory.mkdir()
            cases_of_round = await measure_round(f"{server.address}/round-{number}", plan, directory, certificates)
            for name, case_run in cases_of_round.items():
                found.setdefault(name, []).append(case_run)
    cases = tuple(summarise(name, plan.shape.partitions, each) for name, each in found.items())
    return Report(describe_machine(), cases, plan.brokers)


async def measure_round(
    connect: str, plan: Plan, directory: Path, certificates: Path | None = None
) -> dict[str, CaseRun]:
    """Run the cases once, on an empty chroot, in the order in which they depend on each other.

    Raises DifferenceError, RefusedError, TimeoutError if a case does not complete, and ProcessFailedError.
    """
    tls, shape = None if certificates is None else client_tls(certificates), plan.shape
    zookeeper = connect_to(connect, tls)
    zookeeper.listen(lambda event: None)
    # Both have the certificate of the first one: to ZooKeeper all nodes are one identity.
    session_ms = min(SESSION_MS_MAX, max(SESSION_MS_MIN, int(SESSION_MS_PER_PARTITION * shape.partitions)))
    settings = SETTINGS | {"zookeeper.session.timeout.ms": session_ms} | _zookeeper_tls(certificates)
    controller = ControllerProcess(CONTROLLER_ID, connect, directory, settings)
    standby = ControllerProcess(STANDBY_ID, connect, directory, settings)
    processes = max(STUB_PROCESSES, plan.brokers // AGENTS_PER_PROCESS)
    stubs = StubProcesses(connect, shape.brokers, processes, certificates)
    measured = Round(zookeeper, (controller, standby), stubs, shape, idle_s=plan.idle_s, is_compared=plan.is_compared)
    try:
        await zookeeper.start_session()
        await populate(zookeeper, shape)
        await stubs.start()
        return await _run_cases(measured, plan.cases)
    finally:
        controller.kill()
        standby.kill()
        await measured.close()
        await stubs.stop()
        await zookeeper.close()


async def _run_cases(measured: Round, selected: tuple[str, ...]) -> dict[str, CaseRun]:
    found: dict[str, CaseRun] = {}
    for name, run_case in CASES.items():
        if not selected or name in selected:
            of_case = await run_case(measured)
            for figure, case_run in of_case.items():
                say(f"  {figure}: {case_run.ms:,.0f} ms, {case_run.cpu_ms:,.0f} ms of CPU")
            found |= of_case
    return found


def _zookeeper_tls(certificates: Path | None) -> dict[str, Any]:
    """The settings with which the controllers connect to ZooKeeper."""
    if certificates is None:
        return {}
    return {
        "zookeeper.ssl.client.enable": True,
        "zookeeper.ssl.keystore.location": str(certificates / node("controller", CONTROLLER_ID).file),
        "zookeeper.ssl.truststore.location": str(certificates / AUTHORITY),
    }
