"""Decisions about SCRAM credentials: what is refused, and what a user's configs are afterwards."""

import pytest
from msgspec.structs import replace

from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.users import (
    ScramCredentialDeletion,
    ScramCredentialInfo,
    ScramCredentialUpsertion,
    ScramMechanism,
)
from cluster.sasl.scram import Decoys, ScramClientExchange, ScramServerExchange, parse_credential
from controller.decisions.configs.user_credentials import (
    described_credentials,
    refused_users,
    user_entity,
    with_credentials,
)
from tests.controllers.user_credentials import SHA_256, SHA_512, of, upsertion


@pytest.mark.rule("D-83")
def test_the_credential_is_that_of_the_example_in_rfc_7677() -> None:
    assert with_credentials({"producer_byte_rate": "9"}, [upsertion()]) == {
        "producer_byte_rate": "9",
        "SCRAM-SHA-256": "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096",
    }


@pytest.mark.rule("D-83")
def test_each_mechanism_has_a_credential_of_its_own() -> None:
    both = with_credentials({}, [upsertion(), upsertion(mechanism=SHA_512)])
    assert set(both) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    left = with_credentials(both, [ScramCredentialDeletion("ann", SHA_256)])
    assert set(left) == {"SCRAM-SHA-512"}
    with pytest.raises(ApiError, match="does not exist") as caught:
        with_credentials(left, [ScramCredentialDeletion("ann", SHA_256)])
    assert caught.value.code is ErrorCode.RESOURCE_NOT_FOUND


@pytest.mark.parametrize(
    ("iterations", "shown"), [("4096", 4096), ("many", -1), ("", -1), ("9999999999", -1), ("-5", -1)]
)
def test_credentials_are_described_by_their_iterations(iterations: str, shown: int) -> None:
    stored = {"SCRAM-SHA-256": f"salt=x,iterations={iterations}", "producer_byte_rate": "9"}
    assert described_credentials(stored) == (ScramCredentialInfo(SHA_256, shown),)
    assert described_credentials({}) == ()
    assert described_credentials({"SCRAM-SHA-512": "salt=x"}) == (ScramCredentialInfo(SHA_512, -1),)


def test_nothing_that_logs_a_request_shows_a_password() -> None:
    request = of(upsertion())
    assert repr(request.upsertions[0].salted_password) not in repr(request)


@pytest.mark.parametrize(
    ("user", "name"), [("ann", "ann"), ("CN=a b,O=ü*~", "CN%3Da%20b%2CO%3D%C3%BC%2A%7E"), ("a/../b", "a%2F..%2Fb")]
)
def test_a_user_is_named_in_the_path_as_kafka_encodes_it(user: str, name: str) -> None:
    assert user_entity(user).path == f"/config/users/{name}"


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
        ([replace(upsertion("x"), salted_password=b"")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "password has 0 bytes"),
        ([replace(upsertion("x", SHA_512), salted_password=bytes(32))], ErrorCode.UNACCEPTABLE_CREDENTIAL, "gives 64"),
        ([upsertion("x"), upsertion("x")], ErrorCode.DUPLICATE_RESOURCE, "twice in the same request"),
        ([upsertion("x"), ScramCredentialDeletion("x", 1)], ErrorCode.DUPLICATE_RESOURCE, "twice"),
        # What is wrong with one of them comes first, as in Kafka.
        ([upsertion("x", 3), upsertion("x", 3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown"),
    ],
)
def test_what_is_wrong_with_a_user_does_not_concern_others(
    items: list[ScramCredentialUpsertion | ScramCredentialDeletion], code: ErrorCode, why: str
) -> None:
    refused = refused_users(of(*items, upsertion("good")))
    assert list(refused) == [items[0].user]
    error = refused[items[0].user]
    assert error.code is code
    assert why in error.message


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (upsertion("x", 3), "mechanism"),
        (upsertion("x", iterations=4095), "iterations"),
        (upsertion("x", salt=bytes(1025)), "salt"),
        (replace(upsertion("x"), salted_password=b""), "salted_password"),
    ],
)
def test_a_refusal_names_the_field(item: ScramCredentialUpsertion, field: str) -> None:
    assert refused_users(of(item))["x"].field == field


def test_a_salt_may_have_as_many_bytes_as_are_allowed() -> None:
    assert refused_users(of(upsertion("x", salt=bytes(1024)))) == {}


def test_a_valid_request_has_no_refusal() -> None:
    assert refused_users(of(upsertion(), upsertion(mechanism=SHA_512), ScramCredentialDeletion("bob", SHA_256))) == {}


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_credential_that_is_written_authenticates_its_user(mechanism: ScramMechanism) -> None:
    written = with_credentials({}, [upsertion(mechanism=mechanism, iterations=16_384)])[mechanism.key]
    credential = parse_credential(mechanism.key, written)
    server = ScramServerExchange(mechanism.key, lambda _: credential, Decoys())
    client, challenge, user = ScramClientExchange(mechanism.key, "ann", "pencil"), b"", None
    while (message := client.step(challenge)) is not None:
        step = server.step(message)
        challenge, user = step.answer, step.user
    assert user == "ann"
