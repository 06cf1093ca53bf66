"""Controller election: `/controller` and `/controller_epoch`, and this candidate's registration.

A candidate is active only if its *present session* owns `/controller`. The id is not enough: a process that restarts
within the session timeout of its predecessor would take the predecessor's znode for its own (D-26). What owning means,
and what a candidate does about a znode that is somebody else's, is decided in `controller.decisions.takeover`. Source:
Kafka KafkaController.elect, KafkaZkClient.registerControllerAndIncrementControllerEpoch.
"""

import asyncio
import base64
import uuid
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from cluster.aio.clock import WallClock
from cluster.model.broker import NO_CONTROLLER, ControllerEpoch, ControllerId, ZkVersion
from cluster.model.errors import ControllerMovedError, OutcomeUnknownError, SessionExpiredError, ZooKeeperError
from cluster.znodes.cluster_wide import encode_cluster_id
from cluster.znodes.controller import encode_controller_epoch
from cluster.znodes.paths import (
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    CONTROLLERS_IDS,
    PERSISTENT_PATHS,
    broker_path,
    controller_registration_path,
    known_controller_path,
)
from cluster.znodes.registrations import encode_broker, encode_controller_registration
from cluster.zookeeper.port import Check, Create, Delete, Op, OpResult, SetData, ZkError, ZooKeeper, refusal
from cluster.zookeeper.recipes import create_where_missing
from cluster.zookeeper.registrations import active_controller
from controller.config import ControllerConfig
from controller.controller_epoch_znode import ControllerEpochZnode
from controller.controller_znode import ControllerZnode, Seen
from controller.decisions.takeover import Candidate, Step
from controller.store import ControllerStore

_LOST_RACE: Final = frozenset({ZkError.NODE_EXISTS, ZkError.BAD_VERSION, ZkError.NO_NODE})
_CREATED_OR_THERE: Final = frozenset({ZkError.OK, ZkError.NODE_EXISTS, ZkError.RUNTIME_INCONSISTENCY})
_MOVED_ON: Final = frozenset({ZkError.OK, ZkError.RUNTIME_INCONSISTENCY, ZkError.NO_NODE, ZkError.BAD_VERSION})
_log = structlog.stdlib.get_logger()


class ElectedEpoch(Struct, frozen=True):
    """A won election: the controller epoch, and the data version of `/controller_epoch` that fences writes (EL-8)."""

    epoch: ControllerEpoch
    epoch_zk_version: ZkVersion
    was_brokers: bool = False
    """Whether `/controller` was taken from a Kafka broker."""
    vacant_since: float | None = None
    """When this candidate first saw that there was no active controller, in the event loop's time; None: there was one.
    """


