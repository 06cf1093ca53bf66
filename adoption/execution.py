"""`klamm adopt --execute`: waits for candidates that suit the brokers, proves, takes over, proves again.

Whatever ends it before it has succeeded, the cluster is given back.
"""

import asyncio
import getpass
import signal
import socket
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from adoption.broker_access import BrokerAccess
from adoption.findings import examine
from adoption.handover import Handover, Handovers, Withdrawal, why_not_complete
from adoption.proofs import Proofs
from adoption.survey import Survey
from adoption.wanted import wanted
from adoption.zookeeper_survey import registered_candidates
from cluster.model.takeover import AdoptedMode
from cluster.znodes.adoption import Adoption
from cluster.zookeeper.port import ZooKeeper

_POLL_S: Final = 0.5
_PROOF_S: Final = 15
_GIVE_BACK_S: Final = 120


class AdoptionOutcome(Struct, frozen=True):
    """`refusals`: why nothing was changed; then there is no `handover`."""

    refusals: tuple[str, ...] = ()
    handover: Handover | None = None

    @property
    def is_adopted(self) -> bool:
        return self.handover is not None and self.handover.is_complete and self.handover.is_candidate


class Execution:
    """One run. `survey`: with all brokers' answers, without refusals. `address`: the connect string of ZooKeeper."""

    def __init__(
        self,
        survey: Survey,
        address: str,
        mode: AdoptedMode,
        *,
        access: BrokerAccess,
        timeout_s: float,
        say: Callable[[str], None],
    ) -> None:
        self._survey, self._address, self._mode = survey, address, mode
        self._access, self._timeout_s, self._say = access, timeout_s, say
        self.withdrawal = Withdrawal()

    async def adopt(self, zookeeper: ZooKeeper) -> AdoptionOutcome:
        """Adopt the cluster. Raises ZooKeeperError."""
        self._end_on_sigterm()
        found = await self._with_candidates(zookeeper)
        if not found.candidates:
            return AdoptionOutcome((f"no controller of klamm registered within {self._timeout_s:g} s",))
        if refused := examine(found, self._address, self._mode).refusals:
            return AdoptionOutcome(refused)
        if failed := await Proofs(self._access, _PROOF_S).before(found):
            return AdoptionOutcome(tuple(failed))
        by = f"{getpass.getuser()}@{socket.gethostname()}"
        brokers = tuple(broker.id for broker in found.asked)
        adoption = Adoption(self._mode, by, time.time_ns() // 1_000_000, brokers=brokers)
        handovers = Handovers(zookeeper, self._access, self._timeout_s, self._say)
        ended = await handovers.adopt(adoption, wanted(found).inter_broker_listener, self.withdrawal)
        if self.withdrawal.is_due:
            self._say(f"klamm: {why_not_complete(ended)}")
        return AdoptionOutcome(handover=ended)

    async def give_back(self, zookeeper: ZooKeeper) -> bool:
        """See Handovers."""
        timeout_s = max(self._timeout_s, _GIVE_BACK_S)
        return await Handovers(zookeeper, self._access, timeout_s, self._say).give_back(self.withdrawal)

    async def _with_candidates(self, zookeeper: ZooKeeper) -> Survey:
        """The survey, once a candidate is registered, or at the timeout; nothing is written before one is."""
        loop = asyncio.get_running_loop()
        deadline, is_said = loop.time() + self._timeout_s, False
        while True:
            candidates = await registered_candidates(zookeeper)
            if candidates or loop.time() > deadline:
                return replace(self._survey, candidates=candidates)
            if not is_said:
                self._say("waiting for a controller of klamm: start those that are listed above")
                is_said = True
            await asyncio.sleep(_POLL_S)

    @staticmethod
    def _end_on_sigterm() -> None:
        """End on SIGTERM as on Ctrl-C, so that the cluster is given back."""
        task = asyncio.current_task()
        assert task is not None, "a command runs as a task"
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
