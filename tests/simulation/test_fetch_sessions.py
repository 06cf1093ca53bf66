"""The simulator exercises fetch sessions: how they begin, how they are lost, and what is fetched without one."""

from collections import Counter
from typing import Any

import pytest

from cluster.model.errors import ErrorCode, PeerUnreachableError
from cluster.model.protocol_version import NEWEST
from cluster.requests.data import FetchRequest
from simulator.network import SimulatedNetwork
from simulator.replication_simulation import ReplicationSimulation
from tests.simulation.simulations import run_without_violation

SEEDS = (7, 16, 8, 12)
"""Those with a single slot for sessions on each leader; run until everything was seen, mostly the first."""
KINDS = ("granted", "refused", "in a session", "names nothing", "lost", "in a session, without an answer")


@pytest.mark.rule("R5.12", "P38", "P39")
def test_followers_fetch_in_sessions_that_end_in_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    call = SimulatedNetwork.call

    async def counted(self: SimulatedNetwork, source: str, target: str, request: Any) -> Any:
        if not isinstance(request, FetchRequest) or request.replica_id < 0:
            return await call(self, source, target, request)
        kind = "in a session" if request.session_epoch > 0 else "full"
        seen[kind] += 1
        seen["names nothing"] += not request.partitions
        try:
            answer: Any = await call(self, source, target, request)
        except PeerUnreachableError:
            seen[f"{kind}, without an answer"] += 1
            raise
        seen["granted"] += kind == "full" and answer.session_id > 0
        seen["refused"] += kind == "full" and answer.error_code is ErrorCode.NONE and answer.session_id == 0
        seen["lost"] += answer.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return answer

    monkeypatch.setattr(SimulatedNetwork, "call", counted)
    for seed in SEEDS:
        run_without_violation(seed, lambda: ReplicationSimulation(seed, "fetch", NEWEST))  # noqa: B023 (run at once)
        if all(seen[kind] for kind in KINDS):
            return
    raise AssertionError(f"of {KINDS} only these were seen: {seen}")
