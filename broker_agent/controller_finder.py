"""Finds the active controller and its address, by watching ZooKeeper.

`/controller` holds a candidate's id and `/controllers/ids/<id>` its address; both are deleted with their session.
"""

import asyncio
from typing import Final

import structlog

from cluster.broker import NO_CONTROLLER, ControllerId, Endpoint
from cluster.errors import ZooKeeperError
from cluster.znodes.controller import decode_controller
from cluster.znodes.paths import CONTROLLER, controller_registration_path
from cluster.znodes.registrations import decode_controller_registration
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.port import ZooKeeper

_RETRY_S: Final = 0.5
_log = structlog.stdlib.get_logger()


class ControllerFinder:
    """Keeps `controller_id` and `endpoint` current; both are unset while no controller is active."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self.controller_id: ControllerId = NO_CONTROLLER
        self.endpoint: Endpoint | None = None
        self._zookeeper = zookeeper
        self._changed = asyncio.Event()

    def refresh(self) -> None:
        """Read again: a watch fired, or the session is new and has no watches."""
        self._changed.set()

    async def run(self) -> None:
        """Read and watch until cancelled."""
        while True:
            self._changed.clear()
            try:
                await self._read()
            except ZooKeeperError as error:
                # After an expiry the next session calls `refresh`; the pause covers all other errors.
                _log.debug("Finding the active controller failed", error=str(error))
                self._forget()
                await self._pause()
                continue
            await self._changed.wait()

    async def _read(self) -> None:
        znode = await self._zookeeper.get(CONTROLLER, watch=True)
        controller = None if znode is None else decode_controller(znode.data)
        if controller is None:
            self._forget()
            return
        address = await self._zookeeper.get(controller_registration_path(controller), watch=True)
        found = decode_each([controller], [address], lambda id_, znode: decode_controller_registration(id_, znode.data))
        endpoint = found.get(controller)
        if (controller, endpoint) != (self.controller_id, self.endpoint):
            _log.info("Active controller changed", controller=controller, address=endpoint and endpoint.address)
        self.controller_id, self.endpoint = controller, endpoint

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_RETRY_S):
                await self._changed.wait()
        except TimeoutError:
            return

    def _forget(self) -> None:
        self.controller_id, self.endpoint = NO_CONTROLLER, None
