"""SCRAM credentials as Kafka writes them, and exchanges in which one side lies."""

import json
from collections.abc import Mapping

import pytest

from cluster.model.errors import ConfigError
from cluster.sasl.mechanisms import AuthenticationFailedError, parse_mechanisms
from cluster.sasl.scram import Decoys, ScramClientExchange, ScramCredential, ScramServerExchange, parse_credential

# What `kafka-configs` of 3.9.1 wrote to /config/users/alice for `SCRAM-SHA-256=[iterations=8192,password=a-secret]` and
# `SCRAM-SHA-512=[password=a-longer-secret]`.
OF_KAFKA: Mapping[str, str] = json.loads(
    '{"SCRAM-SHA-512":"salt=M3o3NmV0M2U0NHFxZDdwaGRyZWN4anBuYg==,stored_key=VApeXZyKZzGDn1t+tQwaFP6xpTCPDaFmNZoMpYeD/2S4'
    "eMSYWYLkJXRy5CgoCuYTm4KHpLAoHIcOsgn0RRG9Aw==,server_key=1kqJFWEPOaNUPy2HP4Tor9ed4Rl6CRmAzCPXjjGMvdrZuGQFTlaWi+/oz8No"
    'FYAN4LH+p24nGYhxV2wd5Tz2pg==,iterations=4096","SCRAM-SHA-256":"salt=NTUzNGZlbjQ4aDZmMnF6ang3cTY4Z3I4ZA==,stored_key='
    "Kila4F8/chjmm4dDdrMYfvioZsd4622aDpvlyUi6yto=,server_key=wtfWcPcBIb5264TA6RhEJEMNm+gVoU2SAvxIMVpp7Lg=,iterations=8192"
    '"}'
)
PASSWORDS = {"SCRAM-SHA-256": "a-secret", "SCRAM-SHA-512": "a-longer-secret"}
WRONG = "SCRAM-SHA-256"


def converse(client: ScramClientExchange, server: ScramServerExchange) -> str | None:
    """The user whom the server has authenticated."""
    challenge, user = b"", None
    while (message := client.step(challenge)) is not None:
        step = server.step(message)
        challenge, user = step.answer, step.user
    return user


def server_for(mechanism: str, credential: ScramCredential | None) -> ScramServerExchange:
    return ScramServerExchange(mechanism, lambda _: credential, Decoys())


@pytest.mark.parametrize("mechanism", OF_KAFKA)
def test_a_credential_of_kafkas_tool_authenticates_its_user(mechanism: str) -> None:
    credential = parse_credential(mechanism, OF_KAFKA[mechanism])
    client = ScramClientExchange(mechanism, "alice", PASSWORDS[mechanism])
    assert converse(client, server_for(mechanism, credential)) == "alice"
    with pytest.raises(AuthenticationFailedError) as failed:
        converse(ScramClientExchange(mechanism, "alice", "other"), server_for(mechanism, credential))
    assert "alice" in failed.value.why
    assert "alice" not in str(failed.value)


def test_names_with_commas_and_equals_signs_are_escaped_on_the_way() -> None:
    asked: list[str] = []

    def find(user: str) -> ScramCredential:
        asked.append(user)
        return parse_credential(WRONG, OF_KAFKA[WRONG])

    client = ScramClientExchange(WRONG, "a=b,c", "a-secret")
    assert converse(client, ScramServerExchange(WRONG, find, Decoys())) == "a=b,c"
    assert asked == ["a=b,c"]


def test_an_unknown_user_sees_the_salt_of_a_known_one_and_the_same_at_each_attempt() -> None:
    decoys, seen = Decoys(), []
    for _ in range(2):
        client = ScramClientExchange(WRONG, "nobody", "x")
        server = ScramServerExchange(WRONG, lambda _: None, decoys)
        first = client.step(b"")
        assert first is not None
        challenge = server.step(first).answer
        seen.append(challenge.partition(b",")[2])
        final = client.step(challenge)
        assert final is not None
        with pytest.raises(AuthenticationFailedError) as failed:
            server.step(final)
        assert failed.value.why == "SCRAM-SHA-256: there is no user 'nobody'"
        assert "nobody" not in str(failed.value)
    assert seen[0] == seen[1]
    assert seen[0].endswith(b",i=4096")


@pytest.mark.parametrize(
    "message", [b"", b"\xff", b"n,,n=alice", b"n,,r=x", b"n,a=bob,n=alice,r=x", b"p=tls-unique,,n=a,r=x", b"n,,n=,r=x"]
)
def test_a_malformed_message_is_a_failure_like_others(message: bytes) -> None:
    server = server_for(WRONG, parse_credential(WRONG, OF_KAFKA[WRONG]))
    with pytest.raises(AuthenticationFailedError, match="unknown user, or wrong password or token"):
        server.step(message)


@pytest.mark.parametrize(
    ("server_says", "why"),
    [
        ("r={nonce}more,s=NTUzNGZlbjQ4aDZmMnF6ang3cTY4Z3I4ZA==,i=3000000", "demands 3000000 iterations"),
        ("r={nonce}more,s=NTUzNGZlbjQ4aDZmMnF6ang3cTY4Z3I4ZA==,i=1", "demands 1 iterations"),
        ("r=another,s=NTUzNGZlbjQ4aDZmMnF6ang3cTY4Z3I4ZA==,i=4096", "does not speak SCRAM-SHA-256 rightly"),
        ("nonsense", "does not speak SCRAM-SHA-256 rightly"),
    ],
)
def test_a_client_does_not_do_what_a_malicious_server_demands(server_says: str, why: str) -> None:
    client = ScramClientExchange(WRONG, "alice", "a-secret")
    first = client.step(b"")
    assert first is not None
    nonce = first.decode().rpartition("r=")[2]
    with pytest.raises(ConfigError, match=why):
        client.step(server_says.format(nonce=nonce).encode())


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    client, server = (
        ScramClientExchange(WRONG, "alice", "a-secret"),
        server_for(WRONG, parse_credential(WRONG, OF_KAFKA[WRONG])),
    )
    first = client.step(b"")
    assert first is not None
    client.step(server.step(first).answer)
    with pytest.raises(ConfigError, match="rightly"):
        client.step(b"v=AAAA")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"iterations": "4095"}, "4095 iterations; must be 4096 to 16384"),
        ({"iterations": "16385"}, "16385 iterations"),
        ({"iterations": "many"}, "is damaged"),
        ({"salt": "AAAA"}, "its salt has 3 bytes"),
        ({"salt": "!"}, "is damaged"),
        ({"stored_key": "AAAA"}, "its keys must have 32 bytes"),
        ({"more": "x"}, "is not salt=…"),
    ],
)
def test_a_credential_that_cannot_be_used_says_why_without_what_it_has(change: dict[str, str], why: str) -> None:
    parts = dict(part.partition("=")[::2] for part in OF_KAFKA[WRONG].split(","))
    text = ",".join(f"{name}={value}" for name, value in (parts | change).items())
    with pytest.raises(ConfigError, match=why) as refused:
        parse_credential(WRONG, text)
    assert parts["server_key"] not in str(refused.value)


def test_mechanisms_that_there_are_not_are_refused_by_name() -> None:
    assert parse_mechanisms(" plain , SCRAM-SHA-256,PLAIN") == ("PLAIN", "SCRAM-SHA-256")
    with pytest.raises(ConfigError, match="AWS_MSK_IAM: is not supported"):
        parse_mechanisms("AWS_MSK_IAM,PLAIN")
