"""Freed memory is given back once, some time after it has become worthwhile."""

import asyncio

import pytest

from controller.freed_memory import FreedMemory


@pytest.mark.rule("D-108")
async def test_memory_is_given_back_when_that_is_worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.freed_memory._QUIET_S", 0.01)
    trimmed: list[int] = []
    memory = FreedMemory(lambda pad: trimmed.append(pad) or 1)
    memory.freed(1 << 20)
    await asyncio.sleep(0.05)
    assert trimmed == []
    for _ in range(100):
        memory.freed(1 << 20)
    while not trimmed:  # noqa: ASYNC110 - the C library tells nobody.
        await asyncio.sleep(0.01)
    memory.freed(32 << 20)
    memory.close()
    await asyncio.sleep(0.05)
    assert trimmed == [0]


async def test_the_c_library_is_asked() -> None:
    memory = FreedMemory()
    memory.freed(32 << 20)
    memory.close()
