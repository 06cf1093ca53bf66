"""What tools of Kafka before 2.8 do to a topic znode: they write it without the id, which they do not know."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from cluster.znodes.paths import topic_path
from cluster.zookeeper.port import Op, OpResult, SetData, Znode


class _ZooKeeper(Protocol):
    async def get(self, path: str) -> Znode | None: ...

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]: ...


def body_of_old_tool(partitions: Mapping[int, Sequence[int]], topic_id: str | None = None) -> bytes:
    """`topic_id`: as somebody writes it who knows of ids."""
    body = {
        "version": 2,
        "partitions": {str(partition): list(replicas) for partition, replicas in partitions.items()},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    return msgspec.json.encode(body if topic_id is None else body | {"version": 3, "topic_id": topic_id})


async def rewrite_as_old_tool(
    zookeeper: _ZooKeeper, topic: str, added: Mapping[int, Sequence[int]], topic_id: str | None = None
) -> bool:
    """As `kafka-topics.sh --zookeeper --alter --partitions` of 2.4.1: read the partitions, write them with those added,
    whatever the version. False if there is no such topic.
    """
    znode = await zookeeper.get(topic_path(topic))
    if znode is None:
        return False
    known = msgspec.json.decode(znode.data)["partitions"]
    partitions = {int(partition): replicas for partition, replicas in known.items()} | dict(added)
    await zookeeper.multi([SetData(topic_path(topic), body_of_old_tool(partitions, topic_id))])
    return True
