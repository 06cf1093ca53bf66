"""The candidates for the controller's office, as they are registered at this moment."""

from cluster.broker import ControllerId
from cluster.errors import MalformedZnodeError
from cluster.requests import DescribedController
from cluster.znodes import (
    CONTROLLERS_IDS,
    broker_of_name,
    controller_registration_path,
    decode_controller_registration,
)
from cluster.zookeeper.port import ZooKeeper


async def registered_controllers(zookeeper: ZooKeeper) -> tuple[DescribedController, ...]:
    """In office or not, by id; a malformed registration is passed over. Raises ZooKeeperError."""
    names = await zookeeper.children(CONTROLLERS_IDS) or ()
    # They share the number space of broker ids.
    ids = [ControllerId(number) for name in names if (number := broker_of_name(name)) is not None]
    nodes = await zookeeper.get_many([controller_registration_path(controller) for controller in ids])
    found = []
    for controller, node in zip(ids, nodes, strict=True):
        try:
            if node is not None:
                address = decode_controller_registration(controller, node.data).address
                found.append(DescribedController(controller, address))
        except MalformedZnodeError:
            continue
    return tuple(sorted(found, key=lambda registered: registered.id))
