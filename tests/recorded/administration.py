"""What an administrator's tools write into ZooKeeper, byte for byte as a scenario asks for it."""

import base64
import random
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec

from cluster.zookeeper.port import ANY_VERSION, Create, Delete, Op, SetData, ZkError, ZooKeeper
from tests.recorded.scenario import (
    CreateTopic,
    DeleteTopic,
    GrowTopic,
    PreferredElection,
    Reassign,
    SetTopicConfig,
    WriteZnode,
    ZnodeWrite,
)

REASSIGN_PARTITIONS = "/admin/reassign_partitions"

Outcome = dict[str, Any]
"""Empty where ZooKeeper accepted the write, `{"error": kind}` where it refused."""

REFUSALS = {
    ZkError.NODE_EXISTS: "NodeExists",
    ZkError.NO_NODE: "NoNode",
    ZkError.BAD_VERSION: "BadVersion",
    ZkError.NOT_EMPTY: "NotEmpty",
}


async def write(zookeeper: ZooKeeper, step: ZnodeWrite, topic_ids: random.Random) -> Outcome:
    match step:
        case CreateTopic():
            return await _create_topic(zookeeper, step, topic_ids)
        case GrowTopic():
            return await _grow_topic(zookeeper, step)
        case DeleteTopic():
            return await commit(zookeeper, [Create(f"/admin/delete_topics/{step.topic}")])
        case Reassign():
            return await _reassign(zookeeper, step)
        case PreferredElection():
            rows = [{"topic": topic, "partition": partition} for topic, partition in step.partitions]
            body = _json({"version": 1, "partitions": rows})
            return await commit(zookeeper, [Create("/admin/preferred_replica_election", body)])
        case SetTopicConfig():
            return await _set_topic_config(zookeeper, step)
        case _:
            assert_never(step)


async def commit(zookeeper: ZooKeeper, ops: Sequence[Op]) -> Outcome:
    for result in await zookeeper.multi(ops):
        if result.error not in {ZkError.OK, ZkError.RUNTIME_INCONSISTENCY}:
            return {"error": REFUSALS.get(result.error, result.error.name)}
    return {}


async def _create_topic(zookeeper: ZooKeeper, step: CreateTopic, topic_ids: random.Random) -> Outcome:
    await _put(zookeeper, f"/config/topics/{step.topic}", {"version": 1, "config": step.config})
    body = {
        "version": 3,
        "topic_id": _topic_id(topic_ids),
        "partitions": step.assignment,
        "adding_replicas": {},
        "removing_replicas": {},
    }
    return await commit(zookeeper, [Create(f"/brokers/topics/{step.topic}", _json(body))])


async def _grow_topic(zookeeper: ZooKeeper, step: GrowTopic) -> Outcome:
    path = f"/brokers/topics/{step.topic}"
    znode = await zookeeper.get(path)
    assert znode is not None, f"{path} does not exist"
    body = msgspec.json.decode(znode.data)
    body["partitions"].update(step.assignment)
    return await commit(zookeeper, [SetData(path, _json(body), znode.stat.version)])


async def _reassign(zookeeper: ZooKeeper, step: Reassign) -> Outcome:
    rows = [{"topic": t, "partition": p, "replicas": replicas} for t, p, replicas in step.moves]
    body = _json({"version": 1, "partitions": rows})
    if step.mode == "set":
        return await commit(zookeeper, [SetData(REASSIGN_PARTITIONS, body)])
    if step.mode == "recreate":
        await commit(zookeeper, [Delete(REASSIGN_PARTITIONS)])
    return await commit(zookeeper, [Create(REASSIGN_PARTITIONS, body)])


async def _set_topic_config(zookeeper: ZooKeeper, step: SetTopicConfig) -> Outcome:
    await _put(zookeeper, f"/config/topics/{step.topic}", {"version": 1, "config": step.config})
    if not step.notify:
        return {}
    change = _json({"version": 2, "entity_path": f"topics/{step.topic}"})
    return await commit(zookeeper, [Create("/config/changes/config_change_", change, sequential=True)])


async def write_by_hand(zookeeper: ZooKeeper, step: WriteZnode) -> Outcome:
    """What somebody does to a node who uses no tool for it."""
    match step.op:
        case "create":
            data = step.data.encode() if isinstance(step.data, str) else _json(step.data)
            return await commit(zookeeper, [Create(step.path, data, sequential=step.sequential)])
        case "merge":
            znode = await zookeeper.get(step.path)
            assert znode is not None, f"{step.path} does not exist"
            body = msgspec.json.decode(znode.data) | step.data
            kept = {key: value for key, value in body.items() if value is not None}
            return await commit(zookeeper, [SetData(step.path, _json(kept), znode.stat.version)])
        case "delete":
            return await commit(zookeeper, [Delete(step.path)])
        case _:
            raise AssertionError(f"{step.op} is nothing that can be done to a node")


async def _put(zookeeper: ZooKeeper, path: str, body: Mapping[str, Any]) -> None:
    if await commit(zookeeper, [Create(path, _json(body))]):
        await commit(zookeeper, [SetData(path, _json(body), ANY_VERSION)])


def _topic_id(source: random.Random) -> str:
    """22 characters that do not begin with a dash, which a tool would take for an option."""
    text = base64.urlsafe_b64encode(source.randbytes(16)).decode().rstrip("=")
    return _topic_id(source) if text.startswith("-") else text


def _json(body: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(body)
