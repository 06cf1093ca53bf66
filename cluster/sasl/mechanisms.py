"""The names of mechanisms, and what all of them have in common."""

from typing import Final, Protocol

from msgspec import Struct

from cluster.model.errors import ClusterError, ConfigError, ErrorCode
from cluster.model.printable import printable

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
SCRAM: Final = (SCRAM_SHA_256, SCRAM_SHA_512)
MECHANISMS: Final = (*SCRAM, PLAIN, OAUTHBEARER, GSSAPI)
OF_OWN_NODES: Final = (*SCRAM, PLAIN, OAUTHBEARER)
"""Those of klamm's own listeners; GSSAPI is for Kafka listeners."""
USER_LENGTH_MAX: Final = 256
"""The longest name of a user, in characters: it is repeated in every record of what the user changes."""

_WHY_LENGTH_MAX: Final = 300
"""Of what is logged: names in it are as strangers have sent them."""
_WHY: Final = "authentication failed: unknown user, or wrong password or token"


class AuthenticationFailedError(ClusterError):
    """A client has not proven who it is. The text is the same whatever was wrong; `why` is for the server's log."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED

    def __init__(self, why: str) -> None:
        super().__init__(_WHY)
        self.why = printable(why[:_WHY_LENGTH_MAX])


class SaslStep(Struct, frozen=True):
    """The server's answer to one message. `user`: who it is, once that is proven; None: the exchange continues.

    `lifetime_s`: for how long the proof itself is valid; None: without an end.
    """

    answer: bytes = b""
    user: str | None = None
    lifetime_s: float | None = None

    def __repr__(self) -> str:
        return f"SaslStep(user={self.user!r}, (not shown))"


class ServerExchange(Protocol):
    """The server's side of one exchange."""

    def step(self, message: bytes) -> SaslStep:
        """Take the client's next message. Raises AuthenticationFailedError. It may take some milliseconds."""


class ClientExchange(Protocol):
    """The client's side of one exchange."""

    def step(self, challenge: bytes) -> bytes | None:
        """Answer the server's message, which is empty at first; None: no answer is due. Raises ConfigError for what a
        server must not demand. It may take some milliseconds.
        """


def text_of(message: bytes) -> str:
    """Decode a message of the client. Raises AuthenticationFailedError."""
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationFailedError("a message is not text in UTF-8") from error


def parse_mechanisms(text: str) -> tuple[str, ...]:
    """Parse `sasl.enabled.mechanisms`. Raises ConfigError for a mechanism that is not known."""
    found = tuple(dict.fromkeys(part.strip().upper() for part in text.split(",") if part.strip()))
    unknown = [name for name in found if name not in MECHANISMS]
    if unknown:
        raise ConfigError([f"{', '.join(unknown)}: is not supported; known are {', '.join(MECHANISMS)}"])
    return found
