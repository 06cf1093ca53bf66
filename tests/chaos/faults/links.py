"""Faults of the network: cuts, one way or both, loss, resets, delay, narrow links."""

import asyncio
from collections.abc import Iterable

from cluster.process.local_cluster import ZOOKEEPER
from tests.chaos.cluster import BROKERS, CONTROLLERS, SESSION_S
from tests.chaos.faults.processes import kill_for
from tests.chaos.faults.registry import Round, fault
from tests.chaos.isolation import Capability
from tests.chaos.network import CUT, both_ways, one_way
from tests.chaos.switch import CLIENTS, Link

_ALL = (*BROKERS, *CONTROLLERS, ZOOKEEPER)
_LONG = (SESSION_S + 2, SESSION_S + 7)
NETWORK = Capability.NETWORK


async def fail(
    on: Round, what: str, links: Iterable[tuple[str, str]], link: Link = CUT, lasts: tuple[float, float] = _LONG
) -> None:
    on.say(what)
    with on.failing(links, link):
        await on.pause_for(*lasts)


@fault("isolate-leader", NETWORK, mixes=True)
async def isolate_leader(on: Round) -> None:
    """A leader that only its producers reach may acknowledge nothing."""
    leader = await on.leader(on.partition())
    await fail(on, f"only clients reach {leader}", both_ways([leader], _ALL))


@fault("cut-leader-from-followers", NETWORK, mixes=True)
async def cut_leader_from_followers(on: Round) -> None:
    leader, *followers = await on.replicas(on.partition())
    await fail(on, f"{leader} cut from {followers}", both_ways([leader], followers))


@fault("cut-leader-from-zookeeper", NETWORK, mixes=True)
async def cut_leader_from_zookeeper(on: Round) -> None:
    leader = await on.leader(on.partition())
    await fail(on, f"{leader} cut from ZooKeeper", both_ways([leader], [ZOOKEEPER]))


@fault("cut-leader-from-controllers", NETWORK, mixes=True)
async def cut_leader_from_controllers(on: Round) -> None:
    leader = await on.leader(on.partition())
    await fail(on, f"{leader} cut from the controllers", both_ways([leader], CONTROLLERS))


@fault("cut-leader-from-clients", NETWORK, mixes=True)
async def cut_leader_from_clients(on: Round) -> None:
    """The cluster is well, and its clients do not see it so."""
    leader = await on.leader(on.partition())
    await fail(on, f"{leader} cut from clients", both_ways([leader], [CLIENTS]), lasts=(3, 7))


@fault("one-way-leader", NETWORK, mixes=True)
async def one_way_leader(on: Round) -> None:
    """One direction between the leader and ZooKeeper, its followers, controllers or clients."""
    leader, *followers = await on.replicas(on.partition())
    others = on.random.choice([[ZOOKEEPER], followers, list(CONTROLLERS), [CLIENTS]])
    if on.random.random() < 0.5:
        await fail(on, f"nothing passes from {leader} to {others}", one_way([leader], others))
    else:
        await fail(on, f"nothing passes from {others} to {leader}", one_way(others, [leader]))


@fault("cut-controller-from-zookeeper", NETWORK, mixes=True)
async def cut_controller_from_zookeeper(on: Round) -> None:
    """The controller that was active must stop before its successor begins; a leader dies meanwhile."""
    controller, leader = await on.controller(), await on.leader(on.partition())
    on.say(f"{controller} cut from ZooKeeper")
    with on.failing(both_ways([controller], [ZOOKEEPER]), CUT):
        await on.pause_for(0, SESSION_S)
        await kill_for(on, [leader], 1, SESSION_S)


@fault("cut-controller-from-brokers", NETWORK, mixes=True)
async def cut_controller_from_brokers(on: Round) -> None:
    controller = await on.controller()
    await fail(on, f"{controller} cut from the brokers", both_ways([controller], BROKERS))


