"""Files with passwords, keys and users: what is wrong with them is said, and nothing of what is in them."""

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from cluster.model.errors import ConfigError
from cluster.sasl.bearer import BearerClientExchange, BearerRules, BearerServerExchange, parse_keys
from cluster.sasl.followed_files import FollowedFile
from cluster.sasl.jaas import LoginModule, parse_login_module
from cluster.sasl.mechanisms import AuthenticationFailedError, SaslStep
from cluster.sasl.plain import PlainServerExchange, parse_passwords
from cluster.tls.secret import Secret
from tests.processes.certificates import write_secret

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_a_password_may_have_any_characters() -> None:
    found = parse_passwords("f", b"# users\n\nalice=a=b #c \nbob = x\n")
    assert found == {"alice": Secret("a=b #c "), "bob": Secret(" x")}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "f: has no line user=password"),
        (b"alice", "f: line 1: must be user=password"),
        (b"ok=x\nalice=", "f: line 2: must be user=password"),
        (b"a=x\na=y", "f: line 2: names a user for the second time"),
        (b"\xff=x", "f: is not text in UTF-8"),
    ],
)
def test_a_file_of_passwords_with_an_error_is_refused_as_a_whole(content: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_passwords("f", content)


@pytest.mark.parametrize(
    "message", [b"\0alice\0wrong", b"\0nobody\0secret", b"bob\0alice\0secret", b"alice\0secret", b"\xff\0\0", b""]
)
def test_plain_refuses_all_but_the_password(message: bytes) -> None:
    passwords = {"alice": Secret("secret")}
    with pytest.raises(AuthenticationFailedError):
        PlainServerExchange(lambda: passwords).step(message)
    for right in (b"\0alice\0secret", b"alice\0alice\0secret"):
        assert PlainServerExchange(lambda: passwords).step(right).user == "alice"


def test_a_file_is_read_again_when_it_has_changed_and_never_while_others_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "users"
    write_secret(path, b"alice=1")
    file = FollowedFile("klamm.sasl.plain.users.file", str(path), parse_passwords, holds="passwords")
    assert file.current() is file.current()
    write_secret(path, b"alice=2")
    assert file.current() == {"alice": Secret("2")}
    path.chmod(0o640)
    path.write_bytes(b"alice=3, read by the group")
    assert file.current().keys() == {"alice"}
    path.chmod(0o644)
    path.write_bytes(b"alice=4, read by others")
    with pytest.raises(ConfigError, match=r"users\.file: .*/users: has passwords, and others may read .*chmod 600"):
        file.current()
    path.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        file.current()


def described(key: Any, **more: str) -> dict[str, Any]:
    algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPublicKey) else jwt.algorithms.ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key)), **more}


