"""Simulates people who write to `/controller` and `/controller_epoch`, under all other faults."""

from random import Random
from typing import Final

from cluster.config.settings import Settings
from cluster.model.broker import ControllerId
from cluster.model.partition import TopicPartition
from cluster.model.takeover import Takeover
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.znodes.controller import encode_controller
from cluster.znodes.paths import BROKERS_IDS, CONTROLLER, CONTROLLER_EPOCH, state_path
from cluster.zookeeper.port import Create, Delete, Op, SetData
from simulator.actions import Weights
from simulator.cluster_simulation import ClusterSimulation

_STRANGER: Final = ControllerId(555)
_EPOCHS: Final = (b"", b"x", b"-1", b"0", b"1", b"2", b"40", b"1000000", b"2147483646", b"2147483647")


_MODES: Final[tuple[Takeover, ...]] = ("never", "atomic", "persistent")


class HandWritesSimulation(ClusterSimulation):
    """Whatever they write, a controller is active again, and the cluster converges."""

    workload = "hand writes"

    def __init__(self, seed: int) -> None:
        chance = Random(f"hand writes/{seed}")
        mode = chance.choice(_MODES)
        super().__init__(seed, Settings(zookeeper_session_timeout_ms=chance.choice((2000, 6000)), klamm_takeover=mode))

    async def prepare(self) -> None:
        """Begin with a state that says which epochs were used: before that, a new process could not know."""
        await super().prepare()
        active = self.cluster.active_controller()
        assert active is not None, "the cluster has started"
        tree, state = self.cluster.zookeeper.tree, state_path(TopicPartition("first", 0))
        await self.cluster.until(
            lambda: len(tree.children(BROKERS_IDS) or ()) == len(self.cluster.agents), "all agents"
        )
        await self.cluster.network.call("client", active.address, CreateTopicsRequest((NewTopic("first"),)))
        await self.cluster.until(lambda: tree.get(state) is not None, "a partition state")

    def weights(self) -> Weights:
        by_hand: Weights = {self.write_controller: 5, self.write_epoch: 5, self.delete_one: 2}
        return super().weights() | by_hand

    async def write_controller(self) -> None:
        """A candidate's id, or another one, or nonsense; in place, or again as a persistent znode."""
        ids = (*self.cluster.controllers, *self.cluster.agents, _STRANGER)
        bodies = [*(encode_controller(ControllerId(int(id_)), 1) for id_ in ids), b"", b"{", b"[]"]
        body = self._random.choice(bodies)
        if self._random.random() < 0.5:
            self._write(SetData(CONTROLLER, body))
        else:
            self._write(Delete(CONTROLLER), Create(CONTROLLER, body))

    async def write_epoch(self) -> None:
        self._write(SetData(CONTROLLER_EPOCH, self._random.choice(_EPOCHS)))

    async def delete_one(self) -> None:
        self._write(Delete(self._random.choice((CONTROLLER, CONTROLLER_EPOCH))))

    def _write(self, *ops: Op) -> None:
        self.background.start(self.admin.zookeeper.multi(ops))
