"""Writes ISR changes to the state znodes and announces them to the controller, for protocol versions before 2.7.

The state znode is the truth: a notification only informs the controller, which reads the znodes that it names and
deletes it (R8.24). Source: Kafka ZkAlterPartitionManager, ReplicationUtils.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import structlog

from broker_agent.decisions.isr_writes import (
    PARTITIONS_PER_NOTIFICATION,
    PROPAGATION_CHECK_MS,
    classify_write,
    compare_with_znode,
    failed,
    is_propagation_due,
    leadership_to_write,
)
from broker_agent.replication.isr_proposals import (
    RETRY_MS,
    WAIT_MAX_S,
    Completion,
    WaitingProposal,
    WaitingProposals,
)
from cluster.model.broker import BrokerId, ControllerEpoch, PartitionEpoch
from cluster.model.errors import (
    ErrorCode,
    MalformedZnodeError,
    OutcomeUnknownError,
    ZooKeeperAccessError,
    ZooKeeperError,
)
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionResult
from cluster.requests.cluster import Finding
from cluster.znodes.admin_requests import encode_partitions
from cluster.znodes.paths import ISR_CHANGE_NOTIFICATION, state_path
from cluster.znodes.topics import decode_state, encode_state
from cluster.zookeeper.port import Create, OpResult, SetData, Znode, ZooKeeper
from state_log.causes import ISR_WRITTEN
from state_log.record import Cause

_SEQUENTIAL: Final = f"{ISR_CHANGE_NOTIFICATION}/isr_change_"
_WRITTEN: Final = Cause(ISR_WRITTEN)
_log = structlog.stdlib.get_logger()

_Proposals = Mapping[TopicPartition, WaitingProposal]


class ZooKeeperIsrProposals:
    """Writes each proposed ISR on condition of the version of its state znode. Implements IsrProposals.

    A session that ends changes nothing: the version alone says whether this broker still leads.
    """

    def __init__(self, own_id: BrokerId, zookeeper: ZooKeeper) -> None:
        self._own_id = own_id
        self._zookeeper = zookeeper
        self._waiting = WaitingProposals(own_id, _WRITTEN)
        self._being_written: Collection[TopicPartition] = ()
        self._written = asyncio.Event()
        """Set while nothing is being written."""
        self._written.set()
        self._changed: set[TopicPartition] = set()
        """Partitions whose new ISR is not announced yet."""
        self._last_change_ms = self._last_propagation_ms = 0.0

    def submit(self, item: AlterPartitionItem, complete: Completion, *, controller_epoch: ControllerEpoch) -> None:
        """Queue a proposal; a second one for its partition gets OPERATION_NOT_ATTEMPTED at once."""
        self._waiting.add(WaitingProposal(item, controller_epoch, complete))

    async def withdraw(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the proposals of these partitions, and wait for the end of a write of them.

        It is not longer than the session: with that, writes end that have not got an answer.
        """
        self._waiting.drop(partitions)
        while not self._written.is_set() and not set(partitions).isdisjoint(self._being_written):
            await self._written.wait()

    def findings(self) -> Iterator[Finding]:
        """Report the proposals that have had no effect for too long, whether or not they were submitted again."""
        return self._waiting.findings(WAIT_MAX_S, "ZooKeeper does not answer", has_answers=True)

    async def run(self) -> None:
        """Write queued proposals, and announce what was written, until cancelled."""
        self._last_change_ms = self._last_propagation_ms = _now_ms()
        await asyncio.gather(self._write(), self._propagate())

    async def _write(self) -> None:
        while True:
            await self._waiting.until_added()
            while self._waiting:
                if not await self._write_waiting():
                    await asyncio.sleep(RETRY_MS / 1000)

    async def _write_waiting(self) -> bool:
        """Write every waiting proposal, each in a transaction of its own; False if one of them has to be repeated."""
        proposals = self._waiting.all()
        leaderships = {
            tp: leadership_to_write(proposal.item, self._own_id, proposal.controller_epoch)
            for tp, proposal in proposals.items()
        }
        results = await self._write_all(proposals, leaderships)
        answers: dict[TopicPartition, AlterPartitionResult | None] = {}
        is_done = True
        for (tp, leadership), result in zip(leaderships.items(), results, strict=True):
            if isinstance(result, OutcomeUnknownError):
                # The very same write is repeated; if it was applied, the version says so, and the znode is read.
                is_done = False
                continue
            answers[tp] = _answer(proposals[tp].item, leadership, result)
        answers |= await self._compared(proposals, {tp: leaderships[tp] for tp, a in answers.items() if a is None})
        for tp, answer in answers.items():
            if answer is not None:
                is_done &= answer.error_code is not ErrorCode.UNKNOWN_SERVER_ERROR
                self._complete(tp, proposals[tp], answer)
        return is_done

    async def _write_all(
        self, proposals: _Proposals, leaderships: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Sequence[list[OpResult] | Exception]:
        self._being_written = leaderships.keys()
        self._written.clear()
        try:
            return await self._zookeeper.multi_many(
                [
                    [SetData(state_path(tp), encode_state(leadership), proposals[tp].item.partition_epoch)]
                    for tp, leadership in leaderships.items()
                ]
            )
        finally:
            self._being_written = ()
            self._written.set()

    async def _compared(
        self, proposals: _Proposals, leaderships: Mapping[TopicPartition, LeaderAndIsr]
    ) -> dict[TopicPartition, AlterPartitionResult]:
        """The answers to proposals whose znodes had another version, by what is in them now."""
        found = await self._read(list(leaderships))
        answers = {}
        for tp, leadership in leaderships.items():
            item, znode = proposals[tp].item, found[tp]
            if isinstance(znode, ZooKeeperError):
                answers[tp] = failed(item, ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                answers[tp] = compare_with_znode(item, leadership, _decoded(tp, znode))
        return answers

    async def _read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Znode | ZooKeeperError | None]:
        """The state znodes, or why they cannot be read."""
        if not partitions:
            return {}
        try:
            znodes = await self._zookeeper.get_many([state_path(tp) for tp in partitions])
            return dict(zip(partitions, znodes, strict=True))
        except ZooKeeperAccessError as error:
            if len(partitions) == 1:
                return {partitions[0]: error}
            # One of them must not keep the others from their answers.
            alone = [await self._read([tp]) for tp in partitions]
            return {tp: znode for found in alone for tp, znode in found.items()}
        except ZooKeeperError as error:
            return dict.fromkeys(partitions, error)

    def _complete(self, tp: TopicPartition, proposal: WaitingProposal, answer: AlterPartitionResult) -> None:
        if answer.error_code is ErrorCode.NONE:
            # Also if a change of role has superseded the proposal meanwhile: it is in effect.
            self._changed.add(tp)
            self._last_change_ms = _now_ms()
        if self._waiting.has(tp, proposal):
            refusal = f"its state node cannot be written: {answer.error_code.name}"
            self._waiting.complete(tp, answer, _WRITTEN, refusal)

    async def _propagate(self) -> None:
        while True:
            await asyncio.sleep(PROPAGATION_CHECK_MS / 1000)
            if self._changed and is_propagation_due(
                _now_ms(), last_change_ms=self._last_change_ms, last_propagation_ms=self._last_propagation_ms
            ):
                await self._announce()

    async def _announce(self) -> None:
        """Create notifications that list the changed partitions; what fails is announced at the next check (R8.23)."""
        changed, self._changed = sorted(self._changed), set()
        is_announced = True
        starts = range(0, len(changed), PARTITIONS_PER_NOTIFICATION)
        parts = [changed[start : start + PARTITIONS_PER_NOTIFICATION] for start in starts]
        results = await self._zookeeper.multi_many(
            [[Create(_SEQUENTIAL, encode_partitions(part), sequential=True)] for part in parts]
        )
        for part, result in zip(parts, results, strict=True):
            if isinstance(result, Exception) or not result[0].ok:
                # A change that is announced twice costs the controller a read; one that is not, a stale ISR.
                is_announced = False
                self._changed.update(part)
                why = str(result) if isinstance(result, Exception) else result[0].error.name
                _log.warning("Announcing ISR changes failed; retrying", partitions=len(part), error=why)
        if is_announced:
            self._last_propagation_ms = _now_ms()


def _answer(
    item: AlterPartitionItem, written: LeaderAndIsr, result: list[OpResult] | Exception
) -> AlterPartitionResult | None:
    if isinstance(result, Exception):
        return failed(item, ErrorCode.UNKNOWN_SERVER_ERROR)
    return classify_write(item, written, result[0])


def _decoded(tp: TopicPartition, znode: Znode | None) -> LeaderAndIsr | None:
    """Decode the state; None if it is missing or malformed, so that it is nothing that a leader wrote."""
    if znode is None:
        return None
    try:
        return decode_state(tp, znode.data, PartitionEpoch(znode.stat.version))
    except MalformedZnodeError:
        return None


def _now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000
