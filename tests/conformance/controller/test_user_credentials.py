"""SCRAM credentials of users, as Kafka's brokers read them."""

import base64
import hashlib
from typing import Any

import msgspec
import pytest

from cluster.errors import ErrorCode
from cluster.requests.users import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    ScramMechanism,
)
from cluster.znodes.configs import decode_config, decode_config_change, encode_config
from cluster.znodes.paths import CONFIG_CHANGES
from controller.decisions.configs.user_credentials import user_entity, with_credentials
from tests.controllers import RunningController, World, run_virtually, running_cluster

KAFKA: dict[str, Any] = {"governs_kafka": True, "takeover": "atomic"}
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SHA_256, SHA_512 = ScramMechanism


def upsertion(
    user: str = "ann", mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = SALT
) -> ScramCredentialUpsertion:
    digest = "sha256" if mechanism == SHA_256 else "sha512"
    salted = hashlib.pbkdf2_hmac(digest, b"pencil", salt, max(iterations, 1))
    return ScramCredentialUpsertion(user, mechanism, iterations, salt, salted)


@pytest.mark.rule("D-83")
def test_the_credential_is_that_of_the_example_in_rfc_7677() -> None:
    request = AlterUserScramCredentialsRequest(upsertions=(upsertion(),))
    assert with_credentials({"producer_byte_rate": "9"}, "ann", request) == {
        "producer_byte_rate": "9",
        "SCRAM-SHA-256": "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096",
    }


def test_nothing_that_logs_a_request_shows_a_password() -> None:
    request = AlterUserScramCredentialsRequest(upsertions=(upsertion(),))
    assert repr(request.upsertions[0].salted_password) not in repr(request)


@pytest.mark.parametrize(
    ("user", "name"), [("ann", "ann"), ("CN=a b,O=ü*~", "CN%3Da%20b%2CO%3D%C3%BC%2A%7E"), ("a/../b", "a%2F..%2Fb")]
)
def test_a_user_is_named_in_the_path_as_kafka_encodes_it(user: str, name: str) -> None:
    assert user_entity(user).path == f"/config/users/{name}"


async def _alter(c: RunningController, *items: ScramCredentialUpsertion | ScramCredentialDeletion) -> Any:
    request = AlterUserScramCredentialsRequest(
        tuple(i for i in items if isinstance(i, ScramCredentialDeletion)),
        tuple(i for i in items if isinstance(i, ScramCredentialUpsertion)),
    )
    return {r.user: (r.error_code, r.error_message) for r in (await c.ask(request)).results}


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
@pytest.mark.parametrize(
    ("items", "code", "why"),
    [
        ([upsertion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([upsertion("..")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "cannot be that of a znode"),
        ([upsertion("x" * 1025)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "at most 1,024 characters"),
        ([upsertion("x", 3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism 3"),
        ([ScramCredentialDeletion("x", 0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism 0"),
        ([upsertion("x", iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations: 4095"),
        ([upsertion("x", iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations: 16385"),
        ([upsertion("x", salt=bytes(1025))], ErrorCode.UNACCEPTABLE_CREDENTIAL, "the salt has 1025 bytes"),
        ([ScramCredentialDeletion("x", 1)], ErrorCode.RESOURCE_NOT_FOUND, "does not exist"),
        ([upsertion("x"), upsertion("x")], ErrorCode.DUPLICATE_RESOURCE, "twice in the same request"),
        ([upsertion("x"), ScramCredentialDeletion("x", 1)], ErrorCode.DUPLICATE_RESOURCE, "twice"),
        # The whole user is refused, and nothing of it written.
        ([upsertion("x"), ScramCredentialDeletion("x", 2)], ErrorCode.RESOURCE_NOT_FOUND, "does not exist"),
    ],
)
def test_a_user_is_refused_by_itself(items: list[Any], code: ErrorCode, why: str) -> None:
    async def main() -> None:
        world, c = await running_cluster(1, **KAFKA)
        answer = await _alter(c, *items, upsertion("good"))
        assert answer.pop("good") == (ErrorCode.NONE, None)
        ((refused, message),) = answer.values()
        assert refused is code
        assert why in message
        assert _stored(world, items[0].user) is None
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
