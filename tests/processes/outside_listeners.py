"""A cluster of real processes, each with a listener EXTERNAL beside its others."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster.process.local_cluster import Member
from deploy.local.cluster import LocalCluster
from deploy.local.processes import choose_free_ports
from launcher.serving import wait_until_serving
from tests.timeouts import TIMEOUT_S


class ClusterWithOutside(LocalCluster):
    """`outside`: the address of the listener, by the name of the node."""

    outside: Mapping[str, str] = {}

    def _command(self, member: Member) -> list[str]:
        command, address = super()._command(member), self.outside.get(member.name)
        return command if address is None else [*command, "--external-listen", address]


@contextmanager
def serving_outside(folder: Path, **options: Any) -> Iterator[ClusterWithOutside]:
    """Started and serving; stopped in the end, whatever happened. `options` are those of its creation."""
    cluster = ClusterWithOutside.create_or_open(folder, **options)
    assert isinstance(cluster, ClusterWithOutside)
    nodes = cluster.state.nodes
    ports = choose_free_ports(len(nodes), {port for member in cluster.state.members for port in member.ports})
    cluster.outside = {node.name: f"{node.host}:{port}" for node, port in zip(nodes, ports, strict=True)}
    try:
        cluster.start_all(TIMEOUT_S)
        wait_until_serving(cluster, TIMEOUT_S)
        yield cluster
    finally:
        cluster.stop_all()
