"""The controller candidates, as they are registered at this moment."""

from cluster.broker import ControllerId
from cluster.errors import MalformedZnodeError
from cluster.requests.cluster import DescribedController
from cluster.znodes.paths import CONTROLLERS_IDS, broker_of_name, controller_registration_path
from cluster.znodes.registrations import decode_controller_registration
from cluster.zookeeper.port import ZooKeeper


async def registered_controllers(zookeeper: ZooKeeper) -> tuple[DescribedController, ...]:
    """Active or not, by id; a malformed registration is passed over. Raises ZooKeeperError."""
    names = await zookeeper.children(CONTROLLERS_IDS) or ()
    # They share the number space of broker ids.
    ids = [ControllerId(number) for name in names if (number := broker_of_name(name)) is not None]
    znodes = await zookeeper.get_many([controller_registration_path(controller) for controller in ids])
    found = []
    for controller, znode in zip(ids, znodes, strict=True):
        try:
            if znode is not None:
                address = decode_controller_registration(controller, znode.data).address
                found.append(DescribedController(controller, address))
        except MalformedZnodeError:
            continue
    return tuple(sorted(found, key=lambda registered: registered.id))
