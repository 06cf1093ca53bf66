"""Files with passwords, keys and users: what is wrong with them is said, and nothing of what is in them."""

import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from cluster.model.errors import ConfigError
from cluster.sasl.bearer import parse_keys
from cluster.sasl.followed_files import FollowedFile
from cluster.sasl.jaas import LoginModule, parse_login_module
from cluster.sasl.mechanisms import AuthenticationFailedError
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
