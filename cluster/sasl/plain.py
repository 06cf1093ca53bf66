"""PLAIN: names and passwords in a file that only its owner reads. Source: RFC 4616; Kafka PlainSaslServer."""

import hmac
import secrets
from collections.abc import Callable, Mapping

from cluster.model.errors import ConfigError
from cluster.sasl.mechanisms import PLAIN, USER_LENGTH_MAX, AuthenticationFailedError, SaslStep, text_of
from cluster.tls.secret import Secret

Passwords = Mapping[str, Secret]
"""By the name of the user."""


def parse_passwords(name: str, content: bytes) -> Passwords:
    """Parse lines of `user=password`; a password may have any characters, an `=` too.

    `name`: what messages begin with. Raises ConfigError that names lines by number, without what is in them.
    """
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError([f"{name}: is not text in UTF-8"]) from error
    found: dict[str, Secret] = {}
    errors: list[str] = []
    for number, line in enumerate(lines, start=1):
        user, separator, password = line.partition("=")
        user = user.strip()
        if not line.strip() or user.startswith("#"):
            continue
        if not (separator and user and password) or len(user) > USER_LENGTH_MAX:
            errors.append(f"{name}: line {number}: must be user=password, the name of at most {USER_LENGTH_MAX} bytes")
        elif user in found:
            errors.append(f"{name}: line {number}: names a user for the second time")
        found[user] = Secret(password)
    if errors or not found:
        raise ConfigError(errors or [f"{name}: has no line user=password"])
    return found


class PlainServerExchange:
    """The server's side: one message of the client."""

    def __init__(self, passwords: Callable[[], Passwords]) -> None:
        """`passwords` may raise ConfigError, if the file cannot be used now."""
        self._passwords = passwords

    def step(self, message: bytes) -> SaslStep:
        parts = text_of(message).split("\0")
        if len(parts) != 3:
            raise AuthenticationFailedError(f"{PLAIN}: a message has {len(parts)} parts, not 3")
        acts_for, user, password = parts
        if acts_for not in ("", user):
            raise AuthenticationFailedError(f"{PLAIN}: {user!r} asks to act for another user")
        known = self._passwords().get(user)
        # Compared for unknown users, too, which are not to be found out by the time that it takes.
        expected = secrets.token_hex() if known is None else known.reveal()
        if not hmac.compare_digest(expected.encode(), password.encode()) or known is None:
            what = f"there is no user {user[:USER_LENGTH_MAX]!r}" if known is None else f"wrong password of {user!r}"
            raise AuthenticationFailedError(f"{PLAIN}: {what}")
        return SaslStep(b"", user)


class PlainClientExchange:
    """The client's side: it sends the password as it is, so only over TLS."""

    def __init__(self, user: str, password: str) -> None:
        if "\0" in user + password:
            raise ConfigError(["user name or password: has a NUL"])
        self._message: bytes | None = f"\0{user}\0{password}".encode()

    def step(self, _challenge: bytes) -> bytes | None:
        message, self._message = self._message, None
        return message
