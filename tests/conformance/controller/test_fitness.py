"""A candidate that would not admit the cluster's brokers does not govern it: nothing is written, and it says why."""

from typing import Any

import pytest

from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.requests.cluster import DescribeFindingsRequest
from cluster.znodes.adoption import Adoption, encode_adoption
from cluster.znodes.candidates import decode_profile
from cluster.znodes.paths import ADOPTION, BROKERS_IDS, CONTROLLER_EPOCH, broker_path, controller_registration_path
from cluster.znodes.registrations import encode_broker
from cluster.zookeeper.port import Delete, SetData, Znode
from controller.program import health_of
from tests.controllers.contexts import ids
from tests.controllers.controller_elections import active_controller, epoch, owner
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until
from tests.kafka.competitors import RunningCompetitor, ruling_broker

NAMES_ANOTHER = {"inter_broker_listener_name": "REPLICATION", "control_plane_listener_name": "OTHER"}


async def unfit_reason(world: World, c: RunningController) -> str:
    id_ = c.controller.config.id
    znode = await world.tool.get(controller_registration_path(id_))
    assert znode is not None
    profile = decode_profile(id_, znode.data)
    assert profile is not None
    return profile.unfit


async def register(world: World, broker: int, listener: str = "PLAINTEXT", data: bytes | None = None) -> None:
    """As a stranger may, too: a persistent registration."""
    record = Broker(BrokerId(broker), (Endpoint(f"host{broker}", 9092, listener),))
    await world.create(broker_path(record.id), encode_broker(record, 1) if data is None else data)


async def adopt(world: World, *brokers: int, mode: Any = "atomic") -> None:
    await world.create(ADOPTION, encode_adoption(Adoption(mode, "test", 0, brokers=ids(*brokers))))


async def everything(world: World) -> dict[str, Znode]:
    """All that a controller writes."""
    found: dict[str, Znode] = {}
    left = ["/brokers/topics", "/feature", "/isr_change_notification", "/log_dir_event_notification"]
    while left:
        path = left.pop()
        znode = await world.tool.get(path)
        if znode is not None:
            found[path] = znode
            left += [f"{path}/{name}" for name in await world.tool.children(path) or ()]
    return found


@pytest.mark.rule("D-91")
def test_a_candidate_that_would_admit_none_steps_down_before_its_first_write() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2], [2, 1])
        await world.leads("t", leader=1)
        await world.leads("t", 1, leader=2)
        await first.stop()
        await world.create("/isr_change_notification/isr_change_0000000003", b"{}")
        before = await everything(world)
        c = world.start_controller(1002, **NAMES_ANOTHER)
        await until(lambda: c.controller.fitness.why, "unfit")
        await quiesce(5)
        assert not c.is_active
        assert await owner(world) is None
        assert await everything(world) == before
        assert not c.brokers.received
        why = (
            "would admit none of the registered brokers: broker 1 has no listener OTHER or REPLICATION for "
            "control requests, only PLAINTEXT; broker 2 has no listener OTHER or REPLICATION for control requests, "
            "only PLAINTEXT"
        )
        assert await unfit_reason(world, c) == why
        (finding,) = (await c.ask(DescribeFindingsRequest())).findings
        assert finding.kind == "unfit_controller"
        assert finding.detail == f"controller 1002 takes no part in elections: it {why}"
        assert health_of(c.controller).state == f"standby that {why}"
        # It does not try again and again.
        requests, (_, version) = c.zookeeper.requests, await epoch(world)
        await quiesce(300)
        assert c.zookeeper.requests - requests < 20
        assert (await epoch(world))[1] == version
        fit = await active_controller(world.start_controller(1003))
        await quiesce(5)
        assert fit.is_active
        assert not c.is_active
        await fit.stop()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-91")
def test_it_competes_again_once_it_would_admit_brokers() -> None:
    async def main() -> None:
        world, first = await running_cluster(1)
        await first.stop()
        c = world.start_controller(1002, **NAMES_ANOTHER)
        await until(lambda: c.controller.fitness.why, "unfit")
        await quiesce(2)
        await register(world, 7, "REPLICATION")
        await until(lambda: c.is_active, "active", deadline_s=3)
        assert await unfit_reason(world, c) == ""
        assert c.gauge("ActiveBrokerCount") == 1
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-91", "BK-40")
def test_a_registration_that_is_changed_is_noticed_as_well() -> None:
    async def main() -> None:
        world, first = await running_cluster(1)
        await first.stop()
        await register(world, 8, data=b"{")
        await world.stop_broker(1)
        c = world.start_controller(1002)
        await until(lambda: c.controller.fitness.why, "unfit")
        assert "broker 8 has a registration that cannot be read" in c.controller.fitness.why
        record = Broker(BrokerId(8), (Endpoint("host8", 9092),))
        await world.write(SetData(broker_path(record.id), encode_broker(record, 1)))
        await until(lambda: c.is_active, "active", deadline_s=3)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-91")
def test_a_controller_that_loses_the_last_broker_it_can_tell_leaves_the_partitions_as_they_are() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        before = await world.leads("t", leader=1)
        await register(world, 9, "EXTERNAL")
        await quiesce()
        assert c.is_active
        await world.stop_broker(1)
        await until(lambda: c.controller.fitness.why, "unfit")
        assert await world.state("t") == before
        await world.start_broker(1)
        await until(lambda: c.is_active and c.gauge("ActiveBrokerCount") == 1, "active", deadline_s=3)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-91")
