"""Metrics of a controller under Kafka's names, and when they are registered and removed."""

import asyncio

import pytest

from cluster.model.broker import BrokerId
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.znodes.paths import CONTROLLER_EPOCH
from cluster.zookeeper.port import SetData
from controller.controller_state import TIMER_OF_STATE
from simulator.gauge_recount import check_controller_gauges
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

GAUGES = {
    "activecontrollercount",
    "controllerstate",
    "offlinepartitionscount",
    "preferredreplicaimbalancecount",
    "globaltopiccount",
    "globalpartitioncount",
    "topicstodeletecount",
    "replicastodeletecount",
    "topicsineligibletodeletecount",
    "replicasineligibletodeletecount",
    "activebrokercount",
    "fencedbrokercount",
}


def shown(c: RunningController, type_: str) -> dict[str, float]:
    """The samples of one type, by what their name ends with and their labels."""
    prefix = f"kafka_controller_{type_}_"
    return {
        sample.name.removeprefix(prefix) + "".join(f" {label}" for label in sample.labels.values()): sample.value
        for family in c.metrics.collect()
        for sample in family.samples
        if sample.name.startswith(prefix)
    }


@pytest.mark.rule("EV-4", "EV-7", "INV-11")
def test_a_standby_shows_zeros_and_an_ended_process_shows_nothing_of_its_loop_and_epoch() -> None:
    async def main() -> None:
        world = await World().start()
        c, standby = world.start_controller(1001), None
        await until(lambda: c.is_active)
        await world.start_broker(1, 2)
        await world.create_topic("t", [1, 2], [2, 7], [7])
        await world.leads("t", 1, leader=2)
        standby = world.start_controller(1002)
        await quiesce()
        assert shown(standby, "kafkacontroller") == dict.fromkeys(GAUGES, 0)
        assert shown(standby, "controllerchannelmanager") == {"totalqueuesize": 0}
        await world.stop_broker(2)
        await world.leads("t", 1, leader=-1)
        await quiesce()
        expected = {
            "activecontrollercount": 1,
            "offlinepartitionscount": 1,
            "preferredreplicaimbalancecount": 1,
            "globaltopiccount": 1,
            # The one that never had a leader has no leadership.
            "globalpartitioncount": 2,
            "activebrokercount": 1,
        }
        assert shown(c, "kafkacontroller") == dict.fromkeys(GAUGES, 0) | expected
        assert shown(c, "controllereventmanager")
        await c.stop()
        for type_ in ("kafkacontroller", "controllereventmanager"):
            assert shown(c, type_) == {}
        await until(lambda: standby.is_active)
        assert shown(standby, "kafkacontroller")["globalpartitioncount"] == 2
        await standby.stop()

    run_virtually(main)


@pytest.mark.rule("RQ-35", "INV-11")
def test_a_brokers_queue_is_shown_for_as_long_as_it_has_a_channel() -> None:
    async def main() -> None:
        world = await World().start()
        c = world.start_controller()
        await until(lambda: c.is_active)
        await world.start_broker(1, 2)
        await until(lambda: c.gauge("ActiveBrokerCount") == 2)
        await quiesce()
        c.brokers.unreachable.add(2)
        for number in range(3):
            await world.create_topic(f"t{number}", [2])
            await world.leads(f"t{number}", leader=2)
        await quiesce()
        sizes = {name: value for name, value in shown(c, "controllerchannelmanager").items() if "queuesize" in name}
        # One LeaderAndIsr is in flight, and is tried again and again.
        assert sizes == {"totalqueuesize": 5, "queuesize 1": 0, "queuesize 2": 5}
        taken = shown(c, "controllerchannelmanager")["requestrateandqueuetimems_count 2"]
        c.brokers.unreachable.clear()
        await quiesce()
        assert shown(c, "controllerchannelmanager")["requestrateandqueuetimems_count 2"] == taken + 5
        await world.stop_broker(2)
        await until(lambda: BrokerId(2) not in c.context.brokers.registered)
        assert {name.split(" ")[1] for name in shown(c, "controllerchannelmanager") if " " in name} == {"1"}
        await world.write(SetData("/controller", b"{}"))
        await until(lambda: not c.controller.is_active)
        assert shown(c, "controllerchannelmanager") == {"totalqueuesize": 0}
        await c.stop()

    run_virtually(main)


