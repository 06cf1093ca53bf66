"""SCRAM: credentials as Apache Kafka keeps them in ZooKeeper, and both sides of an exchange, by `scramp`.

A server sees the same of an unknown user as of a wrong password: it continues with a credential made up from the name.
Source: RFC 5802, RFC 7677; Kafka ScramCredentialUtils, ScramSaslServer.
"""

import binascii
import hashlib
import hmac
import re
import secrets
from base64 import b64decode
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from scramp import ScramClient, ScramException
from scramp import ScramMechanism as Scramp

from cluster.model.errors import ConfigError
from cluster.sasl.mechanisms import SCRAM_SHA_256, USER_LENGTH_MAX, AuthenticationFailedError, SaslStep, text_of

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
"""Of both sides: more would keep a client busy for seconds, as a malicious server may want."""
_SALT_BYTES_MIN: Final = 12
_ITERATIONS: Final = re.compile(r"(?:^|,)i=(\d{1,10})(?:,|$)")
_DECOY_SALT_BYTES: Final = 26
"""As many as kafka-configs makes."""
_PARTS: Final = ("salt", "stored_key", "server_key", "iterations")


class ScramCredential(Struct, frozen=True):
    """What a server knows of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential(not shown)"


FindCredential = Callable[[str], ScramCredential | None]
"""The credential of a user for one mechanism; None for a user without one."""


def digest_of(mechanism: str) -> str:
    """The name of the mechanism's hash in `hashlib`."""
    return "sha256" if mechanism == SCRAM_SHA_256 else "sha512"


def parse_credential(mechanism: str, text: str) -> ScramCredential:
    """Parse `salt=…,stored_key=…,server_key=…,iterations=…`. Raises ConfigError that does not quote it."""
    found = dict(part.strip().partition("=")[::2] for part in text.split(","))
    if sorted(found) != sorted(_PARTS):
        raise ConfigError([f"is not {'=…,'.join(_PARTS)}=…"])
    try:
        salt, stored_key, server_key = (b64decode(found[name], validate=True) for name in _PARTS[:3])
        iterations = int(found["iterations"])
    except (binascii.Error, ValueError) as error:
        raise ConfigError([f"is damaged: {type(error).__name__}"]) from error
    size = hashlib.new(digest_of(mechanism)).digest_size
    if len(stored_key) != size or len(server_key) != size:
        raise ConfigError([f"its keys must have {size} bytes"])
    if len(salt) < _SALT_BYTES_MIN:
        raise ConfigError([f"its salt has {len(salt)} bytes; at least {_SALT_BYTES_MIN} are needed"])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ConfigError([f"{iterations} iterations; must be {ITERATIONS_MIN} to {ITERATIONS_MAX}"])
    return ScramCredential(salt, stored_key, server_key, iterations)


class SaltedPassword(Struct, frozen=True):
    """What a credential is made from. It does not say the password, but whoever has it can pose as the user."""

    salt: bytes
    salted_password: bytes
    iterations: int

    def __repr__(self) -> str:
        return "SaltedPassword(not shown)"


def salt_password(mechanism: str, password: str, iterations: int = ITERATIONS_MIN) -> SaltedPassword:
    """Salt a password. It takes some milliseconds.

    Raises ConfigError, which does not quote it, if clients would not agree on its bytes: those of Kafka take other
    characters than ASCII as they are, those of RFC 5802 do not.
    """
    if not (password.isascii() and password.isprintable() and password):
        raise ConfigError(["password: must be printable characters of ASCII"])
    salt = secrets.token_bytes(_DECOY_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(digest_of(mechanism), password.encode(), salt, iterations)
    return SaltedPassword(salt, salted, iterations)


class Decoys:
    """Makes up the credentials of users that there are not: the same at each attempt, as those of others are."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def of(self, mechanism: str, user: str) -> ScramCredential:
        """A credential for which there is no password."""
        digest = digest_of(mechanism)
        salt = hmac.digest(self._key, f"salt {user}".encode(), "sha512")[:_DECOY_SALT_BYTES]
        stored, server = (hmac.digest(self._key, f"{what} {user}".encode(), digest) for what in ("stored", "server"))
        return ScramCredential(salt, stored, server, ITERATIONS_MIN)


class ScramServerExchange:
    """The server's side of one exchange: two messages of the client."""

    def __init__(self, mechanism: str, find: FindCredential, decoys: Decoys) -> None:
        self._mechanism, self._find, self._decoys = mechanism, find, decoys
        self._user: str | None = None
        self._is_known = self._has_begun = False
        self._scram = Scramp(mechanism).make_server(self._credential_of)

    def _credential_of(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        known = self._find(user) if len(user) <= USER_LENGTH_MAX else None
        self._user, self._is_known = user, known is not None
        used = self._decoys.of(self._mechanism, user) if known is None else known
        return used.salt, used.stored_key, used.server_key, used.iterations

    @property
    def _unknown(self) -> str:
        return f": there is no user {self._user!r}"

    def step(self, message: bytes) -> SaslStep:
        text = text_of(message)
        try:
            if not self._has_begun:
                self._has_begun = True
                self._scram.set_client_first(text)
                return SaslStep(self._scram.get_server_first().encode())
            self._scram.set_client_final(text)
            answer = self._scram.get_server_final().encode()
        except (ScramException, ValueError) as error:
            # The proof of an unknown user is wrong, too: its credential was made up.
            why = f", user {self._user!r}: {error}" if self._user is None or self._is_known else self._unknown
            raise AuthenticationFailedError(f"{self._mechanism}{why}") from error
        if not self._is_known:
            raise AuthenticationFailedError(f"{self._mechanism}{self._unknown}")
        return SaslStep(answer, self._user)


class ScramClientExchange:
    """The client's side of one exchange."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        try:
            self._scram = ScramClient([mechanism], user, password)
        except ScramException as error:
            raise ConfigError([f"user name or password: {error}"]) from error
        self._steps = 0

    def step(self, challenge: bytes) -> bytes | None:
        self._steps += 1
        try:
            if self._steps == 1:
                first: str = self._scram.get_client_first()
                return first.encode()
            text = challenge.decode()
            if self._steps == 2:
                _refuse_iterations(text)
                self._scram.set_server_first(text)
                final: str = self._scram.get_client_final()
                return final.encode()
            # It proves that the server knows the password, too.
            self._scram.set_server_final(text)
        except (ScramException, ValueError) as error:
            raise ConfigError([f"the server does not speak {self._scram.mechanism_name} rightly: {error}"]) from error
        return None


def _refuse_iterations(server_first: str) -> None:
    found = _ITERATIONS.search(server_first)
    if found is not None and not ITERATIONS_MIN <= int(found[1]) <= ITERATIONS_MAX:
        raise ConfigError([f"the server demands {found[1]} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are made"])
