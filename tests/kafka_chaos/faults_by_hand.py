"""Faults that people cause: znodes edited by hand, a topic deleted at a bad time, adoptions that cannot succeed."""

import asyncio
import json
from collections.abc import Callable
from typing import Final

from kazoo.client import KazooClient

from cluster.process.local_cluster import BROKER, CONTROLLER
from tests.kafka_chaos.faults import On, fault

_CONTROLLER: Final = "/controller"
_EPOCH: Final = "/controller_epoch"
_TOO_SHORT_S: Final = "10"
"""For an adoption without a candidate."""


async def _edit(on: On, edit: Callable[[KazooClient], object]) -> None:
    def connect_and_edit() -> None:
        with on.cluster.znodes() as zookeeper:
            edit(zookeeper)

    await asyncio.to_thread(connect_and_edit)


@fault("controller-by-hand")
async def controller_by_hand(on: On) -> None:
    """`/controller` names the other candidate, a broker or nobody; a leader dies right afterwards."""
    active = await on.controller()
    others = [member.id for member in on.cluster.members(CONTROLLER) if member.name != active]
    bodies = {f"id {id_}": json.dumps({"version": 1, "brokerid": id_, "timestamp": "0"}) for id_ in (*others, 1, 555)}
    what, body = on.random.choice([*bodies.items(), ("garbage", "{"), ("nothing", "")])
    on.choices.append(f"{_CONTROLLER}: {what}")
    await _edit(on, lambda zookeeper: zookeeper.set(_CONTROLLER, body.encode()))
    await on.kill([await on.leader()])


@fault("controller-epoch-by-hand")
async def controller_epoch_by_hand(on: On) -> None:
    """`/controller_epoch` is set back or forth or deleted; a leader dies right afterwards."""
    what = on.random.choice(["1", "+100", "-1", "deleted", "garbage"])
    on.choices.append(f"{_EPOCH}: {what}")

    def edit(zookeeper: KazooClient) -> None:
        now = int(zookeeper.get(_EPOCH)[0])
        values = {"1": b"1", "garbage": b"x", "+100": b"%d" % (now + 100), "-1": b"%d" % max(now - 1, 0)}
        if what == "deleted":
            zookeeper.delete(_EPOCH)
        else:
            zookeeper.set(_EPOCH, values[what])

    await _edit(on, edit)
    await on.kill([await on.leader()])


@fault("topic-id-lost")
async def topic_id_lost(on: On) -> None:
    """A tool before 2.8 rewrites the topic's znode, without the id; the controller and a leader die."""
    path = f"/brokers/topics/{on.topic}"

    def edit(zookeeper: KazooClient) -> None:
        body = json.loads(zookeeper.get(path)[0])
        del body["topic_id"]
        zookeeper.set(path, json.dumps({**body, "version": 2}).encode())

    if away := on.random.random() < 0.5:
        on.choices.append("while nobody of klamm rules")
        for member in on.cluster.members(CONTROLLER):
            on.cluster.pause(member.name)
        await on.wait(8, 9)
    await _edit(on, edit)
    if away:
        for member in on.cluster.members(CONTROLLER):
            on.cluster.resume(member.name)
    await on.kill([await on.controller(), await on.leader()])


@fault("topic-deleted-without-a-broker")
async def topic_deleted_without_a_broker(on: On) -> None:
    """A topic is deleted while one of its brokers is dead; its transactions and those of the round go on elsewhere."""
    topic = f"{on.topic}-deleted"
    assert (await on.klamm("topics", "create", topic, "--partitions", "3", "--replication-factor", "3")) == 0
    dead = on.random.choice(on.names(BROKER))
    on.choices.append(f"kill -9 {dead}")
    await asyncio.to_thread(on.cluster.kill, dead)
    await on.wait(0, 8)
    on.choices.append(f"deleted: {await on.klamm('topics', 'delete', topic, '--yes', '--timeout', '5')}")
    if on.random.random() < 0.5:
        await on.kill([await on.controller()], longest=2)
    on.start([dead])


@fault("adoption-refused")
async def adoption_refused(on: On) -> None:
    """A candidate whose listener no broker has is registered: the adoption is refused, and nothing has changed."""
    await on.cluster.leave()
    before = await on.view()
    async with on.cluster.unfit_candidate():
        assert (await on.cluster.command_of_operator("adopt", "--execute", "--timeout", "30")).returncode != 0
        after = await on.view()
    assert after.controller == before.controller, f"{after.controller} rules, and not {before.controller} as before"
    assert all(partition.leader_id >= 0 for partition in after.partitions)
    await on.cluster.adopt()


@fault("adoption-withdrawn")
async def adoption_withdrawn(on: On) -> None:
    """No candidate answers, or they die while they take over: the command gives the cluster back by itself."""
    await on.cluster.leave()
    names = on.names(CONTROLLER)
    is_killed = on.random.random() < 0.5
    on.choices.append("candidates are killed" if is_killed else "candidates are paused")
    if not is_killed:
        for name in names:
            on.cluster.pause(name)
    adopting = asyncio.create_task(on.cluster.command_of_operator("adopt", "--execute", "--timeout", _TOO_SHORT_S))
    if is_killed:
        await on.wait(0, 4)
        await asyncio.gather(*(asyncio.to_thread(on.cluster.kill, name) for name in names))
    done = await adopting
    on.choices.append(f"exit code {done.returncode}")
    again = on.cluster.start if is_killed else on.cluster.resume
    for name in names:
        again(name)
    await on.cluster.adopt()
