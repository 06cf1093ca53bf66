"""Real processes that take hostile input, and what must be true of them all the while and afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import grpc

from cluster.rpc.call_kinds import CallKind, kind_of
from deploy.local.cluster import LocalCluster
from tests.fuzz.cluster_under_fire import FuzzError, Sent
from tests.fuzz.known import TOPICS
from tests.processes.commands import klamm
from tests.processes.local_clusters import serving_cluster

NODES: Final = ("controller-1001", "broker-1", "broker-2")
_ANSWER_S: Final = 2.0
_INTERNAL: Final = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)


@contextmanager
def two_brokers(folder: Path) -> Iterator[LocalCluster]:
    """One controller and two brokers with the topics that requests name."""
    with serving_cluster(folder, controllers=1, brokers=2) as running:
        for topic in TOPICS:
            klamm(running, "topics", "create", topic, "--replica-assignment", "1:2,2:1")
        yield running


class Callers:
    """A connection to each listener of the cluster."""

    def __init__(self, cluster: LocalCluster, answer_s: float = _ANSWER_S) -> None:
        self._answer_s = answer_s
        self._channels = {
            (name, is_control): grpc.insecure_channel(f"127.0.0.1:{port}")
            for name in NODES
            for is_control, port in ((False, cluster.member(name).port), (True, cluster.member(name).control_port))
        }

    def send(self, sent: Sent) -> None:
        """Raises FuzzError if the answer is an internal error."""
        channel = self._channels[NODES[sent.node], kind_of(sent.method.request_type) is CallKind.CONTROL]
        try:
            if sent.method.streams:
                for answer in channel.unary_stream(sent.method.path)(sent.data, timeout=0.05):
                    sent.method.response.decode(answer)
                return
            answer = channel.unary_unary(sent.method.path)(sent.data, timeout=self._answer_s)
        except grpc.RpcError as error:
            if error.code() in _INTERNAL:
                raise FuzzError(f"{sent.method.name}: {error.code().name}: {error.details()}") from error
        else:
            sent.method.response.decode(answer)

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()


def resident_bytes(cluster: LocalCluster, name: str) -> int:
    process = cluster.member(name).process
    assert process is not None
    status = Path(f"/proc/{process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) << 10


def check_processes(cluster: LocalCluster) -> None:
    """Raise FuzzError if one has ended or logged a traceback."""
    for name in NODES:
        if cluster.state_of(name) != "running":
            raise FuzzError(f"{name} has ended: {cluster.log_tail(name, 40)}")
        log = (cluster.folder / "logs" / f"{name}.log").read_text(errors="replace")
        if "Traceback" in log:
            raise FuzzError(f"{name}: {log[max(0, log.index('Traceback') - 500) :][:4000]}")
