"""SCRAM credentials of users, as Kafka's brokers read them."""

from typing import Any

import msgspec
import pytest

from cluster.model.errors import ErrorCode
from cluster.requests.configs import (
    SET_CONFIG,
    USER_RESOURCE,
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    ConfigResource,
    DescribeConfigsRequest,
)
from cluster.requests.plans import PlannedSetting
from cluster.requests.quotas import DescribeClientQuotasRequest
from cluster.requests.users import (
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialInfo,
    ScramCredentialUpsertion,
)
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


def test_users_are_described_by_their_mechanisms_and_iterations_only() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)

        async def described(*users: str) -> dict[str, Any]:
            results = (await c.ask(DescribeUserScramCredentialsRequest(users))).results
            return {r.user: r.credential_infos or r.error_code for r in results}

        assert await described() == {}
        await _alter(c, upsertion(), upsertion(mechanism=SHA_512, iterations=8192), upsertion("b/ö b"))
        await world.create("/config/users/quota", encode_config({"producer_byte_rate": "1"}))
        await world.create("/config/users/damaged", encode_config({"SCRAM-SHA-256": "salt=x,iterations=many"}))
        await world.create("/config/users/broken", b"not JSON")
        await world.create("/config/users/<default>", encode_config({"producer_byte_rate": "1"}))
        ann = (ScramCredentialInfo(SHA_256, 4096), ScramCredentialInfo(SHA_512, 8192))
        of_b, damaged = (ScramCredentialInfo(SHA_256, 4096),), (ScramCredentialInfo(SHA_256, -1),)
        everybody = {"ann": ann, "b/ö b": of_b, "broken": ErrorCode.INVALID_CONFIG, "damaged": damaged}
        assert await described() == everybody
        assert list(await described()) == sorted(everybody)
        assert await described("b/ö b", "quota", "nobody", "ann", "ann", "") == {
            "b/ö b": of_b,
            "quota": ErrorCode.RESOURCE_NOT_FOUND,
            "nobody": ErrorCode.RESOURCE_NOT_FOUND,
            "ann": ErrorCode.DUPLICATE_RESOURCE,
            "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        }
        await c.stop()

    run_virtually(main)


@pytest.mark.parametrize("user", ["ann", "<default>", "ann/clients/app"])
def test_quotas_of_a_user_are_altered_and_described_without_its_credentials(user: str) -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        credential = {"SCRAM-SHA-512": "salt=secret"}
        await world.create("/config/users/ann", encode_config(credential))
        quota = AlterConfigsResource(USER_RESOURCE, user, (AlterableConfig("producer_byte_rate", SET_CONFIG, "9"),))
        planned = (await c.ask(AlterConfigsRequest((quota,), validate_only=True))).plan
        assert planned is not None
        assert planned.settings == (PlannedSetting(USER_RESOURCE, user, "producer_byte_rate", None, "9"),)
        (altered,) = (await c.ask(AlterConfigsRequest((quota,)))).responses
        assert altered.error_code is ErrorCode.NONE
        kept = credential if user == "ann" else {}
        assert _stored(world, user) == {**kept, "producer_byte_rate": "9"}
        (described,) = (await c.ask(DescribeConfigsRequest((ConfigResource(USER_RESOURCE, user),)))).results
        assert [(config.name, config.value) for config in described.configs] == [("producer_byte_rate", "9")]
        assert "secret" not in repr(described)
        await c.stop()

    run_virtually(main)


def test_all_quotas_are_listed_and_nothing_else_of_users() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)

        async def listed() -> list[tuple[list[tuple[str, str | None]], dict[str, str]]]:
            entries = (await c.ask(DescribeClientQuotasRequest())).entries
            return [
                ([(e.entity_type, e.entity_name) for e in entry.entity], {v.key: v.value for v in entry.values})
                for entry in entries
            ]

        assert await listed() == []
        rate = {"producer_byte_rate": "1"}
        await world.create("/config/users/ann", encode_config({"SCRAM-SHA-512": "salt=secret"}))
        await world.create("/config/users/CN%3Dbob%2CO%3Dx", encode_config({**rate, "SCRAM-SHA-256": "salt=secret"}))
        await world.create("/config/users/CN%3Dbob%2CO%3Dx/clients")
        await world.create("/config/users/CN%3Dbob%2CO%3Dx/clients/app", encode_config({"request_percentage": "12.5"}))
        await world.create("/config/users/<default>", encode_config(rate))
        await world.create("/config/users/broken", b"not JSON")
        await world.create("/config/clients/%3Cdefault%3E", encode_config({"consumer_byte_rate": "2"}))
        await world.create("/config/clients/<default>", encode_config({"consumer_byte_rate": "3"}))
        await world.create("/config/clients/former", encode_config({}))
        bob = ("user", "CN=bob,O=x")
        assert await listed() == [
            ([("user", None)], rate),
            ([bob], rate),
            ([bob, ("client-id", "app")], {"request_percentage": "12.5"}),
            ([("client-id", "<default>")], {"consumer_byte_rate": "2"}),
            ([("client-id", None)], {"consumer_byte_rate": "3"}),
        ]
        await c.stop()

    run_virtually(main)
