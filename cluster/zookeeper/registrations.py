"""Reads the current registrations of brokers and of controller candidates."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from cluster.model.broker import NO_CONTROLLER, Broker, BrokerEpoch, BrokerId, ControllerId, Endpoint, RegisteredBroker
from cluster.model.errors import MalformedZnodeError
from cluster.requests.cluster import DescribedController
from cluster.znodes.candidates import decode_profile
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

_T = TypeVar("_T")
_NOBODY: Final = 0
"""The owner of a znode that outlives every session."""


async def registered_brokers(zookeeper: ZooKeeper) -> list[RegisteredBroker]:
    """Read all registered brokers, sorted by id; malformed registrations are skipped. Raises ZooKeeperError."""
    names = await zookeeper.children(BROKERS_IDS) or ()
    ids = sorted(broker for name in names if (broker := broker_of_name(name)) is not None)
    znodes = await zookeeper.get_many([broker_path(broker) for broker in ids])
    return list(decode_each(ids, znodes, decode_registration).values())


def decode_registration(broker: BrokerId, znode: Znode) -> RegisteredBroker:
    """Decode a registration; the broker epoch is the znode's czxid. Raises MalformedZnodeError."""
    return RegisteredBroker(decode_broker(broker, znode.data), BrokerEpoch(znode.stat.czxid))


async def ids_of_brokers(zookeeper: ZooKeeper, candidates: Iterable[BrokerId]) -> frozenset[BrokerId]:
    """The ids among those of candidates under which a broker is registered, too: in a session of its own.

    A candidate that registers as a broker, for brokers before Kafka 3.0 to find it, does so in its own session. What
    is malformed, or outlives every session, is no broker. Raises ZooKeeperError.
    """
    ids = sorted(candidates)
    paths = [path for id_ in ids for path in (broker_path(id_), controller_registration_path(ControllerId(id_)))]
    znodes = await zookeeper.get_many(paths)
    owners = [_NOBODY if znode is None else znode.stat.ephemeral_owner for znode in znodes]
    sound = decode_each(ids, znodes[::2], decode_registration)
    pairs = zip(ids, owners[::2], owners[1::2], strict=True)
    return frozenset(id_ for id_, owner, candidate in pairs if id_ in sound and owner not in {_NOBODY, candidate})


async def registered_controllers(zookeeper: ZooKeeper) -> tuple[DescribedController, ...]:
    """Active or not, by id; a malformed registration is left out. Raises ZooKeeperError."""
    found = await _registered_candidates(zookeeper, _described)
    return tuple(found[controller] for controller in sorted(found))


async def registered_endpoints(zookeeper: ZooKeeper) -> list[tuple[Endpoint, ...]]:
    """The endpoints of each registered process. Raises ZooKeeperError."""
    brokers = [registered.broker.endpoints for registered in await registered_brokers(zookeeper)]
    candidates = await _registered_candidates(zookeeper, _endpoints)
    return [*brokers, *candidates.values()]


async def _registered_candidates(
    zookeeper: ZooKeeper, decode: Callable[[ControllerId, Znode], _T]
) -> dict[ControllerId, _T]:
    return decode_each(*await _controller_registrations(zookeeper), decode)


def _endpoints(controller: ControllerId, znode: Znode) -> tuple[Endpoint, ...]:
    return decode_controller_registration(controller, znode.data)


def _described(controller: ControllerId, znode: Znode) -> DescribedController:
    address = _endpoints(controller, znode)[0].address
    return DescribedController(controller, address, why_unfit(controller, znode))


def why_unfit(controller: ControllerId, registration: Znode) -> str:
    """Say why a candidate does not stand for election, by its registration; empty if it does."""
    try:
        profile = decode_profile(controller, registration.data)
    except MalformedZnodeError:
        # A finding of its own. The process is there all the same.
        return ""
    return "" if profile is None else profile.unfit


async def controller_addresses(zookeeper: ZooKeeper) -> frozenset[str]:
    """The addresses of all listeners of the registered controllers, Kafka listeners included. Raises ZooKeeperError."""
    registrations = await _controller_registrations(zookeeper)
    own = decode_each(*registrations, _endpoints)
    profiles = decode_each(*registrations, lambda id_, znode: decode_profile(id_, znode.data))
    of_kafka = [listener for profile in profiles.values() if profile is not None for listener in profile.listeners]
    named = {Endpoint(listener.host, listener.port).address for listener in of_kafka}
    return frozenset({endpoint.address for endpoints in own.values() for endpoint in endpoints} | named)


async def kafka_controllers(zookeeper: ZooKeeper) -> list[Broker]:
    """Read the Kafka listeners of all registered controllers, as brokers are told of them. Raises ZooKeeperError."""
    profiles = await _registered_candidates(zookeeper, lambda id_, znode: decode_profile(id_, znode.data))
    return [
        Broker(
            BrokerId(id_),
            tuple(Endpoint(one.host, one.port, one.name, one.security_protocol) for one in profile.listeners),
        )
        for id_, profile in profiles.items()
        if profile is not None
    ]


async def _controller_registrations(zookeeper: ZooKeeper) -> tuple[list[ControllerId], Sequence[Znode | None]]:
    names = await zookeeper.children(CONTROLLERS_IDS) or ()
    # They share the number space of broker ids.
    ids = [ControllerId(number) for name in names if (number := broker_of_name(name)) is not None]
    return ids, await zookeeper.get_many([controller_registration_path(controller) for controller in ids])


async def active_controller(zookeeper: ZooKeeper, *, watch: bool = False) -> tuple[ControllerId, tuple[Endpoint, ...]]:
    """Id and endpoints of the active controller, (-1, ()) if there is none; no endpoints if it is not registered.

    `watch`: arm watches on both znodes. Raises ZooKeeperError.
    """
    znode = await zookeeper.get(CONTROLLER, watch=watch)
    controller = None if znode is None else decode_controller(znode.data)
    if controller is None:
        return NO_CONTROLLER, ()
    registration = await zookeeper.get(controller_registration_path(controller), watch=watch)
    found = decode_each([controller], [registration], _endpoints)
    return controller, found.get(controller, ())
