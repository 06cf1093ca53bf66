"""Does what many tasks want from the disk in groups: after an election thousands of logs write an epoch each.

A group costs one hop to a thread, and its writes are flushed together. While threads are free nothing waits for a
group to fill up.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from broker_agent.log.disk import Disk

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_GROUPS_AT_ONCE: Final = 32
_ITEMS_OF_GROUP: Final = 16


class _Entry(Generic[_Item, _Result]):
    """An item that waits, or is in a group that is being worked on, and what comes out."""

    def __init__(self, item: _Item) -> None:
        self.item = item
        self.group: _Group | None = None
        self.result: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()


class _Group:
    """The work for some items, and how many callers still want it."""

    def __init__(self, working: "asyncio.Future[Any]", callers: int) -> None:
        self.working, self.callers = working, callers

    def give_up(self) -> None:
        """Let one caller go; without any, the work is cancelled as far as the disk can."""
        self.callers -= 1
        if not self.callers:
            self.working.cancel()


class GroupedWork(Generic[_Item, _Result]):
    """`do` does the work for several items, on a thread, and returns for each what came out, in their order."""

    def __init__(
        self,
        disk: Disk,
        do: Callable[[Sequence[_Item]], Sequence[_Result | Exception]],
        *,
        groups_at_once: int = _GROUPS_AT_ONCE,
        items_of_group: int = _ITEMS_OF_GROUP,
    ) -> None:
        self._disk, self._do, self._items_of_group = disk, do, items_of_group
        self._waiting: list[_Entry[_Item, _Result]] = []
        self._groups = asyncio.Semaphore(groups_at_once)

    async def run(self, item: _Item) -> _Result:
        """Have the work done for an item. Raises what came out for it.

        Work that has begun is completed even if the caller is cancelled, who then ends when it has ended.
        """
        entry = _Entry[_Item, _Result](item)
        self._waiting.append(entry)
        try:
            async with self._groups:
                while entry.group is None:
                    await self._run_group()
            return await asyncio.shield(entry.result)
        except asyncio.CancelledError:
            if entry.group is None:
                self._waiting.remove(entry)
            else:
                entry.group.give_up()
                await asyncio.wait([entry.result])
                _retrieve(entry.result)
            raise

    async def _run_group(self) -> None:
        size = self._items_of_group
        entries, self._waiting = self._waiting[:size], self._waiting[size:]
        working = asyncio.ensure_future(self._disk.run(partial(self._do, [entry.item for entry in entries])))
        working.add_done_callback(partial(_hand_over, entries))
        group = _Group(working, len(entries))
        for entry in entries:
            entry.group = group
        await asyncio.wait([working])


def _hand_over(
    entries: Sequence[_Entry[_Item, _Result]], working: "asyncio.Future[Sequence[_Result | Exception]]"
) -> None:
    if working.cancelled():
        for entry in entries:
            entry.result.cancel()
        return
    error = working.exception()
    outcomes: Sequence[_Result | BaseException] = working.result() if error is None else [error] * len(entries)
    for entry, outcome in zip(entries, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            entry.result.set_exception(outcome)
        else:
            entry.result.set_result(outcome)


def _retrieve(result: "asyncio.Future[_Result]") -> None:
    """Nobody else asks for the error of work whose caller was cancelled."""
    if not result.cancelled():
        result.exception()
