"""SCRAM credentials of users, as Kafka's brokers read them."""

from typing import Any

import msgspec
import pytest

from cluster.model.errors import ErrorCode
from cluster.requests.users import ScramCredentialDeletion, ScramCredentialUpsertion
from cluster.znodes.configs import decode_config, decode_config_change, encode_config
from cluster.znodes.paths import CONFIG_CHANGES
from tests.controllers.user_credentials import SHA_256, SHA_512, of, upsertion
from tests.controllers.worlds import RunningController, World, run_virtually, running_cluster

KAFKA: dict[str, Any] = {"governs_kafka": True, "takeover": "atomic"}


async def _alter(c: RunningController, *items: ScramCredentialUpsertion | ScramCredentialDeletion) -> Any:
    return {r.user: (r.error_code, r.error_message) for r in (await c.ask(of(*items))).results}


def _stored(world: World, user: str) -> dict[str, str] | None:
    path = f"/config/users/{user}"
    found = world.server.tree.get(path)
    return None if found is None else decode_config(path, found.data)


@pytest.mark.rule("D-83", "ZK-3")
def test_credentials_are_written_with_a_notification_and_deleted() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, **KAFKA)
        assert await _alter(c, upsertion(), upsertion(mechanism=SHA_512, iterations=8192), upsertion("bob")) == {
            "ann": (ErrorCode.NONE, None),
            "bob": (ErrorCode.NONE, None),
        }
        assert set(_stored(world, "ann") or ()) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
        names = sorted(await world.tool.children(CONFIG_CHANGES) or ())
        found = await world.tool.get_many([f"{CONFIG_CHANGES}/{name}" for name in names])
        assert [decode_config_change("", znode.data).path for znode in found if znode is not None] == [
            "/config/users/ann",
            "/config/users/bob",
        ]
        assert await _alter(c, ScramCredentialDeletion("ann", SHA_256)) == {"ann": (ErrorCode.NONE, None)}
        assert set(_stored(world, "ann") or ()) == {"SCRAM-SHA-512"}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-83")
def test_a_user_is_changed_completely_or_not_at_all() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, **KAFKA)
        answer = await _alter(c, upsertion(), ScramCredentialDeletion("ann", SHA_512), upsertion("bob"), upsertion(""))
        assert {user: code for user, (code, _) in answer.items()} == {
            "ann": ErrorCode.RESOURCE_NOT_FOUND,
            "bob": ErrorCode.NONE,
            "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        }
        assert _stored(world, "ann") is None
        assert set(_stored(world, "bob") or ()) == {"SCRAM-SHA-256"}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-83")
def test_a_malformed_znode_of_a_user_is_not_overwritten() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, **KAFKA)
        data = msgspec.json.encode({"version": 1, "config": 7})
        await world.create("/config/users/ann", data)
        await world.create("/config/users/bob", encode_config({"consumer_byte_rate": "5"}))
        answer = await _alter(c, upsertion(), upsertion("bob"))
        assert answer == {
            "ann": (ErrorCode.INVALID_CONFIG, "/config/users/ann cannot be read"),
            "bob": (ErrorCode.NONE, None),
        }
        kept = world.server.tree.get("/config/users/ann")
        assert kept is not None
        assert kept.data == data
        assert set(_stored(world, "bob") or ()) == {"consumer_byte_rate", "SCRAM-SHA-256"}
        await c.stop()

    run_virtually(main)