def timers(c: RunningController) -> dict[str, float]:
    return {
        name.removesuffix("_count"): n for name, n in shown(c, "controllerstats").items() if name.endswith("_count")
    }


@pytest.mark.rule("EV-3")
def test_every_timer_is_there_from_the_start_and_counts_events_failed_ones_too() -> None:
    async def main() -> None:
        world = await World().start()
        c = world.start_controller()
        assert timers(c).keys() == {name.lower() for name in TIMER_OF_STATE.values()}
        await until(lambda: c.is_active)
        await quiesce()
        before = timers(c)
        await world.create_topic("t", [1])
        await until(lambda: timers(c)["topicchangerateandtimems"] > before["topicchangerateandtimems"])
        await world.write(SetData(CONTROLLER_EPOCH, b"9"))
        await world.create_topic("u", [1])
        await until(lambda: timers(c)["topicchangerateandtimems"] == before["topicchangerateandtimems"] + 2)
        await c.stop()

    run_virtually(main)


def in_progress(c: RunningController) -> dict[str, float]:
    prefix = "klamm_controller_"
    return {
        sample.name.removeprefix(prefix): sample.value
        for family in c.metrics.collect()
        for sample in family.samples
        if sample.name.startswith((f"{prefix}topicdeletion", f"{prefix}partitionreassignment"))
    }


@pytest.mark.rule("EV-4", "D-70")
def test_gauges_equal_a_recount_while_a_deletion_and_a_reassignment_wait_for_brokers() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("gone", [1, 2], [2, 3])
        await world.create_topic("moved", [1], [1, 2])
        await world.leads("gone", 1, leader=2)
        await world.leads("moved", 1, leader=1)
        await world.stop_broker(2)
        await until(lambda: c.gauge("ActiveBrokerCount") == 2)
        await world.create("/admin/delete_topics/gone")
        await until(lambda: c.gauge("TopicsToDeleteCount") == 1)
        await asyncio.sleep(20)
        target, cancelled = (ReassignablePartition(0, r) for r in ((BrokerId(3),), None))
        await c.ask(AlterPartitionReassignmentsRequest((ReassignableTopic("moved", (target,)),)))
        await asyncio.sleep(5)
        check_controller_gauges(c.controller)
        shown_now = in_progress(c)
        assert shown_now["topicdeletion_inprogresscount"] == shown_now["partitionreassignment_inprogresscount"] == 1
        assert shown_now["topicdeletion_oldestagems"] > 24_000 > shown_now["partitionreassignment_oldestagems"] > 4_000
        await c.ask(AlterPartitionReassignmentsRequest((ReassignableTopic("moved", (cancelled,)),)))
        await world.start_broker(2)
        await until(lambda: not c.context.deletions.queued)
        await quiesce()
        check_controller_gauges(c.controller)
        assert in_progress(c) == dict.fromkeys(shown_now, 0)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-70", "INV-11")
def test_what_is_in_progress_is_measured_anew_by_the_next_active_controller() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("gone", [1, 2])
        await world.leads("gone", leader=1)
        await world.stop_broker(2)
        await until(lambda: c.gauge("ActiveBrokerCount") == 1)
        await world.create("/admin/delete_topics/gone")
        await until(lambda: c.gauge("TopicsToDeleteCount") == 1)
        await quiesce(20)
        assert in_progress(c)["topicdeletion_oldestagems"] > 19_000
        await world.write(SetData("/controller", b"{}"))
        await until(lambda: c.is_active and c.context.epoch == 2)
        await until(lambda: in_progress(c)["topicdeletion_inprogresscount"] == 1)
        assert 0 < in_progress(c)["topicdeletion_oldestagems"] < 10_000
        await c.stop()

    run_virtually(main)
