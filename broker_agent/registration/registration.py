"""The agent's registration in `/brokers/ids`: an ephemeral znode whose czxid is the broker epoch.

Source: Kafka KafkaZkClient.CheckedEphemeral; controller rules ZK-12, ZK-13; agent rules R1.5 to R1.9.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog
from msgspec.structs import replace

from broker_agent.decisions.restored_zookeeper import RestoredZooKeeper
from cluster.aio.clock import WallClock
from cluster.model.broker import UNKNOWN_BROKER_EPOCH, Broker, BrokerEpoch, Endpoint
from cluster.model.errors import OutcomeUnknownError, StartupError
from cluster.model.exit_codes import ExitCode
from cluster.znodes.paths import broker_path
from cluster.znodes.registrations import encode_broker
from cluster.zookeeper.port import Create, Delete, SetData, ZkError, ZooKeeper, refusal
from cluster.zookeeper.registrations import registered_brokers

_RETRY_S: Final = 0.5
_NEVER: Final = 0
_log = structlog.stdlib.get_logger()


class IdTakenError(StartupError):
    """Another live session owns the registration of this id."""

    exit_code = ExitCode.ID_TAKEN


class Registration:
    """Registers one broker, again after each session expiry."""

    def __init__(self, zookeeper: ZooKeeper, broker: Broker, clock: WallClock, *, version: int = 5) -> None:
        """Register `broker`. `version`: that of the znode's JSON."""
        self.broker = broker
        self._version = version
        self.epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
        self.restored = RestoredZooKeeper(broker.id)
        self._zookeeper = zookeeper
        self._clock = clock
        self._session_id = _NEVER

    @property
    def has_damaged_replicas(self) -> bool:
        """Whether the controller is to wait for a report of damaged replicas before this broker joins (D-40)."""
        return self.broker.has_damaged_replicas

    @has_damaged_replicas.setter
    def has_damaged_replicas(self, value: bool) -> None:
        self.broker = replace(self.broker, has_damaged_replicas=value)

    async def withdraw_damage(self) -> bool:
        """Write the registration without damaged replicas, which were reported. Raises ZooKeeperError.

        False if it is not of this session: after an expiry it will be written, and reported, again.
        """
        path, broker = broker_path(self.broker.id), replace(self.broker, has_damaged_replicas=False)
        stat = await self._zookeeper.exists(path)
        if stat is None or stat.ephemeral_owner != self._session_id:
            return False
        data = encode_broker(broker, self._clock.now_ms(), self._version)
        (written,) = await self._zookeeper.multi([SetData(path, data, stat.version)])
        if not written.ok:
            raise refusal(f"{path} cannot be written", written.error)
        self.broker = broker
        return True

    def advertise(self, endpoints: Sequence[Endpoint]) -> None:
        """Set the endpoints for later registrations; the first is for clients."""
        self.broker = replace(self.broker, endpoints=tuple(endpoints))

    async def check_address_is_free(self) -> None:
        """Raise StartupError if another registered broker advertises the same host and port (R1.8)."""
        own = {endpoint.address for endpoint in self.broker.endpoints}
        for other in (registered.broker for registered in await registered_brokers(self._zookeeper)):
            taken = own & {endpoint.address for endpoint in other.endpoints}
            if taken and other.id != self.broker.id:
                raise StartupError(
                    f"broker {other.id} is already registered with address {min(taken)}: "
                    "give this broker another `listen` or `advertised`"
                )

    async def register(self) -> None:
        """Create the znode and take its czxid as broker epoch.

        Raises IdTakenError if another process owns the id, and ZooKeeperError.
        """
        path, seen = broker_path(self.broker.id), self._zookeeper.last_zxid
        while True:
            data = encode_broker(self.broker, self._clock.now_ms(), self._version)
            try:
                created, written = await self._zookeeper.multi(
                    [Create(path, ephemeral=True), SetData(path, data, version=0)]
                )
                if written.stat is not None:
                    return self._take(written.stat.czxid, seen)
                if created.error is not ZkError.NODE_EXISTS:
                    raise refusal(f"{path} cannot be created", created.error)
                if await self._resolve_existing(path, seen):
                    return None
            except OutcomeUnknownError:
                _log.info("Registration was interrupted; retrying", path=path)

    async def register_until_it_works(self) -> None:
        """Retry until registered, after an expiry (R1.15). Raises SessionExpiredError: a new session is needed."""
        while True:
            try:
                return await self.register()
            except IdTakenError as error:
                _log.warning("Registration failed; retrying", why=str(error))
                await asyncio.sleep(_RETRY_S)

    async def _resolve_existing(self, path: str, seen: int) -> bool:
        """Handle an existing znode (R1.9): True if it is ours; False to create it again."""
        stat = await self._zookeeper.exists(path)
        if stat is None:
            return False
        if stat.ephemeral_owner == self._zookeeper.session_id:
            self._take(stat.czxid, seen)
            return True
        if stat.ephemeral_owner == self._session_id != _NEVER:
            deleted = (await self._zookeeper.multi([Delete(path)]))[0]
            if deleted.error not in (ZkError.OK, ZkError.NO_NODE):
                raise refusal(f"{path} cannot be deleted", deleted.error)
            return False
        raise IdTakenError(
            f"broker id {self.broker.id} is registered by another session (0x{stat.ephemeral_owner:x}): "
            "stop the process that holds it, or wait until the session of one that died has expired"
        )

    def _take(self, czxid: int, seen: int) -> None:
        """Take the broker epoch `czxid`. `seen`: the highest zxid seen before the attempt."""
        self.epoch = BrokerEpoch(czxid)
        self._session_id = self._zookeeper.session_id
        _log.info("Broker registered", broker=self.broker.id, epoch=czxid)
        self.restored.registered(self.epoch, seen)
        if self.restored.is_suspected:
            _log.error(
                "ZooKeeper was restored from a backup; refusing controllers until `klamm cluster recover`",
                broker=self.broker.id,
                epoch=czxid,
                seen=seen,
            )
