"""A candidate writes into its registration why it does not stand for election."""

import pytest

from cluster.znodes.candidates import decode_profile
from cluster.znodes.paths import controller_registration_path
from cluster.znodes.registrations import decode_controller_registration
from cluster.zookeeper.port import Create, Delete
from tests.controllers.controller_elections import active_controller
from tests.controllers.worlds import World, run_virtually, until

PATH = controller_registration_path


@pytest.mark.rule("D-113")
def test_the_reason_is_registered_again_after_the_session_until_it_is_taken_back() -> None:
    async def main() -> None:
        world = await World().start()
        c = await active_controller(world.start_controller())
        id_, election = c.controller.config.id, c.controller.election

        async def unfit() -> str | None:
            znode = await world.tool.get(PATH(id_))
            if znode is None:
                return None
            assert decode_controller_registration(id_, znode.data) == c.controller.config.endpoints
            profile = decode_profile(id_, znode.data)
            assert profile is not None
            return profile.unfit

        assert await unfit() == ""
        await election.say_unfit("it would admit 0 of 3 brokers")
        assert await unfit() == "it would admit 0 of 3 brokers"
        former = c.zookeeper.session_id
        c.zookeeper.expire()
        await until(lambda: c.zookeeper.session_id != former and c.is_active)
        assert await unfit() == "it would admit 0 of 3 brokers"
        await election.say_unfit("")
        assert await unfit() == ""
        await world.write(Delete(PATH(id_)), Create(PATH(id_), b"{}"))
        await election.say_unfit("this is another session's registration")
        znode = await world.tool.get(PATH(id_))
        assert znode is not None
        assert znode.data == b"{}"
        await c.stop()

    run_virtually(main)
