"""The simulator exercises fetch sessions: how they begin, how they are lost, and what is fetched without one."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from broker_agent.log.record_batch import walk
from cluster.model.broker import Offset
from cluster.model.errors import ClusterError, ErrorCode, PeerUnreachableError
from cluster.model.protocol_version import NEWEST
from cluster.requests.data import CONSUMER, FetchPartition, FetchRequest
from cluster.requests.fetcher_session import AskedPartition, FetcherSession
from simulator.network import SimulatedNetwork
from simulator.nodes import SimulatedAgent
from simulator.replication_simulation import PARTITION, ReplicationSimulation
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


class ConsumerInSessions(ReplicationSimulation):
    """A consumer follows the partition from leader to leader, in a session with each."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, "fetch", NEWEST)
        self.offset = Offset(0)
        self.seen: Counter[str] = Counter()
        self._fetchers: dict[str, FetcherSession[None]] = {}
        self._has_converged = False

    async def prepare(self) -> None:
        await super().prepare()
        self.background.start(self._follow())

    async def converge(self) -> None:
        self._has_converged = True
        await super().converge()

    async def _follow(self) -> None:
        while not self._has_converged:
            leader = self._some_leader()
            if leader is not None:
                await self._read(leader)
            await asyncio.sleep(0.05)

    async def _read(self, leader: SimulatedAgent) -> None:
        session = self._fetchers.setdefault(leader.address, FetcherSession())
        item = FetchPartition(PARTITION.topic, None, PARTITION.partition, self.offset, 1 << 20)
        asked = {PARTITION: AskedPartition(None, item)}
        is_established = session.is_established
        said = session.request_changes(asked) if is_established else session.request_all(asked)
        in_session = {"session_id": said.session_id, "session_epoch": said.session_epoch}
        request = FetchRequest(CONSUMER, said.partitions, 500, 1, 1 << 20, **in_session)
        try:
            async with asyncio.timeout(2):
                answer = await self.cluster.network.call("client", leader.address, request)
        except (ClusterError, TimeoutError):
            session.reset()
            return
        if answer.error_code is not ErrorCode.NONE:
            self.seen[answer.error_code.name] += 1
            session.reset()
            return
        session.take_answer(said, answer)
        self.seen["named nothing" if not said.partitions else "named"] += 1
        for data in answer.partitions:
            if data.error_code is ErrorCode.NONE and data.records:
                self.checker.add_read(data.records, data.high_watermark)
                headers = [header for _, header in walk(data.records)]
                assert headers[0].base_offset <= self.offset
                self.offset = Offset(headers[-1].last_offset + 1)
                self.seen["read in a session"] += is_established


@pytest.mark.rule("R5.12", "P38", "P39")
def test_what_a_consumer_reads_in_sessions_is_never_lost() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        done = run_without_violation(seed, lambda: ConsumerInSessions(seed))  # noqa: B023 (run at once)
        assert done.offset > 0
        seen += done.seen
        if all(seen[kind] for kind in ("read in a session", "named nothing", "FETCH_SESSION_ID_NOT_FOUND")):
            return
    raise AssertionError(f"only these were seen: {seen}")