def test_without_any_registered_broker_a_controller_is_active() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await world.stop_broker(1)
        await world.leads("t", leader=-1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-91", "TO-6")
@pytest.mark.parametrize("mode", ["atomic", "persistent"])
@pytest.mark.parametrize("misnamed", [(1, 2), (2,)])
def test_a_broker_of_kafka_is_not_replaced_by_a_candidate_that_would_not_admit_an_adopted_one(
    misnamed: tuple[int, ...], mode: str
) -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(BROKERS_IDS)
        await world.create(CONTROLLER_EPOCH, b"0")
        for broker in (1, 2):
            await register(world, broker, "INTERNAL" if broker in misnamed else "PLAINTEXT")
        competitor = await ruling_broker(world)
        before = await epoch(world)
        await adopt(world, 1, 2, mode=mode)
        c = world.start_controller(901, governs_kafka=True)
        await until(lambda: c.controller.fitness.why, "unfit")
        await quiesce(30)
        assert await owner(world) == 1
        assert await epoch(world) == before
        assert f"broker {misnamed[0]} has no listener CONTROL or PLAINTEXT" in await unfit_reason(world, c)
        for broker in misnamed:
            record = Broker(BrokerId(broker), (Endpoint(f"host{broker}", 9092),))
            await world.write(SetData(broker_path(record.id), encode_broker(record, 1)))
        await active_controller(c)
        assert await unfit_reason(world, c) == ""
        await c.stop()
        await competitor.stop()

    run_virtually(main)


@pytest.mark.rule("D-91", "TO-6")
@pytest.mark.parametrize("named", [(), (1,), (1, 5)])
def test_a_registration_that_is_not_adopted_and_a_dead_broker_keep_nobody_from_governing(
    named: tuple[int, ...],
) -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(BROKERS_IDS)
        await world.create(CONTROLLER_EPOCH, b"0")
        await register(world, 1)
        await register(world, 99, "INTERNAL")
        competitor = await ruling_broker(world)
        await adopt(world, *named)
        c = await active_controller(world.start_controller(901, governs_kafka=True))
        await quiesce(5)
        assert c.is_active
        assert c.gauge("ActiveBrokerCount") == 1
        await c.stop()
        await competitor.stop()

    run_virtually(main)


@pytest.mark.rule("D-91")
def test_a_malformed_adoption_names_no_brokers_to_a_candidate_with_a_mode_of_its_own() -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(BROKERS_IDS)
        await register(world, 1)
        await world.create(ADOPTION, b"{")
        c = await active_controller(world.start_controller(901, governs_kafka=True, takeover="atomic"))
        await c.stop()
        await world.write(Delete(ADOPTION))
        await adopt(world, 1, 2)
        await register(world, 2, "INTERNAL")
        c = world.start_controller(901, governs_kafka=True, takeover="atomic")
        await until(lambda: c.controller.fitness.why, "unfit")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-91", "TO-8")
def test_in_mode_persistent_a_broker_rules_once_the_candidate_has_become_unfit() -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(BROKERS_IDS)
        await world.create(CONTROLLER_EPOCH, b"0")
        await register(world, 1)
        await adopt(world, 1, mode="persistent")
        c = await active_controller(world.start_controller(901, governs_kafka=True))
        competitor = RunningCompetitor(world, 1)
        await quiesce()
        assert competitor.competitor.epoch_won is None
        # It comes back under another name of its listener, which no controller of klamm knows.
        await world.delete(broker_path(BrokerId(1)))
        await quiesce()
        await register(world, 1, "INTERNAL")
        await world.delete("/controller")
        await until(lambda: competitor.competitor.epoch_won is not None, "the broker rules")
        await quiesce(30)
        assert await owner(world) == 1
        await c.stop()
        await competitor.stop()

    run_virtually(main)


@pytest.mark.rule("D-88", "D-91")
def test_a_candidates_own_registration_as_a_broker_makes_nobody_unfit() -> None:
    async def main() -> None:
        own = Broker(BrokerId(901), (Endpoint("klamm", 9095, "ELSEWHERE"),))
        world = await World().start()
        await world.create(BROKERS_IDS)
        c = await active_controller(world.start_controller(901, as_broker=own, governs_kafka=True, takeover="atomic"))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-91")
def test_a_broker_of_klamm_with_the_id_of_a_controller_makes_a_candidate_fit_again() -> None:
    async def main() -> None:
        world, first = await running_cluster(1)
        await first.stop()
        await register(world, 9, "EXTERNAL")
        await world.stop_broker(1)
        c = world.start_controller(1)
        await until(lambda: c.controller.fitness.why, "unfit")
        await world.start_broker(1)
        await until(lambda: c.is_active, "active", deadline_s=3)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-91")
def test_a_candidate_that_would_admit_none_is_not_elected_again_and_again_where_ids_are_shared() -> None:
    async def main() -> None:
        world = await World().start()
        await register(world, 1, "EXTERNAL")
        c = world.start_controller(1)
        await until(lambda: c.controller.fitness.why, "unfit")
        await quiesce(5)
        before = await epoch(world)
        await quiesce(60)
        assert await epoch(world) == before
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-91")
def test_a_malformed_registration_under_the_id_of_a_controller_makes_nobody_unfit() -> None:
    async def main() -> None:
        world = await World().start()
        await register(world, 901, data=b"[]")
        c = world.start_controller(901, governs_kafka=True, takeover="atomic")
        await quiesce(30)
        assert c.is_active
        assert (await epoch(world))[0] == b"1"
        await c.stop()

    run_virtually(main)
