"""Copies replicas to other log directories of this broker, one partition at a time, and swaps them when they are level.

A copy is a follower of the current log, whichever role that has: it truncates by the current log's epochs, then copies
up to its end. Between what was read and the append there is no await in which the current log could be truncated
unnoticed. Source: Kafka ReplicaAlterLogDirsThread, Partition.maybeReplaceCurrentWithFutureReplica; KIP-113.
"""

import asyncio
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from broker_agent.decisions.truncation import FetchErrorReaction, Truncation, choose_truncation, react_to_fetch_error
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replica_changes import MoveOfReplica, ReplicaMoved
from broker_agent.replication.copy_throttle import CopyThrottle
from broker_agent.replication.fetch_states import FetchState, FetchStates
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.replication.replica_manager import ReplicaManager, validate_replica
from cluster.model.broker import NO_LEADER_EPOCH, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode, LogAppendError, LogOperationError, StorageError
from cluster.model.partition import TopicPartition

_PIECES_UNDER_LOCK: Final = 64
"""Pieces copied before the swap while no role can change; a log that grows faster is copied on without the lock."""
_log = structlog.stdlib.get_logger()


class CopySetup(Struct, frozen=True):
    """Dependencies shared by all copiers of an agent. `lock`: the replica state change lock; `failed`: the partitions
    that are not copied until their next role change, and why.
    """

    manager: ReplicaManager
    lock: asyncio.Lock
    throttle: CopyThrottle
    failed: dict[TopicPartition, str]


class _Copy(Struct, frozen=True):
    """A partition as one step found it; void as soon as a part of it is replaced."""

    topic_partition: TopicPartition
    state: FetchState
    partition: HostedPartition
    current: PartitionLog
    future: PartitionLog


