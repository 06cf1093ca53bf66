"""`klamm leave` as ZooKeeper sees it: the adoption first, an abandoned `/controller`, and what klamm has there."""

import pytest

from adoption.handover import Handovers
from cluster.znodes.adoption import Adoption
from cluster.znodes.paths import ADOPTION, CONTROLLER, CONTROLLER_EPOCH
from tests.controller_elections import active_controller, owner
from tests.controllers import SESSION_MS, World, quiesce, run_virtually
from tests.kafka_competitors import RunningCompetitor, adopt


def handovers(world: World, said: list[str], timeout_s: float = 5) -> Handovers:
    return Handovers(world.tool, None, timeout_s, said.append)


@pytest.mark.rule("AO-4")
def test_an_abandoned_persistent_znode_is_deleted_so_that_a_broker_takes_over() -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(CONTROLLER_EPOCH, b"0")
        await adopt(world, "persistent")
        c = await active_controller(world.start_controller(901, governs_kafka=True))
        broker = RunningCompetitor(world, 1)
        c.crash()
        await quiesce(SESSION_MS / 1000 + 1)
        assert await owner(world) == 901
        said: list[str] = []
        await handovers(world, said).leave(keeps=False)
        assert await owner(world) == 1
        assert "deleted /controller, whose owner is gone" in said
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("AO-4")
def test_a_candidate_that_was_started_to_take_over_is_named_when_it_does_not_give_up() -> None:
    async def main() -> None:
        world = await World().start()
        c = await active_controller(world.start_controller(901, takeover="atomic", governs_kafka=True))
        said: list[str] = []
        ended = await handovers(world, said).leave(keeps=False)
        assert (ended.controller, ended.is_candidate, ended.is_complete) == (901, True, False)
        assert "waiting for controller 901 of klamm to give up; if it does not, it was started with" in said[0]
        assert await world.tool.exists("/controllers/ids/901") is not None
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("AO-3")
def test_without_a_candidate_the_adoption_stands_and_is_overwritten_by_the_next() -> None:
    async def main() -> None:
        world = await World().start()
        said: list[str] = []
        for mode in ("atomic", "persistent"):
            ended = await handovers(world, said).adopt(Adoption(mode, "me", 1))  # type: ignore[arg-type]
            assert not ended.is_complete
            znode = await world.tool.get(ADOPTION)
            assert znode is not None
            assert mode.encode() in znode.data
        assert "waiting for a controller of klamm: start those that are listed above" in said
        assert await world.tool.exists(CONTROLLER) is None

    run_virtually(main)
