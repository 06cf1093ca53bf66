"""The sessions of users who have authenticated, each named by a random token that its calls carry.

A session belongs to the token, not to the connection: a proxy and gRPC's own pools make a connection no one's in
particular. Tokens are kept as hashes, count at the listener that has issued them, and, if a client certificate was
shown, with that certificate only. They do not outlive the process. Source: KIP-368; RFC 6750.
"""

import hashlib
import secrets
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from cluster.model.errors import ApiError, ErrorCode
from cluster.security.principals import Principal

SESSIONS_MAX: Final = 50_000
"""Of a process; of more, the oldest one ends. Its client authenticates again by itself."""
SESSIONS_OF_PRINCIPAL_MAX: Final = 10_000
_TOKEN_BYTES: Final = 32
_AGAIN: Final = "call Authenticate again"


class UserSession(Struct, frozen=True):
    """Who has authenticated, where, and until when, on the clock of the process. `fingerprint`: of the client
    certificate that was shown; empty without one.
    """

    principal: Principal
    listener: str
    expires_at: float
    fingerprint: str = ""


class Sessions:
    """Holds the sessions of one process. `now`: seconds on a clock that never goes back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._by_hash: dict[bytes, UserSession] = {}
        """The oldest first."""
        self._of_principal: dict[Principal, dict[bytes, None]] = {}

    def __len__(self) -> int:
        return len(self._by_hash)

    def begin(self, session: UserSession) -> str:
        """Begin a session and return its token."""
        self._end_expired()
        own = self._of_principal.get(session.principal, {})
        if len(own) >= SESSIONS_OF_PRINCIPAL_MAX:
            self._end(next(iter(own)))
        if len(self._by_hash) >= SESSIONS_MAX:
            self._end(next(iter(self._by_hash)))
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        hashed = _hash(token)
        self._by_hash[hashed] = session
        self._of_principal.setdefault(session.principal, {})[hashed] = None
        return token

    def find(self, token: str, listener: str, fingerprint: str) -> UserSession:
        """Find the session of a token.

        Raises ApiError(ILLEGAL_SASL_STATE) if there is none, which a client answers by authenticating again.
        """
        hashed = _hash(token)
        session = self._by_hash.get(hashed)
        if session is None:
            raise _refused("this process does not know the token: it is of another one, or has expired")
        if session.expires_at <= self._now():
            self._end(hashed)
            raise _refused("the session has expired (connections.max.reauth.ms)")
        if session.listener != listener:
            raise _refused(f"the token was issued at the listener {session.listener}, not at {listener}")
        if session.fingerprint != fingerprint:
            raise _refused("the token was issued to a client with another certificate")
        return session

    def end_all_of(self, principal: Principal) -> int:
        """End the sessions of a user who is no more; returns how many there were."""
        own = tuple(self._of_principal.get(principal, ()))
        for hashed in own:
            self._end(hashed)
        return len(own)

    def _end_expired(self) -> None:
        """End those that began first, as far as they have expired; the others when they are asked for."""
        now = self._now()
        for hashed in tuple(self._by_hash)[:2]:
            if self._by_hash[hashed].expires_at <= now:
                self._end(hashed)

    def _end(self, hashed: bytes) -> None:
        principal = self._by_hash.pop(hashed).principal
        own = self._of_principal[principal]
        del own[hashed]
        if not own:
            del self._of_principal[principal]


def _hash(token: str) -> bytes:
    # The token has as many random bits as the hash: nothing slower is needed.
    return hashlib.sha256(token.encode()).digest()


def _refused(why: str) -> ApiError:
    return ApiError(ErrorCode.ILLEGAL_SASL_STATE, f"{why}; {_AGAIN}", field="authorization")
