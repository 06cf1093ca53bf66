"""`/klamm/state_log/<node>`: when it is written, and that nothing that happens to ZooKeeper breaks the node."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from random import Random

import pytest
from msgspec.structs import replace

from cluster.requests.control import StateLogHead
from cluster.znodes.paths import state_log_path
from cluster.znodes.state_log import decode_heads
from cluster.zookeeper.port import Op, OpResult, SetData, ZkError
from simulator.virtual_time_loop import VirtualTimeLoop
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient
from state_log.head_publisher import HeadPublisher
from state_log.record import StateChange

NODE = "broker-1"
HEAD = StateLogHead(NODE, "1700000000000.7", 41, "ab" * 32, "boot")
PATH = state_log_path(NODE)
INTERVAL_MS = 10_000


class Log:
    """A log whose head is set by the test."""

    def __init__(self) -> None:
        self.flushed_head: StateLogHead | None = None

    def append(self, changes: Sequence[StateChange]) -> None:
        raise AssertionError(f"nothing is to be recorded: {changes}")


class Setup:
    """A publisher on a session of its own, and the writes of that session."""

    def __init__(self, server: SimulatedZooKeeper) -> None:
        self.server, self.log = server, Log()
        self.zookeeper = SimulatedZooKeeperClient(server, session_timeout_ms=6000)
        self.publisher = HeadPublisher(self.zookeeper, self.log, INTERVAL_MS)
        self.writes: list[Op] = []
        self._multi = self.zookeeper.multi
        self.zookeeper.multi = self._counted  # type: ignore[method-assign]

    async def _counted(self, ops: Sequence[Op]) -> list[OpResult]:
        self.writes += [op for op in ops if getattr(op, "path", "") == PATH]
        return await self._multi(ops)

    async def start(self) -> "Setup":
        self.zookeeper.listen(lambda _: None)
        await self.zookeeper.start_session()
        return self

    @property
    def stored(self) -> tuple[StateLogHead, ...]:
        znode = self.server.tree.get(PATH)
        return () if znode is None else decode_heads(NODE, znode.data)


def virtually(test: Callable[[Setup], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await test(await Setup(SimulatedZooKeeper(Random(1))).start())

    def run() -> None:
        VirtualTimeLoop(max_steps=1_000_000).run_until_complete(main())

    run.__name__ = test.__name__
    return run


@virtually
async def test_nothing_is_written_before_the_first_flush(setup: Setup) -> None:
    await setup.publisher.publish()
    assert setup.server.tree.get("/klamm") is None


@pytest.mark.rule("D-51")
@virtually
async def test_one_conditional_write_in_an_interval_and_only_of_a_changed_head(setup: Setup) -> None:
    task = asyncio.get_running_loop().create_task(setup.publisher.run())
    for seq in range(100):
        setup.log.flushed_head = replace(HEAD, seq=seq)
        await asyncio.sleep(1)
    assert 9 <= len(setup.writes) <= 10
    assert [op.version for op in setup.writes[1:] if isinstance(op, SetData)] == list(range(len(setup.writes) - 1))
    await asyncio.sleep(60)
    written = len(setup.writes)
    await asyncio.sleep(600)
    assert (len(setup.writes), setup.stored) == (written, (replace(HEAD, seq=99),))
    task.cancel()


@virtually
async def test_the_head_of_an_earlier_incarnation_is_kept(setup: Setup) -> None:
    setup.log.flushed_head = HEAD
    await setup.publisher.publish()
    successor = await Setup(setup.server).start()
    successor.log.flushed_head = replace(HEAD, incarnation="1700000009999.8", seq=3)
    await successor.publisher.publish()
    assert setup.stored == (successor.log.flushed_head, HEAD)


@virtually
async def test_a_write_whose_answer_was_lost_is_found_by_reading_again(setup: Setup) -> None:
    setup.log.flushed_head = HEAD
    await setup.publisher.publish()
    setup.log.flushed_head = replace(HEAD, seq=42)
    setup.zookeeper.lose_answer_of_next_write()
    await setup.publisher.publish()
    assert setup.stored == (replace(HEAD, seq=42),)
    writes = len(setup.writes)
    await setup.publisher.publish()
    assert len(setup.writes) == writes
    setup.log.flushed_head = replace(HEAD, seq=43)
    await setup.publisher.publish()
    assert setup.stored == (replace(HEAD, seq=43),)


@pytest.mark.rule("D-51")
@virtually
async def test_a_zookeeper_restored_from_an_older_snapshot_gets_the_head_again(setup: Setup) -> None:
    empty = deepcopy(setup.server.tree)
    setup.log.flushed_head = HEAD
    await setup.publisher.publish()
    older = deepcopy(setup.server.tree)
    for seq, backup in ((50, older), (60, empty)):
        setup.log.flushed_head = replace(HEAD, seq=seq - 1)
        await setup.publisher.publish()
        setup.server.restore(backup, 6)
        setup.zookeeper.expire()
        await asyncio.sleep(1)
        await setup.zookeeper.start_session()
        setup.log.flushed_head = replace(HEAD, seq=seq)
        await setup.publisher.publish()
        await setup.publisher.publish()
        assert setup.stored == (replace(HEAD, seq=seq),)


@virtually
async def test_a_malformed_znode_is_replaced(setup: Setup) -> None:
    setup.log.flushed_head = HEAD
    await setup.publisher.publish()
    await setup.zookeeper.multi([SetData(PATH, b'{"version":1,"heads":[{"seq":-7}]}')])
    successor = await Setup(setup.server).start()
    successor.log.flushed_head = replace(HEAD, seq=42)
    await successor.publisher.publish()
    assert setup.stored == (replace(HEAD, seq=42),)


@virtually
async def test_what_zookeeper_refuses_is_tried_again_at_the_next_interval(setup: Setup) -> None:
    setup.log.flushed_head = HEAD
    refused = OpResult(ZkError.NO_AUTH)
    setup.zookeeper.refuse_writes(lambda ops: [refused] if ops[0].path == PATH else None)
    task = asyncio.get_running_loop().create_task(setup.publisher.run())
    await asyncio.sleep(35)
    assert (len(setup.writes), setup.stored) == (3, ())
    setup.zookeeper.refuse_writes(None)
    await asyncio.sleep(10)
    assert setup.stored == (HEAD,)
    assert not task.done()
    task.cancel()
