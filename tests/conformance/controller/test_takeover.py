"""Taking `/controller` from Apache Kafka's brokers, keeping it, and giving it back."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from cluster.model.errors import OutcomeUnknownError
from cluster.model.takeover import AdoptedMode
from cluster.requests.cluster import DescribeClusterRequest
from cluster.znodes.controller import encode_controller
from cluster.znodes.paths import ADOPTION, CONTROLLER, CONTROLLER_EPOCH, controller_registration_path
from cluster.zookeeper.port import Create, Delete, Op, SetData, Znode
from tests.controllers.controller_elections import active_controller, epoch, owner, withhold_the_election
from tests.controllers.worlds import SESSION_MS, RunningController, World, quiesce, run_virtually, until
from tests.kafka.competitors import RunningCompetitor, adopt, leave, ruling_broker

MODES: tuple[AdoptedMode, ...] = ("atomic", "persistent")
both_modes = pytest.mark.parametrize("mode", MODES)


async def world_of_kafka() -> World:
    """With `/controller_epoch`, which Kafka's brokers expect somebody to have created."""
    world = await World().start()
    await world.create(CONTROLLER_EPOCH, b"0")
    return world


async def controller_znode(world: World) -> Znode:
    znode = await world.tool.get(CONTROLLER)
    assert znode is not None
    return znode


def is_persistent(znode: Znode) -> bool:
    return znode.stat.ephemeral_owner == 0


@pytest.mark.rule("TO-1", "TO-2", "TO-3")
@both_modes
def test_the_controller_znode_is_taken_from_a_broker_in_one_transaction(mode: AdoptedMode) -> None:
    async def main() -> None:
        world = await world_of_kafka()
        broker = await ruling_broker(world)
        seen: list[int | None] = []
        world.server.write_observers.append(lambda *_: seen.append(None if world.server.tree.get(CONTROLLER) else -1))
        c = await active_controller(world.start_controller(901, takeover=mode, governs_kafka=True))
        assert -1 not in seen
        assert await owner(world) == 901
        assert (await epoch(world))[0] == b"2"
        assert is_persistent(await controller_znode(world)) == (mode == "persistent")
        await until(lambda: broker.competitor.epoch_won is None, "the broker has learned of it")
        assert await owner(world) == 901
        await c.stop()
        await until(lambda: broker.competitor.epoch_won == 3, "the broker is the active controller again")
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("TO-1", "EL-1")
@pytest.mark.parametrize("governs_kafka", [False, True])
def test_without_a_take_over_a_broker_is_respected(governs_kafka: bool) -> None:
    async def main() -> None:
        world = await world_of_kafka()
        broker = await ruling_broker(world)
        c = world.start_controller(901, governs_kafka=governs_kafka)
        await quiesce(30)
        assert await owner(world) == 1
        assert not c.is_active
        assert c.metrics.gauge("kafka.server", "MetadataLoader", "CurrentControllerId").value == 1
        await c.stop()
        assert await owner(world) == 1
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("TO-5")
def test_a_candidate_that_governs_kafkas_brokers_leaves_a_vacant_znode_to_them() -> None:
    async def main() -> None:
        world = await world_of_kafka()
        c = world.start_controller(901, governs_kafka=True)
        await quiesce(30)
        assert await owner(world) is None
        (described,) = (await c.ask(DescribeClusterRequest())).controllers
        assert described.unfit == "waits for 'klamm adopt --execute'"
        broker = await ruling_broker(world)
        await broker.stop()
        await quiesce(30)
        assert await owner(world) is None
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TO-6")
@both_modes
def test_an_adoption_comes_and_goes_while_the_candidates_run(mode: AdoptedMode) -> None:
    async def main() -> None:
        world = await world_of_kafka()
        broker = await ruling_broker(world)
        candidates = [world.start_controller(number, governs_kafka=True) for number in (901, 902)]
        for number in range(3):
            await quiesce(5)
            assert await owner(world) == 1, number
            await adopt(world, mode)
            c = await active_controller(*candidates)
            assert is_persistent(await controller_znode(world)) == (mode == "persistent")
            await leave(world)
            await until(lambda: broker.competitor.epoch_won is not None, "the broker rules")
            assert await owner(world) == 1
            assert not c.is_active
        for c in candidates:
            await c.stop()
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("TO-6")
def test_a_take_over_is_refused_once_the_adoption_is_gone() -> None:
    """The adoption is deleted between the candidate's read and its transaction."""

    async def main() -> None:
        world = await world_of_kafka()
        broker = await ruling_broker(world)
        c = world.start_controller(901, governs_kafka=True)
        await quiesce()
        original, refused = c.zookeeper.multi, []

        async def multi(ops: Sequence[Op]) -> Any:
            if any(isinstance(op, Create) and op.path == CONTROLLER for op in ops) and not refused:
                await leave(world)
                results = await original(ops)
                refused.append(all(result.ok for result in results))
                return results
            return await original(ops)

        c.zookeeper.multi = multi  # type: ignore[method-assign]
        await adopt(world)
        await until(lambda: refused, "an attempt")
        await quiesce(10)
        assert refused == [False]
        assert await owner(world) == 1
        assert (await epoch(world))[0] == b"1"
        await c.stop()
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("TO-4")
@pytest.mark.parametrize("ends", ["crash", "expiry", "stop"])
@pytest.mark.parametrize("successor_mode", ["atomic", "persistent", "never"])
def test_a_persistent_znode_passes_to_another_candidate_and_never_to_a_broker(ends: str, successor_mode: str) -> None:
    async def main() -> None:
        world = await world_of_kafka()
        first = await active_controller(world.start_controller(901, takeover="persistent"))
        broker_of_nobody = await _broker_that_must_not_win(world)
        second = world.start_controller(902, takeover=successor_mode)
        await quiesce()
        if ends == "crash":
            first.crash()
        elif ends == "stop":
            await first.stop()
        else:
            first.zookeeper.expire()
        await until(lambda: world.server.tree.get(CONTROLLER_EPOCH).data == b"2", "a successor")  # type: ignore[union-attr]
        assert await owner(world) in ({901, 902} if ends == "expiry" else {902})
        assert broker_of_nobody.competitor.epoch_won is None
        await second.stop()
        if ends == "expiry":
            await first.stop()

    run_virtually(main)


