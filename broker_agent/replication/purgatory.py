"""Requests that wait for a change of a partition, or for their timeout.

Everything runs on one event loop, so the race that Kafka closes by a second test after registering the operation (R13.3
step 3) cannot occur: nothing runs between the first test and the registration. Only operations with many keys are
tested after they were registered, in slices. For the same reason completed operations leave their lists at once instead
of being purged later. Source: Kafka DelayedOperationPurgatory.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import structlog

from cluster.aio.parking import parked
from cluster.aio.slices import SLICE, in_slices
from cluster.metrics.registry import Metrics
from cluster.metrics.requests import record_waiting
from cluster.model.partition import TopicPartition

CHECKED_AT_ONCE: Final = 16
"""Of operations that watch one partition, how many are tested before others have their turn on the event loop."""
Test = Callable[[TopicPartition], bool]
"""Called after the partition changed; True completes the operation."""
_log = structlog.stdlib.get_logger()


class _Operation:
    """One waiting request. Its future is set exactly once: True if satisfied, False after the timeout (R13.2)."""

    def __init__(self, test: Test, keys: Sequence[TopicPartition], done: asyncio.Future[bool]) -> None:
        self.test = test
        self.keys = keys
        self.done = done

    def complete(self, *, satisfied: bool) -> bool:
        """Complete the operation; returns whether this call did it."""
        if self.done.done():
            return False
        self.done.set_result(satisfied)
        return True

    def check(self, key: TopicPartition) -> bool:
        """Test the operation after `key` changed; returns whether this completed it.

        What a test raises ends the wait of its own request, and reaches neither the request that changed the partition
        nor the other operations.
        """
        if self.done.done():
            return False
        try:
            return self.test(key) and self.complete(satisfied=True)
        except Exception as error:
            _log.warning("Testing a waiting request failed", partition=str(key), error=repr(error))
            self.done.set_exception(error)
            return True


class LastingWatch:
    """Watches partitions from one operation to the next, so that an operation that begins to wait does nothing for each
    of them. It has one operation at a time.
    """

    def __init__(self, purgatory: "Purgatory") -> None:
        self._purgatory = purgatory
        self._watched: set[TopicPartition] = set()
        self._operation: _Operation | None = None

    def watch(self, key: TopicPartition) -> None:
        """Watch a partition, if it is not watched yet."""
        if key not in self._watched:
            self._watched.add(key)
            self._purgatory.keep(key, self)

    def unwatch(self, key: TopicPartition) -> None:
        """Watch a partition no longer."""
        if key in self._watched:
            self._watched.remove(key)
            self._purgatory.release(key, self)

    def changed(self, key: TopicPartition) -> None:
        """A watched partition has just changed, or is about to; the operation is tested later."""

    def check(self, key: TopicPartition) -> bool:
        """Test the operation, if one waits, after `key` changed; returns whether this completed it."""
        # Tested in parts, a partition may be watched no longer when its turn comes.
        return self._operation is not None and key in self._watched and self._operation.check(key)

    def interrupt(self) -> None:
        """Complete the operation, if one waits, with the state at hand."""
        if self._operation is not None:
            self._operation.complete(satisfied=True)

    async def wait(self, test: Test, keys: Sequence[TopicPartition], timeout_ms: int) -> bool:
        """Wait as `Purgatory.wait` does, for any of the watched partitions and these."""
        return await self._purgatory.wait(test, keys, timeout_ms, lasting=self)

    def begin(self, operation: "_Operation | None") -> int:
        """Let this operation wait from now on, or none; returns the number of watched partitions."""
        self._operation = operation
        return len(self._watched)

    @property
    def is_waiting(self) -> bool:
        """Whether an operation waits."""
        return self._operation is not None


class Purgatory:
    """The waiting operations of one kind, by the partitions they watch.

    `in_parts`: of a partition with many operations, the first are tested at once and the others soon after, so that
    thousands of consumers of one partition do not hold up the event loop each time that something is appended.
    """

    def __init__(self, name: str, metrics: Metrics, *, in_parts: bool = False) -> None:
        self._watchers: dict[TopicPartition, dict[_Operation, None]] = {}
        self._lasting: dict[TopicPartition, dict[LastingWatch, None]] = {}
        self._open: set[_Operation] = set()
        type_ = "DelayedOperationPurgatory"
        self._size = metrics.gauge("kafka.server", type_, "PurgatorySize", delayedOperation=name)
        self._delayed = metrics.gauge("kafka.server", type_, "NumDelayedOperations", delayedOperation=name)
        self._is_closed = False
        self._in_parts = in_parts
        self._to_check: dict[TopicPartition, None] = {}
        """Changed partitions with operations that were not tested yet, in order."""
        self._unchecked: Iterator[LastingWatch | _Operation] = iter(())
        """The rest of those that watch `_checked`."""
        self._checked: TopicPartition | None = None

    async def wait(
        self,
        test: Test,
        keys: Sequence[TopicPartition],
        timeout_ms: int,
        *,
        lasting: LastingWatch | None = None,
    ) -> bool:
        """Wait until `test` is True for one of the keys; False after `timeout_ms`. Raises what `test` raises.

        The caller must have tested all keys without an await since. Of more keys than one slice it need test none: all
        are tested here once they are watched. `lasting`: what it watches counts as well.
        """
        if self._is_closed or timeout_ms <= 0:
            return False
        async with parked():
            return await self._wait(test, keys, timeout_ms, lasting)

    async def _wait(
        self, test: Test, keys: Sequence[TopicPartition], timeout_ms: int, lasting: LastingWatch | None
    ) -> bool:
        loop = asyncio.get_running_loop()
        operation = _Operation(test, keys, loop.create_future())
        timer = loop.call_later(timeout_ms / 1000, lambda: operation.complete(satisfied=False))
        self._watch(operation, lasting)
        began = loop.time()
        try:
            if len(keys) > SLICE:
                await _check_all(operation)
            return await operation.done
        finally:
            record_waiting((loop.time() - began) * 1000)
            timer.cancel()
            self._forget(operation, lasting)

    def check_and_complete(self, key: TopicPartition) -> int:
        """Test the operations that watch `key`; returns how many completed, not counting those tested later (R13.4)."""
        watching = self._watching(key)
        if not self._in_parts or len(watching) <= CHECKED_AT_ONCE:
            return sum(each.check(key) for each in watching)
        is_scheduled = bool(self._to_check) or self._checked is not None
        self._to_check[key] = None
        return 0 if is_scheduled else self._check_some()

    def tell(self, key: TopicPartition) -> None:
        """Tell the lasting watches of a partition that it has just changed, or is about to."""
        for watch in tuple(self._lasting.get(key, ())):
            watch.changed(key)

    def keep(self, key: TopicPartition, watch: LastingWatch) -> None:
        """Let a watch see the changes of a partition until it is released."""
        self._lasting.setdefault(key, {})[watch] = None
        if watch.is_waiting:
            self._size.inc()

    def release(self, key: TopicPartition, watch: LastingWatch) -> None:
        """End what `keep` began."""
        watching = self._lasting[key]
        del watching[watch]
        if not watching:
            del self._lasting[key]
        if watch.is_waiting:
            self._size.dec()

    def _watching(self, key: TopicPartition) -> tuple[LastingWatch | _Operation, ...]:
        return (*self._lasting.get(key, ()), *self._watchers.get(key, ()))

    def _check_some(self) -> int:
        """Test as many operations as may be tested at once; the rest in the next iterations of the event loop."""
        if self._checked is None:
            self._checked = next(iter(self._to_check))
            del self._to_check[self._checked]
            # Those that begin to wait later need no test now: their callers have seen the change already.
            self._unchecked = iter(self._watching(self._checked))
        part = list(islice(self._unchecked, CHECKED_AT_ONCE))
        completed = sum(operation.check(self._checked) for operation in part)
        if len(part) < CHECKED_AT_ONCE:
            self._checked = None
        if self._to_check or self._checked is not None:
            asyncio.get_running_loop().call_soon(self._check_some)
        return completed

    def check_all(self) -> None:
        """Test every operation under every key; called if something changed for all partitions."""
        for key in tuple(self._watchers):
            self.check_and_complete(key)

    def close(self) -> None:
        """Complete every waiting operation with the state at hand; later ones do not wait (R13.10)."""
        self._is_closed = True
        for operation in tuple(self._open):
            operation.complete(satisfied=False)

    def _watch(self, operation: _Operation, lasting: LastingWatch | None) -> None:
        self._open.add(operation)
        for key in operation.keys:
            self._watchers.setdefault(key, {})[operation] = None
        self._size.inc(len(operation.keys) + (0 if lasting is None else lasting.begin(operation)))
        self._delayed.inc()

    def _forget(self, operation: _Operation, lasting: LastingWatch | None) -> None:
        self._open.remove(operation)
        self._size.dec(len(operation.keys) + (0 if lasting is None else lasting.begin(None)))
        for key in operation.keys:
            watching = self._watchers.get(key)
            if watching is not None:
                watching.pop(operation, None)
                if not watching:
                    del self._watchers[key]
        self._delayed.dec()


async def _check_all(operation: _Operation) -> None:
    """Test an operation under each of its keys, in slices, until one completes it."""
    async for key in in_slices(operation.keys):
        if operation.check(key):
            return
