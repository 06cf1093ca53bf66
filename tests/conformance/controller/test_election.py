"""Election of the active controller: competing, losing, and restarting before the old session has expired."""

from typing import Any

import pytest

from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.model.errors import ApiError, ErrorCode, OutcomeUnknownError
from cluster.requests.cluster import DescribeClusterRequest
from cluster.requests.topics import CreateTopicsRequest, ListTopicsRequest, NewTopic
from cluster.znodes.cluster_wide import decode_cluster_id
from cluster.znodes.controller import encode_controller
from cluster.znodes.paths import CONTROLLER, PERSISTENT_PATHS, broker_path
from cluster.znodes.registrations import decode_broker, decode_controller_registration
from cluster.zookeeper.port import SetData
from state_log.record import Kind
from tests.controllers.controller_elections import active_controller, epoch, owner, withhold_the_election
from tests.controllers.worlds import SESSION_MS, RunningController, World, quiesce, run_virtually, until


def test_the_epoch_is_shown_by_the_active_controller_alone() -> None:
    """So each election raises the largest by one, also one after which the same controller is active."""

    async def main() -> None:
        world = await World().start()
        first = await active_controller(world.start_controller(1001))
        second = world.start_controller(1002)
        await quiesce(5)
        assert [c.election_epoch for c in (first, second)] == [1, 0]
        await first.stop()
        await active_controller(second)
        assert [c.election_epoch for c in (first, second)] == [0, 2]
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("EL-2", "EL-3", "EL-4", "EL-8", "EL-30")
def test_the_first_controller_makes_the_paths_and_takes_epoch_one() -> None:
    async def main() -> None:
        world = await World().start()
        c = await active_controller(world.start_controller())
        assert await epoch(world) == (b"1", 1)
        assert await owner(world) == 1001
        for path in PERSISTENT_PATHS:
            assert await world.tool.exists(path) is not None, path
        znode = await world.tool.get("/cluster/id")
        assert znode is not None
        assert len(decode_cluster_id(znode.data)) == 22
        registration = await world.tool.get("/controllers/ids/1001")
        assert registration is not None
        assert decode_controller_registration(c.controller.config.id, registration.data) == (
            Endpoint("controller", 10001),
            Endpoint("controller", 20001, "CONTROL"),
        )
        assert c.metrics.gauge("kafka.server", "MetadataLoader", "CurrentControllerId").value == 1001
        await c.stop()
        assert await owner(world) is None
        assert [r.to_state for r in c.sink.of(Kind.CONTROLLER)] == ["active", "resigned"]

    run_virtually(main)


@pytest.mark.rule("EL-1", "EL-9", "EL-11", "INV-5")
def test_of_many_candidates_one_is_active_and_every_change_raises_the_epoch_by_one() -> None:
    async def main() -> None:
        world = await World().start()
        candidates = [world.start_controller(1000 + n) for n in range(1, 5)]
        for number in range(1, 5):
            active = await active_controller(*candidates)
            await quiesce()
            assert sum(c.gauge("ActiveControllerCount") for c in candidates) == 1
            assert (await epoch(world))[0] == str(number).encode()
            candidates.remove(active)
            await active.stop()

    run_virtually(main)


