"""Controllers that die between two of their writes: the crash test that every procedure has to pass.

The same story is told again and again, the active controller dying after its first write of the procedure, after its
second one, and so on, until a run has fewer writes than that. Each time the next controller has to bring it to the same
end.
"""

from collections.abc import Sequence
from typing import Final

from cluster.zookeeper.port import Op, OpResult
from simulator.cluster import SimulatedCluster
from simulator.zookeeper import ServerSession

SAFETY_LIMIT: Final = 200
"""More writes than any procedure needs."""


class DyingController:
    """Kills the active controller once ZooKeeper has carried out its `fatal_write`-th transaction from now on.

    The answer is lost with it. It goes for one controller only; its successor lives. `writes` are those of both.
    """

    def __init__(self, cluster: SimulatedCluster, fatal_write: int) -> None:
        self.writes = 0
        self.died = False
        self._fatal_write = fatal_write
        self._victim = cluster.active_controller()
        assert self._victim is not None, "no controller is active"
        self._carry_out = cluster.zookeeper.write
        cluster.zookeeper.write = self._write  # type: ignore[method-assign]

    def spare(self) -> None:
        """The procedure is over: whoever is alive may live on."""
        self._fatal_write = -1

    def _write(self, session: ServerSession, ops: Sequence[Op]) -> list[OpResult]:
        results = self._carry_out(session, ops)
        victim = self._victim
        assert victim is not None
        if not self.died and session.client is victim.incarnations[-1].zookeeper:
            self.writes += 1
            if self.writes == self._fatal_write:
                self.died = True
                victim.crash()
        return results