class LogDirCopier:
    """The copies of some partitions; `run` is its task, `name` labels its metrics."""

    def __init__(self, name: str, setup: CopySetup) -> None:
        manager = setup.manager
        with_metrics = manager.settings.klamm_metrics_partitions
        self.states = FetchStates(name, manager.metrics.registry, per_partition_metrics=with_metrics)
        self._setup, self._manager = setup, manager
        self.reads = 0
        """Number of reads from current logs."""
        self._wake = asyncio.Event()
        self._in_progress: TopicPartition | None = None
        self._prepared: PartitionLog | None = None
        """The copy that was flushed and marked for the swap last."""

    def wake(self) -> None:
        """Interrupt the wait: there is something to copy or to truncate."""
        self._wake.set()

    async def run(self) -> None:
        """Truncate, copy, swap, until cancelled (R11.10)."""
        while True:
            await self._setup.throttle.until_open()
            self._wake.clear()
            tp = self._in_progress = self._next()
            if tp is None:
                await self._wait_for_work()
            else:
                await self._step(tp)

    def _next(self) -> TopicPartition | None:
        """The partition in progress if it is ready, else the first of those that are."""
        now = asyncio.get_running_loop().time()
        ready = {tp for truncating in (True, False) for tp, _ in self.states.ready(now, truncating=truncating)}
        return self._in_progress if self._in_progress in ready else min(ready, default=None)

    async def _step(self, tp: TopicPartition) -> None:
        """Truncate, copy one piece, or swap; the failure of one partition does not affect the others."""
        copy = self._copy_of(tp)
        if copy is None:
            self._delay(tp)
            return
        code = validate_replica(copy.partition, copy.state.leader_epoch)
        try:
            if code is not ErrorCode.NONE:
                self._react(copy, code)
            elif copy.state.is_truncating:
                self._truncate(copy)
            elif not await self._copy_piece(copy):
                await self._swap(tp)
        except LogOperationError as error:
            self._try_again(tp, error)
        except StorageError as error:
            self._give_up(tp, str(error))
        except LogAppendError as error:
            # Damaged records of the current log, which the scrub reports, too.
            self._try_again(tp, error)
        except Exception as error:
            _log.exception("Copying a replica to another log directory failed", partition=str(tp))
            self._give_up(tp, repr(error))

    def _copy_of(self, tp: TopicPartition) -> _Copy | None:
        """The partition with its two logs; None while it is offline, or if there is no copy of it."""
        state, partition = self.states.get(tp), self._manager.online(tp)
        if state is None or partition is None or partition.log is None or partition.future_log is None:
            return None
        return _Copy(tp, state, partition, partition.log, partition.future_log)

    def _is_void(self, copy: _Copy) -> bool:
        """Whether it was removed, marked for truncation, or has other logs by now."""
        partition, state = copy.partition, self.states.get(copy.topic_partition)
        return state is not copy.state or partition.log is not copy.current or partition.future_log is not copy.future

    def _truncate(self, copy: _Copy) -> None:
        """Truncate the copy to where it agrees with the epochs of the current log (R5.13, R5.15)."""
        epoch, future = copy.future.latest_epoch, copy.future
        truncation = Truncation(copy.state.fetch_offset, is_complete=True)
        if epoch is not None:
            answer = copy.current.end_offset_for_epoch(epoch)
            truncation = choose_truncation(
                answer,
                future.end_offset_for_epoch(answer.epoch),
                log_end_offset=future.log_end_offset,
                fetch_offset=copy.state.fetch_offset,
            )
        future.truncate_to(truncation.offset)
        offset = future.log_end_offset if truncation.is_complete else truncation.offset
        state = replace(copy.state, fetch_offset=offset, is_truncating=not truncation.is_complete)
        self.states.put(copy.topic_partition, state)

    async def _copy_piece(self, copy: _Copy) -> bool:
        """Copy the next batches, if there is room for them; False if there are none: the copy is level."""
        if not copy.future.takes_records:
            self._delay(copy.topic_partition)
            return True
        self.reads += 1
        size_max = self._setup.throttle.piece(self._manager.settings.replica_fetch_max_bytes)
        try:
            records = await copy.current.read_aside(copy.future.log_end_offset, size_max)
        except LogAppendError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            self._reset(copy)
            return True
        if records is None or self._is_void(copy):
            return True
        self._append(copy, records)
        if records:
            await self._setup.throttle.pay(len(records))
        return bool(records)

    def _append(self, copy: _Copy, records: bytes) -> None:
        """Append to the copy, and take over the bounds of the current log as far as it reaches (R11.10)."""
        current, future = copy.current, copy.future
        start = future.log_start_offset
        if records:
            # Where there is no role yet, the current log knows its epochs best.
            newest = current.latest_epoch
            future.append_as_follower(
                records, max(copy.state.leader_epoch, NO_LEADER_EPOCH if newest is None else newest)
            )
        future.follow(current)
        lag, at = current.log_end_offset - future.log_end_offset, future.log_end_offset
        if records or copy.state.lag is None or copy.state.delayed_until is not None:
            state = replace(copy.state, fetch_offset=at, lag=lag, delayed_until=None)
            self.states.put(copy.topic_partition, state)
        if future.log_start_offset > start:
            self._manager.delete_records_purgatory.check_and_complete(copy.topic_partition)

    def _reset(self, copy: _Copy) -> None:
        """Continue within the current log, of which the end or the start has passed the end of the copy (R5.21)."""
        current, future = copy.current, copy.future
        if current.log_end_offset < future.log_end_offset:
            future.truncate_to(current.log_end_offset)
        else:
            future.truncate_fully_and_start_at(current.log_start_offset)
        self.states.put(copy.topic_partition, replace(copy.state, fetch_offset=future.log_end_offset, lag=None))
        self._manager.delete_records_purgatory.check_and_complete(copy.topic_partition)

    async def _swap(self, tp: TopicPartition) -> None:
        """Let a level copy take the place of the current log (R11.12). It is flushed first, while the log may grow."""
        copy = self._copy_of(tp)
        if copy is None:
            return
        # Where it has to be truncated, it has other records, perhaps as many.
        assert not copy.state.is_truncating, "nothing was awaited since the copy was found to be level"
        logs = self._manager.logs
        if self._prepared is not copy.future:
            await logs.prepare_swap(copy.future)
            self._prepared = copy.future
            return
        async with self._setup.lock:
            if not await self._catch_up(copy):
                return
            with self._manager.swapping(copy.partition):
                if not await self._catch_up(copy):
                    return
                await logs.futures.put_in_place(copy.future, copy.current)
                self.states.remove(tp)
                move = directory_move(copy.current, copy.future)
                self._manager.commit(ReplicaMoved(move))
            _log.info(
                "Replica was moved to another log directory",
                partition=str(tp),
                was=move.from_directory,
                now=move.to_directory,
            )
            await logs.finish_swap(copy.future, move.from_directory)

    async def _catch_up(self, copy: _Copy) -> bool:
        """Copy what the current log has more; False if that does not come to an end, or the copy is void: a log that
        was truncated and written again may be as long as the copy, and differ.
        """
        for _ in range(_PIECES_UNDER_LOCK):
            size_max = self._manager.settings.replica_fetch_max_bytes
            records = await copy.current.read_aside(copy.future.log_end_offset, size_max)
            if records is None or self._is_void(copy):
                return False
            if not records:
                return True
            newest = copy.current.latest_epoch
            assert newest is not None, f"{copy.topic_partition} has records without epochs"
            copy.future.append_as_follower(records, newest)
        return False

    def _react(self, copy: _Copy, code: ErrorCode) -> None:
        epoch = copy.state.leader_epoch
        if react_to_fetch_error(code, requested_epoch=epoch, current_epoch=epoch) is FetchErrorReaction.GIVE_UP:
            # Common: the LeaderAndIsr that has changed the epoch adds the partition again.
            self._stop(copy.topic_partition, code.name)
        else:
            self._delay(copy.topic_partition)

    def _give_up(self, tp: TopicPartition, why: str) -> None:
        self._stop(tp, why)
        _log.warning("Copying to another log directory stopped until the next LeaderAndIsr", partition=str(tp), why=why)

    def _stop(self, tp: TopicPartition, why: str) -> None:
        # One that was removed meanwhile is nobody's concern any more.
        if self.states.remove(tp) is not None:
            self._setup.failed[tp] = why

    def _try_again(self, tp: TopicPartition, error: Exception) -> None:
        _log.warning("Copying to another log directory is tried again", partition=str(tp), error=str(error))
        self._delay(tp)

    def _delay(self, tp: TopicPartition) -> None:
        if self.states.get(tp) is not None:
            now = asyncio.get_running_loop().time()
            self.states.delay(tp, now=now, until=now + self._manager.settings.replica_fetch_backoff_ms / 1000)

    async def _wait_for_work(self) -> None:
        """Wait until a partition was added, marked for truncation, or the delay of one ends."""
        left_s = self.states.seconds_until_ready(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(None if left_s is None else max(left_s, 0.001)):
                await self._wake.wait()
        except TimeoutError:
            return


def directory_move(current: PartitionLog, future: PartitionLog) -> MoveOfReplica:
    """Describe the move of a log to the place of its copy."""
    return MoveOfReplica(current.topic_partition, current.topic_id, current.directory, future.directory)


def first_state(future: PartitionLog, leader_epoch: LeaderEpoch) -> FetchState:
    """The state in which a copy begins, or begins again in another leader epoch: its high watermark is certain."""
    return FetchState(future.topic_id, future.high_watermark, leader_epoch, is_truncating=True)


def cut_state(state: FetchState, offset: Offset) -> FetchState:
    """The state of a copy after the current log was truncated to `offset` (R5.20)."""
    return replace(state, fetch_offset=min(offset, state.fetch_offset), is_truncating=True, delayed_until=None)
