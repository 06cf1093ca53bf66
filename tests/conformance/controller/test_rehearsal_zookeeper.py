"""The ZooKeeper of rehearsals answers as a server does, and the one under it is not written to."""

import asyncio
import re
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct

from cluster.zookeeper.port import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Op,
    OpResult,
    SessionEvent,
    SetData,
    WatchEvent,
    ZkError,
    ZooKeeper,
)
from controller.rehearsal_zookeeper import RehearsalZooKeeper, RehearsedZnode
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.controllers.worlds import run_virtually
from tests.examples import examples

PATHS = ["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep", "/nowhere/x"]
CONTENT = [Create("/a", b"1"), Create("/a/x", b"2"), Create("/a/x/deep"), Create("/b")]
SEQUENCE = "/a/n_"


class Watched(Struct, frozen=True):
    """A read that leaves a watch."""

    path: str
    children: bool


paths = st.sampled_from(PATHS)
versions = st.sampled_from([ANY_VERSION, ANY_VERSION, 0, 1, 7])
ops: st.SearchStrategy[Op] = st.one_of(
    st.builds(Create, paths, st.binary(max_size=1)),
    st.builds(Create, st.just(SEQUENCE), sequential=st.just(True)),
    st.builds(SetData, paths, st.binary(max_size=1), versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
steps = st.lists(
    st.one_of(st.lists(ops, min_size=1, max_size=4), st.builds(Watched, paths, st.booleans())), max_size=12
)
Step = list[Op] | Watched


def _known(results: Sequence[OpResult]) -> list[object]:
    """What a caller looks at: the error, the name of a sequential node and the version of a written one."""
    return [(r.error, r.path, None if r.stat is None or r.path is not None else r.stat.version) for r in results]


async def _content(zookeeper: ZooKeeper, path: str = "/") -> list[object]:
    names = await zookeeper.children(path)
    assert names is not None
    found: list[object] = [(path, names)]
    for child in (f"{path.rstrip('/')}/{name}" for name in names):
        znode = await zookeeper.get(child)
        assert znode is not None
        found += [(znode.data, znode.stat.version), *await _content(zookeeper, child)]
    return found


async def _server(seen: list[Any]) -> SimulatedZooKeeperClient:
    client = SimulatedZooKeeperClient(SimulatedZooKeeper(Random(1)), session_timeout_ms=6000)
    client.listen(lambda event: None if isinstance(event, SessionEvent) else seen.append(event))
    await client.start_session()
    assert all(result.ok for result in await client.multi(CONTENT))
    return client


async def _carry_out(zookeeper: ZooKeeper, step: Step) -> object:
    if isinstance(step, list):
        return _known(await zookeeper.multi(step))
    if step.children:
        return await zookeeper.children(step.path, watch=True)
    znode = await zookeeper.get(step.path, watch=True)
    return None if znode is None else (znode.data, znode.stat.version)


@examples(120, deep=300)
@given(steps)
@example([[Create("/c"), Delete("/nowhere")], [Create("/a/z"), Check("/a", 7)]])
@example([[Create("/b/x"), Delete("/b")]])
@example([Watched("/a", children=False), [Create("/a/y")], [SetData("/a", b"")]])
@example([Watched("/b", children=True), [Delete("/b")], [Create("/b")]])
@example([[Delete("/a/x/deep"), Delete("/a/x"), Create("/a/x")], [Delete("/a/x", 0)]])
def test_it_answers_as_a_server_and_writes_to_none(script: list[Step]) -> None:
    async def main() -> None:
        there: list[WatchEvent] = []
        here: list[WatchEvent] = []
        server, real = await _server(there), await _server([])
        untouched, zxid = await _content(real), real._server.tree.zxid
        rehearsal = RehearsalZooKeeper(real, here.append)
        for step in script:
            assert _renumbered(await _carry_out(rehearsal, step)) == _renumbered(await _carry_out(server, step))
            await asyncio.sleep(0.1)
            assert _renumbered(here) == _renumbered(there)
        assert _renumbered(await _content(rehearsal)) == _renumbered(await _content(server))
        assert await _content(real) == untouched
        assert real._server.tree.zxid == zxid

    run_virtually(main)


def _renumbered(value: object) -> str:
    """Sequence numbers by their rank: a server counts all children that ever were, a rehearsal those there are."""
    text = repr(value)
    numbers = sorted(set(re.findall(r"n_(\d{10})", text)))
    for rank, number in enumerate(numbers):
        text = text.replace(f"n_{number}", f"n_#{rank}")
    return text


def test_a_sequential_node_takes_no_name_that_there_is() -> None:
    async def main() -> None:
        real = await _server([])
        await real.multi([Create(SEQUENCE, b"real", sequential=True)])
        (taken,) = [name for name in await real.children("/a") or () if "n_" in name]
        rehearsal = RehearsalZooKeeper(real, lambda _event: None)
        created = [(await rehearsal.multi([Create(SEQUENCE, b"new", sequential=True)]))[0].path for _ in range(2)]
        assert len({*created, f"/a/{taken}"}) == 3
        kept = await rehearsal.get(f"/a/{taken}")
        assert kept is not None
        assert kept.data == b"real"

    run_virtually(main)


def test_what_is_written_is_reported_in_the_order_of_the_first_change_and_refused_writes_are_not() -> None:
    async def main() -> None:
        real = await _server([])
        rehearsal = RehearsalZooKeeper(real, lambda _event: None)
        await rehearsal.multi([SetData("/b", b"new"), Create("/c", b"c")])
        refused, last = await rehearsal.multi_many([[Delete("/c"), Check("/a", 9)], [SetData("/b", b"newest")]])
        assert not isinstance(refused, Exception)
        assert not isinstance(last, Exception)
        assert [r.error for r in refused] == [ZkError.RUNTIME_INCONSISTENCY, ZkError.BAD_VERSION]
        found = [(w.path, w.before and w.before.data, w.after and w.after.data) for w in rehearsal.written()]
        assert found == [("/b", b"", b"newest"), ("/c", None, b"c")]
        assert isinstance(rehearsal.written()[0], RehearsedZnode)

    run_virtually(main)


@pytest.mark.parametrize("kind", ["data", "children"])
def test_watches_of_the_beginning_fire_once_and_each_for_its_own_kind(kind: str) -> None:
    async def main() -> None:
        seen: list[WatchEvent] = []
        watches: dict[str, Any] = {"data_watches": ["/b"]} if kind == "data" else {"child_watches": ["/b"]}
        rehearsal = RehearsalZooKeeper(await _server([]), seen.append, **watches)
        for op in (Create("/b/x"), SetData("/b", b"1"), Create("/b/y"), SetData("/b", b"2")):
            await rehearsal.multi([op])
        assert [event.kind.value for event in seen] == ["changed" if kind == "data" else "children"]

    run_virtually(main)
