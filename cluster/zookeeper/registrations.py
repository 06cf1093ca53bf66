"""Reads the current registrations of brokers and of controller candidates."""

from cluster.broker import NO_CONTROLLER, BrokerEpoch, BrokerId, ControllerId, Endpoint, RegisteredBroker
from cluster.requests.cluster import DescribedController
from cluster.znodes.controller import decode_controller
from cluster.znodes.paths import (
    BROKERS_IDS,
    CONTROLLER,
    CONTROLLERS_IDS,
    broker_of_name,
    broker_path,
    controller_registration_path,
)
from cluster.znodes.registrations import decode_broker, decode_controller_registration
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.port import Znode, ZooKeeper


async def registered_brokers(zookeeper: ZooKeeper) -> list[RegisteredBroker]:
    """All registered brokers, sorted by id; malformed registrations are skipped. Raises ZooKeeperError."""
    names = await zookeeper.children(BROKERS_IDS) or ()
    ids = sorted(broker for name in names if (broker := broker_of_name(name)) is not None)
    znodes = await zookeeper.get_many([broker_path(broker) for broker in ids])
    return list(decode_each(ids, znodes, decode_registration).values())


def decode_registration(broker: BrokerId, znode: Znode) -> RegisteredBroker:
    """Decode a registration; the broker epoch is the znode's czxid. Raises MalformedZnodeError."""
    return RegisteredBroker(decode_broker(broker, znode.data), BrokerEpoch(znode.stat.czxid))


async def registered_controllers(zookeeper: ZooKeeper) -> tuple[DescribedController, ...]:
    """Active or not, by id; a malformed registration is left out. Raises ZooKeeperError."""
    found = await _controller_endpoints(zookeeper)
    return tuple(DescribedController(controller, found[controller][0].address) for controller in sorted(found))


async def registered_endpoints(zookeeper: ZooKeeper) -> list[tuple[Endpoint, ...]]:
    """The endpoints of each registered process. Raises ZooKeeperError."""
    brokers = [registered.broker.endpoints for registered in await registered_brokers(zookeeper)]
    return [*brokers, *(await _controller_endpoints(zookeeper)).values()]


async def _controller_endpoints(zookeeper: ZooKeeper) -> dict[ControllerId, tuple[Endpoint, ...]]:
    names = await zookeeper.children(CONTROLLERS_IDS) or ()
    # They share the number space of broker ids.
    ids = [ControllerId(number) for name in names if (number := broker_of_name(name)) is not None]
    znodes = await zookeeper.get_many([controller_registration_path(controller) for controller in ids])
    return decode_each(ids, znodes, lambda id_, znode: decode_controller_registration(id_, znode.data))


async def active_controller(zookeeper: ZooKeeper, *, watch: bool = False) -> tuple[ControllerId, tuple[Endpoint, ...]]:
    """Id and endpoints of the active controller, (-1, ()) if there is none; no endpoints if it is not registered.

    `watch`: arm watches on both znodes. Raises ZooKeeperError.
    """
    znode = await zookeeper.get(CONTROLLER, watch=watch)
    controller = None if znode is None else decode_controller(znode.data)
    if controller is None:
        return NO_CONTROLLER, ()
    registration = await zookeeper.get(controller_registration_path(controller), watch=watch)
    found = decode_each(
        [controller], [registration], lambda id_, znode: decode_controller_registration(id_, znode.data)
    )
    return controller, found.get(controller, ())