async def _broker_that_must_not_win(world: World) -> RunningCompetitor:
    started = RunningCompetitor(world, 1)
    await quiesce()
    assert started.competitor.epoch_won is None
    return started


@pytest.mark.rule("TO-4", "TO-8")
def test_the_last_candidate_that_stops_deletes_the_persistent_znode_and_a_broker_takes_over() -> None:
    async def main() -> None:
        world = await world_of_kafka()
        first = await active_controller(world.start_controller(901, takeover="persistent"))
        second, third = (world.start_controller(number, takeover="persistent") for number in (902, 903))
        broker = await _broker_that_must_not_win(world)
        await quiesce()
        await first.stop()
        await quiesce(2)
        assert await owner(world) in {902, 903}
        assert broker.competitor.epoch_won is None
        # Both at once: neither may rely on the other.
        await asyncio.gather(second.stop(), third.stop())
        await until(lambda: broker.competitor.epoch_won is not None, "the broker rules")
        assert await owner(world) == 1
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("TO-4")
def test_a_candidate_that_restarts_replaces_the_znode_of_its_dead_session_once_that_is_over() -> None:
    async def main() -> None:
        world = await world_of_kafka()
        old = await active_controller(world.start_controller(901, takeover="persistent"))
        old.crash()
        new = world.start_controller(901, takeover="persistent")
        await quiesce(SESSION_MS / 1000 / 2)
        assert not new.is_active
        assert (await epoch(world))[0] == b"1"
        await active_controller(new)
        assert (await epoch(world))[0] == b"2"
        await new.stop()

    run_virtually(main)


@pytest.mark.rule("TO-9")
def test_another_mode_converts_the_znode_of_the_active_controller_within_its_epoch() -> None:
    async def main() -> None:
        world = await world_of_kafka()
        broker = await ruling_broker(world)
        await adopt(world, "atomic")
        c = await active_controller(world.start_controller(901, governs_kafka=True))
        for mode in ("persistent", "atomic", "persistent"):
            data = await world.tool.get(ADOPTION)
            assert data is not None
            other = {"persistent": b"atomic", "atomic": b"persistent"}[mode]
            await world.write(SetData(ADOPTION, data.data.replace(other, mode.encode())))
            await quiesce()
            assert is_persistent(await controller_znode(world)) == (mode == "persistent")
            assert await owner(world) == 901
        assert (await epoch(world))[0] == b"2"
        assert c.is_active
        await until(lambda: broker.competitor.epoch_won is None, "the broker has learned of it")
        await world.start_broker(5)
        await world.create_topic("t", [5])
        await world.leads("t", leader=5)
        await c.stop()
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("TO-1", "TO-7")
def test_a_broker_that_takes_a_deleted_znode_loses_it_again_with_growing_pauses() -> None:
    async def main() -> None:
        world = await world_of_kafka()
        broker = await ruling_broker(world)
        c = await active_controller(world.start_controller(901, takeover="atomic", governs_kafka=True))
        held = []
        for _ in range(4):
            # The broker must win: the candidate does not compete while it hangs.
            await quiesce(5)
            c.zookeeper.pause()
            await world.delete(CONTROLLER)
            await until(lambda: broker.competitor.epoch_won is not None, "the broker rules")
            c.zookeeper.resume()
            began = _now()
            await until(lambda: c.is_active and broker.competitor.epoch_won is None, "taken back")
            held.append(_now() - began)
        assert await owner(world) == 901
        assert held[-1] > 3
        await c.stop()
        await broker.stop()

    run_virtually(main)


