"""Many small writes in few transactions, each under the check of the controller epoch.

A transaction fails as a whole, so one stale item would drag its neighbours down: the item that ZooKeeper names
is taken out and the rest is sent again in two halves, which isolates any number of bad items in a handful of
rounds. Results stay per item, as if each had been sent alone (FN-2, D-24).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from cluster.broker import ZkVersion
from cluster.errors import ControllerMovedError, OutcomeUnknownError, SessionExpiredError, ZooKeeperError
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
"""Well below the 1 MiB that a ZooKeeper server accepts unless told otherwise."""
MAX_UNIT_BYTES: Final = 1_000_000
"""A server ends the connection of who sends it more than 1 MiB, as often as it is sent."""


class Written(Struct, frozen=True):
    """Acknowledged; the data version of the unit's last node, 0 for one just created, -1 for one deleted."""

    version: int


class Conflict(Struct, frozen=True):
    """The node is not at the expected version, or is there already (`exists`). `position` of the op in its unit."""

    position: int
    exists: bool


class Missing(Struct, frozen=True):
    """The node, or its parent, is not there."""

    position: int


class TooLarge(Struct, frozen=True):
    """ZooKeeper would not take so much in one piece; nothing was sent."""

    size: int


class Failed(Struct, frozen=True):
    """Any other refusal, of the unit or of all that ZooKeeper was asked for with it."""

    reason: str


Outcome = Written | Conflict | Missing | TooLarge | Failed
Unit = Sequence[Op]
"""Operations that stand or fall together; mostly one."""


class _Pending(NamedTuple):
    """A unit on its way. `doubtful`: an earlier attempt may have been applied although no answer came."""

    slot: int
    ops: Unit
    doubtful: bool


class FencedWriter:
    """Writes of one active controller, each fenced by a version check of `/controller_epoch`."""

    def __init__(
        self, zookeeper: ZooKeeper, epoch_zk_version: ZkVersion, fence_path: str, *, on_refusal: Callable[[], None]
    ) -> None:
        """`on_refusal` is called when units were not written for a reason that may pass, such as an access list."""
        assert epoch_zk_version >= 0, f"epoch version {epoch_zk_version} fences nothing"
        self._zookeeper = zookeeper
        self._on_refusal = on_refusal
        self._fence = Check(fence_path, epoch_zk_version)

    async def write(self, units: Sequence[Unit]) -> list[Outcome]:
        """Write every unit; one outcome per unit, in order.

        Raises ControllerMovedError when the epoch moved on, SessionExpiredError when the session is gone;
        then some units may have been written, by this controller and before its successor's first write. Whatever
        else ZooKeeper says against it is the outcome of the units concerned.
        """
        outcomes: list[Outcome | None] = [
            TooLarge(size) if (size := bytes_of(ops)) > MAX_UNIT_BYTES else None for ops in units
        ]
        chunks = list(_pack(_Pending(i, ops, False) for i, ops in enumerate(units) if outcomes[i] is None))
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
                    # The other chunks may be written, and whoever asked must hear of those.
                    for pending in chunk:
                        outcomes[pending.slot] = outcomes[pending.slot] or Failed(str(error))
            chunks = [chunk for chunk in retry if chunk]
        if any(isinstance(outcome, Failed | Missing) for outcome in outcomes):
            self._on_refusal()
        return [_known(outcome) for outcome in outcomes]

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
        """Record what the transaction decided; what must be sent again, in halves."""
        if not results[0].ok and results[0].error is not ZkError.RUNTIME_INCONSISTENCY:
            if results[0].error is ZkError.BAD_VERSION:
                raise ControllerMovedError("another controller was elected: its epoch fences this write")
            raise refusal(f"{self._fence.path} cannot be checked", results[0].error)
        if all(result.ok for result in results):
            last = 0
            for pending in chunk:
                last += len(pending.ops)
                outcomes[pending.slot] = Written(_version_after(pending.ops[-1], results[last]))
            return []
        failed, position, error = _find_failure(chunk, results)
        culprit = chunk[failed]
        outcome = _refused(culprit.ops[position], position, error)
        if culprit.doubtful and (written := (await self._read_back([culprit]))[0]) is not None:
            outcome = written
        outcomes[culprit.slot] = outcome
        rest = chunk[:failed] + chunk[failed + 1 :]
        middle = (len(rest) + 1) // 2
        return [rest[:middle], rest[middle:]]

    async def _resolve_unknown(self, chunk: list[_Pending], outcomes: list[Outcome | None]) -> list[_Pending]:
        """After a lost answer: record what is visibly done; the rest is sent again, as doubtful.

        Sending again is safe, because what was applied after all answers with a conflict and is looked at
        then; a plain second look could come too early for a transaction that is still on its way.
        """
        seen = await self._read_back(chunk)
        for pending, written in zip(chunk, seen, strict=True):
            if written is not None:
                outcomes[pending.slot] = written
        return [p._replace(doubtful=True) for p, written in zip(chunk, seen, strict=True) if written is None]

    async def _read_back(self, chunk: list[_Pending]) -> list[Written | None]:
        """Per unit, whether its last operation shows in ZooKeeper. Its transaction stands or falls as one."""
        znodes = await self._zookeeper.get_many([pending.ops[-1].path for pending in chunk])
        seen: list[Written | None] = []
        for pending, znode in zip(chunk, znodes, strict=True):
            match pending.ops[-1]:
                case Delete():
                    seen.append(Written(-1) if znode is None else None)
                case SetData(_, data, version) if version >= 0:
                    # The same content may have stood there before.
                    done = znode is not None and znode.data == data and znode.stat.version == version + 1
                    seen.append(Written(version + 1) if done else None)
                case Create(_, data) | SetData(_, data):
                    done = znode is not None and znode.data == data
                    seen.append(Written(znode.stat.version) if znode is not None and done else None)
                case Check():
                    raise AssertionError("a unit ends with a write")
        return seen


def bytes_of(ops: Unit) -> int:
    """About what the operations take on the wire."""
    return sum(len(op.path) + len(getattr(op, "data", b"")) for op in ops)


def _pack(pending: Iterator[_Pending]) -> Iterator[list[_Pending]]:
    chunk: list[_Pending] = []
    ops = size = 0
    for item in pending:
        item_size = bytes_of(item.ops)
        if chunk and (ops + len(item.ops) > MAX_OPS or size + item_size > MAX_BYTES):
            yield chunk
            chunk, ops, size = [], 0, 0
        chunk.append(item)
        ops += len(item.ops)
        size += item_size
    if chunk:
        yield chunk


def _find_failure(chunk: list[_Pending], results: list[OpResult]) -> tuple[int, int, ZkError]:
    """Which unit of the chunk failed, at which of its operations, and how."""
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
            return Failed(f"{op.path}: {error.name}") if _takes_any_version(op) else Conflict(position, exists=False)
        case ZkError.NODE_EXISTS:
            return Conflict(position, exists=True)
        case ZkError.NO_NODE:
            return Written(-1) if isinstance(op, Delete) else Missing(position)
        case _:
            return Failed(f"{op.path}: {error.name}")


def _takes_any_version(op: Op) -> bool:
    return isinstance(op, SetData | Delete) and op.version == ANY_VERSION


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
