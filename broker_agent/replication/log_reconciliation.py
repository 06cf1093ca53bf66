"""Truncates a follower's log to match its leader's before records are appended.

Three cases: truncation by the leader's epoch end offsets, a diverging epoch in a fetch response, and an offset that the
leader does not have. Source: Kafka AbstractFetcherThread; KIP-101, KIP-279, KIP-595.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

import structlog
from msgspec import Struct
from msgspec.structs import replace

from broker_agent.decisions.truncation import FetchErrorReaction, choose_truncation, react_to_fetch_error
from broker_agent.log.partition_log import PartitionLog
from broker_agent.ports import ClusterClient
from broker_agent.replica_changes import LogTruncated
from broker_agent.replication.fetch_states import FetchState, FetchStates
from broker_agent.replication.leader_silence import LeaderSilence
from broker_agent.replication.replica_manager import ReplicaManager
from cluster.config.settings import Settings
from cluster.model.broker import NO_LEADER_EPOCH, BrokerEpoch, BrokerId, Endpoint, Offset
from cluster.model.errors import ClusterError, ErrorCode, LogOperationError, PeerUnreachableError, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests import data
from state_log.record import Cause

_OUT_OF_RANGE: Final = Cause("OffsetOutOfRange")
"""The leader does not have the offset that was fetched."""
_GIVEN_UP: Final = "Replica fetching stopped until the next LeaderAndIsr"

_T = TypeVar("_T")
_log = structlog.stdlib.get_logger()


class ProtocolViolationError(ClusterError):
    """A leader responded for a partition that was not requested; the whole response is dropped (R5.14)."""


class LeaderEndPoint(NamedTuple):
    """The broker to fetch from and its address."""

    broker: BrokerId
    endpoint: Endpoint


class FetchSetup(Struct, frozen=True):
    """Dependencies shared by all fetchers of an agent. `broker_epoch` is called for each request."""

    manager: ReplicaManager
    broker_epoch: Callable[[], BrokerEpoch]
    client: ClusterClient

    @property
    def settings(self) -> Settings:
        return self.manager.settings


class LogReconciliation:
    """The partitions of one fetcher, and the truncation of their logs.

    `client_id`: of the lag gauges; `failed`: the failed partitions of the whole agent, with the reason (R5.4).
    """

    def __init__(
        self, client_id: str, leader: LeaderEndPoint, setup: FetchSetup, failed: dict[TopicPartition, str]
    ) -> None:
        self.leader = leader
        self.silence = LeaderSilence(leader.broker)
        self.setup = setup
        with_metrics = setup.settings.klamm_metrics_partitions
        self.states = FetchStates(client_id, setup.manager.metrics.registry, per_partition_metrics=with_metrics)
        self._failed = failed
        self._truncations: list[LogTruncated] = []

    def log(self, tp: TopicPartition) -> PartitionLog | None:
        """The partition's log, None while it is offline here."""
        partition = self.setup.manager.online(tp)
        return None if partition is None else partition.log

    def delay(self, tp: TopicPartition) -> None:
        now = asyncio.get_running_loop().time()
        self.states.delay(tp, now=now, until=now + self.setup.settings.replica_fetch_backoff_ms / 1000)

    def give_up(self, tp: TopicPartition, why: str) -> None:
        """Move the partition to the failed set until the controller's next request (R5.4)."""
        self._stop_fetching(tp, why)
        _log.warning(_GIVEN_UP, partition=str(tp), leader=self.leader.broker, why=why)

    def lose(self, tp: TopicPartition, error: StorageError) -> None:
        """Move the partition to the failed set, as its log directory has failed, which is said once for all in it."""
        self._stop_fetching(tp, str(error))
        _log.debug(_GIVEN_UP, partition=str(tp), leader=self.leader.broker, why=str(error))

    def try_again(self, tp: TopicPartition, error: LogOperationError) -> None:
        """Continue after a delay from what the log holds now, after an error that is neither its nor its disk's."""
        _log.warning("An operation on a log failed; it is tried again", partition=str(tp), error=str(error))
        state, log = self.states.get(tp), self.log(tp)
        if state is not None and log is not None:
            if not state.is_truncating:
                self._resume(tp, state, log, log.log_end_offset)
            self.delay(tp)

    def _stop_fetching(self, tp: TopicPartition, why: str) -> None:
        self.states.remove(tp)
        self._failed[tp] = why

    async def ask(self, call: Callable[[], Awaitable[_T]]) -> _T | None:
        """The leader's response, None if there is none within `replica.socket.timeout.ms`. No log is being replaced by
        its copy when it returns.
        """
        self.silence.asked(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(self.setup.settings.replica_socket_timeout_ms / 1000):
                response = await call()
        except (PeerUnreachableError, TimeoutError) as error:
            self.silence.failed(error)
            return None
        self.silence.answered(asyncio.get_running_loop().time())
        await self.setup.manager.until_swapped()
        return response

    async def truncate_marked(self) -> None:
        """Truncate partitions in state `Truncating`: by the leader's epochs, else to the start offset (R5.13)."""
        await self.setup.manager.until_swapped()
        asked: dict[TopicPartition, FetchState] = {}
        items: list[data.OffsetForLeaderPartition] = []
        for tp, state in self.states.ready(asyncio.get_running_loop().time(), truncating=True):
            log = self.log(tp)
            if log is None:
                self.delay(tp)
            elif log.latest_epoch is None:
                self._guarded(tp, partial(self._cut, tp, state, state.fetch_offset, state.cause, complete=True))
            else:
                asked[tp] = state
                items.append(
                    data.OffsetForLeaderPartition(tp.topic, tp.partition, log.latest_epoch, state.leader_epoch)
                )
        if items:
            await self._truncate_by_epochs(
                asked, data.OffsetsForLeaderEpochRequest(self.setup.manager.own_id, tuple(items))
            )
        self.write_truncations()

    async def _truncate_by_epochs(
        self, asked: dict[TopicPartition, FetchState], request: data.OffsetsForLeaderEpochRequest
    ) -> None:
        response = await self.ask(lambda: self.setup.client.ask_leader(self.leader.endpoint, request))
        if response is None:
            for tp, state in asked.items():
                if self.states.get(tp) is state:
                    self.delay(tp)
            return
        answers = {TopicPartition(answer.topic, answer.partition): answer for answer in response.partitions}
        uninvited = sorted(answers.keys() - asked.keys())
        if uninvited:
            # A leader that confuses partitions is not trusted for the others either.
            raise ProtocolViolationError(f"broker {self.leader.broker} answered for {uninvited[0]}, unasked")
        for tp, answer in answers.items():
            if self.states.get(tp) is asked[tp]:
                self._guarded(tp, partial(self._apply_epoch_answer, tp, asked[tp], answer))

    def _apply_epoch_answer(self, tp: TopicPartition, state: FetchState, answer: data.OffsetForLeaderResult) -> None:
        if answer.error_code is not ErrorCode.NONE:
            self.react(tp, state, answer.error_code)
            return
        self._truncate_against(tp, state, data.EpochEndOffset(answer.leader_epoch, answer.end_offset), diverged=False)

    def follow_divergence(self, tp: TopicPartition, state: FetchState, leader: data.EpochEndOffset) -> None:
        """Truncate to where the leader's history diverges, as a fetch response said, and continue to fetch (R5.23)."""
        self._truncate_against(tp, state, leader, diverged=True)

    def _truncate_against(
        self, tp: TopicPartition, state: FetchState, leader: data.EpochEndOffset, *, diverged: bool
    ) -> None:
        log = self.log(tp)
        assert log is not None, f"{tp} went offline within one step"
        truncation = choose_truncation(
            leader,
            log.end_offset_for_epoch(leader.epoch),
            log_end_offset=log.log_end_offset,
            fetch_offset=state.fetch_offset,
        )
        self._cut(tp, state, truncation.offset, state.cause, complete=truncation.is_complete or diverged)

    def _cut(
        self, tp: TopicPartition, state: FetchState, offset: Offset, cause: Cause | None, *, complete: bool
    ) -> None:
        log = self.log(tp)
        assert log is not None, f"{tp} went offline within one step"
        end, high_watermark = log.log_end_offset, log.high_watermark
        if offset < high_watermark:
            _log.warning("Truncating below the high watermark", partition=str(tp), to=offset, was=high_watermark)
        if log.truncate_to(offset):
            reason = f"from {end} to {log.log_end_offset}, high watermark was {high_watermark}"
            self._truncations.append(
                LogTruncated(
                    *(tp, state.topic_id, self.leader.broker, state.leader_epoch, cause),
                    from_offset=end,
                    to_offset=log.log_end_offset,
                    high_watermark=high_watermark,
                    reason=reason,
                )
            )
        self._resume(tp, state, log, log.log_end_offset if complete else offset, is_truncating=not complete)

    def _resume(
        self, tp: TopicPartition, state: FetchState, log: PartitionLog, offset: Offset, *, is_truncating: bool = False
    ) -> None:
        latest = log.latest_epoch if self.sends_last_epoch else None
        self.states.put(
            tp,
            replace(
                state,
                fetch_offset=offset,
                last_fetched_epoch=NO_LEADER_EPOCH if latest is None else latest,
                is_truncating=is_truncating,
                delayed_until=None,
            ),
        )

    @property
    def sends_last_epoch(self) -> bool:
        return self.setup.settings.klamm_replica_truncation_mode == "fetch"

    async def reset_offset(self, tp: TopicPartition, state: FetchState) -> None:
        """Find the offset to continue at after OFFSET_OUT_OF_RANGE (R5.21): the leader's end if ours is beyond it, else
        the greater of the leader's start and our end.
        """
        if self.states.get(tp) is not state:
            return
        leader_end = await self._ask_offset(tp, state, data.LATEST_TIMESTAMP)
        log = self.log(tp)
        if leader_end is None or log is None:
            return
        if leader_end < log.log_end_offset:
            self._guarded(tp, partial(self._cut, tp, replace(state, lag=0), leader_end, _OUT_OF_RANGE, complete=True))
            self.write_truncations()
            return
        leader_start = await self._ask_offset(tp, state, data.EARLIEST_TIMESTAMP)
        if leader_start is not None and self.log(tp) is log:
            self._guarded(tp, partial(self._restart, tp, state, log, leader_start, leader_end))
            self.write_truncations()

    def _restart(
        self, tp: TopicPartition, state: FetchState, log: PartitionLog, leader_start: Offset, leader_end: Offset
    ) -> None:
        if leader_start > log.log_end_offset:
            end, high_watermark = log.log_end_offset, log.high_watermark
            log.truncate_fully_and_start_at(leader_start)
            self._truncations.append(
                LogTruncated(
                    *(tp, state.topic_id, self.leader.broker, state.leader_epoch, _OUT_OF_RANGE),
                    from_offset=end,
                    to_offset=leader_start,
                    high_watermark=high_watermark,
                    reason=f"from {end} fully, to start at {leader_start}",
                )
            )
        offset = max(leader_start, log.log_end_offset)
        self._resume(tp, replace(state, lag=max(0, leader_end - offset)), log, Offset(offset))

    async def _ask_offset(self, tp: TopicPartition, state: FetchState, timestamp: int) -> Offset | None:
        """The leader's earliest or latest offset; None after an error, which is handled, or if the state changed."""
        item = data.ListOffsetsPartition(tp.topic, tp.partition, timestamp, state.leader_epoch)
        request = data.ListOffsetsRequest(self.setup.manager.own_id, (item,))
        response = await self.ask(lambda: self.setup.client.ask_leader(self.leader.endpoint, request))
        if self.states.get(tp) is not state:
            return None
        if response is None or not response.partitions:
            self.delay(tp)
            return None
        answer = response.partitions[0]
        if answer.error_code is ErrorCode.NONE:
            return answer.offset
        self.react(tp, state, answer.error_code)
        return None

    def react(self, tp: TopicPartition, state: FetchState, code: ErrorCode) -> None:
        """Handle an error other than OFFSET_OUT_OF_RANGE for a request made in the current state."""
        reaction = react_to_fetch_error(code, requested_epoch=state.leader_epoch, current_epoch=state.leader_epoch)
        if reaction is FetchErrorReaction.GIVE_UP:
            # The leader learned first of a new epoch: common, and resolved by our own LeaderAndIsr.
            self._stop_fetching(tp, "")
            _log.debug(_GIVEN_UP, partition=str(tp), leader=self.leader.broker, why=code.name)
        else:
            self.delay(tp)

    def _guarded(self, tp: TopicPartition, truncate: Callable[[], None]) -> None:
        """Run a truncation; the failure of one partition does not stop the others (R5.17)."""
        try:
            truncate()
        except LogOperationError as error:
            self.try_again(tp, error)
        except StorageError as error:
            self.lose(tp, error)
        except Exception as error:
            _log.exception("Truncation failed", partition=str(tp))
            self.give_up(tp, repr(error))

    def write_truncations(self) -> None:
        """Record the truncations since the last call, in one append to the state-change log."""
        if self._truncations:
            changes, self._truncations = self._truncations, []
            self.setup.manager.commit(*changes)
