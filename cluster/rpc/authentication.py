"""Answers Authenticate at every listener with SASL of a process, and says whose a call with a token is.

Source: Kafka SaslServerAuthenticator; KIP-152, KIP-368.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from cluster.metrics.registry import Metrics
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.authentication import AUTH_BYTES_MAX, AuthenticateRequest, AuthenticateResponse
from cluster.requests.context import RequestContext, RequestHandler
from cluster.rpc.authentication_steps import AuthenticationSteps
from cluster.rpc.exchanges import SaslExchange
from cluster.rpc.sessions import Sessions, UserSession
from cluster.sasl.listeners import ListenerSasl, ScramDirectory, ServerMechanisms
from cluster.sasl.mechanisms import SaslStep
from cluster.security.principals import USER, Principal


class Authentication:
    """Holds the exchanges and sessions of one process.

    `listeners`: the settings of those with SASL, by name. `failure_delay_ms`: how long the answer to a wrong password
    is kept back. `now`: the clock of the event loop, unless a test has its own.
    """

    def __init__(
        self,
        listeners: Mapping[str, ListenerSasl],
        users: ScramDirectory,
        metrics: Metrics,
        *,
        failure_delay_ms: int,
        now: Callable[[], float] | None = None,
    ) -> None:
        """Read the files that the settings name. Raises ConfigError."""
        clock = _loop_time if now is None else now
        self._now, self._users = clock, users
        self._mechanisms = {name: self.mechanisms_of(settings) for name, settings in listeners.items()}
        self.steps = AuthenticationSteps(metrics, failure_delay_ms=failure_delay_ms, now=clock)
        self._exchanges, self.sessions = self.steps.exchanges, Sessions(clock)
        metrics.readings("klamm.network", "Authentication", "Sessions", lambda: [({}, len(self.sessions))])

    def mechanisms_of(self, settings: ListenerSasl) -> ServerMechanisms:
        """Make what begins the exchanges at a listener, with the users of this process. Raises ConfigError."""
        found = ServerMechanisms(settings, self._users)
        found.check()
        return found

    def of_listener(self, name: str) -> "ListenerAuthentication | None":
        """The part for one listener; None for one without SASL."""
        mechanisms = self._mechanisms.get(name)
        return None if mechanisms is None else ListenerAuthentication(self, name, mechanisms.settings)

    def end_sessions_of(self, user: str) -> None:
        """End the sessions of a user who is no more."""
        self.sessions.end_all_of(Principal(USER, user))

    async def authenticate(self, context: RequestContext, request: AuthenticateRequest) -> AuthenticateResponse:
        """Answer one message of an exchange.

        Raises ApiError: SASL_AUTHENTICATION_FAILED for a wrong password or token, ILLEGAL_SASL_STATE for an exchange
        that is not under way, UNSUPPORTED_SASL_MECHANISM, THROTTLING_QUOTA_EXCEEDED, BROKER_NOT_AVAILABLE.
        """
        step = await self.steps.take(exchange := self._exchange(context, request), request.auth_bytes)
        if step.user is None:
            return AuthenticateResponse(self._exchanges.keep(exchange), step.answer)
        return self._begun(context, step, step.user)

    def _exchange(self, context: RequestContext, request: AuthenticateRequest) -> SaslExchange:
        """The exchange that the message belongs to; another one for a first message."""
        mechanisms = self._mechanisms.get(context.listener)
        if mechanisms is None:
            raise _without_sasl(context.listener)
        if len(request.auth_bytes) > AUTH_BYTES_MAX:
            why = f"has {len(request.auth_bytes)} bytes; at most {AUTH_BYTES_MAX} are allowed"
            raise ApiError(ErrorCode.INVALID_REQUEST, f"auth_bytes: {why}", field="auth_bytes")
        if request.exchange_id:
            return self._exchanges.take(request.exchange_id, context.listener)
        return self._exchanges.begin(mechanisms.begin(request.mechanism), context.listener, context.identity.host)

    def _begun(self, context: RequestContext, step: SaslStep, user: str) -> AuthenticateResponse:
        longest_s = self._mechanisms[context.listener].settings.session_ms / 1000
        lifetime_s = longest_s if step.lifetime_s is None else min(longest_s, step.lifetime_s)
        principal = Principal(USER, user)
        fingerprint = "" if context.certificate is None else context.certificate.fingerprint
        token = self.sessions.begin(UserSession(principal, context.listener, self._now() + lifetime_s, fingerprint))
        return AuthenticateResponse("", step.answer, token, int(lifetime_s * 1000), str(principal))


def _without_sasl(listener: str) -> ApiError:
    why = f"the listener {listener} has no SASL (listener.security.protocol.map): call it with security.protocol=SSL"
    return ApiError(ErrorCode.ILLEGAL_SASL_STATE, why)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class ListenerAuthentication:
    """What concerns one listener with SASL."""

    def __init__(self, authentication: Authentication, listener: str, settings: ListenerSasl) -> None:
        self._authentication, self._listener, self._settings = authentication, listener, settings

    def session(self, token: str, fingerprint: str) -> UserSession:
        """Find the session of a call's token. Raises ApiError(ILLEGAL_SASL_STATE)."""
        return self._authentication.sessions.find(token, self._listener, fingerprint)

    def check_anonymous(self) -> None:
        """Raise ApiError(ILLEGAL_SASL_STATE) unless the listener takes calls of nobody."""
        if not self._settings.allows_anonymous:
            raise ApiError(
                ErrorCode.ILLEGAL_SASL_STATE,
                f"the listener {self._listener} answers users only who have authenticated, by "
                f"{' or '.join(self._settings.mechanisms)}: commands take security.protocol=SASL_SSL, sasl.mechanism "
                "and sasl.jaas.config in --command-config; other clients call Authenticate first",
                field="authorization",
            )


class AuthenticatingHandler:
    """Stands as a RequestHandler in front of that of the process, and answers Authenticate itself.

    `authentication` None: the process has none at all.
    """

    def __init__(self, handler: RequestHandler, authentication: Authentication | None) -> None:
        self._handler, self._authentication = handler, authentication

    async def handle(self, context: RequestContext, request: Any) -> Any:
        """Handle a request. Raises ApiError."""
        if not isinstance(request, AuthenticateRequest):
            return await self._handler.handle(context, request)
        if self._authentication is None:
            raise _without_sasl(context.listener)
        return await self._authentication.authenticate(context, request)
