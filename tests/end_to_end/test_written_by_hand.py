"""What somebody writes to `/controller` and `/controller_epoch` of a real cluster, and how long it does harm.

Prints the table of all contents: seconds until a topic is created and led, and what `klamm cluster health` said before.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.model.broker import ControllerId
from cluster.process.local_cluster import CONTROLLER as PROCESS
from cluster.znodes.controller import encode_controller
from cluster.znodes.paths import CONTROLLER, CONTROLLER_EPOCH
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.port import Create, Delete, Op, SetData, Znode
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_jars import NEWEST
from launcher.__main__ import app
from tests.kafka.broker import kafka_class_path
from tests.processes.commands import as_json
from tests.processes.local_clusters import eventually, serving_cluster

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]

SOON_S = 10.0
"""Most of it the two commands' own."""
_UNTOUCHED = "as it was"
_STRANGER = 555


@pytest.fixture(params=[None, NEWEST], ids=["agents", "kafka"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    if request.param is not None:
        kafka_class_path(request.param)
    with serving_cluster(tmp_path / "cluster", controllers=2, brokers=3, kafka=request.param) as cluster:
        yield cluster


def body(id_: int) -> bytes:
    return encode_controller(ControllerId(id_), 1)


IN_CONTROLLER: dict[str, Callable[[int, int], list[Op]]] = {
    _UNTOUCHED: lambda _active, _other: [],
    "another candidate's id": lambda _, other: [SetData(CONTROLLER, body(other))],
    "a broker's id": lambda _active, _other: [SetData(CONTROLLER, body(1))],
    "an unknown id": lambda _active, _other: [SetData(CONTROLLER, body(_STRANGER))],
    "no JSON": lambda _active, _other: [SetData(CONTROLLER, b"{garbage")],
    "empty": lambda _active, _other: [SetData(CONTROLLER, b"")],
    "persistent, its id": lambda active, _: [Delete(CONTROLLER), Create(CONTROLLER, body(active))],
    "persistent, another's": lambda _, other: [Delete(CONTROLLER), Create(CONTROLLER, body(other))],
    "deleted": lambda _active, _other: [Delete(CONTROLLER)],
}
IN_EPOCH: dict[str, Callable[[int], bytes | None]] = {
    _UNTOUCHED: lambda now: str(now).encode(),
    "deleted": lambda _: None,
    "no number": lambda _: b"x",
    "back to 1": lambda _: b"1",
    "back by 1": lambda now: str(now - 1).encode(),
    "forward by 100": lambda now: str(now + 100).encode(),
    "2^31-2": lambda _: str(2**31 - 2).encode(),
    "2^31-1": lambda _: str(2**31 - 1).encode(),
}


async def write(cluster: LocalCluster, make: Callable[[Znode], list[Op]]) -> None:
    """Operations made from `/controller_epoch` as it is, in one transaction."""
    client = KazooZooKeeper(cluster.state.zookeeper, session_timeout_ms=30_000, connection_timeout_ms=30_000)
    client.listen(lambda _: None)
    await client.start_session()
    try:
        znode = await client.get(CONTROLLER_EPOCH)
        assert znode is not None
        results = await client.multi(make(znode))
        assert all(result.ok for result in results), results
    finally:
        await client.close()


def of_epoch(content: str, znode: Znode) -> list[Op]:
    data = IN_EPOCH[content](int(znode.data))
    if data is None:
        return [Delete(CONTROLLER_EPOCH)]
    return [] if content == _UNTOUCHED else [SetData(CONTROLLER_EPOCH, data)]


def health(cluster: LocalCluster) -> str:
    answer = CliRunner().invoke(app, ["cluster", "health", "-o", "json", "--data", str(cluster.folder)])
    if not answer.stdout:
        return "no active controller"
    kinds = {found["kind"] for found in json.loads(answer.stdout)["findings"]}
    return ", ".join(sorted(kinds - {"imbalanced_leaders"})) or "no issues"


def seconds_until_created(cluster: LocalCluster, topic: str) -> float:
    began = time.monotonic()
    arguments = ["topics", "create", topic, "--partitions", "1", "--replication-factor", "3"]
    while CliRunner().invoke(app, [*arguments, "--data", str(cluster.folder)]).exit_code != 0:
        assert time.monotonic() - began < SOON_S, f"{topic} is not created"
    while as_json(cluster, "topics", "describe", topic)["topics"][0]["partitions"][0]["leader"] < 0:
        assert time.monotonic() - began < SOON_S, f"{topic} is not led"
    return time.monotonic() - began


def controllers(cluster: LocalCluster) -> tuple[int, int]:
    """The active one and the other one."""
    active = as_json(cluster, "cluster", "describe")["controller"]["id"]
    return active, next(id_ for id_ in (1001, 1002) if id_ != active)


@pytest.mark.rule("D-92", "D-93", "D-94")
def test_a_topic_can_be_created_soon_whatever_was_written(cluster: LocalCluster) -> None:
    rows = []
    seconds_until_created(cluster, "first")
    for number, (in_controller, in_epoch) in enumerate(itertools.product(IN_CONTROLLER, IN_EPOCH)):
        active, other = controllers(cluster)

        def operations(
            znode: Znode, in_controller: str = in_controller, in_epoch: str = in_epoch, ids: tuple[int, int] = (0, 0)
        ) -> list[Op]:
            return [*of_epoch(in_epoch, znode), *IN_CONTROLLER[in_controller](*ids)]

        if (in_controller, in_epoch) == (_UNTOUCHED, _UNTOUCHED) or _lets_a_broker_win(
            cluster, in_controller, in_epoch
        ):
            continue
        asyncio.run(write(cluster, lambda znode, ids=(active, other): operations(znode, ids=ids)))  # type: ignore[misc]
        said = health(cluster)
        took = seconds_until_created(cluster, f"t{number}")
        rows.append((in_controller, in_epoch, f"{took:.1f} s", said))
        print(f"{in_controller:26}{in_epoch:18}{took:6.2f} s  {said}")
    assert len(rows) >= len(IN_CONTROLLER) * len(IN_EPOCH) - 3
    eventually(lambda: health(cluster) == "no issues", "healthy in the end")


@pytest.mark.rule("D-94")
@pytest.mark.parametrize("known", [1_000, 1_000_000])
def test_brokers_that_know_a_later_epoch_than_everybody_else_obey_soon(cluster: LocalCluster, known: int) -> None:
    """The states are of early epochs, and the controllers are new processes."""
    seconds_until_created(cluster, "first")
    asyncio.run(write(cluster, lambda _: [SetData(CONTROLLER_EPOCH, str(known).encode())]))
    eventually(lambda: as_json(cluster, "cluster", "describe")["controller"]["epoch"] > known, "a high epoch")
    for id_ in (1001, 1002):
        cluster.kill(f"{PROCESS}-{id_}")
    asyncio.run(write(cluster, _forgotten))
    for id_ in (1001, 1002):
        cluster.start(f"{PROCESS}-{id_}")
    began = time.monotonic()
    said = set()
    while (now := health(cluster)) != "no issues":
        said.add(now)
        assert time.monotonic() - began < 60, said
    took = time.monotonic() - began
    created = seconds_until_created(cluster, "third")
    print(
        f"epoch {known} -> 1 in new processes: healthy after {took:.1f} s, a topic after {created:.1f} s more; {said}"
    )


def _lets_a_broker_win(cluster: LocalCluster, in_controller: str, in_epoch: str) -> bool:
    """Whether a broker of Kafka may be elected under the last epoch there is; then all are to be restarted."""
    return cluster.state.kafka is not None and in_controller == "deleted" and in_epoch.startswith("2^31")


def _forgotten(_: Znode) -> list[Op]:
    """The states know nothing of it either."""
    return [SetData(CONTROLLER_EPOCH, b"1")]
