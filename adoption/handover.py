"""Carries out what `klamm adopt` and `klamm leave` promise: writes or deletes the adoption, then waits and watches."""

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from msgspec import Struct

from adoption.broker_survey import obeyed_controllers
from adoption.zookeeper_survey import brokers_of_kafka
from cluster.broker import NO_CONTROLLER, ControllerId, Endpoint
from cluster.errors import OutcomeUnknownError, StartupError
from cluster.process.clock import SystemClock
from cluster.znodes.adoption import Adoption, encode_adoption
from cluster.znodes.paths import ADOPTION, BROKERS_IDS, CONTROLLERS_IDS
from cluster.zookeeper.port import Create, Delete, Op, SetData, ZkError, ZooKeeper, refusal
from cluster.zookeeper.recipes import create_where_missing
from cluster.zookeeper.registrations import active_controller, registered_controllers
from controller.config import ControllerConfig
from controller.controller_election import ControllerElection
from controller.decisions.takeover import Step

_POLL_S: Final = 0.5
_KLAMM: Final = "/klamm"
_CONTROLLERS: Final = "/controllers"
Say = Callable[[str], None]


class Handover(Struct, frozen=True):
    """How it ended. `controller`: the active one, -1 for none; `is_candidate`: of klamm.

    `obeyed`: broker -> the controller that it obeys, None if it did not answer.
    """

    controller: ControllerId
    is_candidate: bool
    obeyed: Mapping[int, ControllerId | None]

    @property
    def is_complete(self) -> bool:
        """Whether there is an active controller that every broker obeys."""
        return self.controller != NO_CONTROLLER and set(self.obeyed.values()) == {self.controller}


class Handovers:
    """Both ways, for one cluster. `tls`: for brokers that listen with SSL only."""

    def __init__(self, zookeeper: ZooKeeper, tls: ssl.SSLContext | None, timeout_s: float, say: Say) -> None:
        self._zookeeper, self._tls, self._timeout_s, self._say = zookeeper, tls, timeout_s, say

    async def adopt(self, adoption: Adoption) -> Handover:
        """Write the adoption and wait until a candidate is the active controller and every broker obeys it, or until
        the timeout. Raises ZooKeeperError.
        """
        await create_where_missing(self._zookeeper, _KLAMM)
        await self._write(adoption)
        self._say(f"wrote {ADOPTION}: mode {adoption.mode}")
        return await self._wait(wants_candidate=True)

    async def leave(self, *, keeps: bool) -> Handover:
        """Delete the adoption, wait until a broker is the active controller and every broker obeys it, or until the
        timeout; then delete what klamm has in ZooKeeper, unless `keeps` or a candidate is still registered.

        Raises ZooKeeperError, StartupError if there is no cluster.
        """
        if await self._zookeeper.exists(BROKERS_IDS) is None:
            raise StartupError(f"there is no {BROKERS_IDS}: is this the cluster's ZooKeeper, with its chroot?")
        if await self._zookeeper.exists(ADOPTION) is not None:
            await self._apply(Delete(ADOPTION), {ZkError.NO_NODE})
            self._say(f"deleted {ADOPTION}")
        ended = await self._wait(wants_candidate=False)
        if ended.is_complete and not ended.is_candidate:
            await self._tidy(keeps=keeps)
        return ended

    async def _write(self, adoption: Adoption) -> None:
        data = encode_adoption(adoption)
        if await self._zookeeper.exists(ADOPTION) is None:
            await self._apply(Create(ADOPTION, data), {ZkError.NODE_EXISTS})
        await self._apply(SetData(ADOPTION, data), set())

    async def _apply(self, op: Op, harmless: set[ZkError]) -> None:
        while True:
            try:
                (result,) = await self._zookeeper.multi([op])
            except OutcomeUnknownError:
                continue
            if not result.ok and result.error not in harmless:
                raise refusal(f"{op.path} cannot be changed", result.error)
            return

    async def _wait(self, *, wants_candidate: bool) -> Handover:
        loop = asyncio.get_running_loop()
        deadline, before = loop.time() + self._timeout_s, ""
        while True:
            ended, why = await self._look(wants_candidate=wants_candidate)
            if why != before:
                self._say(why)
                before = why
            if (ended.is_complete and ended.is_candidate == wants_candidate) or loop.time() > deadline:
                return ended
            await asyncio.sleep(_POLL_S)

    async def _look(self, *, wants_candidate: bool) -> tuple[Handover, str]:
        """The present state, and what is waited for."""
        if not wants_candidate:
            await self._delete_abandoned()
        controller, _ = await active_controller(self._zookeeper)
        candidates = [candidate.id for candidate in await registered_controllers(self._zookeeper)]
        is_candidate = controller in candidates
        if controller == NO_CONTROLLER or is_candidate != wants_candidate:
            why = _awaited(controller, candidates, wants_candidate=wants_candidate)
            return Handover(controller, is_candidate, {}), why
        brokers = await brokers_of_kafka(self._zookeeper)
        ended = Handover(controller, is_candidate, await obeyed_controllers(brokers, self._tls, self._timeout_s))
        late = sorted(broker for broker, obeyed in ended.obeyed.items() if obeyed != controller)
        who = f"controller {controller} of klamm" if is_candidate else f"broker {controller}"
        what = f"waiting for brokers {_ids(late)} to obey" if late else f"all {len(ended.obeyed)} brokers obey"
        return ended, f"{who} is the active controller; {what}"

    async def _delete_abandoned(self) -> None:
        """Delete a persistent `/controller` whose owner is gone, which no broker would replace."""
        nobody = ControllerConfig(NO_CONTROLLER, (Endpoint("", 0),), governs_kafka=True)
        election = ControllerElection(self._zookeeper, nobody, SystemClock(), Random())
        await election.refresh()
        if election.step is Step.DELETE:
            await election.delete_controller_znode()
            self._say("deleted /controller, whose owner is gone")

    async def _tidy(self, *, keeps: bool) -> None:
        candidates = await self._zookeeper.children(CONTROLLERS_IDS)
        if candidates:
            self._say(
                f"controllers {', '.join(candidates)} of klamm are registered and wait for the next 'klamm adopt', so "
                f"{_KLAMM} and {_CONTROLLERS} stay: stop them and run 'klamm leave' again to delete both"
            )
        elif keeps:
            self._say(f"kept {_KLAMM} and {_CONTROLLERS}")
        else:
            for root in (_KLAMM, _CONTROLLERS):
                await self._delete_tree(root)
            self._say(f"deleted {_KLAMM} and {_CONTROLLERS}: nothing of klamm is left in ZooKeeper")

    async def _delete_tree(self, root: str) -> None:
        levels = [[root]]
        while levels[-1]:
            listed = zip(levels[-1], await self._zookeeper.children_many(levels[-1]), strict=True)
            levels.append([f"{path}/{name}" for path, names in listed for name in names or ()])
        for path in (path for level in reversed(levels) for path in level):
            await self._apply(Delete(path), {ZkError.NO_NODE})


def _awaited(controller: ControllerId, candidates: Sequence[ControllerId], *, wants_candidate: bool) -> str:
    if wants_candidate:
        if not candidates:
            return "waiting for a controller of klamm: start those that are listed above"
        return f"waiting for one of the controllers {_ids(candidates)} to take over"
    if controller == NO_CONTROLLER:
        return "waiting for a broker to become the active controller"
    return (
        f"waiting for controller {controller} of klamm to give up; if it does not, it was started with klamm.takeover: "
        "stop it, or start it without"
    )


def _ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))
