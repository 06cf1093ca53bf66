"""What ZooKeeper holds, as one flat set of comparable values.

Fields are those of the golden traces: `brokers`, `controller.epoch_delta`, `partitions.t-0.leader`, ... Bodies are
read as plain JSON, not with the project's own codecs, which are among what is being tested.
"""

from collections.abc import Set
from typing import Any

import msgspec

from cluster.partition import TopicPartition
from cluster.zookeeper.port import Node, ZooKeeper

Picture = dict[str, Any]


async def controller_epoch(zookeeper: ZooKeeper) -> int:
    node = await zookeeper.get("/controller_epoch")
    return 0 if node is None else int(node.data)


async def active_controller(zookeeper: ZooKeeper) -> int | None:
    body = _json(await zookeeper.get("/controller"))
    return None if body is None else int(body["brokerid"])


async def leader_of(zookeeper: ZooKeeper, topic: str, partition: int) -> int | None:
    """Who leads; None where nobody does."""
    body = _json(await zookeeper.get(f"/brokers/topics/{topic}/partitions/{partition}/state"))
    return None if body is None or body["leader"] < 0 else int(body["leader"])


async def take_picture(zookeeper: ZooKeeper, controllers: Set[int], epoch_base: int) -> Picture:
    """Everything that two implementations must agree on; `epoch_base` is the controller epoch at the start.

    The reads are not one snapshot: a picture means something once two in a row are equal.
    """
    brokers = [b for b in sorted(map(int, await _children(zookeeper, "/brokers/ids"))) if b not in controllers]
    registrations = await zookeeper.get_many([f"/brokers/ids/{b}" for b in brokers])
    racks = {str(b): (_json(node) or {}).get("rack") for b, node in zip(brokers, registrations, strict=True)}
    picture: Picture = {
        "brokers": brokers,
        "racks": {broker: rack for broker, rack in racks.items() if rack},
        "controller.present": await active_controller(zookeeper) is not None,
        "controller.epoch_delta": await controller_epoch(zookeeper) - epoch_base,
        "admin.delete_topics": await _children(zookeeper, "/admin/delete_topics"),
        "admin.reassign_partitions": await _request(zookeeper, "/admin/reassign_partitions"),
        "admin.preferred_replica_election": await _request(zookeeper, "/admin/preferred_replica_election"),
    }
    configured = await _children(zookeeper, "/config/topics")
    bodies = await zookeeper.get_many([f"/config/topics/{topic}" for topic in configured])
    picture["topic_configs"] = {
        topic: (_json(node) or {}).get("config", {}) for topic, node in zip(configured, bodies, strict=True)
    }
    await _add_topics(zookeeper, picture, epoch_base)
    return picture


async def _add_topics(zookeeper: ZooKeeper, picture: Picture, epoch_base: int) -> None:
    topics = await _children(zookeeper, "/brokers/topics")
    nodes = await zookeeper.get_many([f"/brokers/topics/{topic}" for topic in topics])
    rows: dict[TopicPartition, Picture] = {}
    for topic, node in zip(topics, nodes, strict=True):
        body = _json(node)
        for number, replicas in (body or {"partitions": {}})["partitions"].items():
            rows[TopicPartition(topic, int(number))] = {
                "replicas": replicas,
                "adding": body.get("adding_replicas", {}).get(number, []),
                "removing": body.get("removing_replicas", {}).get(number, []),
            }
    paths = [f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state" for tp in rows]
    for (tp, row), node in zip(rows.items(), await zookeeper.get_many(paths), strict=True):
        row.update(_state(node, epoch_base))
        picture.update({f"partitions.{tp}.{field}": value for field, value in row.items()})
    picture["topics"] = topics
    picture["partition_list"] = sorted(map(str, rows))


def _state(node: Node | None, epoch_base: int) -> Picture:
    if node is None:
        return {"state": "absent"}
    body = msgspec.json.decode(node.data)
    return {
        "state": "present",
        "leader": body["leader"],
        "leader_epoch": body["leader_epoch"],
        "isr": sorted(body["isr"]),
        "isr_order": body["isr"],
        "version": node.stat.version,
        "recovering": bool(body.get("leader_recovery_state", 0)),
        "controller_epoch_delta": body["controller_epoch"] - epoch_base,
    }


async def _request(zookeeper: ZooKeeper, path: str) -> list[list[Any]] | None:
    """The rows of an administrative request that is still there; None without the node."""
    body = _json(await zookeeper.get(path))
    if body is None:
        return None
    return sorted(
        [row["topic"], row["partition"], *([row["replicas"]] if "replicas" in row else [])]
        for row in body["partitions"]
    )


async def _children(zookeeper: ZooKeeper, path: str) -> list[str]:
    names = await zookeeper.children(path)
    return [] if names is None else sorted(names)


def _json(node: Node | None) -> Any:
    """None where the node is absent or has no content."""
    return None if node is None or not node.data else msgspec.json.decode(node.data)
