"""Reads `/controller_epoch` for one candidate, and remembers which epochs were used."""

from random import Random
from typing import Final, NamedTuple

import structlog

from cluster.model.broker import ControllerEpoch, ZkVersion
from cluster.model.errors import MalformedZnodeError, OutcomeUnknownError
from cluster.znodes.controller import encode_controller_epoch
from cluster.znodes.paths import CONTROLLER_EPOCH
from cluster.zookeeper.port import SetData, ZooKeeper
from cluster.zookeeper.recipes import create_where_missing
from controller.decisions.controller_epochs import MARGINS, KnownEpochs, epoch_in, next_epoch

_WRITES_AT_ONCE: Final = 250
_log = structlog.stdlib.get_logger()


class StoredEpoch(NamedTuple):
    """`/controller_epoch`. `epoch`: None if it names none."""

    epoch: ControllerEpoch | None
    version: ZkVersion
    data: bytes


class ControllerEpochZnode:
    """Of one candidate. `known`: the epochs that were used, as far as it knows; the next one is above."""

    def __init__(self, zookeeper: ZooKeeper, random: Random) -> None:
        self._zookeeper, self._random = zookeeper, random
        self.known = KnownEpochs()

    async def read(self, *, watch: bool = False) -> StoredEpoch | None:
        """Read the znode; None if it is missing. `watch`: arm a watch on it, missing or not."""
        znode = await self._zookeeper.get(CONTROLLER_EPOCH, watch=watch)
        if znode is None:
            return None
        stored = StoredEpoch(epoch_in(znode.data), ZkVersion(znode.stat.version), znode.data)
        self.known = self.known.read(stored.epoch, stored.version)
        return stored

    async def read_or_create(self) -> StoredEpoch:
        """Created with the highest epoch known if it is missing, with 0 in a new cluster (EL-2)."""
        while (stored := await self.read()) is None:
            await create_where_missing(self._zookeeper, CONTROLLER_EPOCH, encode_controller_epoch(self.known.highest))
        return stored

    def next(self, stored: StoredEpoch) -> ControllerEpoch:
        """The epoch to be elected with. Raises MalformedZnodeError if there is none."""
        wanted = next_epoch(stored.epoch, self.known, self._random.choice(MARGINS))
        if wanted is None:
            raise MalformedZnodeError(CONTROLLER_EPOCH, stored.data, "no epoch of 32 bits can follow it")
        if stored.epoch is None or wanted != stored.epoch + 1:
            _log.warning("Somebody wrote a znode by hand", path=CONTROLLER_EPOCH, data=stored.data, next_epoch=wanted)
        return wanted

    async def has_raised_version(self, stored: StoredEpoch) -> bool:
        """Whether its version had to be raised, by writing its content; it is then to be read again, as with every
        write of somebody else meanwhile.
        """
        missing = self.known.missing_versions(stored.epoch, stored.version)
        if missing:
            _log.warning(
                "Raising the version of a znode that was deleted or set back", path=CONTROLLER_EPOCH, by=missing
            )
        for done in range(0, missing, _WRITES_AT_ONCE):
            versions = range(stored.version + done, stored.version + min(done + _WRITES_AT_ONCE, missing))
            try:
                results = await self._zookeeper.multi([SetData(CONTROLLER_EPOCH, stored.data, v) for v in versions])
            except OutcomeUnknownError:
                break
            if not all(result.ok for result in results):
                break
        return missing > 0

    def lost(self, epoch: ControllerEpoch) -> None:
        """The znode was set back from this epoch at least, and there may have been others after it."""
        self.known = self.known.used(ControllerEpoch(epoch + 1))

    def won(self, epoch: ControllerEpoch, version: ZkVersion) -> None:
        self.known = self.known.used(epoch).read(epoch, version)