@pytest.mark.rule("EL-9", "EL-10", "EL-11")
def test_a_deleted_controller_node_starts_a_new_election() -> None:
    async def main() -> None:
        world = await World().start()
        c = await active_controller(world.start_controller())
        await quiesce()
        await world.delete(CONTROLLER)
        await until(lambda: len(c.sink.of(Kind.CONTROLLER)) == 3)
        assert [r.to_state for r in c.sink.of(Kind.CONTROLLER)] == ["active", "resigned", "active"]
        assert (await epoch(world))[0] == b"2"
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-9", "EL-10", "INV-11", "D-92")
def test_an_overwritten_controller_znode_ends_the_controller_epoch_and_starts_an_election() -> None:
    async def main() -> None:
        world = await World().start()
        c = await active_controller(world.start_controller())
        await world.start_broker(1)
        await until(lambda: c.gauge("ActiveBrokerCount") == 1)
        await world.write(SetData(CONTROLLER, encode_controller(7, 1)))  # type: ignore[arg-type]
        await until(lambda: len(c.sink.of(Kind.CONTROLLER)) == 3)
        assert [r.to_state for r in c.sink.of(Kind.CONTROLLER)] == ["active", "resigned", "active"]
        assert await owner(world) == 1001
        assert c.gauge("ActiveBrokerCount") == 1
        assert c.metrics.gauge("kafka.server", "MetadataLoader", "CurrentControllerId").value == 1001
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-5", "ZC-2")
@pytest.mark.parametrize("carried_out", [True, False])
@pytest.mark.parametrize("lost_write", range(1, 25))
def test_losing_any_write_of_the_start_there_or_back_still_ends_active(lost_write: int, carried_out: bool) -> None:
    async def main() -> None:
        world = await World().start()
        c = world.start_controller()
        original, count = c.zookeeper.multi, 0

        async def multi(ops):  # type: ignore[no-untyped-def]
            nonlocal count
            count += 1
            if count == lost_write:
                if not carried_out:
                    raise OutcomeUnknownError("it did not arrive")
                c.zookeeper.lose_answer_of_next_write()
            return await original(ops)

        c.zookeeper.multi = multi  # type: ignore[method-assign]
        await active_controller(c)
        await quiesce(3)
        assert c.gauge("ActiveControllerCount") == 1
        assert (await epoch(world))[0] == b"1"
        assert count > 20
        znodes = await world.tool.get_many([*PERSISTENT_PATHS, "/cluster/id", "/controllers/ids/1001", "/feature"])
        assert None not in znodes
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-26", "ZK-13", "EL-9")
def test_a_controller_restarted_within_its_old_session_does_not_take_the_old_controller_znode_for_its_own() -> None:
    async def main() -> None:
        world = await World().start()
        old = await active_controller(world.start_controller(1001))
        old.crash()
        new = world.start_controller(1001)
        await quiesce(SESSION_MS / 1000 / 2)
        assert await owner(world) == 1001
        assert new.gauge("ActiveControllerCount") == 0
        assert new.metrics.gauge("kafka.server", "MetadataLoader", "CurrentControllerId").value == 1001
        assert (await epoch(world))[0] == b"1"
        with pytest.raises(ApiError) as refused:
            await new.ask(ListTopicsRequest())
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        await active_controller(new)
        assert (await epoch(world))[0] == b"2"
        await new.stop()

    run_virtually(main)


@pytest.mark.rule("D-26")
def test_a_controller_znode_that_another_session_holds_under_this_id_is_somebody_elses() -> None:
    async def main() -> None:
        world = await World().start()
        old = await active_controller(world.start_controller(1001))
        old.crash()
        # Somebody tidied up the registration, so that nothing but the session tells the two apart.
        await world.delete("/controllers/ids/1001")
        new = world.start_controller(1001)
        await active_controller(new)
        assert await world.tool.exists("/controllers/ids/1001") is not None
        # It does not take the znode for its own: it is elected, and in place of it has one of its session.
        assert (await epoch(world))[0] == b"2"
        znode = await world.tool.get(CONTROLLER)
        assert znode is not None
        assert znode.stat.ephemeral_owner == new.zookeeper.session_id
        await quiesce(2 * SESSION_MS / 1000)
        assert new.is_active
        assert (await epoch(world))[0] == b"2"
        await new.stop()

    run_virtually(main)


async def refusal(c: RunningController) -> tuple[ErrorCode, str | None] | None:
    """Ask what only the active controller answers; returns the error and the address in it, None without."""
    try:
        await c.ask(ListTopicsRequest())
    except ApiError as error:
        return error.code, error.leader_address
    return None


@pytest.mark.rule("EL-31")
def test_a_controller_restarted_within_its_old_session_never_answers_as_active_before_it_knows_the_brokers() -> None:
    async def main() -> None:
        world = await World().start()
        old = await active_controller(world.start_controller(1001))
        await world.start_broker(1, 2)
        await until(lambda: old.gauge("ActiveBrokerCount") == 2, "brokers known")
        old.crash()
        new = world.start_controller(1001)
        await until(lambda: new.controller.is_connected, "connected")
        answers, refusals = set(), set()
        while True:
            was_active = None in refusals
            seen = await new.ask(DescribeClusterRequest())
            answers.add((seen.controller_id, seen.controller_address, len(seen.brokers)))
            if seen.brokers:
                break
            assert not was_active
            refusals.add(await refusal(new))
            await quiesce(0.05)
        # It may have become active between the two questions.
        assert refusals - {None} == {(ErrorCode.NOT_CONTROLLER, None)}
        assert answers == {(-1, "", 0), (1001, "controller:10001", 2)}
        await new.stop()

    run_virtually(main)


