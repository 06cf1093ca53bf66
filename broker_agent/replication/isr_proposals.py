"""The port through which a leader's ISR proposals are written, and the proposals that wait for it.

Two implementations: the controller writes them (`ControllerIsrProposals`), or the leader itself does
(`ZooKeeperIsrProposals`), as brokers did before Kafka 2.7. A broker uses one of them during its whole life; nothing
else in it knows which. Source: Kafka AlterPartitionManager; KIP-497.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple, Protocol

import structlog

from cluster.model.broker import BrokerId, ControllerEpoch
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionResult
from cluster.requests.cluster import Finding
from state_log.record import Cause

RETRY_MS: Final = 50
STUCK_ISR_CHANGE: Final = "stuck_isr_change"
WAIT_MAX_S: Final = 30
"""A proposal is a finding after this time; the controller answers within `request.timeout.ms` or not at all."""

Completion = Callable[[AlterPartitionResult, Cause], None]
"""Called once for each submission, after it was removed from those that wait, so that it may submit the next change.

The cause is that of a record of the accepted ISR.
"""
_log = structlog.stdlib.get_logger()


class IsrProposals(Protocol):
    """Writes the proposed ISR of a partition on condition of its partition epoch, and says what became of it."""

    def submit(self, item: AlterPartitionItem, complete: Completion, *, controller_epoch: ControllerEpoch) -> None:
        """Take over a proposal; repeated until its outcome is known. A second one for its partition gets
        OPERATION_NOT_ATTEMPTED at once.

        `controller_epoch`: of the controller that decided upon the leadership.
        """

    async def withdraw(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the proposals of partitions that this broker no longer has, without completing them.

        Return when none of them can be written any more: the state znode of a topic that is created again under the
        name has the same version as that of the former one had.
        """

    def findings(self) -> Iterator[Finding]:
        """Report the proposals that have had no effect for too long, whether or not they were submitted again."""

    async def run(self) -> None:
        """Write what is submitted, until cancelled."""


class WaitingProposal(NamedTuple):
    """A proposal that was submitted, and is not completed."""

    item: AlterPartitionItem
    controller_epoch: ControllerEpoch
    complete: Completion


class WaitingProposals:
    """The proposals that wait for their outcome, at most one for each partition."""

    def __init__(self, own_id: BrokerId, unattempted: Cause) -> None:
        """`unattempted`: the cause that completes a proposal which is not attempted."""
        self._own_id = own_id
        self._unattempted = unattempted
        self._waiting: dict[TopicPartition, WaitingProposal] = {}
        self._since: dict[TopicPartition, float] = {}
        self._refusals: dict[TopicPartition, str] = {}
        self._added = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, proposal: WaitingProposal) -> None:
        """Add a proposal; a second one for its partition is completed with OPERATION_NOT_ATTEMPTED at once (R8.25).

        The second would have to name the partition epoch that only the outcome of the first one brings.
        """
        item = proposal.item
        tp = TopicPartition(item.topic_name, item.partition_index)
        if tp in self._waiting:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            refusal = AlterPartitionResult(item.topic_name, item.topic_id, item.partition_index, code)
            proposal.complete(refusal, self._unattempted)
            return
        self._waiting[tp] = proposal
        self._since.setdefault(tp, asyncio.get_running_loop().time())
        self._added.set()

    async def until_added(self) -> None:
        """Return when a proposal was added since the last call."""
        await self._added.wait()
        self._added.clear()

    def all(self) -> dict[TopicPartition, WaitingProposal]:
        """The proposals that wait now."""
        return dict(self._waiting)

    def has(self, tp: TopicPartition, proposal: WaitingProposal) -> bool:
        """Whether this very proposal waits."""
        return self._waiting.get(tp) is proposal

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the proposals of these partitions, without completing them."""
        for tp in partitions:
            self._waiting.pop(tp, None)
            self._since.pop(tp, None)
            self._refusals.pop(tp, None)

    def complete(self, tp: TopicPartition, answer: AlterPartitionResult, cause: Cause, refusal: str) -> None:
        """Remove the partition's proposal and complete it. `refusal`: what the answer is, for a finding."""
        proposal = self._waiting.pop(tp)
        self._refusals[tp] = refusal
        try:
            proposal.complete(answer, cause)
        except Exception:  # One partition must not keep the others from their ISR (R8.8).
            _log.exception("Completing an ISR change failed", partition=str(tp))
        if tp not in self._waiting:
            # It was not submitted again: decided, or superseded.
            self._since.pop(tp, None)
            self._refusals.pop(tp, None)

    def findings(self, limit_s: float, why: str, *, has_answers: bool) -> Iterator[Finding]:
        """Report those that have waited longer than the limit, each with its last answer if there are any, or `why`."""
        now = asyncio.get_running_loop().time()
        for tp, since in sorted(self._since.items()):
            if now - since > limit_s:
                reason = self._refusals.get(tp, why) if has_answers else why
                waits = f"broker {self._own_id} has proposed another ISR for {now - since:.0f} s without effect"
                yield Finding(STUCK_ISR_CHANGE, f"{waits}: {reason}", tp.topic, tp.partition, self._own_id)
