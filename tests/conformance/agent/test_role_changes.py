"""Role changes by LeaderAndIsr: their order, the state they take over, and what is removed."""

import asyncio

import pytest
from msgspec.structs import replace

from broker_agent.decisions.isr import CommittedIsr
from broker_agent.replica_changes import ReplicaOffline
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from simulator.record_batches import encode_batch
from simulator.virtual_time_loop import VirtualTimeLoop
from state_log.record import Kind
from tests.brokers.agents import TOPIC, TOPIC_ID, TP, AgentProcess, AgentWorld, until, virtually

ZERO, ONE, TWO = (TopicPartition(TOPIC, number) for number in range(3))


def fetcher_tasks() -> set[str]:
    names = (task.get_name() for task in asyncio.all_tasks() if not task.done())
    return {name for name in names if name.startswith("ReplicaFetcherThread-")}


def topics_with_meters(metrics: Metrics) -> set[str]:
    name = "kafka_server_brokertopicmetrics_messagesinpersec"
    [family] = [family for family in metrics.collect() if family.name == name]
    return {sample.labels["topic"] for sample in family.samples if "topic" in sample.labels}


def roles(process: AgentProcess) -> list[tuple[int, str]]:
    """(partition, role) of each switch, as the state-change log has them."""
    changes = (change for change in process.records.all if change.kind is Kind.ROLE)
    return [(change.partition or 0, change.to_state or "") for change in changes]


async def start_two(world: AgentWorld, *followed: TopicPartition) -> AgentProcess:
    """Agents 1 and 2; agent 1 follows agent 2 in these partitions."""
    await world.start(1, 2)
    for tp in followed:
        world.decide(2, [2, 1], tp=tp)
    await world.update_metadata()
    await world.tell_together(2, *followed)
    await world.tell_together(1, *followed)
    return world.agents[1]