def test_keys_of_a_set_are_found_by_their_names() -> None:
    elliptic = ec.generate_private_key(ec.SECP256R1()).public_key()
    keys = [described(elliptic, kid="a"), described(elliptic, kid="b", use="enc")]
    found = parse_keys("f", json.dumps({"keys": keys}).encode())
    assert {name: key.algorithm_name for name, key in found.items()} == {"a": "ES256"}


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ([{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}], "key 1: is secret"),
        ([{"kty": "EC", "d": "AA", "kid": "a"}], "key 1: is secret"),
        ([{"kty": "none", "kid": "a"}], "key 1: cannot be used"),
        ([{"kid": "a"}], "key 1: cannot be used"),
        ([], "has no key for signatures"),
        (["x"], "is no JSON Web Key Set"),
    ],
)
def test_a_key_that_must_not_verify_tokens_is_refused(keys: list[Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_keys("f", json.dumps({"keys": keys}).encode())


def test_a_token_is_verified_with_the_algorithm_of_the_key_and_no_other() -> None:
    """The two classic attacks: no signature at all, and the public key taken for a secret one (RFC 8725, 3.1)."""
    key = ec.generate_private_key(ec.SECP256R1())
    keys = parse_keys("f", json.dumps({"keys": [described(key.public_key(), kid="a")]}).encode())
    exchange = BearerServerExchange(BearerRules(("klamm",), "i"), lambda: keys, now=lambda: 4_000_000_000.0)
    claims = {"sub": "alice", "aud": "klamm", "iss": "i", "exp": 4_000_000_060}
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def step(token: str) -> SaslStep:
        return exchange.step(f"n,,\x01auth=Bearer {token}\x01\x01".encode())

    def made(algorithm: str, sign: Callable[[bytes], bytes]) -> str:
        parts = (json.dumps(part).encode() for part in ({"alg": algorithm, "kid": "a"}, claims))
        signed = b".".join(map(encoded, parts))
        return (signed + b"." + encoded(sign(signed))).decode()

    assert step(jwt.encode(claims, key, "ES256", headers={"kid": "a"})) == SaslStep(b"", "alice", 60.0)
    forged = [
        made("none", lambda _: b""),
        made("HS256", lambda signed: hmac.digest(public, signed, "sha256")),
        made("ES256", lambda _: bytes(64)),
        jwt.encode(claims, key, "ES256"),
        "a.b.c",
        "",
    ]
    for token in forged:
        with pytest.raises(AuthenticationFailedError):
            step(token)
    for malformed in (b"", b"n,,", b"n,,\x01auth=Basic x\x01\x01", b"x" * 20_000, b"\xff"):
        with pytest.raises(AuthenticationFailedError):
            exchange.step(malformed)


@pytest.mark.parametrize(
    ("header", "claims", "message", "why"),
    [
        ({}, {}, "n,,", ""),
        ({}, {}, "n,a=alice,", ""),
        ({}, {"sub": "a,b=c"}, "n,a=a=2Cb=3Dc,", ""),
        ({}, {}, "n,a=admin,", "asks to act for another user"),
        ({}, {}, "n,x,", "without auth=Bearer"),
        ({}, {}, "n,a=alice,x", "without auth=Bearer"),
        ({}, {}, "y,,", "without auth=Bearer"),
        ({"crit": ["exp"], "exp": 1}, {}, "n,,", "ritical extension"),
        ({"crit": ["b64"], "b64": True}, {}, "n,,", "ritical extension"),
        ({}, {"exp": 10**400}, "n,,", "int too large"),
        ({}, {"sub": "x" * 257}, "n,,", "no name of a user"),
    ],
)
def test_a_token_is_for_its_user_alone_and_says_nothing_that_is_not_understood(
    header: dict[str, Any], claims: dict[str, Any], message: str, why: str
) -> None:
    """Kafka's OAuthBearerSaslServer refuses to act for others; RFC 7515, 4.1.11, what is critical and not known."""
    key = ec.generate_private_key(ec.SECP256R1())
    keys = parse_keys("f", json.dumps({"keys": [described(key.public_key(), kid="a")]}).encode())
    exchange = BearerServerExchange(BearerRules(("klamm",), "i"), lambda: keys, now=lambda: 4_000_000_000.0)
    said = {"sub": "alice", "aud": "klamm", "iss": "i", "exp": 4_000_000_060} | claims
    token = jwt.encode(said, key, "ES256", headers={"kid": "a"} | header)
    whole = f"{message}\x01auth=Bearer {token}\x01\x01".encode()
    if why:
        with pytest.raises(AuthenticationFailedError) as failed:
            exchange.step(whole)
        assert why in failed.value.why
    else:
        assert exchange.step(whole).user == said["sub"]


def encoded(part: bytes) -> bytes:
    return urlsafe_b64encode(part).rstrip(b"=")


def test_a_key_without_a_name_and_two_of_one_name_are_refused() -> None:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    for keys, why in (([described(key)], "has no kid"), ([described(key, kid="a")] * 2, "key 2: its kid 'a' is that")):
        with pytest.raises(ConfigError, match=why):
            parse_keys("f", json.dumps({"keys": keys}).encode())


@pytest.mark.parametrize(
    "text",
    [
        f'{SCRAM_MODULE} required username="alice" password="a \\"b\\" = ;c";',
        f'{SCRAM_MODULE} REQUIRED\n  username=alice\n  password="a \\"b\\" = ;c" ;',
    ],
)
def test_a_login_module_is_read_as_java_reads_it(text: str) -> None:
    module = parse_login_module(text)
    assert module == LoginModule(SCRAM_MODULE, {"username": "alice", "password": 'a "b" = ;c'})
    assert "alice" not in repr(module)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not of the form CLASS required"),
        (SCRAM_MODULE, "is not of the form"),
        (f'{SCRAM_MODULE} username="alice";', "is not of the form"),
        (f'{SCRAM_MODULE} required username="alice"', "must end with one ';'"),
        (f"{SCRAM_MODULE} required; {SCRAM_MODULE} required;", "must end with one ';'"),
        (f'{SCRAM_MODULE} required username "alice";', "its options must be name=value"),
    ],
)
def test_a_login_module_that_is_malformed_is_refused_without_its_password(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        parse_login_module(text)
    assert "alice" not in str(refused.value)


def test_a_token_that_a_server_refuses_with_a_reason_is_refused_with_it() -> None:
    """Kafka's servers send it as one more challenge, and wait for an answer before they close the connection."""
    exchange = BearerClientExchange("a.b.c")
    assert exchange.step(b"") == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    with pytest.raises(ConfigError, match='the server refuses the token: {"status":"invalid_token"}'):
        exchange.step(b'{"status":"invalid_token"}')
    accepted = BearerClientExchange("a.b.c")
    accepted.step(b"")
    assert accepted.step(b"") is None
