"""Random histories give the same answers on the real server and on the in-memory one, or simulations would be wrong."""

from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from cluster.zookeeper.port import Check, Create, Delete, Op, OpResult, SetData, Stat, ZooKeeper
from tests.contract.zookeeper_worlds import RealWorld, SimulatedWorld, World

PATHS = ("/a", "/a/b", "/a/b/c", "/a/d", "/e", "/e/f")


def random_operation(chance: Random) -> Op:
    path, version = chance.choice(PATHS), chance.choice((-1, 0, 0, 1, 2))
    match chance.choice(("create", "create", "create", "set", "set", "delete", "delete", "check")):
        case "create":
            sequential = chance.random() < 0.2
            return Create(path, chance.randbytes(3), ephemeral=chance.random() < 0.3, sequential=sequential)
        case "set":
            return SetData(path, chance.randbytes(3), version)
        case "delete":
            return Delete(path, version)
        case _:
            return Check(path, version)


def comparable(stat: Stat | None, clients: list[ZooKeeper]) -> tuple[object, ...] | None:
    """A stat without what differs between two servers: transaction ids, times, session ids."""
    if stat is None:
        return None
    owner = next((n for n, client in enumerate(clients) if client.session_id == stat.ephemeral_owner), None)
    return stat.version, owner, stat.num_children, stat.czxid == stat.mzxid


def outcome(result: OpResult, clients: list[ZooKeeper]) -> tuple[object, ...]:
    return result.error.name, result.path, comparable(result.stat, clients)


def history(world: World, seed: int) -> list[object]:
    """What two clients see of random transactions by both, with random watches of the first."""
    seen: list[object] = []

    async def test(world: World) -> None:
        chance = Random(seed)
        first, events = await world.client()
        second, _ = await world.client()
        clients = [first, second]
        for _ in range(60):
            for _ in range(chance.randrange(3)):
                await leave_a_watch(first, chance)
            client = chance.choice(clients)
            results = await client.multi([random_operation(chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))])
            seen.append([outcome(result, clients) for result in results])
            # Reading on the watching connection also waits for the events that are under way to it.
            znodes = await first.get_many(PATHS)
            seen.append([znode and (znode.data, comparable(znode.stat, clients)) for znode in znodes])
            seen.append(await first.children_many(["/", *PATHS]))
            seen.append(list(events.watches))
        await second.close()
        seen.append(await first.children_many(["/", *PATHS]))
        # The real server deletes the ephemeral nodes of a session in an order of its own.
        seen.append(sorted((path, kind.value) for path, kind in events.watches))

    world.run(test)
    return seen


def leave_a_watch(client: ZooKeeper, chance: Random) -> Coroutine[Any, Any, object]:
    path = chance.choice(PATHS)
    match chance.choice(("get", "exists", "children", "get_many")):
        case "get":
            return client.get(path, watch=True)
        case "exists":
            return client.exists(path, watch=True)
        case "children":
            return client.children(path, watch=True)
        case _:
            return client.get_many([path, chance.choice(PATHS)], watch=True)


@pytest.mark.real
@pytest.mark.parametrize("seed", range(12))
def test_both_servers_give_the_same_history(zookeeper: str, seed: int) -> None:
    real, simulated = history(RealWorld(zookeeper), seed), history(SimulatedWorld(), seed)
    for step, (ours, theirs) in enumerate(zip(simulated, real, strict=True)):
        assert ours == theirs, f"step {step}"