@pytest.mark.rule("R2.16")
@virtually
async def test_every_partition_of_a_request_has_its_own_code_in_the_answer() -> None:
    world = AgentWorld()
    agent = await start_two(world, ZERO, ONE)
    agent.agent.manager.commit(ReplicaOffline(ONE))
    world.decide(1, [1, 2], tp=ZERO)
    world.decide(1, [1, 2], tp=ONE)
    world.decide(2, [2, 3], tp=TWO)
    response = await world.tell_together(1, ZERO, ONE, TWO)
    assert response.error_code is ErrorCode.NONE
    assert [(e.topic_name, e.topic_id, e.partition_index, e.error_code) for e in response.partition_errors] == [
        (TOPIC, TOPIC_ID, 0, ErrorCode.NONE),
        (TOPIC, TOPIC_ID, 1, ErrorCode.KAFKA_STORAGE_ERROR),
        (TOPIC, TOPIC_ID, 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    await world.stop()


@pytest.mark.rule("R2.6")
@virtually
async def test_a_partition_that_was_refused_at_once_counts_and_refuses_data() -> None:
    world = AgentWorld()
    await world.start(1)
    world.decide(2, [2])
    await world.update_metadata()
    assert await world.tell(1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    agent = world.agents[1]
    assert (agent.partition().leader_epoch, agent.partition().log) == (-1, None)
    assert agent.agent.metrics.partition_count.value == 1
    assert (await agent.produce()).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await agent.fetch(0)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await world.stop()


@pytest.mark.rule("R2.7")
@virtually
async def test_high_watermarks_are_read_once_per_directory_and_only_where_a_log_is_attached() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]
    reads: list[str] = []
    read_file = agent.disk.read_file

    def count(path: str) -> bytes | None:
        if path.endswith("replication-offset-checkpoint"):
            reads.append(path)
        return read_file(path)

    agent.disk.read_file = count  # type: ignore[method-assign]
    for tp in (ZERO, ONE, TWO):
        world.decide(1, [1], tp=tp)
    await world.update_metadata()
    await world.tell_together(1, ZERO, ONE, TWO)
    assert reads == ["/data/replication-offset-checkpoint"]
    for tp in (ZERO, ONE, TWO):
        world.decide(1, [1], tp=tp)
    await world.tell_together(1, ZERO, ONE, TWO)
    assert len(reads) == 1
    await world.stop()


@pytest.mark.rule("R2.8", "R2.15")
@virtually
async def test_leaders_are_made_before_followers_and_the_log_of_changes_tells_who_took_which_role() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    world.decide(2, [2, 1], tp=ZERO)
    world.decide(1, [1, 2], tp=ONE)
    world.decide(2, [2], replicas=[2], tp=TWO)
    await world.update_metadata()
    await world.tell_together(1, ZERO, ONE, TWO)
    assert roles(world.agents[1]) == [(1, "leader"), (0, "follower")]
    assert len([write for write in world.agents[1].records.writes if write[0].kind is Kind.ROLE]) == 1
    world.decide(1, [1, 2], tp=ONE, partition_epoch=PartitionEpoch(-1))
    await world.tell_together(1, ONE)
    assert roles(world.agents[1]) == [(1, "leader"), (0, "follower")]  # Its partition epoch is stale: no change.
    await world.stop()


@pytest.mark.rule("R2.9", "R4.3")
@virtually
async def test_meters_of_a_topic_go_when_its_last_leadership_is_given_up() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    for tp in (ZERO, ONE):
        world.decide(1, [1, 2], tp=tp)
    await world.update_metadata()
    await world.tell_together(1, ZERO, ONE)
    agent = world.agents[1]
    await agent.produce(2, tp=ZERO)
    assert topics_with_meters(agent.metrics) == {TOPIC}
    world.decide(2, [2, 1], tp=ZERO)
    await world.tell_together(1, ZERO)
    assert topics_with_meters(agent.metrics) == {TOPIC}
    world.decide(2, [2, 1], tp=ONE)
    await world.tell_together(1, ONE)
    assert topics_with_meters(agent.metrics) == set()
    whole_broker = agent.metrics.meter("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec")
    assert whole_broker.count == 2
    await world.stop()


@pytest.mark.rule("R2.14", "R4.5", "R5.5", "R5.7")
@virtually
async def test_a_fetcher_ends_with_its_last_partition_after_each_of_the_two_orders() -> None:
    world = AgentWorld()
    await start_two(world, ZERO, ONE)
    assert fetcher_tasks() == {"ReplicaFetcherThread-0-2"}
    await world.stop_replica(1, tp=ZERO)
    assert fetcher_tasks() == {"ReplicaFetcherThread-0-2"}
    await world.stop_replica(1, tp=ONE)
    await asyncio.sleep(0)
    assert fetcher_tasks() == set()
    world.decide(2, [2, 1], tp=ZERO)
    await world.tell_together(1, ZERO)
    assert fetcher_tasks() == {"ReplicaFetcherThread-0-2"}
    world.decide(1, [1, 2], tp=ZERO)
    await world.tell_together(1, ZERO)
    await asyncio.sleep(0)
    assert fetcher_tasks() == set()
    await world.stop()


@pytest.mark.rule("R3.1")
@virtually
async def test_no_partition_of_a_request_leads_before_all_of_them_have_stopped_fetching() -> None:
    world = AgentWorld()
    agent = await start_two(world, ZERO, ONE, TWO)
    agent.disk.latency_s = (0.1, 2.0)
    partitions = (ZERO, ONE, TWO)
    seen: set[tuple[int, int]] = set()

    def observe() -> None:
        leading = sum(agent.partition(tp).is_leader for tp in partitions)
        fetched = sum(agent.agent.fetchers.state(tp) is not None for tp in partitions)
        seen.add((leading, fetched))

    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.after_step = observe
    for tp in partitions:
        world.decide(1, [1, 2], tp=tp)
    await world.tell_together(1, *partitions)
    loop.after_step = None
    assert {fetched for leading, fetched in seen if leading} == {0}
    assert {leading for leading, _ in seen} == {0, 1, 2, 3}
    await world.stop()


@pytest.mark.rule("R3.1", "R3.2", "R3.14", "R2.11")
@pytest.mark.parametrize("leader", [1, 2], ids=["leaders", "followers"])
def test_a_log_that_cannot_be_made_takes_only_its_own_partition_offline(leader: int) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        await world.start(1, 2)
        agent = world.agents[1]
        await agent.stop()
        await agent.start("/data", "/more")
        for tp in (ZERO, ONE, TWO):
            world.decide(leader, [leader], replicas=[1, 2], tp=tp)
        world.states[ONE] = replace(world.states[ONE], is_new=False)  # Its log may lie in the directory that failed.
        await world.update_metadata()
        agent.logs.directories["/more"].failure = OSError("failed before")
        response = await world.tell_together(1, ZERO, ONE, TWO)
        codes = [error.error_code for error in response.partition_errors]
        assert codes == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
        assert agent.agent.manager.is_offline(ONE)
        assert [agent.partition(tp).is_leader for tp in (ZERO, TWO)] == [leader == 1] * 2
        await world.stop()

    check()


@pytest.mark.rule("R3.4", "R3.7b", "R3.10")
@virtually
async def test_the_epoch_of_the_controller_that_decided_is_kept_not_that_of_the_one_who_tells() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    world.controller_epoch = ControllerEpoch(3)
    world.decide(1, [1, 2])
    world.controller_epoch = ControllerEpoch(7)
    await world.update_metadata()
    await world.tell(1, 2)
    for broker in (1, 2):
        assert world.agents[broker].partition().controller_epoch == 3
        assert world.agents[broker].agent.control.known_controller_epoch == 7
    world.decide(2, [1, 2])
    await world.tell(1, 2)
    for broker in (1, 2):
        assert world.agents[broker].partition().controller_epoch == 7
    await world.stop()


@pytest.mark.rule("R3.5", "R3.6", "R3.7b", "R3.7a")
@virtually
async def test_partition_epoch_and_leader_are_taken_even_where_the_leader_epoch_is_not_newer() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])
    partition = world.agents[1].partition()
    before = partition.remote[BrokerId(2)]
    state = world.decide(1, [1], leader_epoch=LeaderEpoch(0), partition_epoch=PartitionEpoch(5))
    assert partition.make_leader(state, epoch_start_offset=None, now_ms=1e9) is False
    assert (partition.leader_epoch, partition.partition_epoch, partition.leader_id) == (0, 5, 1)
    assert partition.isr_state == CommittedIsr((BrokerId(1),))
    assert partition.remote[BrokerId(2)] == before
    await world.stop()


