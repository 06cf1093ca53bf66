"""What an agent names to the controller after it was not shut down: all replicas if its machine was restarted, none
if the machine has run on.
"""

import asyncio

import pytest

from broker_agent.log.checkpoints import BOOT_ID, DAMAGED_REPLICAS
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import RECOVERY, UNCLEAN_SHUTDOWN, ReportedDamage
from cluster.requests.cluster import AcknowledgeDamageRequest, DescribeFindingsRequest
from cluster.znodes.controller import encode_controller
from cluster.znodes.paths import CONTROLLER, broker_path
from cluster.zookeeper.port import SetData
from tests.brokers.agents import CONTROLLER_ID, TOPIC, TP, AgentProcess, AgentWorld, connect, until, virtually

OTHER = TopicPartition(TOPIC, 1)
LOG = f"/data/{TP}/{0:020d}.log"


async def world_of_two(**settings: object) -> AgentWorld:
    """Broker 1 leads both partitions, broker 2 follows: of one broker 1 has flushed half, and the other is empty."""
    world = AgentWorld(**settings)
    await world.start(1, 2)
    for tp in (TP, OTHER):
        world.decide(1, [1, 2], tp=tp)
    await world.update_metadata()
    for broker in (1, 2):
        await world.tell_together(broker, TP, OTHER)
    await world.agents[1].produce(10)
    log = world.agents[1].logs.get(TP)
    assert log is not None
    await log.flush()
    await world.agents[1].produce(10)
    await until(lambda: world.agents[2].offsets()[1] == 20)
    return world


async def start_again(world: AgentWorld) -> AgentProcess:
    """Broker 1 is back, when its session has expired; long enough to report."""
    world.controller.damage_reports.clear()
    await asyncio.sleep(7)
    await world.agents[1].start()
    await asyncio.sleep(3)
    return world.agents[1]


def reported(world: AgentWorld) -> list[ReportedDamage]:
    return [replica for request in world.controller.damage_reports for replica in request.replicas]


def announces_a_report(world: AgentWorld) -> bool:
    znode = world.zookeeper.tree.get(broker_path(BrokerId(1)))
    assert znode is not None
    return b"has_damaged_replicas" in znode.data


def in_file(agent: AgentProcess) -> bytes:
    return agent.disk.read_file(f"/data/{DAMAGED_REPLICAS}") or b""


@pytest.mark.rule("D-119")
@virtually
async def test_after_a_power_failure_every_replica_is_named_with_the_end_of_its_log() -> None:
    world = await world_of_two()
    world.controller.report_code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    await world.agents[1].crash(power_fails=True)
    agent = await start_again(world)
    assert announces_a_report(world)
    of_tp, of_other = sorted(reported(world)[:2], key=lambda replica: replica.partition_index)
    log = agent.logs.get(TP)
    assert log is not None
    end = log.log_end_offset
    assert 10 <= end <= 20
    epoch = world.states[TP].leader_epoch
    for replica, expected in ((of_tp, (end, epoch)), (of_other, (0, -1))):
        assert (replica.from_offset, replica.log_epoch) == expected
        assert (replica.to_offset, replica.size, replica.is_end_known) == (expected[0], 0, False)
        assert replica.found_by == UNCLEAN_SHUTDOWN
    # Nothing is known to be damaged: that is not said to operators, and there is no loss to acknowledge.
    assert (await agent.handle(DescribeFindingsRequest())).findings == ()
    with pytest.raises(ApiError, match="broker 1 knows of no damage of orders-0"):
        await agent.handle(AcknowledgeDamageRequest(BrokerId(1), *TP))

    world.controller.report_code = ErrorCode.NONE
    await until(lambda: not announces_a_report(world))
    assert agent.logs.damaged_replicas == ()
    assert in_file(agent) == b"0\n0\n"
    await agent.crash()
    await start_again(world)
    assert reported(world) == []
    await world.stop()


@pytest.mark.rule("R9.32", "D-42")
@virtually
@pytest.mark.parametrize("later_s", [0.1, 2.5, 4.9])
async def test_what_waits_is_named_to_the_next_active_controller_at_once(later_s: float) -> None:
    """Until then that one takes the sound replicas of the broker for dead, too."""
    world = await world_of_two()
    world.controller.report_code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    await world.agents[1].crash(power_fails=True)
    await start_again(world)
    before = len(world.controller.damage_reports)
    await until(lambda: len(world.controller.damage_reports) > before)
    await asyncio.sleep(later_s)
    reports = list(world.controller.damage_reports)
    other = await connect(world.zookeeper)
    await other.multi([SetData(CONTROLLER, encode_controller(CONTROLLER_ID, 1))])
    await asyncio.sleep(0.05)
    assert len(world.controller.damage_reports) == len(reports) + 1
    await asyncio.sleep(4.8)
    assert len(world.controller.damage_reports) == len(reports) + 1
    await world.stop()