@pytest.mark.rule("EL-20", "EL-21", "EL-22", "EL-23")
def test_after_an_expiry_the_controller_registers_again_and_then_competes() -> None:
    async def main() -> None:
        world = await World().start()
        c = await active_controller(world.start_controller())
        before = await world.tool.get("/controllers/ids/1001")
        c.zookeeper.expire()
        await until(lambda: len(c.sink.of(Kind.CONTROLLER)) == 3)
        assert (await epoch(world))[0] == b"2"
        after = await world.tool.get("/controllers/ids/1001")
        assert before is not None
        assert after is not None
        assert after.stat.ephemeral_owner == c.zookeeper.session_id != before.stat.ephemeral_owner
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-24")
def test_a_disconnection_that_heals_changes_nothing() -> None:
    async def main() -> None:
        world = await World().start()
        c = await active_controller(world.start_controller())
        await world.start_broker(1, 2)
        c.zookeeper.disconnect(2)
        await world.create_topic("t", [2, 1])
        await world.leads("t", leader=2)
        assert [r.to_state for r in c.sink.of(Kind.CONTROLLER)] == ["active"]
        assert (await epoch(world))[0] == b"1"
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("IN-3", "EV-8")
def test_a_standby_names_the_active_controller_and_refuses_the_rest() -> None:
    async def main() -> None:
        world = await World().start()
        active = await active_controller(world.start_controller(1001))
        await world.start_broker(1)
        standby = world.start_controller(1002)
        await quiesce()
        seen = await standby.ask(DescribeClusterRequest())
        assert (seen.controller_id, seen.controller_address, seen.controller_epoch) == (1001, "controller:10001", 1)
        assert (seen.node_id, seen.node_role, seen.brokers) == (1002, "controller", ())
        answer = await active.ask(DescribeClusterRequest())
        assert answer.cluster_id == seen.cluster_id != ""
        assert [(b.id, b.endpoint.address, b.state) for b in answer.brokers] == [(1, "host1:9092", "running")]
        for request in (CreateTopicsRequest((NewTopic("t"),)), ListTopicsRequest()):
            with pytest.raises(ApiError) as refused:
                await standby.ask(request)
            assert (refused.value.code, refused.value.leader_address) == (ErrorCode.NOT_CONTROLLER, "controller:10001")
        await active.stop()
        await active_controller(standby)
        await standby.stop()

    run_virtually(main)


@pytest.mark.rule("EL-5", "ZC-2")
@pytest.mark.parametrize("reads", [1, 2, 3])
def test_an_election_won_late_is_known_as_won_whenever_it_shows(reads: int) -> None:
    """The transaction arrives after so many reads of the candidate that lost its answer."""

    async def main() -> None:
        world = await World().start()
        c = world.start_controller()
        get, seen, withheld = c.zookeeper.get, 0, withhold_the_election(c)

        async def let_it_arrive(path: str, *, watch: bool = False) -> Any:
            nonlocal seen
            znode = await get(path, watch=watch)
            if withheld:
                seen += 1
                if seen == reads:
                    await c.zookeeper.multi(withheld[0])
            return znode

        c.zookeeper.get = let_it_arrive  # type: ignore[method-assign]
        await active_controller(c)
        await quiesce()
        assert seen > reads
        assert (await epoch(world), c.context.epoch) == ((b"1", 1), 1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-88")
def test_a_candidate_is_registered_as_a_broker_too_where_that_is_configured() -> None:
    async def main() -> None:
        world = await World().start()
        own = Broker(BrokerId(901), (Endpoint("klamm", 9095),), rack="a", klamm_version="0.3.0")
        c = world.start_controller(901, as_broker=own, governs_kafka=True, takeover="atomic")
        await until(lambda: c.is_active, "active")
        znode = await world.tool.get(broker_path(own.id))
        assert znode is not None
        assert decode_broker(own.id, znode.data) == own
        assert c.context.brokers.registered == {}
        await c.stop()
        assert await world.tool.get(broker_path(own.id)) is None

    run_virtually(main)
