"""Malformed requests in `/admin`: the next good one is noticed, however it comes."""

import asyncio
from collections.abc import Callable

import pytest

from cluster.znodes.admin_requests import encode_partitions, encode_reassignments
from cluster.znodes.paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS
from cluster.zookeeper.port import SetData, ZkError, Znode
from controller.active_controller import RESUMPTION_PAUSE_S
from tests.controllers.contexts import assignment, ids, tp
from tests.controllers.elections import catch_up, restart_broker
from tests.controllers.fault_injection import RefusingFenced
from tests.controllers.repairing import (
    GARBAGE,
    REPAIRS,
    Repair,
    delete_and_create,
    has_topic,
    is_gone,
    is_quiet,
    overwrite,
    replace_at_once,
)
from tests.controllers.worlds import RunningController, quiesce, run_virtually, until

MOVE = encode_reassignments({tp("t-0"): ids(1, 3)})


def is_moving(c: RunningController, *adding: int) -> Callable[[], bool]:
    return lambda: c.context.topics.assignment(tp("t-0")).adding == adding


# /admin/reassign_partitions


@pytest.mark.rule("ZK-34", "RA-30", "RA-33", "D-20", "D-95")
@pytest.mark.parametrize("repair", REPAIRS)
@pytest.mark.parametrize("found_at_failover", [False, True])
def test_a_malformed_reassignment_makes_way_for_a_good_one(repair: Repair, found_at_failover: bool) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2, 3)
        if found_at_failover:
            await c.stop()
            await world.create(REASSIGN_PARTITIONS, GARBAGE)
            c = world.start_controller(1002)
            await until(lambda: c.is_active and c.context.epoch == 2, "active")
        else:
            await world.create(REASSIGN_PARTITIONS, GARBAGE)
        await is_quiet(c)
        await repair(world, REASSIGN_PARTITIONS, MOVE)
        await until(is_moving(c, 3))
        # From here on it is a good one that waits; what becomes of it by hand is noticed as well.
        await world.write(SetData(REASSIGN_PARTITIONS, encode_reassignments({tp("t-0"): ids(2, 1)})))
        await until(lambda: c.context.topics.assignment(tp("t-0")) == assignment([2, 1]))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("ZK-34", "RA-40")
@pytest.mark.parametrize("repair", REPAIRS)
def test_a_good_reassignment_overwritten_with_a_malformed_one_is_noticed_when_it_is_done(repair: Repair) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2, 3)
        await world.create(REASSIGN_PARTITIONS, MOVE)
        await until(is_moving(c, 3))
        await asyncio.sleep(1)
        await world.write(SetData(REASSIGN_PARTITIONS, GARBAGE))
        await catch_up(world, c, tp("t-0"), broker=3)
        await until(lambda: c.context.topics.assignment(tp("t-0")) == assignment([1, 3]))
        await is_quiet(c)
        await repair(world, REASSIGN_PARTITIONS, encode_reassignments({tp("t-0"): ids(1, 2)}))
        await until(is_moving(c, 2))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("ZK-34", "ZC-5")
@pytest.mark.parametrize("repair", [overwrite, replace_at_once])
def test_a_reassignment_repaired_while_its_answer_is_on_the_way_is_noticed(
    repair: Repair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2, 3)
        get = c.zookeeper.get
        late: list[Znode | None] = []

        async def get_late(path: str, *, watch: bool = False) -> Znode | None:
            node = await get(path, watch=watch)
            if path == REASSIGN_PARTITIONS and not late:
                late.append(node)
                await repair(world, REASSIGN_PARTITIONS, MOVE)
                await asyncio.sleep(1)
            return node

        monkeypatch.setattr(c.zookeeper, "get", get_late)
        await world.create(REASSIGN_PARTITIONS, GARBAGE)
        await until(is_moving(c, 3))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RA-40")
def test_a_reassignment_that_may_not_be_deleted_is_not_tried_without_a_pause() -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2, 3)
        refused = RefusingFenced(c, REASSIGN_PARTITIONS, ZkError.NO_AUTH)
        await world.create(REASSIGN_PARTITIONS, encode_reassignments({tp("none-0"): ids(1)}))
        await quiesce(RESUMPTION_PAUSE_S - 2)
        assert refused.attempts == 1
        refused.is_over = True
        await delete_and_create(world, REASSIGN_PARTITIONS, MOVE)
        await until(is_moving(c, 3))
        await c.stop()

    run_virtually(main)


# /admin/preferred_replica_election


@pytest.mark.rule("EP-10", "EP-11")
def test_a_malformed_election_is_removed_and_the_next_one_is_held() -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        await restart_broker(world, c, 1)
        await world.create(PREFERRED_REPLICA_ELECTION, GARBAGE)
        await until(lambda: is_gone(world, PREFERRED_REPLICA_ELECTION))
        await is_quiet(c)
        await world.create(PREFERRED_REPLICA_ELECTION, encode_partitions([tp("t-0")]))
        await world.leads("t", leader=1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-10", "EP-11")
@pytest.mark.parametrize("first", [GARBAGE, encode_partitions([tp("none-0")])])
def test_an_election_written_over_another_before_that_is_removed_is_held(
    first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        await restart_broker(world, c, 1)
        get = c.zookeeper.get

        async def get_late(path: str, *, watch: bool = False) -> Znode | None:
            znode = await get(path, watch=watch)
            if path == PREFERRED_REPLICA_ELECTION and znode is not None and znode.data == first:
                await world.write(SetData(PREFERRED_REPLICA_ELECTION, encode_partitions([tp("t-0")])))
            return znode

        monkeypatch.setattr(c.zookeeper, "get", get_late)
        await world.create(PREFERRED_REPLICA_ELECTION, first)
        await world.leads("t", leader=1)
        await until(lambda: is_gone(world, PREFERRED_REPLICA_ELECTION))
        await is_quiet(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-11")
@pytest.mark.parametrize("body", [GARBAGE, encode_partitions([tp("none-0")])])
@pytest.mark.parametrize("repair", [delete_and_create, overwrite])
def test_an_election_that_may_not_be_deleted_is_not_held_without_a_pause(body: bytes, repair: Repair) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        await restart_broker(world, c, 1)
        refused = RefusingFenced(c, PREFERRED_REPLICA_ELECTION, ZkError.NO_AUTH)
        await world.create(PREFERRED_REPLICA_ELECTION, body)
        await quiesce(RESUMPTION_PAUSE_S - 2)
        assert refused.attempts == 1
        refused.is_over = True
        await repair(world, PREFERRED_REPLICA_ELECTION, encode_partitions([tp("t-0")]))
        await world.leads("t", leader=1)
        await until(lambda: is_gone(world, PREFERRED_REPLICA_ELECTION))
        await c.stop()

    run_virtually(main)
