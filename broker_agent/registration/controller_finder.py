"""Finds the active controller and its address, by watching ZooKeeper.

`/controller` holds a candidate's id and `/controllers/ids/<id>` its addresses; both are deleted with their session.
Source: Kafka MetadataCacheControllerNodeProvider.
"""

import asyncio
from typing import Final

import structlog

from cluster.model.broker import NO_CONTROLLER, ControllerId, Endpoint
from cluster.model.errors import StartupError, ZooKeeperError
from cluster.model.listeners import ListenerNames, has_one_address
from cluster.zookeeper.port import ZooKeeper
from cluster.zookeeper.registrations import active_controller

_RETRY_S: Final = 0.5
_log = structlog.stdlib.get_logger()


class ControllerFinder:
    """Keeps `controller_id` and its endpoints current; they are unset while no controller is active."""

    def __init__(self, zookeeper: ZooKeeper, names: ListenerNames) -> None:
        self.controller_id: ControllerId = NO_CONTROLLER
        self._endpoints: tuple[Endpoint, ...] = ()
        self._zookeeper = zookeeper
        self._names = names
        self._changed = asyncio.Event()
        self.found = asyncio.Event()
        """Set whenever an active controller is found, as after each election; cleared by whoever waits for the next."""

    @property
    def endpoint(self) -> Endpoint | None:
        """The address at which clients find the active controller."""
        return self._endpoints[0] if self._endpoints else None

    @property
    def control_endpoint(self) -> Endpoint | None:
        """The address at which the active controller answers brokers."""
        found = self._names.control_endpoint(self._endpoints)
        return self.endpoint if found is None else found

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
        controller, endpoints = await active_controller(self._zookeeper, watch=True)
        if controller != NO_CONTROLLER and (controller, endpoints) != (self.controller_id, self._endpoints):
            _log.info("Active controller changed", controller=controller, addresses=[e.address for e in endpoints])
            if has_one_address(endpoints):
                _log.error("The active controller has no control listener, so its requests are refused: upgrade it")
        self.controller_id, self._endpoints = controller, endpoints
        if endpoints:
            self.found.set()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_RETRY_S):
                await self._changed.wait()
        except TimeoutError:
            return

    def _forget(self) -> None:
        self.controller_id, self._endpoints = NO_CONTROLLER, ()


async def check_controller_has_control_listener(zookeeper: ZooKeeper) -> None:
    """Raise StartupError if the active controller has a single address, as in klamm 0.2, which sends control requests
    to the listener of clients. Raises ZooKeeperError.
    """
    controller, endpoints = await active_controller(zookeeper)
    if endpoints and has_one_address(endpoints):
        raise StartupError(
            f"the active controller {controller} ({endpoints[0].address}) has no control listener, as in klamm 0.2: "
            "upgrade all controllers before the first broker"
        )
