"""Requests by gRPC to real processes: no internal error, nobody ends, nothing is logged with a traceback, and the
memory of a process does not grow with what it refuses.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.rpc.methods import Method
from deploy.local.cluster import LocalCluster
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.cluster_under_fire import METHODS_OF_AGENTS, METHODS_OF_CONTROLLERS, FuzzError, Sent
from tests.fuzz.known import TOPICS, known_values
from tests.fuzz.messages import Known
from tests.fuzz.real_processes import NODES, Callers, check_processes, resident_bytes, two_brokers
from tests.fuzz.test_requests import sent_to
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually

pytestmark = pytest.mark.real

_ENDS_A_BROKER: Final = "Shutdown"
_GROWTH_MAX: Final = 64 << 20
"""Bytes that a process may take for caches and fragmentation, however many requests it gets."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with two_brokers(tmp_path_factory.mktemp("cluster") / "c") as running:
        yield running


@pytest.fixture(scope="module")
def known(cluster: LocalCluster) -> Known:
    topics = as_json(cluster, "topics", "describe", *TOPICS)["topics"]
    brokers = as_json(cluster, "cluster", "describe")["brokers"]
    return known_values([t["topic_id"] for t in topics], [b["epoch"] for b in brokers], [1, 2])


def requests(known: Known) -> st.SearchStrategy[list[Sent]]:
    def but_one(methods: tuple[Method, ...]) -> list[Method]:
        return [method for method in methods if method.name != _ENDS_A_BROKER]

    to_controller = sent_to(but_one(METHODS_OF_CONTROLLERS), range(1), known)
    to_agents = sent_to(but_one(METHODS_OF_AGENTS), range(1, 3), known)
    return st.lists(st.one_of(to_controller, to_agents), min_size=5, max_size=12)


@fuzz(examples=25)
@given(st.data())
def test_requests_to_processes(cluster: LocalCluster, known: Known, data: st.DataObject) -> None:
    batch = data.draw(requests(known))
    callers = Callers(cluster)
    try:
        for sent in batch:
            count_case("requests to processes")
            callers.send(sent)
    finally:
        callers.close()
    check_processes(cluster)


@fuzz(examples=4)
@given(st.data())
def test_memory_of_processes(cluster: LocalCluster, known: Known, data: st.DataObject) -> None:
    """The same requests again and again, each refused or answered at once."""
    batch = [sent for sent in data.draw(requests(known)) if not sent.method.streams]
    callers = Callers(cluster)
    before: dict[str, int] = {}
    try:
        for round_number in range(40):
            if round_number == 20:
                before = {name: resident_bytes(cluster, name) for name in NODES}
            for sent in batch:
                count_case("memory of processes")
                callers.send(sent)
    finally:
        callers.close()
    for name, size in before.items():
        grown = resident_bytes(cluster, name) - size
        if grown > _GROWTH_MAX:
            raise FuzzError(f"{name} has grown by {grown} bytes in 20 rounds of {batch}")


def test_the_cluster_serves_after_a_restart(cluster: LocalCluster) -> None:
    """What the requests left behind keeps no process from starting; the last test of this cluster."""
    for name in NODES:
        cluster.stop(name)
    for name in NODES:
        cluster.start(name)

    def is_led() -> Any:
        described = as_json(cluster, "cluster", "describe", codes=(0, 1))
        return len(described.get("brokers", ())) == 2

    eventually(is_led, "both brokers are back")
    name = f"after-{time.monotonic_ns()}"
    klamm(cluster, "topics", "create", name, "--replica-assignment", "1:2", "--config", "min.insync.replicas=1")
    assert klamm(cluster, "produce", name, stdin="1\n2\n").stdout.split()[-1] == "2"
    check_processes(cluster)