@pytest.mark.rule("R3.7", "R3.7a")
@virtually
async def test_the_log_and_the_new_epoch_are_on_disk_before_the_role_is_taken() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]
    agent.disk.latency_s = (0.1, 0.5)
    seen: list[tuple[bool, bytes | None]] = []

    def observe() -> None:
        partition = agent.agent.manager.online(TP)
        leads = partition is not None and partition.is_leader
        observe = (leads, agent.disk.read_file("/data/orders-0/leader-epoch-checkpoint"))
        if not seen or seen[-1] != observe:
            seen.append(observe)

    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    world.decide(1, [1])
    await world.update_metadata()
    loop.after_step = observe
    await world.tell(1)
    loop.after_step = None
    on_disk = b"0\n1\n0 0\n"
    assert seen == [(False, None), (False, on_disk), (True, on_disk)]
    agent.disk.lose_power()
    assert agent.disk.read_file("/data/orders-0/leader-epoch-checkpoint") == b"0\n1\n0 0\n"
    assert agent.disk.read_file("/data/orders-0/partition.metadata") is not None


@pytest.mark.rule("R3.7c", "R6.19")
@virtually
async def test_a_leader_alone_in_its_isr_commits_what_it_has_and_answers_who_waits() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])
    await world.agents.pop(2).crash()
    leader = world.agents[1]
    waiting = asyncio.ensure_future(leader.produce(3, acks=-1, timeout_ms=60_000))
    await asyncio.sleep(2)
    assert leader.offsets() == (0, 3)
    world.decide(1, [1])
    await world.tell(1)
    assert leader.offsets() == (3, 3)
    assert (await asyncio.wait_for(waiting, 0.1)).error_code is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("R0.4", "R13.7")
@virtually
async def test_what_a_new_role_completes_may_use_the_partition_again_at_once() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])
    await world.agents.pop(2).crash()
    leader = world.agents[1]
    await leader.produce(3)
    ends: list[int] = []

    def append_once_more(_: TopicPartition) -> bool:
        leader.partition().append_as_leader(encode_batch(b"r", 1), world.clock.now_ms())
        ends.append(leader.offsets()[1])
        return True

    waiting = asyncio.ensure_future(leader.agent.manager.fetch_purgatory.wait(append_once_more, (TP,), 60_000))
    await asyncio.sleep(0)
    world.decide(1, [1])
    await world.tell(1)
    assert await waiting
    assert ends == [4]
    await world.stop()


@pytest.mark.rule("R3.15")
@virtually
async def test_replicas_that_are_being_added_do_not_make_a_partition_under_replicated() -> None:
    world = AgentWorld()
    await world.start(1, 2, 3)
    await world.create(1, [1, 2], replicas=[1, 2])
    leader, adding = world.agents[1], world.agents[3]
    await leader.produce(5, acks=-1)

    def gauge(name: str) -> float:
        return leader.metrics.gauge("kafka.server", "ReplicaManager", name).value

    assert (gauge("UnderReplicatedPartitions"), gauge("ReassigningPartitions")) == (0, 0)
    world.controller.answer = lambda _: None
    world.decide(1, [1, 2], replicas=[1, 2, 3], adding_replicas=(BrokerId(3),))
    await world.tell(1, 2, 3)
    await until(lambda: adding.offsets()[1] == 5)
    assert (gauge("UnderReplicatedPartitions"), gauge("ReassigningPartitions")) == (0, 1)
    out, into = leader.agent.metrics, adding.agent.metrics
    assert out.reassignment_bytes_out.count == into.reassignment_bytes_in.count > 0
    assert into.replication_bytes_in.count == into.reassignment_bytes_in.count
    assert world.agents[2].agent.metrics.reassignment_bytes_in.count == 0
    world.controller.answer = world.accept
    await until(lambda: leader.partition().isr == (1, 2, 3))  # It joins by the rule for everybody.
    world.decide(1, [1, 3], replicas=[1, 3])
    await world.tell(1, 3)
    assert (gauge("UnderReplicatedPartitions"), gauge("ReassigningPartitions")) == (0, 0)
    await world.stop()
