"""Freed memory is given back once, some time after it has become worthwhile."""

import asyncio
import ctypes
import subprocess
import sys
from typing import Final

import pytest

from controller.freed_memory import FreedMemory, keep_large_blocks_apart

_GROWN_BY_A_FREED_BLOCK: Final = """
import sys
from pathlib import Path
from controller.freed_memory import keep_large_blocks_apart


def heap_kib():
    lines = Path("/proc/self/smaps").read_text().splitlines()
    at = [number for number, line in enumerate(lines) if line.endswith("[heap]")]
    return sum(int(line.split()[1]) for n in at for line in lines[n : n + 8] if line.startswith("Rss:"))


if sys.argv[1] == "apart":
    keep_large_blocks_apart()
# Freed once, a block of this size has its successors beside the small ones.
del [bytes(8 << 20)][:]
before = heap_kib()
large = bytes(b"x" * (6 << 20))
print(heap_kib() - before > 4 << 10)
"""


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


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="only the GNU C library has it")
@pytest.mark.parametrize(("how", "is_in_heap"), [("apart", "False"), ("as before", "True")])
def test_large_blocks_are_not_among_the_small_ones(how: str, is_in_heap: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _GROWN_BY_A_FREED_BLOCK, how], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == is_in_heap


def test_a_c_library_without_mallopt_is_left_alone() -> None:
    keep_large_blocks_apart(object())
