"""Simulates klamm among Apache Kafka's brokers: `/controller` is taken, lost, taken back and given up under faults."""

from collections.abc import Mapping
from random import Random
from typing import Final

from cluster.config.settings import Settings
from cluster.model.broker import ControllerEpoch
from cluster.model.takeover import AdoptedMode
from cluster.znodes.adoption import Adoption, encode_adoption
from cluster.znodes.controller import decode_controller_epoch
from cluster.znodes.paths import ADOPTION, CONTROLLER, CONTROLLER_EPOCH
from cluster.zookeeper.port import Create, Delete, SetData, Znode
from simulator.actions import Weights
from simulator.cluster import SimulatedCluster
from simulator.cluster_simulation import ClusterSimulation
from simulator.violations import ViolationError, violated
from simulator.zookeeper import ServerSession

_KAFKA_BROKERS: Final = 2
_MODES: Final[tuple[AdoptedMode, ...]] = ("atomic", "persistent")


class EpochChecker:
    """Checks each change of `/controller_epoch`, and that no Kafka broker writes states under an earlier one."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._errors: list[ViolationError] = []
        cluster.zookeeper.write_observers.append(self._observe)

    def raise_first_error(self) -> None:
        if self._errors:
            raise self._errors[0]

    def _observe(self, session: ServerSession, before: Mapping[str, Znode | None], is_done: bool) -> None:
        if not is_done:
            return
        tree = self._cluster.zookeeper.tree
        after = tree.get(CONTROLLER_EPOCH)
        epoch = ControllerEpoch(0) if after is None else decode_controller_epoch(after.data)
        old = before.get(CONTROLLER_EPOCH)
        if old is not None and epoch not in {decode_controller_epoch(old.data), decode_controller_epoch(old.data) + 1}:
            self._errors.append(violated("TO-2", f"the controller epoch went from {old.data!r} to {epoch}"))
        for broker in self._cluster.kafka_brokers:
            won = None if broker.competitor is None else broker.competitor.epoch_won
            is_own = broker.is_running and session.client is broker.incarnations[-1].zookeeper
            if is_own and won not in {None, epoch} and any(path.endswith("/state") for path in before):
                self._errors.append(
                    violated("TO-3", f"broker {broker.id} writes under epoch {won}, {epoch} is current")
                )


class TakeoverSimulation(ClusterSimulation):
    """Kafka's brokers compete for `/controller`, fail over slowly and write with the version that they won with.

    The candidates have the same mode, or each its own, or that of `/klamm/adoption`, which comes and goes.
    """

    workload = "takeover"

    def __init__(self, seed: int) -> None:
        chance = Random(f"takeover/{seed}")
        super().__init__(seed, Settings(zookeeper_session_timeout_ms=chance.choice((2000, 6000))), _KAFKA_BROKERS)
        self.epochs = EpochChecker(self.cluster)
        self.comes_and_goes = chance.random() < 0.5
        mode = chance.choice(_MODES)
        for controller in self.cluster.controllers.values():
            if not self.comes_and_goes:
                controller.takeover = chance.choice((mode, chance.choice(_MODES)))

    def weights(self) -> Weights:
        adoption: Weights = {self.adopt: 3, self.leave: 2} if self.comes_and_goes else {}
        return super().weights() | {self.delete_controller: 2, self.expire_active: 3} | adoption

    async def start_nodes(self) -> None:
        await self.adopt()
        await super().start_nodes()

    async def converge(self) -> None:
        if self.comes_and_goes:
            self.background.start(self._write_adoption())
        await super().converge()

    def raise_first_error(self) -> None:
        super().raise_first_error()
        self.epochs.raise_first_error()

    async def adopt(self) -> None:
        """Write `/klamm/adoption`, as `klamm adopt` does."""
        self.background.start(self._write_adoption())

    async def leave(self) -> None:
        """Delete it, as `klamm leave` does first."""
        self.background.start(self.admin.zookeeper.multi([Delete(ADOPTION)]))

    async def delete_controller(self) -> None:
        """Delete `/controller` by hand, so that everyone competes for it."""
        self.background.start(self.admin.zookeeper.multi([Delete(CONTROLLER)]))

    async def expire_active(self) -> None:
        """End the session of the active controller; a broker may be faster than the other candidates."""
        active = self.cluster.active_controller()
        if active is not None:
            active.incarnations[-1].zookeeper.expire()

    async def _write_adoption(self) -> None:
        body = encode_adoption(Adoption(self._random.choice(_MODES), "simulator", self.cluster.clock.now_ms()))
        zookeeper = self.admin.zookeeper
        await zookeeper.multi([Create("/klamm")])
        (created,) = await zookeeper.multi([Create(ADOPTION, body)])
        if not created.ok:
            await zookeeper.multi([SetData(ADOPTION, body)])
