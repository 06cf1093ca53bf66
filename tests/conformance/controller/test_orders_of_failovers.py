"""Failovers end the same, whether they elect first or shrink ISRs first, and whether they read or have followed."""

from random import Random

import pytest

from cluster.model.broker import BrokerId, ControllerEpoch, ControllerId, LeaderEpoch, PartitionEpoch
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.requests.cluster import DescribeFindingsRequest
from cluster.requests.control import LeaderAndIsrRequest
from cluster.znodes.configs import encode_config
from cluster.znodes.controller import encode_controller, encode_controller_epoch
from cluster.znodes.paths import (
    BROKERS_IDS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    delete_topic_path,
    state_path,
    topic_config_path,
    topic_path,
)
from cluster.znodes.topics import encode_state, encode_topic
from cluster.zookeeper.port import Create, SetData
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

BROKERS = range(1, 7)
PARTITIONS = 6
TOPICS = ("plain", "unclean", "malformed", "moving", "deleted")
End = dict[str, tuple[int, frozenset[int]] | None]


async def left_by_the_last_controller(random: Random) -> World:
    """Topics in which anything may be wrong: leaders that died, ISRs without anybody, moves, an ongoing deletion."""
    world = await World().start()
    await world.create(BROKERS_IDS)
    alive = random.sample(BROKERS, random.randint(2, 5))
    # One of them has not yet said which of its replicas are damaged, so that it does not count as alive.
    await world.start_broker(*alive[1:])
    await world.start_broker(alive[0], damaged=random.random() < 0.5)
    await world.create(CONTROLLER_EPOCH, encode_controller_epoch(ControllerEpoch(4)))
    for topic in TOPICS:
        assignments = {partition: assignment(random, topic) for partition in range(PARTITIONS)}
        await world.create(topic_path(topic), encode_topic(TopicAssignment(assignments)))
        for partition, assigned in assignments.items():
            if random.random() < 0.9:
                await world.create(state_path(TopicPartition(topic, partition)), state(random, assigned))
    await world.create(topic_config_path("unclean"), encode_config({"unclean.leader.election.enable": "true"}))
    await world.create(topic_config_path("malformed"), b"{")
    await world.create(delete_topic_path("deleted"))
    return world


def assignment(random: Random, topic: str) -> ReplicaAssignment:
    replicas = tuple(map(BrokerId, random.sample(BROKERS, 3)))
    if topic != "moving" or random.random() < 0.5:
        return ReplicaAssignment(replicas)
    return ReplicaAssignment(replicas, adding=replicas[:1], removing=replicas[-1:])


def state(random: Random, assigned: ReplicaAssignment) -> bytes:
    isr = tuple(random.sample(assigned.replicas, random.randint(1, 3)))
    leader = BrokerId(-1) if random.random() < 0.2 else random.choice(isr)
    return encode_state(LeaderAndIsr(leader, LeaderEpoch(3), isr, ControllerEpoch(4), PartitionEpoch(0)))


async def end(seed: int, *, elect_first: bool) -> End:
    world = await left_by_the_last_controller(Random(seed))
    controller = world.start_controller(klamm_failover_elect_first=elect_first)
    await until(lambda: controller.is_active)
    await quiesce(5)
    found: End = {}
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            last = await world.state(topic, partition)
            found[f"{topic}-{partition}"] = None if last is None else (last.leader, frozenset(last.isr))
            if last is not None and last.leader > 0 and topic != "deleted":
                assert epoch_sent_to(controller, last.leader, topic, partition) == last.leader_epoch
    await controller.stop()
    return found


def epoch_sent_to(controller: RunningController, broker: int, topic: str, partition: int) -> int | None:
    """The leader epoch under which the broker was last told to lead."""
    states = (
        state
        for request in controller.brokers.of(broker, LeaderAndIsrRequest)
        for about in request.topic_states
        for state in about.partition_states
        if about.topic_name == topic and state.partition_index == partition and state.leader == broker
    )
    return max((state.leader_epoch for state in states), default=None)


@pytest.mark.rule("D-21", "D-41", "D-42", "D-120", "FO-10", "FO-11", "FO-12", "FO-13", "PS-20")
@pytest.mark.parametrize("seed", range(12))
def test_both_orders_of_a_failover_end_the_same(seed: int) -> None:
    first, then = (run_virtually(lambda e=e: end(seed, elect_first=e)) for e in (True, False))  # type: ignore[misc]
    assert first == then
    assert any(found is not None and found[0] > 0 for found in first.values())


async def takeover(seed: int, *, warm: bool, elect_first: bool) -> tuple[object, ...]:
    """All that a controller which stood by does when `/controller` is free, and what it says of the znodes."""
    random = Random(seed)
    world = await left_by_the_last_controller(random)
    broken = [topic_path("plain"), *(state_path(TopicPartition(topic, 0)) for topic in TOPICS)]
    for path in random.sample(broken, 3):
        if await world.tool.exists(path) is not None:
            await world.write(SetData(path, b"{"))
    await world.write(Create(CONTROLLER, encode_controller(ControllerId(1009), 1), ephemeral=True))
    controller = world.start_controller(klamm_failover_elect_first=elect_first, klamm_standby_warm=warm)
    await quiesce(3)
    assert controller.controller.standby.is_warm == warm
    for topic in random.sample(TOPICS, 2):
        # What changes last is known from its event, or not at all.
        if await world.state(topic, 1) is not None:
            await world.write(SetData(state_path(TopicPartition(topic, 1)), state(random, assignment(random, topic))))
    await world.delete(CONTROLLER)
    await until(lambda: controller.is_active)
    await quiesce(60)
    assert not controller.controller.standby.difference
    tree = {p: znode.data for p, znode in world.server.tree.znodes.items() if p.startswith("/brokers/topics")}
    findings = (await controller.ask(DescribeFindingsRequest())).findings
    sent = {broker: [r for b, r in controller.brokers.received if b == broker] for broker in BROKERS}
    await controller.stop()
    return tree, findings, sent


@pytest.mark.rule("D-122", "LC-4", "LC-8")
@pytest.mark.parametrize("seed", range(12))
def test_a_warm_standby_does_what_a_cold_one_does(seed: int) -> None:
    warm, cold = (
        run_virtually(lambda w=w: takeover(seed, warm=w, elect_first=seed % 2 == 0))  # type: ignore[misc]
        for w in (True, False)
    )
    for of_warm, of_cold in zip(warm, cold, strict=True):
        assert of_warm == of_cold