def _now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.rule("TO-2", "EL-5", "ZC-2")
@both_modes
@pytest.mark.parametrize("carried_out", [True, False])
@pytest.mark.parametrize("lost_write", range(1, 8))
def test_losing_any_write_of_a_take_over_there_or_back_still_ends_active(
    lost_write: int, carried_out: bool, mode: AdoptedMode
) -> None:
    async def main() -> None:
        world = await world_of_kafka()
        broker = await ruling_broker(world)
        c = world.start_controller(901, takeover=mode, governs_kafka=True)
        original, count = c.zookeeper.multi, 0

        async def multi(ops: Sequence[Op]) -> Any:
            nonlocal count
            if any(op.path in {CONTROLLER, controller_registration_path(c.controller.config.id)} for op in ops):
                count += 1
                if count == lost_write:
                    if not carried_out:
                        raise OutcomeUnknownError("it did not arrive")
                    c.zookeeper.lose_answer_of_next_write()
            return await original(ops)

        c.zookeeper.multi = multi  # type: ignore[method-assign]
        await active_controller(c)
        await quiesce(5)
        assert c.is_active
        assert await owner(world) == 901
        await c.stop()
        await until(lambda: broker.competitor.epoch_won is not None, "the broker rules")
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("TO-2", "EL-5")
@both_modes
def test_a_take_over_that_arrives_late_is_known_as_won(mode: AdoptedMode) -> None:
    async def main() -> None:
        world = await world_of_kafka()
        broker = await ruling_broker(world)
        c = world.start_controller(901, takeover=mode, governs_kafka=True)
        withheld = withhold_the_election(c)
        get = c.zookeeper.get

        async def let_it_arrive(path: str, *, watch: bool = False) -> Any:
            znode = await get(path, watch=watch)
            if withheld and path == CONTROLLER:
                c.zookeeper.get = get  # type: ignore[method-assign]
                await c.zookeeper.multi(withheld[0])
            return znode

        c.zookeeper.get = let_it_arrive  # type: ignore[method-assign]
        await active_controller(c)
        await quiesce()
        assert ((await epoch(world))[0], c.context.epoch) == (b"2", 2)
        await c.stop()
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("TO-4", "EL-10")
@both_modes
@pytest.mark.parametrize("data", [b"", b"{}", encode_controller(7, 1)])  # type: ignore[arg-type]
def test_a_znode_overwritten_by_hand_is_taken_again(mode: AdoptedMode, data: bytes) -> None:
    async def main() -> None:
        world = await world_of_kafka()
        c = await active_controller(world.start_controller(901, takeover=mode))
        await world.write(SetData(CONTROLLER, data))
        await until(lambda: c.is_active and c.context.epoch == 2, "elected again")
        assert await owner(world) == 901
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TO-6")
def test_a_malformed_adoption_adopts_nothing() -> None:
    async def main() -> None:
        world = await world_of_kafka()
        broker = await ruling_broker(world)
        c = world.start_controller(901, governs_kafka=True)
        await world.create(ADOPTION, b"{}")
        await quiesce(5)
        assert await owner(world) == 1
        await world.delete(ADOPTION)
        await adopt(world)
        await active_controller(c)
        await c.stop()
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("TO-8")
def test_a_candidate_that_leaves_gives_up_its_registration_only_for_a_persistent_znode() -> None:
    async def main() -> None:
        world = await world_of_kafka()
        seen: list[Op] = []

        def observe(c: RunningController) -> None:
            original = c.zookeeper.multi

            async def multi(ops: Sequence[Op]) -> Any:
                seen.extend(op for op in ops if isinstance(op, Delete))
                return await original(ops)

            c.zookeeper.multi = multi  # type: ignore[method-assign]

        c = await active_controller(world.start_controller(901, takeover="atomic"))
        observe(c)
        await c.stop()
        assert not seen
        c = await active_controller(world.start_controller(901, takeover="persistent"))
        observe(c)
        await c.stop()
        assert [op.path for op in seen] == ["/controllers/ids/901", CONTROLLER]

    run_virtually(main)
