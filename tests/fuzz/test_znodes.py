"""Znodes of every path, nearly right, while controllers and agents run: they go on, and a repair is enough."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import MalformedZnodeError, StartupError
from cluster.znodes import paths
from cluster.zookeeper.port import Create, Delete, SetData
from simulator.cluster import SimulatedCluster, simulate
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.cluster_under_fire import (
    Sent,
    check_all_run,
    check_serves_after_restart,
    no_error_is_logged,
    send,
    start_cluster,
)
from tests.fuzz.damage import documents
from tests.fuzz.messages import HOSTILE_TEXTS, Draw
from tests.fuzz.test_requests import TO_CONTROLLER

_PARTITIONS: Final = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
_ABSENT: Final[dict[str, Any]] = {
    paths.REASSIGN_PARTITIONS: {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2, 1]}]},
    paths.PREFERRED_REPLICA_ELECTION: _PARTITIONS,
    f"{paths.ISR_CHANGE_NOTIFICATION}/isr_change_0000000001": _PARTITIONS,
    f"{paths.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_0000000001": {"version": 1, "broker": 1, "event": 1},
    f"{paths.CONFIG_CHANGES}/config_change_0000000099": {"version": 2, "entity_path": "topics/t"},
    f"{paths.CONFIG_BROKERS}/1": {"version": 1, "config": {"log.level": "debug", "message.max.bytes": "1000"}},
    f"{paths.CONFIG_BROKERS}/<default>": {"version": 1, "config": {"min.insync.replicas": "2"}},
    f"{paths.CONFIG_TOPICS}/none": {"version": 1, "config": {"cleanup.policy": "compact"}},
    f"{paths.BROKERS_TOPICS}/new": {"version": 3, "partitions": {"0": [1, 2]}, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"},
    f"{paths.BROKERS_TOPICS}/a b": {"version": 3, "partitions": {"0": [1, 2]}},
    f"{paths.BROKERS_IDS}/9": {"version": 5, "host": "h", "port": 1, "endpoints": ["PLAINTEXT://h:1"]},
    f"{paths.BROKERS_IDS}/x": {},
    f"{paths.CONTROLLERS_IDS}/1009": {"version": 1, "host": "h", "port": 1, "endpoints": ["PLAINTEXT://h:1"]},
    f"{paths.DELETE_TOPICS}/u": None,
    f"{paths.DELETE_TOPICS}/none": None,
    paths.FEATURE: {"version": 2, "status": 1, "features": {"x": 1}},
    paths.PRODUCER_ID_BLOCK: {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"},
    "/config/users/u": {"version": 1, "config": {"producer_byte_rate": "1000"}},
}
"""Paths that a cluster without work does not have or leaves empty, and a usual content."""
_NAMES: Final = [text for text in HOSTILE_TEXTS if text not in {"", ".", ".."} and not set(text) & set("/\0\n")]
"""Of a child, as far as ZooKeeper takes them."""
_OF_SESSIONS: Final = (paths.BROKERS_IDS, paths.CONTROLLERS_IDS)
"""A znode below these that is missing cannot come back by a repair: it belongs to a session."""


class Written(NamedTuple):
    """A znode and its new content; None: it is deleted."""

    path: str
    data: bytes | None


@cache
def contents() -> dict[str, Any]:
    """Every znode of the cluster with the content that it has, and those that it might have."""

    async def main() -> dict[str, bytes]:
        cluster = await start_cluster()
        found: dict[str, bytes] = {}
        pending = ["/"]
        while pending:
            path = pending.pop()
            znode = cluster.zookeeper.tree.get(path)
            if znode is not None and znode.data:
                found[path] = znode.data
            pending += [f"{path.rstrip('/')}/{child}" for child in cluster.zookeeper.tree.children(path) or ()]
        return found

    return {path: json.loads(data) for path, data in simulate(main).items()} | _ABSENT


@st.composite
def writes(draw: Draw) -> Written:
    path = draw(st.sampled_from(sorted(contents())))
    usual = contents()[path]
    if draw(st.integers(0, 14)) == 0:
        return Written(path, None)
    if draw(st.integers(0, 5)) == 0:
        # Beside it, below it, or above it where a partition's state is concerned.
        path = f"{draw(st.sampled_from((path, *_parents(path))))}/{draw(st.sampled_from(_NAMES))}"
    return Written(path, draw(documents([usual])))


def _parents(path: str) -> list[str]:
    """The folders above a znode, but the root."""
    names = path.split("/")[1:-1]
    return ["/" + "/".join(names[: n + 1]) for n in range(len(names))]


async def write(tool: SimulatedZooKeeperClient, written: Written) -> bytes | None:
    """Returns what was there."""
    before = await tool.get(written.path)
    if written.data is None:
        await tool.multi([Delete(written.path)])
    elif before is None:
        await tool.multi([Create(written.path, written.data)])
    else:
        await tool.multi([SetData(written.path, written.data)])
    return None if before is None else before.data


async def repair(tool: SimulatedZooKeeperClient, path: str, before: bytes | None) -> None:
    if path == paths.CONTROLLER:
        await tool.multi([Delete(path)])
        return
    now = await tool.get(path)
    if before is None:
        if now is not None:
            await tool.multi([Delete(path)])
    elif now is not None:
        await tool.multi([SetData(path, before)])
    elif not path.startswith(_OF_SESSIONS):
        await tool.multi([Create(path, before)])


@contextmanager
def may_refuse_to_start(written: list[Written]) -> Iterator[None]:
    """Whoever is started in a cluster with another id refuses, until it has the old one again."""
    try:
        yield
    except (StartupError, MalformedZnodeError):
        if all(each.path != paths.CLUSTER_ID for each in written):
            raise


async def disturb(cluster: SimulatedCluster, fails_over: bool, bounces: bool) -> None:
    """Let the controllers read everything anew, and the brokers some of it."""
    if fails_over:
        next(iter(cluster.controllers.values())).crash()
        await asyncio.sleep(8)
        next(iter(cluster.controllers.values())).start()
    if bounces:
        agent = next(iter(cluster.agents.values()))
        agent.crash()
        await asyncio.sleep(8)
        agent.start()
    await asyncio.sleep(10)


@fuzz(examples=60)
@given(st.lists(writes(), min_size=1, max_size=4), st.booleans(), st.booleans(), st.lists(TO_CONTROLLER, max_size=3))
def test_znodes(written: list[Written], fails_over: bool, bounces: bool, requests: list[Sent]) -> None:
    count_case("znodes")

    async def main() -> None:
        cluster = await start_cluster()
        tool = SimulatedZooKeeperClient(cluster.zookeeper, session_timeout_ms=600_000)
        tool.listen(lambda _: None)
        await tool.start_session()
        before = [(each.path, await write(tool, each)) for each in written]
        await asyncio.sleep(5)
        await disturb(cluster, fails_over, bounces)
        with may_refuse_to_start(written):
            await check_all_run(cluster)
            for sent in requests:
                await send(cluster, sent, znodes_are_sound=False)
            await check_all_run(cluster)
        for path, data in reversed(before):
            await repair(tool, path, data)
        await asyncio.sleep(5)
        with may_refuse_to_start(written):
            await check_all_run(cluster)
        await check_serves_after_restart(cluster)

    with no_error_is_logged():
        simulate(main)
