"""Heads of state-change logs: nodes send their own, and record those of others, so each is a witness of the others.

A chain of digests shows that nothing in a log was changed, but not that its end is still there; the others' records do.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from cluster.model import bounds
from cluster.model.bounds import Bound
from cluster.requests.control import ControlRequest, ControlResponse, StateLogHead
from state_log.record import Kind, StateChange, StateChangeLog, Witness

_Message = TypeVar("_Message", bound=ControlRequest | ControlResponse)
HEADS_KEPT: Final = 10
"""Incarnations of a node whose heads are kept in its znode."""
_BOUNDS: Final[Mapping[str, Bound]] = {
    "node": bounds.LOG_NODE,
    "incarnation": bounds.LOG_INCARNATION,
    "seq": bounds.LOG_SEQUENCE,
    "digest": bounds.LOG_DIGEST,
    "boot_id": bounds.BOOT_ID,
}


class Recorded(NamedTuple):
    """The last recorded head of a node, and when it was, in seconds of a monotonic clock."""

    witness: Witness
    at_s: float


def why_malformed(head: StateLogHead) -> str | None:
    """The field of the head that is beyond its bound, and its value; None if it is well-formed."""
    for name, bound in _BOUNDS.items():
        value = getattr(head, name)
        if not bound.accepts(value):
            return f"{name}: {bounds.shortened(value)}: {bounds.why_not(bound, value)}"
    return None


def witness_to_record(
    sender: str, head: StateLogHead | None, last: Recorded | None, *, now_s: float, interval_s: float
) -> Witness | None:
    """Choose what to record of the head in a message of `sender`; None: nothing.

    A head is recorded if it is well-formed and the sender's own, differs from the last one, and that was recorded long
    enough ago or is of an earlier incarnation.
    """
    if head is None or head.node != sender or why_malformed(head) is not None:
        return None
    witness = Witness(sender, head.incarnation, head.seq, head.digest, head.boot_id)
    if last is None or last.witness.incarnation != witness.incarnation:
        return witness
    return witness if last.witness != witness and now_s - last.at_s >= interval_s else None


def heads_to_keep(known: tuple[StateLogHead, ...], own: StateLogHead) -> tuple[StateLogHead, ...]:
    """The heads for the znode of a node, the newest incarnation first; `known`: those that it has."""
    by_incarnation = {head.incarnation: head for head in known} | {own.incarnation: own}
    return tuple(by_incarnation[name] for name in sorted(by_incarnation, reverse=True)[:HEADS_KEPT])


class WitnessedHeads:
    """Adds the head of a node's own log to its messages, and records the heads in those of others.

    At most one record for each other node in `interval_ms`.
    """

    def __init__(self, log: StateChangeLog, interval_ms: int) -> None:
        self._log, self._interval_s = log, interval_ms / 1000
        self._recorded: dict[str, Recorded] = {}

    def attached_to(self, message: _Message) -> _Message:
        """The request or response with the head of the own log."""
        return replace(message, state_log_head=self._log.flushed_head)

    def received(self, sender: str, message: ControlRequest | ControlResponse) -> None:
        """Record the head in a request or response of this node, if it is due."""
        now_s = asyncio.get_running_loop().time()
        witness = witness_to_record(
            sender, message.state_log_head, self._recorded.get(sender), now_s=now_s, interval_s=self._interval_s
        )
        if witness is not None:
            self._recorded[sender] = Recorded(witness, now_s)
            self._log.append([StateChange(kind=Kind.WITNESS, witness=witness)])
