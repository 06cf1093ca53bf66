"""What ZooKeeper holds, as one flat set of comparable values.

Fields are those of the golden traces: `brokers`, `controller.epoch_delta`, `partitions.t-0.leader`, ... Bodies are
read as plain JSON, not with the project's own codecs, which are among what is being tested.
"""

from collections.abc import Set
from typing import Any

import msgspec

from cluster.model.partition import TopicPartition
from cluster.zookeeper.port import Znode, ZooKeeper

Snapshot = dict[str, Any]


async def controller_epoch(zookeeper: ZooKeeper) -> int:
    znode = await zookeeper.get("/controller_epoch")
    return 0 if znode is None else int(znode.data)


async def active_controller(zookeeper: ZooKeeper) -> int | None:
    body = _json(await zookeeper.get("/controller"))
    return None if body is None else int(body["brokerid"])


async def leader_of(zookeeper: ZooKeeper, topic: str, partition: int) -> int | None:
    """Who leads; None where nobody does."""
    body = _json(await zookeeper.get(f"/brokers/topics/{topic}/partitions/{partition}/state"))
    return None if body is None or body["leader"] < 0 else int(body["leader"])


async def take_snapshot(zookeeper: ZooKeeper, controllers: Set[int], epoch_base: int) -> Snapshot:
    """Everything that two implementations must agree on; `epoch_base` is the controller epoch at the start.

    The reads are not one snapshot: a picture means something once two in a row are equal.
    """
    brokers = [b for b in sorted(map(int, await _children(zookeeper, "/brokers/ids"))) if b not in controllers]
    registrations = await zookeeper.get_many([f"/brokers/ids/{b}" for b in brokers])
    racks = {str(b): (_json(znode) or {}).get("rack") for b, znode in zip(brokers, registrations, strict=True)}
    snapshot: Snapshot = {
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
    snapshot["topic_configs"] = {
        topic: (_json(znode) or {}).get("config", {}) for topic, znode in zip(configured, bodies, strict=True)
    }
    await _add_topics(zookeeper, snapshot, epoch_base)
    return snapshot


async def _add_topics(zookeeper: ZooKeeper, snapshot: Snapshot, epoch_base: int) -> None:
    topics = await _children(zookeeper, "/brokers/topics")
    znodes = await zookeeper.get_many([f"/brokers/topics/{topic}" for topic in topics])
    rows: dict[TopicPartition, Snapshot] = {}
    for topic, znode in zip(topics, znodes, strict=True):
        body = _json(znode)
        for number, replicas in (body or {"partitions": {}})["partitions"].items():
            rows[TopicPartition(topic, int(number))] = {
                "replicas": replicas,
                "adding": body.get("adding_replicas", {}).get(number, []),
                "removing": body.get("removing_replicas", {}).get(number, []),
            }
    paths = [f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state" for tp in rows]
    for (tp, row), znode in zip(rows.items(), await zookeeper.get_many(paths), strict=True):
        row.update(_state(znode, epoch_base))
        snapshot.update({f"partitions.{tp}.{field}": value for field, value in row.items()})
    snapshot["topics"] = topics
    snapshot["partition_list"] = sorted(map(str, rows))


def _state(znode: Znode | None, epoch_base: int) -> Snapshot:
    if znode is None:
        return {"state": "absent"}
    body = msgspec.json.decode(znode.data)
    return {
        "state": "present",
        "leader": body["leader"],
        "leader_epoch": body["leader_epoch"],
        "isr": sorted(body["isr"]),
        "isr_order": body["isr"],
        "version": znode.stat.version,
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


def _json(znode: Znode | None) -> Any:
    """None where the node is absent or has no content."""
    return None if znode is None or not znode.data else msgspec.json.decode(znode.data)