@fault("one-way-controller", NETWORK, mixes=True)
async def one_way_controller(on: Round) -> None:
    controller = await on.controller()
    others = on.random.choice([[ZOOKEEPER], list(BROKERS)])
    if on.random.random() < 0.5:
        await fail(on, f"nothing passes from {controller} to {others}", one_way([controller], others))
    else:
        await fail(on, f"nothing passes from {others} to {controller}", one_way(others, [controller]))


@fault("halves", NETWORK)
async def halves(on: Round) -> None:
    """Two brokers and some controllers on either side; ZooKeeper on one, or seen by both."""
    left = [*on.random.sample(BROKERS, 2), *on.random.sample(CONTROLLERS, on.random.randrange(1, 3))]
    right = [name for name in (*BROKERS, *CONTROLLERS) if name not in left]
    shared = on.random.random() < 0.5
    on.say(f"ZooKeeper is {'seen by both' if shared else 'on the right'}")
    await fail(on, f"{left} cut from {right}", both_ways(left, right if shared else [*right, ZOOKEEPER]))


@fault("loss", NETWORK, mixes=True)
async def loss(on: Round) -> None:
    drop = on.random.uniform(0.05, 0.2)
    hosts = (*_ALL, CLIENTS)
    await fail(on, f"{drop:.0%} of all packets lost", one_way(hosts, hosts), Link(drop=drop), (8, 12))


@fault("resets", NETWORK, mixes=True)
async def resets(on: Round) -> None:
    hosts = (*_ALL, CLIENTS)
    await fail(on, "connections reset", one_way(hosts, hosts), Link(reset=0.01), (6, 10))


@fault("flapping", NETWORK, mixes=True)
async def flapping(on: Round) -> None:
    """A network that comes and goes, for one broker or for all."""
    hosts = [on.broker()] if on.random.random() < 0.5 else list(BROKERS)
    for _ in range(on.random.randrange(4, 9)):
        await fail(on, f"{hosts} cut from all", both_ways(hosts, _ALL), lasts=(0.2, 2.5))
        await on.pause_for(0.2, 1.5)


@fault("delay", NETWORK, mixes=True)
async def delay(on: Round) -> None:
    """Slow, and slower one way than the other."""
    broker, hosts = on.broker(), (*_ALL, CLIENTS)
    milliseconds = on.random.uniform(50, 400)
    to, from_ = one_way(hosts, [broker]), one_way([broker], hosts)
    with on.failing(to, Link(delay_ms=milliseconds / 4)):
        await fail(on, f"{milliseconds:.0f} ms from {broker}", from_, Link(delay_ms=milliseconds), (8, 12))


@fault("jitter", NETWORK, mixes=True)
async def jitter(on: Round) -> None:
    """Packets overtake one another, everywhere."""
    hosts = (*_ALL, CLIENTS)
    milliseconds = on.random.uniform(20, 150)
    link = Link(jitter_ms=milliseconds)
    await fail(on, f"up to {milliseconds:.0f} ms, packets overtake one another", one_way(hosts, hosts), link, (6, 10))


@fault("throttle", NETWORK, mixes=True)
async def throttle(on: Round) -> None:
    """A leader behind a link too narrow for its followers."""
    leader = await on.leader(on.partition())
    rate = on.random.uniform(2_000, 20_000)
    others = [name for name in _ALL if name != leader]
    await fail(on, f"{rate:.0f} bytes/s from {leader}", one_way([leader], others), Link(rate=rate), (8, 12))


@fault("cut-and-zookeeper-down", NETWORK)
async def cut_and_zookeeper_down(on: Round) -> None:
    leader, *followers = await on.replicas(on.partition())
    await asyncio.gather(
        fail(on.part("cut"), f"{leader} cut from {followers}", both_ways([leader], followers)),
        kill_for(on.part("kill"), [ZOOKEEPER], 3, SESSION_S + 3),
    )
