"""Taking `/controller` from a Kafka broker, keeping it and handing it over, on the real server and in memory."""

from random import Random

import pytest

from cluster.aio.clock import SystemClock
from cluster.config.settings import Settings
from cluster.model.broker import ControllerEpoch, ControllerId, Endpoint
from cluster.model.takeover import AdoptedMode, Takeover
from cluster.znodes.adoption import Adoption, encode_adoption
from cluster.znodes.controller import decode_controller, encode_controller
from cluster.znodes.paths import ADOPTION, CONTROLLER, CONTROLLER_EPOCH
from cluster.zookeeper.port import Check, Create, Delete, SessionState, SetData, WatchKind, ZkError, ZooKeeper
from controller.config import ControllerConfig
from controller.controller_election import ControllerElection
from controller.decisions.takeover import Step
from tests.contract.zookeeper_worlds import World, eventually

BROKER = ControllerId(1)
both_modes = pytest.mark.parametrize("mode", ["atomic", "persistent"])


async def candidate(client: ZooKeeper, id_: int, takeover: Takeover) -> ControllerElection:
    """A registered candidate."""
    settings = Settings(klamm_takeover=takeover, klamm_broker_protocol="kafka")
    config = ControllerConfig(ControllerId(id_), (Endpoint("here", 1),), settings)
    election = ControllerElection(client, config, SystemClock(), Random(id_))
    await election.create_paths()
    assert await election.register()
    return election


async def let_broker_win(client: ZooKeeper, epoch: int = 1) -> int:
    """As Kafka does it; returns the version of the epoch."""
    await client.multi([Create(CONTROLLER_EPOCH, b"0")])
    stored = await client.get(CONTROLLER_EPOCH)
    assert stored is not None
    creation = Create(CONTROLLER, encode_controller(BROKER, 1), ephemeral=True)
    raised = SetData(CONTROLLER_EPOCH, str(epoch).encode(), stored.stat.version)
    assert all(result.ok for result in await client.multi([creation, raised]))
    return stored.stat.version + 1


async def holder(client: ZooKeeper) -> tuple[ControllerId | None, int]:
    znode = await client.get(CONTROLLER)
    assert znode is not None
    return decode_controller(znode.data), znode.stat.ephemeral_owner


@pytest.mark.rule("TO-1", "TO-2", "TO-3")
@both_modes
def test_a_take_over_replaces_the_znode_of_a_live_session_and_fences_its_writes(
    world: World, mode: AdoptedMode
) -> None:
    async def test(world: World) -> None:
        broker, events = await world.client()
        client, _ = await world.client()
        version = await let_broker_win(broker)
        await broker.get(CONTROLLER, watch=True)
        election = await candidate(client, 901, mode)
        elected = await election.elect()
        assert elected is not None
        assert (elected.epoch, elected.was_brokers) == (ControllerEpoch(2), True)
        assert await holder(broker) == (901, client.session_id if mode == "atomic" else 0)
        await eventually(lambda: events.watches == [(CONTROLLER, WatchKind.DELETED)])
        late = await broker.multi([Check(CONTROLLER_EPOCH, version), Create("/late")])
        assert late[0].error is ZkError.BAD_VERSION
        assert (await broker.multi([Create(CONTROLLER, b"", ephemeral=True)]))[0].error is ZkError.NODE_EXISTS
        await broker.close()
        assert (await holder(client))[0] == 901
        await election.refresh()
        assert election.owns_controller_znode

    world.run(test)


@pytest.mark.rule("TO-4", "TO-8")
def test_a_persistent_znode_is_handed_over_and_deleted_by_the_last(world: World) -> None:
    async def test(world: World) -> None:
        first, _ = await world.client()
        second, events = await world.client()
        one, other = await candidate(first, 901, "persistent"), await candidate(second, 902, "persistent")
        assert await one.elect() is not None
        assert await other.elect() is None
        await one.leave(timeout_s=30)
        await first.close()
        # The watch on the owner's registration is what brings the other one here.
        await eventually(lambda: ("/controllers/ids/901", WatchKind.DELETED) in events.watches)
        assert (await holder(second))[0] == 901
        elected = await other.elect()
        assert elected is not None
        assert (elected.epoch, await holder(second)) == (2, (902, 0))
        await other.leave(timeout_s=30)
        assert await second.get(CONTROLLER) is None

    world.run(test)


@pytest.mark.rule("TO-4", "D-26")
def test_after_an_expiry_the_own_persistent_znode_is_somebody_elses(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        election = await candidate(client, 901, "persistent")
        assert await election.elect() is not None
        await world.expire(client)
        await eventually(lambda: SessionState.EXPIRED in events.states)
        await client.start_session()
        await election.refresh()
        assert not election.owns_controller_znode
        assert await election.register()
        elected = await election.elect()
        assert elected is not None
        assert elected.epoch == 2

    world.run(test)


@pytest.mark.rule("TO-6", "TO-9")
def test_the_adoption_decides_for_a_candidate_without_a_mode(world: World) -> None:
    async def test(world: World) -> None:
        broker, _ = await world.client()
        client, events = await world.client()
        await let_broker_win(broker)
        election = await candidate(client, 901, "never")
        assert await election.elect() is None
        assert election.step is Step.WAIT
        await broker.multi([Create("/klamm"), Create(ADOPTION, encode_adoption(Adoption("atomic", "me", 1)))])
        await eventually(lambda: (ADOPTION, WatchKind.CREATED) in events.watches)
        elected = await election.elect()
        assert elected is not None
        await broker.multi([SetData(ADOPTION, encode_adoption(Adoption("persistent", "me", 2)))])
        await election.refresh()
        await election.convert(elected.epoch_zk_version)
        assert await holder(client) == (901, 0)
        assert election.owns_controller_znode
        await broker.multi([Delete(ADOPTION)])
        await election.refresh()
        assert election.step is Step.DELETE
        await election.delete_controller_znode()
        assert await client.get(CONTROLLER) is None
        assert await election.elect() is None

    world.run(test)


@pytest.mark.rule("TO-2", "EL-5", "ZC-2")
@both_modes
def test_a_take_over_whose_answer_is_lost_is_known_as_won(world: World, mode: AdoptedMode) -> None:
    async def test(world: World) -> None:
        broker, _ = await world.client()
        client, _ = await world.client()
        await let_broker_win(broker)
        election = await candidate(client, 901, mode)
        await world.lose_answer_of_next_write(client)
        elected = await election.elect()
        assert elected is not None
        assert (elected.epoch, (await holder(broker))[0]) == (2, 901)

    world.run(test)
