"""Carries out what `klamm adopt` and `klamm leave` promise: writes or deletes the adoption, then waits and watches."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from adoption.broker_access import BrokerAccess
from adoption.broker_survey import obeyed_controllers
from adoption.proofs import Proofs
from adoption.survey import SurveyedCandidate
from adoption.zookeeper_survey import brokers_of_kafka, registered_candidates
from cluster.aio.clock import SystemClock
from cluster.config.settings import Settings
from cluster.model.broker import NO_CONTROLLER, ControllerId, Endpoint
from cluster.model.errors import OutcomeUnknownError, StartupError
from cluster.znodes.adoption import Adoption, encode_adoption
from cluster.znodes.paths import ADOPTION, BROKERS_IDS, CONTROLLERS_IDS, LEFT_REPLICAS
from cluster.zookeeper.port import Create, Delete, Op, SetData, ZkError, ZooKeeper, refusal
from cluster.zookeeper.recipes import create_where_missing
from cluster.zookeeper.registrations import active_controller
from controller.config import ControllerConfig
from controller.controller_election import ControllerElection
from controller.decisions.takeover import Step

_POLL_S: Final = 0.5
_PROOF_S: Final = 15
_KLAMM: Final = "/klamm"
_NAMED: Final = 5
_CONTROLLERS: Final = "/controllers"
Say = Callable[[str], None]


class Handover(Struct, frozen=True):
    """Says how it ended. `controller`: the active one, -1 for none; `is_candidate`: of klamm.

    `obeyed`: broker -> the controller that it obeys, None if it did not answer. `failed`: what was tried after the
    takeover and did not succeed.
    """

    controller: ControllerId
    is_candidate: bool
    obeyed: Mapping[int, ControllerId | None]
    failed: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether there is an active controller that every broker obeys, and everything tried succeeded."""
        return self.controller != NO_CONTROLLER and set(self.obeyed.values()) == {self.controller} and not self.failed


class Withdrawal(Struct):
    """Holds what there is to take back if adopting does not succeed. `former`: the adoption that stood before, if
    one did.
    """

    is_due: bool = False
    former: bytes | None = None


