"""The load of the demonstrations: it sends what it may, and its outcome tells what is wrong with what is stored."""

import asyncio

import pytest

from admin.consuming.record_history import Acknowledged, HistoryRule, RecordId
from launcher.demo.load import RecordLoad

TIMEOUT_S = 30.0


class StoredAtOnce(RecordLoad):
    """One partition, which takes every record; a group of one sees those with the numbers of `seen`."""

    members = 1

    def __init__(self, total: int, seen: range) -> None:
        super().__init__("t", total)
        self.log: list[bytes] = []
        self._numbers = seen

    async def _produce(self, producer: str) -> None:
        async for id_ in self._ids(producer):
            self._acknowledged.append(Acknowledged(id_, 0, len(self.log)))
            self.log.append(id_.value())

    async def _read(self) -> None:
        self._seen.update(RecordId("0", number) for number in self._numbers)
        self._seen_more.set()

    async def _read_all(self, timeout_s: float) -> dict[int, list[tuple[int, bytes | None]]]:
        return {0: list(enumerate(self.log))}


async def test_no_more_is_sent_than_is_allowed_and_all_in_the_end() -> None:
    load = StoredAtOnce(200, range(200))
    async with load.running():
        for allowed in (0, 20, 130):
            load.allowed = allowed
            async with asyncio.timeout(TIMEOUT_S):
                while load.acknowledged < allowed:  # noqa: ASYNC110 - what is waited for has no event.
                    await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert load.acknowledged == allowed
        found = await load.finish(TIMEOUT_S)
    assert (found.acknowledged, found.duplicates, found.passed) == (200, 0, True)


async def test_records_that_the_group_has_not_seen_are_counted() -> None:
    load = StoredAtOnce(100, range(99))
    async with load.running():
        found = await load.finish(0.2)
    assert (found.unread, found.anomalies, found.passed) == (1, {}, False)


@pytest.mark.parametrize(
    ("position", "value", "rules"),
    [
        (7, None, {HistoryRule.LOST}),
        (7, b"0 6 ", {HistoryRule.LOST, HistoryRule.DUPLICATED}),
        (7, b"foreign", {HistoryRule.LOST, HistoryRule.FOREIGN}),
    ],
)
async def test_what_is_wrong_with_the_stored_records_is_counted(
    position: int, value: bytes | None, rules: set[HistoryRule]
) -> None:
    load = StoredAtOnce(100, range(100))
    async with load.running():
        await load.stop(TIMEOUT_S)
        if value is None:
            load.log.pop()
        else:
            load.log[position] = value
        found = await load.finish(TIMEOUT_S)
    assert set(found.anomalies) == rules
    assert (found.lost, found.passed) == (1, False)
