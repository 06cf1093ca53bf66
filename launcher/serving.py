"""Status of an embedded cluster, from the answers of its processes, and waiting until it is up."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from admin.connecting.client import AdminClient
from cluster.model.errors import ApiError, PeerUnreachableError, StartupError
from cluster.process.identity import GONE, RUNNING
from cluster.process.local_cluster import BROKER, CONTROLLER, ZOOKEEPER, Member
from cluster.requests.cluster import DescribeClusterResponse
from deploy.local.cluster import LocalCluster
from deploy.local.zookeeper import is_serving

UNREGISTERED: Final = "unregistered"
UNRESPONSIVE: Final = "unresponsive"
"""A process that runs and does not answer: it starts, hangs, or the machine is busy."""

# A controller without ZooKeeper answers after two seconds that it knows nothing.
_PROBE_MS = 3_000
_POLL_S = 0.2


class ClusterStatus(Struct, frozen=True):
    """The status of a cluster at one moment.

    `answers`: response by member name, or None. `refusing`: members that answered with an error, as a controller
    without ZooKeeper does.
    """

    answers: dict[str, DescribeClusterResponse | None]
    refusing: frozenset[str] = frozenset()

    def active(self) -> DescribeClusterResponse | None:
        """The description of the cluster by the active controller; None without one."""
        for name, answer in self.answers.items():
            if answer is not None and name == f"{CONTROLLER}-{answer.controller_id}":
                return answer
        return None

    def registered_brokers(self) -> set[int]:
        """The ids of the brokers that the active controller knows as live."""
        active = self.active()
        return set() if active is None else {int(b.id) for b in active.brokers}

    def state_of(self, member: Member) -> str:
        """The state of a running process: UNRESPONSIVE, UNREGISTERED with an active controller, or RUNNING."""
        is_asked = member.name in self.answers  # A Kafka broker is not.
        if is_asked and self.answers[member.name] is None and member.name not in self.refusing:
            return UNRESPONSIVE
        unknown = member.role == BROKER and self.active() is not None and member.id not in self.registered_brokers()
        return UNREGISTERED if unknown else RUNNING


async def probe(cluster: LocalCluster, client: AdminClient) -> ClusterStatus:
    """Ask every running controller and agent concurrently."""
    asked = cluster.state.nodes
    answers = await asyncio.gather(*(_ask(cluster, client, m) for m in asked))
    by_name = {m.name: answer for m, answer in zip(asked, answers, strict=True)}
    return ClusterStatus(
        {name: answer if isinstance(answer, DescribeClusterResponse) else None for name, answer in by_name.items()},
        frozenset(name for name, answer in by_name.items() if isinstance(answer, ApiError)),
    )


def wait_until_serving(cluster: LocalCluster, timeout_s: float) -> DescribeClusterResponse:
    """Wait until a controller is active and every broker has registered. Returns the controller's description.

    Brokers that give up meanwhile are started again. Raises StartupError, with the last words of whoever failed.
    """
    return asyncio.run(until_serving(cluster, timeout_s))


def wait_until_up(cluster: LocalCluster, timeout_s: float) -> None:
    """Wait as `wait_until_serving` does; of controllers that are to wait for `klamm adopt`, only until all of it runs.
    Raises StartupError.
    """
    if cluster.state.kafka and cluster.state.settings.get("klamm.takeover") == "never":
        asyncio.run(_until(cluster, timeout_s, _stands_by))
    else:
        wait_until_serving(cluster, timeout_s)


async def until_serving(cluster: LocalCluster, timeout_s: float) -> DescribeClusterResponse:
    """Wait as `wait_until_serving` does, on an event loop."""
    active = (await _until(cluster, timeout_s, _serves)).active()
    assert active is not None, "it serves"
    return active


async def _until(
    cluster: LocalCluster, timeout_s: float, is_up: Callable[[LocalCluster, ClusterStatus], bool]
) -> ClusterStatus:
    started = time.monotonic()
    async with AdminClient(cluster.bootstrap, tls=cluster.client_tls) as client:
        while True:
            status = await probe(cluster, client)
            if is_up(cluster, status):
                return status
            cluster.restart_exited()
            if cluster.given_up() or time.monotonic() - started > timeout_s:
                raise StartupError(_why_not(cluster, status, time.monotonic() - started))
            await asyncio.sleep(_POLL_S)


def _serves(cluster: LocalCluster, status: ClusterStatus) -> bool:
    answered = sum(answer is not None and answer.controller_id >= 0 for answer in status.answers.values())
    wanted = {m.id for m in cluster.members(BROKER)}
    return status.active() is not None and status.registered_brokers() >= wanted and answered == len(status.answers)


def _stands_by(cluster: LocalCluster, status: ClusterStatus) -> bool:
    """Whether every controller answers, if only that it knows nothing, and every broker listens."""
    answering = {name for name, answer in status.answers.items() if answer is not None} | status.refusing
    return answering == set(status.answers) and all(cluster.listens(m.name) for m in cluster.state.kafka_brokers)


async def describe_status(cluster: LocalCluster) -> dict[str, Any]:
    """Make the document of `klamm status`; see `shortcomings`."""
    async with AdminClient(cluster.bootstrap, tls=cluster.client_tls) as client:
        status = await probe(cluster, client)
    return {
        "data": str(cluster.folder),
        "zookeeper": cluster.state.zookeeper,
        "zookeeper_pid": next((_pid(cluster, member) for member in cluster.members(ZOOKEEPER)), None),
        "zookeeper_state": _zookeeper_state(cluster),
        "controllers": [_controller(cluster, m, status) for m in cluster.members(CONTROLLER)],
        "brokers": [_broker(cluster, m, status) for m in cluster.members(BROKER)],
        "state_change_logs": [str(folder) for folder in cluster.state_change_logs],
    }


def shortcomings(document: dict[str, Any]) -> list[str]:
    """List what is wrong in the document of `klamm status`, one line each."""
    found = [] if document["zookeeper_state"] == RUNNING else [f"zookeeper is {document['zookeeper_state']}"]
    for role in (CONTROLLER, BROKER):
        members = document[f"{role}s"]
        found += [f"{role} {member['id']} is {member['state']}" for member in members if member["state"] != RUNNING]
    if not any(controller["active"] for controller in document["controllers"]):
        found.append("no controller is active")
    return found


async def _ask(cluster: LocalCluster, client: AdminClient, member: Member) -> DescribeClusterResponse | ApiError | None:
    if cluster.state_of(member.name) != RUNNING:
        return None
    try:
        return await client.describe_node(member.address, _PROBE_MS)
    except ApiError as error:
        return error
    except PeerUnreachableError:
        return None


def _controller(cluster: LocalCluster, member: Member, status: ClusterStatus) -> dict[str, Any]:
    answer = status.answers[member.name]
    return {
        **_process(cluster, member),
        "active": answer is not None and answer.controller_id == member.id,
        "epoch": None if answer is None else answer.controller_epoch,
        "state": _state(cluster, member, status),
    }


def _broker(cluster: LocalCluster, member: Member, status: ClusterStatus) -> dict[str, Any]:
    return {
        **_process(cluster, member),
        "log_dirs": list(map(str, cluster.log_dirs(member))),
        "state": _state(cluster, member, status),
    }


def _state(cluster: LocalCluster, member: Member, status: ClusterStatus) -> str:
    process = cluster.state_of(member.name)
    return status.state_of(member) if process == RUNNING else process


def _process(cluster: LocalCluster, member: Member) -> dict[str, Any]:
    return {
        "id": member.id,
        "pid": _pid(cluster, member),
        "address": member.address,
        "metrics": f"{member.host}:{member.metrics_port}" if member.metrics_port else None,
        "control": f"{member.host}:{member.control_port}" if member.control_port else None,
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