class Handovers:
    """Both ways, for one cluster. `access`: how brokers are reached."""

    def __init__(self, zookeeper: ZooKeeper, access: BrokerAccess, timeout_s: float, say: Say) -> None:
        self._zookeeper, self._access, self._timeout_s, self._say = zookeeper, access, timeout_s, say

    async def adopt(self, adoption: Adoption, inter_broker_listener: str, withdrawal: Withdrawal) -> Handover:
        """Write the adoption; wait until a candidate is the active controller and every broker obeys it, or until the
        timeout; then try whether topics can be created. Raises ZooKeeperError.

        `withdrawal`: says, whatever ends this, what `give_back` is to undo unless it succeeded.
        """
        former = await self._zookeeper.get(ADOPTION)
        await create_where_missing(self._zookeeper, _KLAMM)
        withdrawal.former = None if former is None else former.data
        withdrawal.is_due = True
        await self._write(encode_adoption(adoption))
        self._say(f"wrote {ADOPTION}: mode {adoption.mode}")
        ended = await self._wait(wants_candidate=True)
        if ended.is_complete and ended.is_candidate:
            ended = replace(ended, failed=tuple(await self._why_not_used(ended.controller, inter_broker_listener)))
        withdrawal.is_due = not (ended.is_complete and ended.is_candidate)
        return ended

    async def give_back(self, withdrawal: Withdrawal) -> bool:
        """Undo an adoption that did not succeed; whether the brokers obey one of them again, or the adoption stands
        that stood before. Raises ZooKeeperError.
        """
        if withdrawal.former is not None:
            await self._write(withdrawal.former)
            self._say(f"wrote {ADOPTION} as it was before")
            return True
        await self._apply(Delete(ADOPTION), {ZkError.NO_NODE})
        self._say(f"deleted {ADOPTION}")
        ended = await self._wait(wants_candidate=False)
        return ended.is_complete and not ended.is_candidate

    async def leave(self, *, keeps: bool) -> Handover:
        """Delete the adoption, wait until a broker is the active controller and every broker obeys it, or until the
        timeout; then delete what klamm has in ZooKeeper, unless `keeps` or a candidate is still registered.

        Raises ZooKeeperError, StartupError if there is no cluster.
        """
        if await self._zookeeper.exists(BROKERS_IDS) is None:
            raise StartupError(f"there is no {BROKERS_IDS}: is this the cluster's ZooKeeper, with its chroot?")
        await self._warn_of_left_replicas()
        if await self._zookeeper.exists(ADOPTION) is not None:
            await self._apply(Delete(ADOPTION), {ZkError.NO_NODE})
            self._say(f"deleted {ADOPTION}")
        ended = await self._wait(wants_candidate=False)
        if ended.is_complete and not ended.is_candidate:
            await self._tidy(keeps=keeps)
        return ended

    async def _why_not_used(self, controller: ControllerId, inter_broker_listener: str) -> list[str]:
        """Say what clients cannot do at the new controller; nothing of one that refuses them."""
        found = (await registered_candidates(self._zookeeper)).get(controller)
        profile = None if found is None else found.profile
        if profile is not None and profile.refuses_clients:
            return []
        brokers = await brokers_of_kafka(self._zookeeper)
        authorises = profile is not None and profile.authorises
        return await Proofs(self._access, _PROOF_S).after(brokers, inter_broker_listener, authorises=authorises)

    async def _write(self, data: bytes) -> None:
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
        registered = await registered_candidates(self._zookeeper)
        candidates = list(registered)
        is_candidate = controller in candidates
        if controller == NO_CONTROLLER or is_candidate != wants_candidate:
            why = _awaited(controller, list(registered.values()), wants_candidate=wants_candidate)
            return Handover(controller, is_candidate, {}), why
        brokers = await brokers_of_kafka(self._zookeeper)
        ended = Handover(controller, is_candidate, await obeyed_controllers(brokers, self._access, self._timeout_s))
        late = sorted(broker for broker, obeyed in ended.obeyed.items() if obeyed != controller)
        who = f"controller {controller} of klamm" if is_candidate else f"broker {controller}"
        what = f"waiting for brokers {_ids(late)} to obey" if late else f"all {len(ended.obeyed)} brokers obey"
        return ended, f"{who} is the active controller; {what}"

    async def _delete_abandoned(self) -> None:
        """Delete a persistent `/controller` whose owner is gone, which no broker would replace."""
        nobody = ControllerConfig(NO_CONTROLLER, (Endpoint("", 0),), Settings(klamm_broker_protocol="kafka"))
        election = ControllerElection(self._zookeeper, nobody, SystemClock(), Random())  # noqa: S311 - no secret is drawn.
        await election.refresh()
        if election.step is Step.DELETE:
            await election.delete_controller_znode()
            self._say("deleted /controller, whose owner is gone")

    async def _warn_of_left_replicas(self) -> None:
        """Name the topics that brokers have missed the deletion of: only klamm's controllers would see to it."""
        brokers = sorted(await self._zookeeper.children(LEFT_REPLICAS) or ())
        listed = await self._zookeeper.children_many([f"{LEFT_REPLICAS}/{broker}" for broker in brokers])
        for broker, topics in zip(brokers, listed, strict=True):
            if topics:
                names = ", ".join(sorted(topics)[:_NAMED]) + (", …" if len(topics) > _NAMED else "")
                self._say(
                    f"warning: broker {broker} was away while topics were deleted ({names}) and still has replicas of "
                    "them, which Kafka's controllers do not delete: before it starts again, delete their folders from "
                    "its log directories"
                )

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


def why_not_complete(ended: Handover) -> str:
    """Say why a handover did not succeed."""
    if ended.failed:
        return "; ".join(ended.failed)
    late = sorted(broker for broker, obeyed in ended.obeyed.items() if obeyed != ended.controller)
    whose = f"brokers {', '.join(map(str, late))} do not obey it" if late else "that is not what was asked for"
    return f"timed out: the active controller is {ended.controller}; {whose}"


def _awaited(controller: ControllerId, candidates: Sequence[SurveyedCandidate], *, wants_candidate: bool) -> str:
    if wants_candidate:
        unfit = [
            f"{c.id} takes no part in elections: it {c.profile.unfit}"
            for c in candidates
            if c.profile is not None and c.profile.unfit
        ]
        if unfit:
            return f"waiting for a controller of klamm; {'; '.join(unfit)}"
        return f"waiting for one of the controllers {_ids([c.id for c in candidates])} to take over"
    if controller == NO_CONTROLLER:
        return "waiting for a broker to become the active controller"
    return (
        f"waiting for controller {controller} of klamm to give up; if it does not, it was started with klamm.takeover: "
        "stop it, or start it without"
    )


def _ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))
