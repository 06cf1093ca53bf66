"""The brokers, as they are registered at this moment."""

from cluster.broker import BrokerEpoch, BrokerId, RegisteredBroker
from cluster.znodes.paths import BROKERS_IDS, broker_of_name, broker_path
from cluster.znodes.registrations import decode_broker
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.port import Znode, ZooKeeper


async def registered_brokers(zookeeper: ZooKeeper) -> list[RegisteredBroker]:
    """By id; malformed registrations are left out. Raises ZooKeeperError."""
    names = await zookeeper.children(BROKERS_IDS) or ()
    ids = sorted(broker for name in names if (broker := broker_of_name(name)) is not None)
    znodes = await zookeeper.get_many([broker_path(broker) for broker in ids])
    return list(decode_each(ids, znodes, decode_registration).values())


def decode_registration(broker: BrokerId, znode: Znode) -> RegisteredBroker:
    """The broker and, from its node's czxid, its epoch. Raises MalformedZnodeError."""
    return RegisteredBroker(decode_broker(broker, znode.data), BrokerEpoch(znode.stat.czxid))
