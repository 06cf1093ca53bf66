"""Batches many small writes into few transactions, each fenced by a check of the controller epoch.

The check is in every transaction, because a controller that was paused does not know that another was elected: a check
of its own before the writes would leave a gap between the two, in which the successor may already have written.
A transaction fails as a whole. The unit that ZooKeeper names as failed is removed and the rest is retried in two
halves, which isolates any number of failing units in few rounds. Results are per unit, as if each had been written
alone (FN-2, D-24). Many transactions are sent in windows, so that ZooKeeper works on one while the next is encoded, and
so that requests and responses of two windows at most are held.
Source: Kafka KafkaZkClient (the check of the controller epoch).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Struct

from cluster.aio.windows import one_ahead
from cluster.model.broker import ZkVersion
from cluster.model.errors import ControllerMovedError, OutcomeUnknownError, SessionExpiredError, ZooKeeperError
from cluster.zookeeper.port import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Op,
    OpResult,
    SetData,
    ZkError,
    ZooKeeper,
    refusal,
)

MAX_OPS: Final = 250
MAX_BYTES: Final = 400_000
"""Bytes per transaction; well below ZooKeeper's default limit of 1 MiB (jute.maxbuffer)."""
WINDOW: Final = 40
"""Transactions that are sent together; a multiple of the requests in flight, so that no round trip is half empty."""
MAX_UNIT_BYTES: Final = 1_000_000
"""Bytes per unit. A server closes the connection of a client that sends more than 1 MiB."""


class Written(Struct, frozen=True):
    """The write was acknowledged. `version`: that of the unit's last znode, 0 if created, -1 if deleted."""

    version: int


class Conflict(Struct, frozen=True):
    """The znode is not at the expected version, or exists already (`exists`). `position`: of the op in its unit."""

    position: int
    exists: bool


class Missing(Struct, frozen=True):
    """The znode or its parent does not exist."""

    position: int


class TooLarge(Struct, frozen=True):
    """The unit exceeds ZooKeeper's size limit and was not sent."""

    size: int


class Failed(Struct, frozen=True):
    """Any other error, for the unit or for its whole transaction."""

    reason: str


Outcome = Written | Conflict | Missing | TooLarge | Failed
Unit = Sequence[Op]
"""Operations written atomically; mostly one."""
_written = lru_cache(maxsize=256)(Written)
"""The same value for the many units that end at the same version."""


class _Pending(NamedTuple):
    """A unit in progress, of about `size` bytes. `doubtful`: an earlier attempt may have been applied, as its response
    was lost.
    """

    slot: int
    ops: Unit
    size: int
    doubtful: bool


_Chunks = list[list[_Pending]]


