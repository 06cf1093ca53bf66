"""OAUTHBEARER: JSON Web Tokens, verified against the keys in a local file.

A token needs `exp`, `sub`, `aud` and `iss`, and the signature of an asymmetric key of the set that its `kid` names.
Source: RFC 7628, RFC 7519, RFC 8725; Kafka OAuthBearerSaslServer, KIP-768.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from cluster.model.errors import DECODE_ERRORS, ConfigError
from cluster.model.printable import printable
from cluster.sasl.mechanisms import OAUTHBEARER, USER_LENGTH_MAX, AuthenticationFailedError, SaslStep, text_of

if TYPE_CHECKING:
    import jwt

TOKEN_BYTES_MAX: Final = 16_384
_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Of asymmetric keys only: with HMAC whoever verifies could also sign."""
_REQUIRED: Final = ("exp", "aud", "iss")
_STATUS_MAX: Final = 300
_SEPARATOR: Final = "\x01"
_BEARER: Final = "auth=bearer "
_HEADER: Final = re.compile(r"n,(?:a=(?P<user>(?:[^=,]|=2C|=3D)+))?,", re.DOTALL)
"""Of GS2 (RFC 5801): no channel binding, and perhaps for whom the client asks to act."""

Keys = Mapping[str, "jwt.PyJWK"]
"""By key id."""


class _KeySet(Struct):
    keys: list[dict[str, Any]]


def parse_keys(name: str, content: bytes) -> Keys:
    """Parse a JSON Web Key Set. `name`: what messages begin with. Raises ConfigError."""
    try:
        given = msgspec.json.decode(content, type=_KeySet).keys
    except DECODE_ERRORS as error:
        raise ConfigError([f"{name}: is no JSON Web Key Set: {error}"]) from error
    found: dict[str, jwt.PyJWK] = {}
    errors: list[str] = []
    for number, described in enumerate(given, start=1):
        if described.get("use") == "enc":
            continue
        try:
            key = _key(described)
        except ConfigError as error:
            errors += [f"{name}: key {number}: {line}" for line in error.errors]
            continue
        if key.key_id in found:
            errors.append(f"{name}: key {number}: its kid {key.key_id!r} is that of another one")
        found[str(key.key_id)] = key
    if errors or not found:
        raise ConfigError(errors or [f"{name}: has no key for signatures"])
    return found


def _key(described: dict[str, Any]) -> "jwt.PyJWK":
    import jwt  # noqa: PLC0415 - it loads cryptography, of 8 MiB of memory, which only TLS and tokens need.

    if "d" in described or described.get("kty") == "oct":
        raise ConfigError(["is secret; a server needs public keys only"])
    try:
        key = jwt.PyJWK(described)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
        raise ConfigError([f"cannot be used: {error}"]) from error
    if key.algorithm_name not in _ALGORITHMS:
        raise ConfigError([f"alg {key.algorithm_name!r}: must be one of {', '.join(sorted(_ALGORITHMS))}"])
    if not isinstance(key.key_id, str) or not key.key_id:
        raise ConfigError(["has no kid, by which tokens name it"])
    return key


class BearerRules(Struct, frozen=True):
    """What a token must say. `audiences`: one of these; `skew_s`: by how much clocks may differ; `claim`: which of its
    claims names the user.
    """

    audiences: tuple[str, ...]
    issuer: str
    skew_s: float = 30.0
    claim: str = "sub"


class BearerServerExchange:
    """The server's side: one message of the client, with the token."""

    def __init__(self, rules: BearerRules, keys: Callable[[], Keys], now: Callable[[], float] = time.time) -> None:
        """`keys` may raise ConfigError, if the file cannot be used now. `now`: seconds since 1970."""
        self._rules, self._keys, self._now = rules, keys, now

    def step(self, message: bytes) -> SaslStep:
        if len(message) > TOKEN_BYTES_MAX:
            raise AuthenticationFailedError(f"{OAUTHBEARER}: a message has more than {TOKEN_BYTES_MAX} bytes")
        acts_for, token = _parts_of(text_of(message))
        claims, expires = self._verified(token)
        user = claims[self._rules.claim]
        if not isinstance(user, str) or not 0 < len(user) <= USER_LENGTH_MAX:
            raise AuthenticationFailedError(f"{OAUTHBEARER}: claim {self._rules.claim} is no name of a user")
        if acts_for not in ("", user):
            raise AuthenticationFailedError(f"{OAUTHBEARER}: {user!r} asks to act for another user")
        return SaslStep(b"", user, max(0.0, expires - self._now()))

    def _verified(self, token: str) -> tuple[dict[str, Any], float]:
        """The claims of a token, and until when it is valid, in seconds since 1970."""
        import jwt  # noqa: PLC0415 - as above.

        rules = self._rules
        try:
            header = jwt.get_unverified_header(token)
            key_id = header.get("kid")
            key = self._keys().get(str(key_id))
            if key is None:
                raise AuthenticationFailedError(f"{OAUTHBEARER}: no key {key_id!r}")
            if "crit" in header:
                # Whoever does not know what it names must refuse it (RFC 7515, 4.1.11); PyJWT before 2.12 does not.
                raise AuthenticationFailedError(f"{OAUTHBEARER}: a token with critical extensions (crit)")
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=rules.audiences,
                issuer=rules.issuer,
                leeway=rules.skew_s,
                options={"require": [*_REQUIRED, "sub", rules.claim]},
            )
            return claims, float(claims["exp"])
        except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise AuthenticationFailedError(f"{OAUTHBEARER}: {error}") from error


def _parts_of(message: str) -> tuple[str, str]:
    """Find in `n,a=USER,^Aauth=Bearer …^A^A` for whom the client asks to act, empty for nobody else, and the token;
    what else clients add is passed over.
    """
    header, *pairs = message.split(_SEPARATOR)
    found = _HEADER.fullmatch(header)
    bearer = next((pair for pair in pairs if pair.lower().startswith(_BEARER)), None)
    if found is None or bearer is None:
        raise AuthenticationFailedError(f"{OAUTHBEARER}: a message without auth=Bearer")
    acts_for = (found["user"] or "").replace("=2C", ",").replace("=3D", "=")
    return acts_for, bearer[len(_BEARER) :].strip()


class BearerClientExchange:
    """The client's side: it sends the token. A server that refuses it may say why in a message of its own."""

    def __init__(self, token: str) -> None:
        if not token.isascii() or any(character.isspace() for character in token) or not token:
            raise ConfigError(["the token is no single word"])
        self._message: bytes | None = f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{_SEPARATOR}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        if self._message is None and challenge:
            raise ConfigError(
                [f"the server refuses the token: {printable(challenge[:_STATUS_MAX].decode(errors='replace'))}"]
            )
        message, self._message = self._message, None
        return message
