"""Takes the steps of SASL exchanges of a whole process: counts them, and keeps the answers to failed ones back."""

import asyncio
from collections.abc import Callable

import structlog

from cluster.metrics.registry import Metrics
from cluster.model.errors import ApiError, ConfigError, ErrorCode
from cluster.rpc.exchanges import Exchanges, SaslExchange
from cluster.sasl.mechanisms import AuthenticationFailedError, SaslStep

_log = structlog.stdlib.get_logger()
_METRICS = ("kafka.server", "socket-server-metrics")


class AuthenticationSteps:
    """Shared by all listeners, so that an attacker has no more attempts at several. `exchanges`: those under way."""

    def __init__(self, metrics: Metrics, *, failure_delay_ms: int, now: Callable[[], float]) -> None:
        self.exchanges, self._failure_delay_s = Exchanges(now), failure_delay_ms / 1000
        self._succeeded = metrics.meter(*_METRICS, "successful-authentication")
        self._failed = metrics.meter(*_METRICS, "failed-authentication")

    async def take(self, exchange: SaslExchange, message: bytes) -> SaslStep:
        """Take the client's next message.

        Raises ApiError: SASL_AUTHENTICATION_FAILED, late, THROTTLING_QUOTA_EXCEEDED, BROKER_NOT_AVAILABLE.
        """
        with self.exchanges.handling(exchange):
            try:
                # Signatures of tokens take milliseconds.
                step = await asyncio.to_thread(exchange.of.step, message)
            except AuthenticationFailedError as error:
                self.report_failure(exchange.listener, exchange.host, error.why)
                await asyncio.sleep(self._failure_delay_s)
                raise ApiError(error.code, str(error)) from error
            except ConfigError as error:
                _log.error("Nobody can authenticate", listener=exchange.listener, errors=error.errors)
                why = "the server cannot check passwords or tokens now, as its log says; try again"
                raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, why) from error
        if step.user is not None:
            self._succeeded.mark()
        return step

    def report_failure(self, listener: str, host: str, why: str) -> None:
        """Count and log that a client has not proven who it is. `why`: printable."""
        self._failed.mark()
        _log.info("Authentication failed", listener=listener, host=host, why=why)
