"""GSSAPI: both sides of the exchange with which SASL carries a security context, such as one of Kerberos.

When the context is established the server offers the layers of protection that it has, and the client chooses one. As
in Kafka there is none but TLS: both sides offer and take "no security layer" only. Source: RFC 4752; Kafka
SaslClientAuthenticator, SaslServerCallbackHandler; the JDK's GssKrb5Client, GssKrb5Server.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from cluster.model.errors import ConfigError
from cluster.sasl.mechanisms import GSSAPI, AuthenticationFailedError, SaslStep

_NO_LAYER: Final = 1
_ONLY_NO_LAYER: Final = bytes((_NO_LAYER, 0, 0, 0))
"""The bit of the layer, and the longest message of a layer, which there is not."""
_LAYER_BYTES: Final = 4


class SecurityContextError(Exception):
    """The other side's message is refused, or none can be made. The text is for this side's operator."""


class SecurityContext(Protocol):
    """A context that is being established, and then protects messages. Every method may raise SecurityContextError."""

    def step(self, token: bytes) -> bytes:
        """Take the other side's token, which is empty at first at the client, and return the next one, which may be
        empty. It may ask a key distribution center, and block.
        """

    @property
    def is_established(self) -> bool:
        """Whether no further token is awaited."""

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...

    @property
    def client(self) -> str:
        """The principal of the client, once the context is established."""

    @property
    def lifetime_s(self) -> float:
        """The time for which the client's ticket is still valid, in seconds."""


class _Stage(Enum):
    ESTABLISHING = "establishing"
    ESTABLISHED = "established"
    CHOOSING = "choosing"
    OVER = "over"


class GssapiClientExchange:
    """The client's side."""

    def __init__(self, open_context: Callable[[], SecurityContext]) -> None:
        """`open_context` is called at the first step; it may block, and raise ConfigError."""
        self._open_context = open_context
        self._context: SecurityContext | None = None
        self._stage = _Stage.ESTABLISHING

    def step(self, challenge: bytes) -> bytes | None:
        try:
            return self._step(challenge)
        except SecurityContextError as error:
            raise ConfigError([str(error)]) from error

    def _step(self, challenge: bytes) -> bytes | None:
        if self._context is None:
            self._context = self._open_context()
        if self._stage is _Stage.ESTABLISHING:
            token = self._context.step(challenge)
            if self._context.is_established:
                self._stage = _Stage.CHOOSING
            return token
        if self._stage is _Stage.OVER:
            return None
        offer = self._context.unwrap(challenge)
        if len(offer) != _LAYER_BYTES:
            raise ConfigError([f"the server does not speak {GSSAPI} rightly: its offer has {len(offer)} bytes"])
        if not offer[0] & _NO_LAYER:
            raise ConfigError(["the server demands a layer of protection, which Kafka's protocol does not have"])
        self._stage = _Stage.OVER
        return self._context.wrap(_ONLY_NO_LAYER)


class GssapiServerExchange:
    """The server's side."""

    def __init__(self, open_context: Callable[[], SecurityContext], user_of: Callable[[str], str]) -> None:
        """`open_context` may raise ConfigError, if nobody can authenticate now. `user_of`: the user of a principal; it
        raises ConfigError for one without.
        """
        self._open_context, self._user_of = open_context, user_of
        self._context: SecurityContext | None = None
        self._stage = _Stage.ESTABLISHING

    def step(self, message: bytes) -> SaslStep:
        try:
            if self._context is None:
                self._context = self._open_context()
            return self._step(self._context, message)
        except SecurityContextError as error:
            raise AuthenticationFailedError(f"{GSSAPI}: {error}") from error

    def _step(self, context: SecurityContext, message: bytes) -> SaslStep:
        if self._stage is _Stage.ESTABLISHING:
            token = context.step(message)
            if not context.is_established:
                return SaslStep(token)
            self._stage = _Stage.ESTABLISHED
            # Clients that want no proof of the server, as those of Kafka, get no token.
            return SaslStep(token) if token else self._offer(context)
        if self._stage is _Stage.ESTABLISHED:
            if message:
                raise AuthenticationFailedError(f"{GSSAPI}: a token after the context was established")
            return self._offer(context)
        if self._stage is _Stage.OVER:
            raise AuthenticationFailedError(f"{GSSAPI}: a message after the end")
        self._stage = _Stage.OVER
        choice = context.unwrap(message)
        if len(choice) < _LAYER_BYTES or choice[0] != _NO_LAYER:
            raise AuthenticationFailedError(f"{GSSAPI}: {context.client} wants a layer of protection: there is none")
        # For whom the client asks to act does not count, as with Kafka: clients of Cyrus send a fixed name.
        return SaslStep(b"", self._name(context.client), max(0.0, context.lifetime_s))

    def _offer(self, context: SecurityContext) -> SaslStep:
        self._stage = _Stage.CHOOSING
        return SaslStep(context.wrap(_ONLY_NO_LAYER))

    def _name(self, principal: str) -> str:
        try:
            return self._user_of(principal)
        except ConfigError as error:
            raise AuthenticationFailedError(f"{GSSAPI}: {'; '.join(error.errors)}") from error
