"""Records are deleted while processes crash and leaders change: what was not to be deleted is there in the end."""

import pytest

from cluster.model.broker import Offset
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.data import DeleteRecordsPartition, DeleteRecordsRequest
from tests.brokers.agents import TP, virtually
from tests.simulation.agent.test_random_failures import BROKERS, Drill


class DeletingDrill(Drill):
    """`allowed`: below it anything may be gone, since somebody has asked for that."""

    def __init__(self, seed: int, mode: str) -> None:
        super().__init__(seed, mode)
        self.allowed = 0
        self.deletions: list[ErrorCode] = []
        self.steps[self.delete] = 12
        self.requests.add(self.delete)

    async def delete(self) -> None:
        leader = self.world.states[TP].leader
        if leader not in self.alive:
            return
        process = self.world.agents[leader]
        partition = process.agent.manager.online(TP)
        if partition is None or partition.log is None:
            return
        start, high_watermark = partition.log.log_start_offset, partition.log.high_watermark
        offset = Offset(min(high_watermark, start + self.random.randint(0, 3)))
        self.allowed = max(self.allowed, offset)
        item = DeleteRecordsPartition(TP.topic, TP.partition, offset)
        try:
            [result] = (await process.handle(DeleteRecordsRequest(3000, (item,)))).partitions
        except ApiError:
            return
        assert result.error_code is not ErrorCode.NONE or result.low_watermark >= offset
        self.deletions.append(result.error_code)

    def check_high_watermarks(self) -> None:
        super().check_high_watermarks()
        for broker in self.alive:
            log = self.world.agents[broker].logs.get(TP)
            assert log is None or log.log_start_offset <= min(self.allowed, log.high_watermark)

    def check_contents(self, contents: list[dict[int, bytes]]) -> None:
        left = [{offset: r for offset, r in content.items() if offset >= self.allowed} for content in contents]
        assert left[0] == left[1] == left[2]
        expected = {offset: records for offset, records in self.acknowledged.items() if offset >= self.allowed}
        assert expected.items() <= left[0].items()
        starts = [self.world.agents[broker].logs.get(TP) for broker in BROKERS]
        assert all(log is not None and log.log_start_offset <= self.allowed for log in starts)
        assert ErrorCode.NONE in self.deletions


@pytest.mark.rule("R7.15", "R5.24", "P1", "P8", "P28", "P38")
@pytest.mark.parametrize("mode", ["fetch", "epoch-query"])
@pytest.mark.parametrize("seed", range(6))
def test_only_what_was_asked_for_is_deleted_whatever_fails(seed: int, mode: str) -> None:
    @virtually
    async def run() -> None:
        await DeletingDrill(seed, mode).run()

    run()
