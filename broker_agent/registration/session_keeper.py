"""Keeps an agent's ZooKeeper session: processes its events, and after an expiry opens another and registers again.

Source: Kafka ZooKeeperClient, KafkaZkClient; agent rules R1.12 to R1.15.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

import structlog

from broker_agent.registration.controller_finder import ControllerFinder
from broker_agent.registration.registration import Registration
from broker_agent.replica_changes import RegistrationChanged
from broker_agent.replication.replica_manager import ReplicaManager
from cluster.metrics.health import Health
from cluster.model.errors import SessionExpiredError, ZooKeeperError
from cluster.requests.cluster import Finding
from cluster.znodes.paths import CONFIG_CHANGES
from cluster.zookeeper.config_changes import ConfigChanges
from cluster.zookeeper.port import SessionEvent, SessionState, WatchEvent, ZooKeeper
from state_log.record import Cause

_RETRY_S: Final = 0.5
ZOOKEEPER_DISCONNECTED: Final = "zookeeper_disconnected"
RECONNECT_MAX_S: Final = 1
"""A connection that only broke, as when a server of ZooKeeper restarts, is back by then."""
_EXPIRED: Final = Cause("SessionExpired")
_log = structlog.stdlib.get_logger()


class BrokerSessionKeeper:
    """Maintains the session as long as the agent runs. `follow` does the work."""

    def __init__(
        self,
        manager: ReplicaManager,
        zookeeper: ZooKeeper,
        events: "asyncio.Queue[WatchEvent | SessionEvent]",
        *,
        registration: Registration,
        finder: ControllerFinder,
        setting_changes: ConfigChanges,
    ) -> None:
        """Keep the session of `zookeeper`, whose listener fills `events`."""
        self._zookeeper = zookeeper
        self._events = events
        self._registration = registration
        self._finder = finder
        self._setting_changes = setting_changes
        self._manager = manager
        self._disconnected_at: float | None = None  # It is made once the agent has registered.
        self._is_registered = True

    def health(self) -> Health:
        """Whether controllers and clients can find this agent."""
        if self._disconnected_at is not None:
            return Health("no connection to ZooKeeper", is_healthy=False)
        if not self._is_registered:
            return Health("not registered in ZooKeeper", is_healthy=False)
        return Health("registered", is_healthy=True)

    def findings(self) -> Iterator[Finding]:
        """Report that ZooKeeper does not answer, which no other process knows before the session ends."""
        if self._disconnected_at is None:
            return
        lasting_s = asyncio.get_running_loop().time() - self._disconnected_at
        if lasting_s > RECONNECT_MAX_S:
            detail = (
                f"broker {self._manager.own_id} has had no answer from ZooKeeper for {lasting_s:.0f} s; when its "
                "session ends (zookeeper.session.timeout.ms) others lead its partitions, and it comes back when it "
                "reaches ZooKeeper: see the network between them, and whether ZooKeeper runs"
            )
            yield Finding(ZOOKEEPER_DISCONNECTED, detail, broker=self._manager.own_id)

    async def follow(self) -> None:
        """Process session and watch events, in their order, until cancelled."""
        while True:
            event = await self._events.get()
            if isinstance(event, SessionEvent):
                self._follow_connection(is_connected=event.state is SessionState.CONNECTED)
            match event:
                case WatchEvent(path=path, kind=kind) if path == CONFIG_CHANGES:
                    self._setting_changes.changed(kind)
                case WatchEvent():
                    self._finder.refresh()
                case SessionEvent(state=SessionState.CONNECTED):
                    self._finder.refresh()
                case SessionEvent(state=SessionState.EXPIRED | SessionState.AUTH_FAILED, session_id=session_id):
                    # A session that ended while its successor was being opened has been replaced already.
                    if session_id == self._zookeeper.session_id:
                        await self._renew_session()
                case SessionEvent(state=state):
                    _log.warning("ZooKeeper session state changed", state=state.value)

    def _follow_connection(self, *, is_connected: bool) -> None:
        if is_connected:
            self._disconnected_at = None
        elif self._disconnected_at is None:
            self._disconnected_at = asyncio.get_running_loop().time()

    async def _renew_session(self) -> None:
        """Open a new session and register, retrying until both succeed (R1.12, R1.15).

        Roles, fetchers, logs and pending ISR changes stay as they are until the controller's next requests (R1.13). To
        give them up would only take partitions from clients: if others were elected meanwhile, those requests have
        higher leader epochs, and until then only what the whole ISR has is committed, the elected replica included.
        """
        _log.warning("ZooKeeper session expired; registering again", broker=self._manager.own_id)
        self.commit("expired", _EXPIRED)
        self._is_registered = False
        needs_session = True
        while True:
            try:
                if needs_session:
                    await self._zookeeper.start_session()
                    needs_session = False
                await self._registration.register_until_it_works()
                break
            except SessionExpiredError:
                needs_session = True
            except ZooKeeperError as error:
                _log.warning("Registration failed; retrying", error=str(error))
            await asyncio.sleep(_RETRY_S)
        self._is_registered = True
        self.commit("registered", _EXPIRED)
        self._finder.refresh()
        self._setting_changes.start_session()

    def commit(self, to_state: str, cause: Cause) -> None:
        """Record the state of the registration, `registered` or `expired`, and its broker epoch."""
        self._manager.commit(RegistrationChanged(self._registration.epoch, to_state, cause))
