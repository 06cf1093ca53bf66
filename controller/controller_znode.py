"""Reads `/controller` for one candidate, with what decides about it, and composes the operations on it."""

from typing import Final

import structlog
from msgspec import Struct, structs

from cluster.aio.clock import WallClock
from cluster.model.broker import NO_CONTROLLER, BrokerId, ControllerId, ZkVersion
from cluster.model.errors import MalformedZnodeError
from cluster.model.takeover import AdoptedMode
from cluster.znodes.adoption import decode_adoption
from cluster.znodes.controller import decode_controller_body, encode_controller
from cluster.znodes.paths import ADOPTION, CONTROLLER, broker_path, controller_registration_path
from cluster.zookeeper.decoding import report_malformed
from cluster.zookeeper.port import Check, Create, Delete, Op, Znode, ZooKeeper
from controller.config import ControllerConfig
from controller.decisions.takeover import NO_SESSION, Candidate, Holding, Step, is_of_broker, next_step

_NOT_ADOPTED: Final = ("never", None)
_log = structlog.stdlib.get_logger()


class Seen(Struct, frozen=True):
    """Holds what was read: `holding` None for no `/controller`.

    `adoption`: the version of `/klamm/adoption`, if the candidate competes by it.
    """

    holding: Holding | None
    candidate: Candidate
    adoption: ZkVersion | None = None

    @property
    def step(self) -> Step:
        return next_step(self.candidate, self.holding)

    @property
    def controller(self) -> ControllerId:
        """The active controller, of klamm or of Kafka; -1 for none."""
        found = self.holding
        known = None if found is None or found.is_abandoned else found.controller
        return NO_CONTROLLER if known is None else known

    @property
    def is_of_broker(self) -> bool:
        """Whether `/controller` is to be taken from a live broker."""
        holding = self.holding
        return self.step is Step.REPLACE and holding is not None and is_of_broker(self.candidate, holding)

    @property
    def is_persistent(self) -> bool:
        """Whether `/controller` outlives the session of whoever made it."""
        return self.holding is not None and self.holding.is_persistent

    @property
    def is_others(self) -> bool:
        """Whether another candidate is the active controller."""
        holding = self.holding
        return holding is not None and not holding.is_abandoned and not self.candidate.owns(holding)

    @property
    def is_of_other_kind(self) -> bool:
        """Whether it is this session's, ephemeral where it should be persistent or the other way round."""
        wanted = self.candidate.takeover == "persistent"
        return self.step is Step.KEEP and self.holding is not None and self.holding.is_persistent != wanted


class ControllerZnode:
    """Reads and writes `/controller` for one candidate. The caller adds the fence of `/controller_epoch`."""

    def __init__(self, zookeeper: ZooKeeper, config: ControllerConfig, clock: WallClock) -> None:
        self._zookeeper = zookeeper
        self._config = config
        self._clock = clock

    async def read(self) -> Seen:
        """Read it, and arm its watch, whether it exists or not (EL-9); likewise for what decides about it."""
        znode = await self._zookeeper.get(CONTROLLER, watch=True)
        holding = None if znode is None else await self._holding(znode)
        config, takeover, adoption = self._config, self._config.settings.klamm_takeover, None
        if takeover == "never":
            takeover, adoption = await self._adoption() or _NOT_ADOPTED
        candidate = Candidate(config.id, self._zookeeper.session_id, takeover, config.governs_kafka)
        return Seen(holding, candidate, adoption)

    async def _holding(self, znode: Znode) -> Holding:
        version, owner = znode.stat.version, znode.stat.ephemeral_owner
        body = decode_controller_body(znode.data)
        if body is None:
            _log.warning("Skipped a malformed znode", path=CONTROLLER, data=znode.data, why="it names no controller")
            return Holding(version, None, owner)
        # A persistent znode does not go with its owner, but the owner's registration does.
        is_watched = owner == NO_SESSION and body.session is not None
        registration = await self._zookeeper.exists(controller_registration_path(body.brokerid), watch=is_watched)
        registered = NO_SESSION if registration is None else registration.ephemeral_owner
        if (
            NO_SESSION not in {registered, owner}
            and registered != owner
            and await self._is_broker(body.brokerid, owner)
        ):
            registered = NO_SESSION
        return Holding(version, body.brokerid, owner, body.session, registered)

    async def _is_broker(self, id_: ControllerId, session: int) -> bool:
        """Whether it is the session of the broker of this id: somebody started a candidate under the same one."""
        broker = await self._zookeeper.exists(broker_path(BrokerId(id_)))
        return broker is not None and broker.ephemeral_owner == session

    async def _adoption(self) -> tuple[AdoptedMode, ZkVersion] | None:
        znode = await self._zookeeper.get(ADOPTION, watch=True)
        if znode is None:
            return None
        try:
            return decode_adoption(znode.data).mode, ZkVersion(znode.stat.version)
        except MalformedZnodeError as error:
            report_malformed(error)
            return None

    def taking(self, seen: Seen) -> list[Op]:
        """Create it for this session, in place of what was seen; refused if the adoption does not stand any more."""
        adopted = [] if seen.adoption is None else [Check(ADOPTION, seen.adoption)]
        return [*adopted, *self.removal(seen), self._creation(seen.candidate)]

    def taken(self, seen: Seen) -> Seen:
        """The content after `taking` was carried out."""
        candidate = seen.candidate
        is_persistent = candidate.takeover == "persistent"
        owner, session = (NO_SESSION, candidate.session) if is_persistent else (candidate.session, None)
        return structs.replace(seen, holding=Holding(0, candidate.id, owner, session, candidate.session))

    def removal(self, seen: Seen) -> list[Op]:
        return [] if seen.holding is None else [Delete(CONTROLLER, seen.holding.version)]

    def _creation(self, candidate: Candidate) -> Op:
        is_persistent = candidate.takeover == "persistent"
        owner = candidate.session if is_persistent else None
        body = encode_controller(candidate.id, self._clock.now_ms(), owner)
        return Create(CONTROLLER, body, ephemeral=not is_persistent)
