"""The controller candidates, as they are registered at this moment."""

from cluster.broker import ControllerId
from cluster.requests.cluster import DescribedController
from cluster.znodes.paths import CONTROLLERS_IDS, broker_of_name, controller_registration_path
from cluster.znodes.registrations import decode_controller_registration
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.port import ZooKeeper


async def registered_controllers(zookeeper: ZooKeeper) -> tuple[DescribedController, ...]:
    """Active or not, by id; a malformed registration is left out. Raises ZooKeeperError."""
    names = await zookeeper.children(CONTROLLERS_IDS) or ()
    # They share the number space of broker ids.
    ids = [ControllerId(number) for name in names if (number := broker_of_name(name)) is not None]
    znodes = await zookeeper.get_many([controller_registration_path(controller) for controller in ids])
    found = decode_each(ids, znodes, lambda id_, znode: decode_controller_registration(id_, znode.data).address)
    return tuple(DescribedController(controller, found[controller]) for controller in sorted(found))
