"""Status of an embedded cluster, from the answers of its processes, and waiting until it is up."""

import asyncio
import time
from typing import Any

from msgspec import Struct

from admin.client import AdminClient
from cluster.errors import ClusterError, StartupError
from cluster.requests.cluster import DescribeClusterResponse
from deploy.local.cluster import LocalCluster
from deploy.local.cluster_folder import BROKER, CONTROLLER, ZOOKEEPER, Member
from deploy.local.processes import GONE, RUNNING
from deploy.local.zookeeper import is_serving

_PROBE_MS = 1_500
_POLL_S = 0.2


class ClusterStatus(Struct, frozen=True):
    """Status of a cluster at one moment. `answers`: response by member name, or None."""

    answers: dict[str, DescribeClusterResponse | None]

    def active(self) -> DescribeClusterResponse | None:
        """The description of the cluster by the active controller."""
        for name, answer in self.answers.items():
            if answer is not None and name == f"{CONTROLLER}-{answer.controller_id}":
                return answer
        return None

    def registered_brokers(self) -> set[int]:
        """Brokers that are live by the active controller."""
        active = self.active()
        return set() if active is None else {int(b.id) for b in active.brokers}


async def probe(cluster: LocalCluster, client: AdminClient) -> ClusterStatus:
    """Ask every running controller and agent concurrently."""
    asked = [m for m in cluster.state.members if m.role != ZOOKEEPER]
    answers = await asyncio.gather(*(_ask(cluster, client, m) for m in asked))
    return ClusterStatus({m.name: answer for m, answer in zip(asked, answers, strict=True)})


def wait_until_serving(cluster: LocalCluster, timeout_s: float) -> DescribeClusterResponse:
    """Wait until a controller is active and every broker has registered. Returns the controller's description.

    Brokers that give up meanwhile are started again. Raises StartupError, with the last words of whoever failed.
    """
    return asyncio.run(until_serving(cluster, timeout_s))


async def until_serving(cluster: LocalCluster, timeout_s: float) -> DescribeClusterResponse:
    """As `wait_until_serving`, for callers on an event loop."""
    started = time.monotonic()
    wanted = {m.id for m in cluster.members(BROKER)}
    async with AdminClient(cluster.bootstrap) as client:
        while True:
            status = await probe(cluster, client)
            active = status.active()
            answered = sum(answer is not None and answer.controller_id >= 0 for answer in status.answers.values())
            if active is not None and status.registered_brokers() >= wanted and answered == len(status.answers):
                return active
            cluster.restart_exited()
            if cluster.given_up() or time.monotonic() - started > timeout_s:
                raise StartupError(_why_not(cluster, status, time.monotonic() - started))
            await asyncio.sleep(_POLL_S)


async def describe_status(cluster: LocalCluster) -> dict[str, Any]:
    """The document of `klamm status`."""
    async with AdminClient(cluster.bootstrap) as client:
        status = await probe(cluster, client)
    known = status.registered_brokers()
    return {
        "data": str(cluster.folder),
        "zookeeper": cluster.state.zookeeper,
        "zookeeper_pid": next((_pid(cluster, member) for member in cluster.members(ZOOKEEPER)), None),
        "zookeeper_state": _zookeeper_state(cluster),
        "controllers": [_controller(cluster, m, status) for m in cluster.members(CONTROLLER)],
        "brokers": [_broker(cluster, m, m.id in known) for m in cluster.members(BROKER)],
        "state_change_logs": [str(folder) for folder in cluster.state_change_logs],
    }


async def _ask(cluster: LocalCluster, client: AdminClient, member: Member) -> DescribeClusterResponse | None:
    if cluster.state_of(member.name) != RUNNING:
        return None
    try:
        return await client.describe_node(member.address, _PROBE_MS)
    except ClusterError:
        return None


def _controller(cluster: LocalCluster, member: Member, status: ClusterStatus) -> dict[str, Any]:
    answer = status.answers[member.name]
    process = cluster.state_of(member.name)
    return {
        **_process(cluster, member),
        "active": answer is not None and answer.controller_id == member.id,
        "epoch": None if answer is None else answer.controller_epoch,
        "state": "starting" if process == RUNNING and answer is None else process,
    }


def _broker(cluster: LocalCluster, member: Member, registered: bool) -> dict[str, Any]:
    process = cluster.state_of(member.name)
    return {
        **_process(cluster, member),
        "log_dirs": [str(cluster.folder / "data" / member.name)],
        "state": "unregistered" if process == RUNNING and not registered else process,
    }


def _process(cluster: LocalCluster, member: Member) -> dict[str, Any]:
    return {
        "id": member.id,
        "pid": _pid(cluster, member),
        "address": member.address,
        "metrics": f"127.0.0.1:{member.metrics_port}",
    }


def _pid(cluster: LocalCluster, member: Member) -> int | None:
    return None if member.process is None or cluster.state_of(member.name) == GONE else member.process.pid


def _zookeeper_state(cluster: LocalCluster) -> str:
    for member in cluster.members(ZOOKEEPER):
        return cluster.state_of(member.name)
    host, _, port = cluster.state.zookeeper.partition("/")[0].partition(",")[0].rpartition(":")
    return RUNNING if is_serving(host, int(port)) else "unreachable"


def _why_not(cluster: LocalCluster, status: ClusterStatus, seconds: float) -> str:
    missing = [name for name, answer in sorted(status.answers.items()) if answer is None]
    reasons = [f"the cluster is not up after {seconds:.0f} s"]
    if missing:
        reasons.append(f"no answer from {', '.join(missing)}")
    elif status.active() is None:
        reasons.append("no controller is active")
    else:
        wanted = {m.id for m in cluster.members(BROKER)}
        reasons.append(f"brokers {sorted(wanted - status.registered_brokers())} are not registered")
    reasons += cluster.failures()
    return "\n  ".join([*reasons, f"logs are in {cluster.folder / 'logs'}"])
