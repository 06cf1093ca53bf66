"""Keeps the head of a node's state-change log in ZooKeeper, where the node itself cannot take it back unseen."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from cluster.model.errors import MalformedZnodeError, OutcomeUnknownError, ZooKeeperError
from cluster.requests.control import StateLogHead
from cluster.znodes.paths import STATE_LOG, state_log_path
from cluster.znodes.state_log import decode_heads, encode_heads
from cluster.zookeeper.port import Create, SetData, ZkError, ZooKeeper, refusal
from cluster.zookeeper.recipes import create_where_missing
from state_log.record import StateChangeLog
from state_log.witnessed_heads import heads_to_keep

_CHANGED_BY_OTHERS = frozenset({ZkError.BAD_VERSION, ZkError.NO_NODE, ZkError.NODE_EXISTS})
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class _Stored(NamedTuple):
    """The znode as it was read or written last; version None: it does not exist."""

    heads: tuple[StateLogHead, ...]
    version: int | None


class HeadPublisher:
    """Writes `/klamm/state_log/<node>`: at most one write in `interval_ms`, and only if the head has changed.

    A write is conditional on the version that was read, and the znode is read again where that is not known, as after a
    lost response or a restored ZooKeeper. The heads of earlier incarnations are kept.
    """

    def __init__(self, zookeeper: ZooKeeper, log: StateChangeLog, interval_ms: int) -> None:
        self._zookeeper, self._log, self._interval_s = zookeeper, log, interval_ms / 1000
        self._stored: _Stored | None = None
        self._failing = False

    async def run(self) -> None:
        """Write the head whenever it is due, until cancelled. Failures are logged, and what is written later."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.publish()
            except ZooKeeperError as error:
                self._stored = None
                if not self._failing:
                    _log.warning("Writing the head of the state-change log to ZooKeeper failed", error=str(error))
                self._failing = True
            else:
                self._failing = False

    async def publish(self) -> None:
        """Write the head, unless ZooKeeper has it. Raises ZooKeeperError."""
        head = self._log.flushed_head
        if head is None or (self._stored is not None and head in self._stored.heads):
            return
        path = state_log_path(head.node)
        stored = await self._read(path, head.node) if self._stored is None else self._stored
        self._stored = None
        heads = heads_to_keep(stored.heads, head)
        if heads != stored.heads or stored.version is None:
            data = encode_heads(heads)
            op = Create(path, data) if stored.version is None else SetData(path, data, stored.version)
            try:
                (written,) = await self._zookeeper.multi([op])
            except OutcomeUnknownError:
                return
            if written.error in _CHANGED_BY_OTHERS:
                return
            if not written.ok:
                raise refusal(f"{path} cannot be written", written.error)
            stored = _Stored(heads, 0 if stored.version is None or written.stat is None else written.stat.version)
        self._stored = stored

    async def _read(self, path: str, node: str) -> _Stored:
        znode = await self._zookeeper.get(path)
        if znode is None:
            for parent in _lineage(STATE_LOG):
                await create_where_missing(self._zookeeper, parent)
            return _Stored((), None)
        try:
            return _Stored(decode_heads(node, znode.data), znode.stat.version)
        except MalformedZnodeError as error:
            _log.warning("Replaced a malformed znode", path=path, error=str(error))
            return _Stored((), znode.stat.version)


def _lineage(path: str) -> Sequence[str]:
    """The path and those above it, from the top."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:length]) for length in range(1, len(parts) + 1)]
