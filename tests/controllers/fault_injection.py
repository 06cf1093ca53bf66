"""Somebody else gets between a controller and a node: for tests of writes that do not come about as planned."""

from collections.abc import Sequence
from typing import Any

from cluster.zookeeper.port import Op, OpResult, ZkError
from tests.controllers.worlds import RunningController


class FaultInjector:
    """Replaces the next writes of a node: an exception is raised, an error answered, anything else called before it."""

    def __init__(self, c: RunningController, path: str, *interferences: Any) -> None:
        self._multi = c.zookeeper.multi
        self._path = path
        self._interferences = list(interferences)
        self.attempts = 0
        c.zookeeper.multi = self.multi  # type: ignore[method-assign]

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        if ops[0].path != self._path:
            return await self._multi(ops)
        self.attempts += 1
        if self._interferences:
            found = self._interferences.pop(0)
            if isinstance(found, Exception):
                raise found
            if isinstance(found, ZkError):
                return [OpResult(found)]
            await found()
        return await self._multi(ops)


class RefusingFenced:
    """Answers fenced writes of a node with an error, until `is_over`; the transaction holds nothing else."""

    def __init__(self, c: RunningController, path: str, error: ZkError) -> None:
        self._multi_many = c.zookeeper.multi_many
        self._path, self._error = path, error
        self.attempts = 0
        self.is_over = False
        c.zookeeper.multi_many = self.multi_many  # type: ignore[method-assign]

    async def multi_many(self, transactions: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        if self.is_over or self._path not in {op.path for ops in transactions for op in ops}:
            return await self._multi_many(transactions)
        self.attempts += 1
        return [[OpResult(ZkError.RUNTIME_INCONSISTENCY), OpResult(self._error)] for _ in transactions]
