"""Requests that wait for a change of a partition, or for their timeout.

Everything runs on one event loop, so the race that Kafka closes by a second test after registering the operation (R13.3
step 3) cannot occur: nothing runs between the first test and the registration. For the same reason completed operations
leave their lists at once instead of being purged later. Source: Kafka DelayedOperationPurgatory.
"""

import asyncio
from collections.abc import Callable, Sequence

from cluster.partition import TopicPartition
from cluster.process.metrics import Metrics
from cluster.process.request_metrics import record_waiting

Test = Callable[[TopicPartition], bool]
"""Called after the partition changed; True completes the operation."""


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


class Purgatory:
    """The waiting operations of one kind, by the partitions they watch."""

    def __init__(self, name: str, metrics: Metrics) -> None:
        self._watchers: dict[TopicPartition, dict[_Operation, None]] = {}
        type_ = "DelayedOperationPurgatory"
        self._size = metrics.gauge("kafka.server", type_, "PurgatorySize", delayedOperation=name)
        self._delayed = metrics.gauge("kafka.server", type_, "NumDelayedOperations", delayedOperation=name)
        self._is_closed = False

    async def wait(self, test: Test, keys: Sequence[TopicPartition], timeout_ms: int) -> bool:
        """Wait until `test` is True for one of the keys; False after `timeout_ms`.

        The caller must have tested all keys without an await since.
        """
        if self._is_closed or timeout_ms <= 0:
            return False
        loop = asyncio.get_running_loop()
        operation = _Operation(test, keys, loop.create_future())
        timer = loop.call_later(timeout_ms / 1000, lambda: operation.complete(satisfied=False))
        self._watch(operation)
        began = loop.time()
        try:
            return await operation.done
        finally:
            record_waiting((loop.time() - began) * 1000)
            timer.cancel()
            self._forget(operation)

    def check_and_complete(self, key: TopicPartition) -> int:
        """Test every operation that watches `key`; returns how many completed (R13.4)."""
        watching = self._watchers.get(key)
        if watching is None:
            return 0
        return sum(
            1
            for operation in tuple(watching)
            if not operation.done.done() and operation.test(key) and operation.complete(satisfied=True)
        )

    def check_all(self) -> None:
        """Test every operation under every key; called if something changed for all partitions."""
        for key in tuple(self._watchers):
            self.check_and_complete(key)

    def close(self) -> None:
        """Complete every waiting operation with the state at hand; later ones do not wait (R13.10)."""
        self._is_closed = True
        for watching in tuple(self._watchers.values()):
            for operation in tuple(watching):
                operation.complete(satisfied=False)

    def _watch(self, operation: _Operation) -> None:
        for key in operation.keys:
            self._watchers.setdefault(key, {})[operation] = None
        self._size.inc(len(operation.keys))
        self._delayed.inc()

    def _forget(self, operation: _Operation) -> None:
        for key in operation.keys:
            watching = self._watchers.get(key)
            if watching is not None:
                watching.pop(operation, None)
                if not watching:
                    del self._watchers[key]
        self._size.dec(len(operation.keys))
        self._delayed.dec()