class FencedWriter:
    """Writes for one active controller, fenced by a check of the version of `/controller_epoch`."""

    def __init__(
        self, zookeeper: ZooKeeper, epoch_zk_version: ZkVersion, fence_path: str, *, on_refusal: Callable[[], None]
    ) -> None:
        """Write under this version of `/controller_epoch`, at `fence_path`.

        `on_refusal` is called if units failed for a reason that may pass, for example an ACL.
        """
        assert epoch_zk_version >= 0, f"epoch version {epoch_zk_version} fences nothing"
        self._zookeeper = zookeeper
        self._on_refusal = on_refusal
        self._fence = Check(fence_path, epoch_zk_version)

    async def write(self, units: Iterable[Unit]) -> list[Outcome]:
        """Write every unit; the result has the outcome of each, in order. Units are taken as they are sent.

        Raises ControllerMovedError if the epoch has changed, SessionExpiredError if the session expired. Some units may
        then have been written by this controller, before the first write of its successor. Any other error is the
        outcome of the units concerned.
        """
        outcomes: list[Outcome | None] = []
        chunks = _pack(_numbered(units, outcomes))
        windows = iter(lambda: list(islice(chunks, WINDOW)), [])
        async with aclosing(one_ahead(windows, lambda window: self._write_window(window, outcomes))) as written:
            async for _ in written:
                continue
        if any(isinstance(outcome, Failed | Missing) for outcome in outcomes):
            self._on_refusal()
        return [_known(outcome) for outcome in outcomes]

    async def _write_window(self, chunks: _Chunks, outcomes: list[Outcome | None]) -> None:
        while chunks:
            transactions = [[self._fence, *(op for pending in chunk for op in pending.ops)] for chunk in chunks]
            answers = await self._zookeeper.multi_many(transactions)
            retry: list[list[_Pending]] = []
            for chunk, answer in zip(chunks, answers, strict=True):
                try:
                    retry += await self._take_answer(chunk, answer, outcomes)
                except SessionExpiredError:
                    raise
                except ZooKeeperError as error:
                    # Other chunks may have been written; the caller must get their outcomes.
                    for pending in chunk:
                        outcomes[pending.slot] = outcomes[pending.slot] or Failed(str(error))
            chunks = [chunk for chunk in retry if chunk]

    async def _take_answer(
        self, chunk: list[_Pending], answer: list[OpResult] | Exception, outcomes: list[Outcome | None]
    ) -> list[list[_Pending]]:
        if isinstance(answer, OutcomeUnknownError):
            return [await self._resolve_unknown(chunk, outcomes)]
        if isinstance(answer, Exception):
            raise answer
        return await self._take_results(chunk, answer, outcomes)

    async def _take_results(
        self, chunk: list[_Pending], results: list[OpResult], outcomes: list[Outcome | None]
    ) -> list[list[_Pending]]:
        """Store the outcomes that the transaction decided; returns what must be retried, in halves."""
        if not results[0].ok and results[0].error is not ZkError.RUNTIME_INCONSISTENCY:
            if results[0].error is ZkError.BAD_VERSION:
                raise ControllerMovedError("another controller was elected: its epoch fences this write")
            if results[0].error is ZkError.NO_NODE:
                raise ControllerMovedError(f"{self._fence.path} is gone, so this controller cannot write any more")
            raise refusal(f"{self._fence.path} cannot be checked", results[0].error)
        if all(result.ok for result in results):
            last = 0
            for pending in chunk:
                last += len(pending.ops)
                outcomes[pending.slot] = _written(_version_after(pending.ops[-1], results[last]))
            return []
        failed, position, error = _find_failure(chunk, results)
        culprit = chunk[failed]
        outcome = _refused(culprit.ops[position], position, error)
        # A unit in doubt may have failed because its first attempt was applied: then its own write is the conflict.
        if culprit.doubtful and (written := (await self._read_back([culprit]))[0]) is not None:
            outcome = written
        outcomes[culprit.slot] = outcome
        rest = chunk[:failed] + chunk[failed + 1 :]
        middle = (len(rest) + 1) // 2
        return [rest[:middle], rest[middle:]]

    async def _resolve_unknown(self, chunk: list[_Pending], outcomes: list[Outcome | None]) -> list[_Pending]:
        """Store the outcomes of units that are visibly written after a lost response; return the others for a retry.

        The retry is safe: a unit that was applied after all fails with a conflict and is then read back. To read only
        would not do, because the transaction may still be in flight.
        """
        seen = await self._read_back(chunk)
        for pending, written in zip(chunk, seen, strict=True):
            if written is not None:
                outcomes[pending.slot] = written
        return [p._replace(doubtful=True) for p, written in zip(chunk, seen, strict=True) if written is None]

    async def _read_back(self, chunk: list[_Pending]) -> list[Written | None]:
        """Read for each unit whether its last operation is visible in ZooKeeper; a unit is applied as a whole."""
        znodes = await self._zookeeper.get_many([pending.ops[-1].path for pending in chunk])
        seen: list[Written | None] = []
        for pending, znode in zip(chunk, znodes, strict=True):
            match pending.ops[-1]:
                case Delete():
                    seen.append(Written(-1) if znode is None else None)
                case SetData(_, data, version) if version >= 0:
                    # The same content may have been there before, so the version must match, too.
                    done = znode is not None and znode.data == data and znode.stat.version == version + 1
                    seen.append(Written(version + 1) if done else None)
                case Create(_, data) | SetData(_, data):
                    done = znode is not None and znode.data == data
                    seen.append(Written(znode.stat.version) if znode is not None and done else None)
                case Check():
                    raise AssertionError("a unit ends with a write")
        return seen


def bytes_of(ops: Unit) -> int:
    """Approximate size of the operations on the wire, in bytes."""
    size = 0
    for op in ops:
        size += len(op.path) + (len(op.data) if isinstance(op, SetData | Create) else 0)
    return size


def _numbered(units: Iterable[Unit], outcomes: list[Outcome | None]) -> Iterator[_Pending]:
    """Give each unit its slot in `outcomes`; one that is too large has its outcome at once."""
    for slot, ops in enumerate(units):
        size = bytes_of(ops)
        outcomes.append(TooLarge(size) if size > MAX_UNIT_BYTES else None)
        if outcomes[slot] is None:
            yield _Pending(slot, ops, size, False)


def _pack(pending: Iterator[_Pending]) -> Iterator[list[_Pending]]:
    chunk: list[_Pending] = []
    ops = size = 0
    for item in pending:
        if chunk and (ops + len(item.ops) > MAX_OPS or size + item.size > MAX_BYTES):
            yield chunk
            chunk, ops, size = [], 0, 0
        chunk.append(item)
        ops += len(item.ops)
        size += item.size
    if chunk:
        yield chunk


def _find_failure(chunk: list[_Pending], results: list[OpResult]) -> tuple[int, int, ZkError]:
    """Find the index of the unit that failed, the index of its operation, and the error."""
    at = 1
    for number, pending in enumerate(chunk):
        for position in range(len(pending.ops)):
            error = results[at].error
            if error not in {ZkError.OK, ZkError.RUNTIME_INCONSISTENCY}:
                return number, position, error
            at += 1
    raise ZooKeeperError("a transaction failed without naming the operation")


def _refused(op: Op, position: int, error: ZkError) -> Outcome:
    match error:
        case ZkError.BAD_VERSION:
            takes_any = isinstance(op, SetData | Delete) and op.version == ANY_VERSION
            return Failed(f"{op.path}: {error.name}") if takes_any else Conflict(position, exists=False)
        case ZkError.NODE_EXISTS:
            return Conflict(position, exists=True)
        case ZkError.NO_NODE:
            return Written(-1) if isinstance(op, Delete) else Missing(position)
        case _:
            return Failed(f"{op.path}: {error.name}")


def _version_after(op: Op, result: OpResult) -> int:
    match op:
        case SetData():
            assert result.stat is not None, "set-data answers with a stat"
            return result.stat.version
        case Create():
            return 0
        case _:
            return -1


def _known(outcome: Outcome | None) -> Outcome:
    assert outcome is not None, "every unit has an outcome when no transaction is left"
    return outcome
