"""`klamm leave` as ZooKeeper sees it: the adoption first, an abandoned `/controller`, and what klamm has there."""

import pytest

from adoption.broker_access import BrokerAccess
from adoption.handover import Handovers, Withdrawal
from cluster.znodes.adoption import Adoption, decode_adoption, encode_adoption
from cluster.znodes.paths import ADOPTION, CONTROLLER_EPOCH, LEFT_REPLICAS
from tests.controllers.controller_elections import active_controller, owner
from tests.controllers.worlds import SESSION_MS, World, quiesce, run_virtually
from tests.kafka.competitors import RunningCompetitor, adopt


def handovers(world: World, said: list[str], timeout_s: float = 5) -> Handovers:
    return Handovers(world.tool, BrokerAccess(), timeout_s, said.append)


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


@pytest.mark.rule("AO-3", "D-118")
@pytest.mark.parametrize("former", [None, Adoption("persistent", "them", 1)])
def test_without_success_the_adoption_is_as_it_was_before(former: Adoption | None) -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(CONTROLLER_EPOCH, b"0")
        if former is not None:
            await world.create(ADOPTION, encode_adoption(former))
        broker = RunningCompetitor(world, 1)
        await quiesce()
        said: list[str] = []
        withdrawal, own = Withdrawal(), Adoption("atomic", "me", 2)
        ended = await handovers(world, said).adopt(own, "PLAINTEXT", withdrawal)
        assert not ended.is_complete
        assert withdrawal.is_due
        znode = await world.tool.get(ADOPTION)
        assert znode is not None
        assert decode_adoption(znode.data) == own
        await handovers(world, said).give_back(withdrawal)
        znode = await world.tool.get(ADOPTION)
        assert (None if znode is None else decode_adoption(znode.data)) == former
        assert await owner(world) == 1
        await broker.stop()

    run_virtually(main)


@pytest.mark.rule("AO-4", "D-98", "D-100")
def test_who_still_has_replicas_of_deleted_topics_is_named_before_klamm_is_gone() -> None:
    async def main() -> None:
        world = await World().start()
        await world.create("/brokers/ids/1", b"")
        for path in ("3/gone", "3/lost", "4"):
            await world.create(f"{LEFT_REPLICAS}/{path}", b"")
        said: list[str] = []
        await handovers(world, said, 1).leave(keeps=False)
        assert said[0].startswith("warning: broker 3 was away while topics were deleted (gone, lost) and still has")
        assert not [line for line in said if "broker 4" in line]

    run_virtually(main)