class ControllerElection:
    """The election as one candidate sees it."""

    def __init__(self, zookeeper: ZooKeeper, config: ControllerConfig, clock: WallClock, random: Random) -> None:
        self._zookeeper = zookeeper
        self._config = config
        self._clock = clock
        self._random = random
        self._former_sessions: set[int] = set()
        self._znode = ControllerZnode(zookeeper, config, clock)
        self._gave_way = False
        self._is_recorded = False
        self._unfit = ""
        self.epoch = ControllerEpochZnode(zookeeper, random)
        self._seen: Seen | None = None
        """What was last read; None before that, and while there is certainly no active controller known."""
        self._vacant_since: float | None = None

    @property
    def active_controller_id(self) -> ControllerId:
        """The id last read from `/controller`, a candidate's or a Kafka broker's; -1 for none."""
        return NO_CONTROLLER if self._seen is None else self._seen.controller

    @property
    def step(self) -> Step:
        """The step that this candidate is to take about `/controller`, by the last read."""
        return Step.WAIT if self._seen is None else self._seen.step

    @property
    def owns_controller_znode(self) -> bool:
        """Whether this session owned `/controller` at the last read, and is to keep it."""
        return self.step is Step.KEEP

    @property
    def competes(self) -> bool:
        """Whether this candidate is to compete for `/controller`, by the last read."""
        return self.step in {Step.CREATE, Step.REPLACE}

    @property
    def gives_way(self) -> bool:
        """Whether `/controller` is left to Kafka's brokers, by the last read."""
        return self._seen is not None and self._seen.candidate.gives_way

    @property
    def takes_from_broker(self) -> bool:
        """Whether it is to take `/controller` from a Kafka broker, by the last read."""
        return self._seen is not None and self._seen.is_of_broker

    async def create_paths(self) -> None:
        """Create the persistent znodes and the cluster id where they are missing."""
        paths = list(dict.fromkeys(_with_parents((*PERSISTENT_PATHS, CONTROLLERS_IDS, CLUSTER_ID))))[:-1]
        znodes = await self._zookeeper.get_many(paths)
        # One request each: another process may be creating the same znodes, and one failure must not fail the others.
        for path in [path for path, znode in zip(paths, znodes, strict=True) if znode is None]:
            await create_where_missing(self._zookeeper, path)
        if await self._zookeeper.exists(CLUSTER_ID) is None:
            drawn = uuid.UUID(int=self._random.getrandbits(128), version=4)
            cluster_id = base64.urlsafe_b64encode(drawn.bytes).decode().rstrip("=")
            await create_where_missing(self._zookeeper, CLUSTER_ID, encode_cluster_id(cluster_id))

    async def register(self) -> bool:
        """Create `/controllers/ids/<id>` for this session; False if another session owns it.

        Arms a watch in both cases. The caller calls again when the znode is deleted.
        """
        path = controller_registration_path(self._config.id)
        data = self._registration()
        session = self._zookeeper.session_id
        while True:
            results = await self._try([Create(path, ephemeral=True), SetData(path, data, 0)])
            if results is not None and results[0].error not in _CREATED_OR_THERE:
                raise refusal(f"{path} cannot be created", results[0].error)
            stat = await self._zookeeper.exists(path, watch=True)
            if stat is None:
                continue
            if stat.ephemeral_owner == session:
                break
            if stat.ephemeral_owner not in self._former_sessions:
                _log.warning(
                    "Waiting for another session's registration under this id to expire", path=path, id=self._config.id
                )
                return False
            await self._delete_registration(path)
        self._former_sessions.add(session)
        await self._register_as_broker()
        return True

    async def say_unfit(self, why: str) -> None:
        """Write into this session's registration why this candidate does not stand for election; empty: it does again.

        It stays there when the candidate registers again. Does nothing where the registration is another session's.
        """
        self._unfit = why
        path = controller_registration_path(self._config.id)
        stat = await self._zookeeper.exists(path, watch=True)
        if stat is not None and stat.ephemeral_owner == self._zookeeper.session_id:
            await self._try([SetData(path, self._registration(), stat.version)])

    def _registration(self) -> bytes:
        config = self._config
        profile = config.profile
        if self._unfit:
            profile = (config.profile or config.least_profile).unfit_because(self._unfit)
        return encode_controller_registration(config.id, config.endpoints, self._clock.now_ms(), profile)

    async def _register_as_broker(self) -> None:
        """Create `/brokers/ids/<id>`, if that is configured. A controller without it works, so nothing is raised."""
        broker = self._config.as_broker
        if broker is None:
            return
        path = broker_path(broker.id)
        data = encode_broker(broker, self._clock.now_ms(), self._config.protocol_version.registration_version)
        await self._try([Create(path, data, ephemeral=True)])
        stat = await self._zookeeper.exists(path)
        if stat is None or stat.ephemeral_owner != self._zookeeper.session_id:
            _log.error("The id of this controller is registered by somebody else as a broker", path=path)

    async def _delete_registration(self, path: str) -> None:
        results = await self._try([Delete(path)])
        if results is not None and results[0].error not in {ZkError.OK, ZkError.NO_NODE}:
            raise refusal(f"{path} cannot be deleted", results[0].error)

    async def refresh(self) -> Seen:
        """Read `/controller` and arm its watch, whether the znode exists or not (EL-9)."""
        self._seen = await self._znode.read()
        if self._seen.controller != NO_CONTROLLER:
            self._vacant_since = None
        elif self._vacant_since is None:
            self._vacant_since = asyncio.get_running_loop().time()
        return self._seen

    async def record(self) -> None:
        """Record, once, that this candidate takes part in elections, so that it can be missed (D-110)."""
        is_waiting = self._seen is None or self._seen.candidate.gives_way
        if is_waiting or self._is_recorded:
            # After the cluster was left, and is adopted again, it is recorded again.
            self._is_recorded &= not is_waiting
            return
        path = known_controller_path(self._config.id)
        try:
            if await self._zookeeper.exists(path) is None:
                for missing in dict.fromkeys(_with_parents([path])):
                    await create_where_missing(self._zookeeper, missing)
        except ZooKeeperError as error:
            _log.warning("This controller could not be recorded, so that nobody will miss it", error=str(error))
        else:
            self._is_recorded = True

    def forget(self) -> None:
        """Reset to "no active controller known": the session expired, or `/controller` was deleted."""
        self._seen = None

    async def delete_controller_znode(self, under: ControllerStore | None = None) -> None:
        """Delete `/controller` if this session owns it or is to leave it to the brokers, whatever the controller epoch.

        Fenced by the epoch of the controller that ended, `under`; if that is refused, by the current version of
        `/controller_epoch`, so that it cannot delete the znode of a controller elected meanwhile.
        """
        if under is not None:
            self.forget()
            try:
                await under.delete_controller_znode()
            except SessionExpiredError:
                raise
            except (ControllerMovedError, ZooKeeperError) as error:
                _log.info("Deleting /controller under the own controller epoch failed", error=str(error))
            else:
                return
        await self._delete_if(lambda seen: seen.step in {Step.KEEP, Step.DELETE})

    async def leave(self, timeout_s: float) -> None:
        """See to it, before this candidate ends, that a persistent `/controller` has an owner or is deleted.

        The other candidates notice by its registration that this one is gone; the last one deletes `/controller`, so
        that a broker takes it. An ephemeral znode goes with the session.
        """
        if self._seen is None or not self._seen.is_persistent:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._hand_over()
        except (ZooKeeperError, TimeoutError) as error:
            _log.error("Handing over /controller failed: if no candidate is left, delete it", error=repr(error))

    async def _hand_over(self) -> None:
        path = controller_registration_path(self._config.id)
        # Each candidate deletes its own before it looks for others: of those that end together, the last sees none.
        while (stat := await self._zookeeper.exists(path)) and stat.ephemeral_owner == self._zookeeper.session_id:
            await self._delete_registration(path)
        if not await self._zookeeper.children(CONTROLLERS_IDS):
            await self._delete_if(lambda seen: seen.is_persistent and not seen.is_others)

    async def _delete_if(self, is_to_go: Callable[[Seen], bool]) -> None:
        while True:
            # The epoch first, as in `elect`.
            stored = await self.epoch.read()
            seen = await self.refresh()
            if not is_to_go(seen):
                return
            if stored is None:
                await self.epoch.read_or_create()
                continue
            results = await self._try([Check(CONTROLLER_EPOCH, stored.version), *self._znode.removal(seen)])
            if results is not None and all(result.ok for result in results):
                self.forget()
                return
            errors = {result.error for result in results or ()} - _MOVED_ON
            if errors:
                raise refusal(f"{CONTROLLER} cannot be deleted", min(errors))

    async def convert(self, epoch_zk_version: ZkVersion) -> None:
        """Make this session's `/controller` persistent or ephemeral, as is wanted now; the controller epoch stays.

        `epoch_zk_version`: of that epoch. Does nothing if it is right, or if another controller was elected.
        """
        seen = self._seen
        while seen is not None and seen.is_of_other_kind:
            results = await self._try([Check(CONTROLLER_EPOCH, epoch_zk_version), *self._znode.taking(seen)])
            seen = await self.refresh()
            if results is not None:
                return

    async def elect(self, *, renews: bool = False) -> ElectedEpoch | None:
        """Try to become the active controller (EL-1 to EL-6); None if there is an active controller already.

        `renews`: also if this session is it already, to be elected again under a higher epoch; `/controller` is
        replaced in the same transaction, so that nobody is elected in between. Raises ControllerMovedError if another
        candidate won.
        """
        attempts: set[ControllerEpoch] = set()
        while True:
            # The epoch first: every election raises its version, so that a transaction under this version finds
            # `/controller` as it is read next, or fails.
            stored = await self.epoch.read_or_create()
            seen = await self.refresh()
            self._say_whether_it_gives_way(seen.candidate)
            if not self._may_compete(renews=renews):
                # The owner may be this candidate: an earlier attempt whose response was lost may have been applied only
                # now.
                return await self._won_by(attempts)
            if await self.epoch.has_raised_version(stored):
                continue
            wanted = self.epoch.next(stored)
            attempts.add(wanted)
            raise_epoch = SetData(CONTROLLER_EPOCH, encode_controller_epoch(wanted), stored.version)
            results = await self._try([*self._znode.taking(seen), raise_epoch])
            if results is not None and all(result.ok for result in results):
                assert results[-1].stat is not None, "set-data answers with a stat"
                self._seen = self._znode.taken(seen)
                return self._won(ElectedEpoch(wanted, ZkVersion(results[-1].stat.version), seen.is_of_broker))
            elected = await self._find_out(attempts, results, renews=renews)
            if elected is not None:
                return elected

    def _may_compete(self, *, renews: bool) -> bool:
        return self.competes or (renews and self.owns_controller_znode)

    def _won(self, elected: ElectedEpoch) -> ElectedEpoch:
        self.epoch.won(elected.epoch, elected.epoch_zk_version)
        return replace(elected, vacant_since=self._vacant_since)

    def _say_whether_it_gives_way(self, candidate: Candidate) -> None:
        if candidate.gives_way and not self._gave_way:
            _log.info("Waiting for 'klamm adopt --execute': /controller is left to Kafka's brokers until then")
        self._gave_way = candidate.gives_way

    async def address_of_another(self) -> tuple[ControllerId, str]:
        """Id and address of the active controller, read from ZooKeeper; (-1, "") if there is none, or it has this id.

        Whoever asks is not active: what names it is left by an earlier incarnation, or its own term is only beginning.
        """
        found, endpoints = await active_controller(self._zookeeper)
        is_another = endpoints and found != self._config.id
        return (found, endpoints[0].address) if is_another else (NO_CONTROLLER, "")

    async def _find_out(
        self, attempts: set[ControllerEpoch], results: list[OpResult] | None, *, renews: bool
    ) -> ElectedEpoch | None:
        """Resolve attempts that did not return success: the elected epoch if one of them was applied (EL-5), None to
        retry.

        A retry follows if the response was lost and the attempt is not visible. Should it still be applied late, the
        next attempt conflicts with it and resolves it here.
        """
        if results is not None:
            errors = {result.error for result in results} - {ZkError.OK, ZkError.RUNTIME_INCONSISTENCY}
            if not errors & _LOST_RACE:
                raise refusal("the election failed", min(errors))
        await self.refresh()
        elected = await self._won_by(attempts)
        if elected is None and (results is not None or not self._may_compete(renews=renews)):
            raise ControllerMovedError(f"controller {self.active_controller_id} was faster")
        return elected

    async def _won_by(self, attempts: set[ControllerEpoch]) -> ElectedEpoch | None:
        """The elected epoch, if this session owns `/controller` and the epoch is one it tried to write; else None."""
        if not (self.owns_controller_znode and attempts):
            return None
        stored = await self.epoch.read_or_create()
        if stored.epoch is None or stored.epoch not in attempts:
            return None
        return self._won(ElectedEpoch(stored.epoch, stored.version))

    async def _try(self, ops: list[Op]) -> list[OpResult] | None:
        """Run one transaction; None if its response was lost."""
        try:
            return await self._zookeeper.multi(ops)
        except OutcomeUnknownError:
            return None


def _with_parents(paths: Iterable[str]) -> Iterable[str]:
    for path in paths:
        parts = path.strip("/").split("/")
        yield from ("/" + "/".join(parts[:length]) for length in range(1, len(parts) + 1))