@pytest.mark.rule("D-119")
@virtually
@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("reboots", [False, True])
async def test_nothing_is_named_after_a_clean_shutdown_or_under_the_same_boot(is_clean: bool, reboots: bool) -> None:
    world = await world_of_two()
    agent = world.agents[1]
    for _ in range(2):
        await (agent.stop() if is_clean else agent.crash())
        agent.boots += is_clean and reboots
        await start_again(world)
        assert not announces_a_report(world)
        assert world.controller.damage_reports == []
        assert agent.logs.damaged_replicas == ()
    # A kill under the boot that the clean start has found is one under the same boot.
    await agent.crash()
    await start_again(world)
    assert world.controller.damage_reports == []
    await world.stop()


@pytest.mark.rule("D-119")
@virtually
@pytest.mark.parametrize("content", [None, b"0\n1\nx y\n", b"\xff\x00", b"0\n2\na\nb\n", b""])
async def test_an_unknown_boot_counts_as_another_one_unless_the_shutdown_was_clean(content: bytes | None) -> None:
    """As after an upgrade from a release that did not remember it."""
    world = await world_of_two()
    agent = world.agents[1]
    for is_clean in (True, False):
        await (agent.stop() if is_clean else agent.crash())
        agent.disk.remove_file(f"/data/{BOOT_ID}")
        if content is not None:
            agent.disk.open_file(f"/data/{BOOT_ID}").append([content])
        await start_again(world)
        assert (reported(world) == []) == is_clean
    await agent.crash()
    await start_again(world)
    assert reported(world) == []
    await world.stop()


@pytest.mark.rule("D-119")
@virtually
async def test_a_kill_under_the_new_boot_does_not_end_the_doubt() -> None:
    world = await world_of_two()
    agent = world.agents[1]
    world.controller.report_code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    await agent.crash(power_fails=True)
    await start_again(world)
    for is_clean in (False, True):
        await (agent.stop() if is_clean else agent.crash())
        await start_again(world)
        assert {replica.partition_index for replica in reported(world)} == {0, 1}
        assert {replica.found_by for replica in reported(world)} == {UNCLEAN_SHUTDOWN}
    await world.stop()


@pytest.mark.rule("D-119")
@virtually
async def test_a_role_that_a_controller_has_decided_on_ends_the_doubt() -> None:
    world = await world_of_two()
    agent = world.agents[1]
    world.controller.report_code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    await agent.crash(power_fails=True)
    await start_again(world)
    world.decide(2, [2], tp=TP)
    world.decide(1, [1], tp=OTHER)
    await world.update_metadata()
    await world.tell(2)
    await world.tell_together(1, TP, OTHER)
    assert agent.logs.damaged_replicas == ()
    await until(lambda: not announces_a_report(world))
    await until(lambda: agent.offsets()[1] == 20)
    await until(lambda: in_file(agent) == b"0\n0\n")
    await world.stop()


@pytest.mark.rule("D-119")
@virtually
async def test_following_in_the_isr_does_not_end_the_doubt() -> None:
    world = await world_of_two()
    agent = world.agents[1]
    world.controller.report_code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    await agent.crash(power_fails=True)
    await start_again(world)
    world.decide(2, [1, 2], tp=TP)
    await world.update_metadata()
    await world.tell(2, 1)
    assert {replica.topic_partition for replica in agent.logs.damaged_replicas} == {TP, OTHER}
    await world.stop()


@pytest.mark.rule("D-119", "R9.22")
@virtually
async def test_what_is_known_to_be_damaged_is_not_named_as_in_doubt() -> None:
    world = await world_of_two(replica_high_watermark_checkpoint_interval_ms=1000)
    await asyncio.sleep(3)
    agent = world.agents[1]
    await agent.crash(power_fails=True)
    agent.disk.flip_byte(LOG, 0.2)
    await start_again(world)
    found = {replica.partition_index: replica.found_by for replica in reported(world)}
    assert found == {0: RECOVERY, 1: UNCLEAN_SHUTDOWN}
    await world.stop()


@pytest.mark.rule("D-119")
@virtually
async def test_a_replica_whose_log_cannot_be_loaded_is_named_too() -> None:
    """The next process may be able to load it, under the same boot."""
    world = await world_of_two()
    agent = world.agents[1]
    await agent.crash(power_fails=True)
    metadata = agent.disk.open_file(f"/data/{TP}/partition.metadata")
    metadata.truncate(0)
    metadata.append([b"garbage"])
    await start_again(world)
    assert agent.logs.unloadable.keys() == {TP}
    assert {(replica.partition_index, replica.from_offset) for replica in reported(world)} == {(0, 0), (1, 0)}
    await world.stop()


@pytest.mark.rule("D-119", "R4.3")
@virtually
async def test_a_deleted_replica_is_in_no_doubt() -> None:
    world = await world_of_two()
    agent = world.agents[1]
    world.controller.report_code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    await agent.crash(power_fails=True)
    await start_again(world)
    await world.stop_replica(1, delete=True, tp=OTHER)
    assert {replica.topic_partition for replica in agent.logs.damaged_replicas} == {TP}
    await world.stop()
