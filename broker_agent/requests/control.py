"""Handles the controller's requests, one at a time: LeaderAndIsr, StopReplica, UpdateMetadata.

Source: Kafka ReplicaManager.becomeLeaderOrFollower, stopReplicas, maybeUpdateMetadataCache.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

import structlog
from msgspec.structs import replace

from broker_agent.decisions.leader_and_isr import RoleAction, classify_state, validate_epochs, validate_stop
from broker_agent.decisions.restored_zookeeper import RestoredZooKeeper
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replica_changes import ReplicaRemoved, ReplicaStopped, RoleTaken
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.replication.log_dir_copies import LogDirCopies
from broker_agent.replication.replica_fetchers import ReplicaFetchers
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.requests.role_changes import (
    BecomeLeaderOrFollower,
    LogsOfRequest,
    RoleChangeResult,
    RoleChanges,
)
from cluster.aio.tasks import TaskSet
from cluster.model.broker import (
    INITIAL_CONTROLLER_EPOCH,
    LEADER_DURING_DELETE,
    NO_LEADER_EPOCH,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.model.listeners import needed_listeners
from cluster.model.partition import TopicPartition
from cluster.requests import control
from state_log.record import Cause
from state_log.witnessed_heads import WitnessedHeads

_T = TypeVar("_T")
_Refusal = TypeVar(
    "_Refusal", control.LeaderAndIsrResponse, control.StopReplicaResponse, control.UpdateMetadataResponse
)
_NONE_NEWER: Final[Mapping[TopicPartition, LeaderEpoch]] = MappingProxyType({})
_EVENT_LENGTH_MAX: Final = 64
"""Of a cause's name, which is repeated in every record of a request."""
_RETRY_S: Final = 1.0
_log = structlog.stdlib.get_logger()


class ControlRequests:
    """Control requests. `lock` is Kafka's replica state change lock: roles change only while it is held."""

    def __init__(
        self,
        manager: ReplicaManager,
        fetchers: ReplicaFetchers,
        roles: RoleChanges,
        tasks: TaskSet,
        *,
        broker_epoch: Callable[[], BrokerEpoch],
        restored: RestoredZooKeeper,
        heads: WitnessedHeads,
        lock: asyncio.Lock,
        copies: LogDirCopies,
    ) -> None:
        self.lock = lock
        self._copies = copies
        self.known_controller_epoch: ControllerEpoch = INITIAL_CONTROLLER_EPOCH
        self.has_roles = asyncio.Event()
        """Set by the first LeaderAndIsr: only from then on the partition table is complete (R2.12)."""
        self.is_stopping = False
        self._manager = manager
        self._fetchers = fetchers
        self._roles = roles
        self._tasks = tasks
        self._broker_epoch = broker_epoch
        self._restored = restored
        self._heads = heads
        self._handled = 0
        self._without_log: dict[TopicPartition, BecomeLeaderOrFollower] = {}
        """Role changes that wait for the config of their topic."""

    async def leader_and_isr(self, request: control.LeaderAndIsrRequest) -> control.LeaderAndIsrResponse:
        """Become leader or follower of the requested partitions (R2.1)."""
        response = await self.to_the_end(lambda: self._leader_and_isr(request))
        return self._heads.attached_to(response)

    async def stop_replica(self, request: control.StopReplicaRequest) -> control.StopReplicaResponse:
        """Stop fetching the requested partitions and delete those with the delete flag."""
        response = await self.to_the_end(lambda: self._stop_replica(request))
        return self._heads.attached_to(response)

    async def _leader_and_isr(self, request: control.LeaderAndIsrRequest) -> control.LeaderAndIsrResponse:
        async with self.lock:
            code = self._admit_request(request)
            if code is not ErrorCode.NONE:
                return self._with_epochs(_answer(request, code))
            newer: dict[TopicPartition, LeaderEpoch] = {}
            try:
                codes = await self._change_roles(request, newer)
            except Exception:
                # Completed role changes stay; the controller sends the request again or elects another leader (R2.17).
                _log.exception("LeaderAndIsr failed", controller=request.controller_id)
                return _answer(request, ErrorCode.UNKNOWN_SERVER_ERROR)
            return _answer(request, ErrorCode.NONE, codes, newer)

    async def _stop_replica(self, request: control.StopReplicaRequest) -> control.StopReplicaResponse:
        async with self.lock:
            code = self._admit_request(request)
            if code is not ErrorCode.NONE:
                return self._with_epochs(control.StopReplicaResponse(code))
            codes = {
                TopicPartition(s.topic_name, s.partition_index): self._validate_stop(s)
                for s in request.partition_states
            }
            stopping = [
                state
                for state in request.partition_states
                if codes[TopicPartition(state.topic_name, state.partition_index)] is ErrorCode.NONE
            ]
            codes |= await self._stop(stopping, self._cause(request))
            return control.StopReplicaResponse(
                ErrorCode.NONE,
                tuple(control.StopReplicaPartitionError(tp.topic, tp.partition, c) for tp, c in codes.items()),
            )

    async def update_metadata(self, request: control.UpdateMetadataRequest) -> control.UpdateMetadataResponse:
        """Update the metadata cache; roles do not change (R4.8)."""
        return self._heads.attached_to(await self._update_metadata(request))

    async def _update_metadata(self, request: control.UpdateMetadataRequest) -> control.UpdateMetadataResponse:
        async with self.lock:
            code = self._admit_request(request)
            if code is ErrorCode.NONE:
                listeners = {needed_listeners(broker.endpoints) for broker in request.live_brokers}
                if len(listeners) > 1:
                    _log.error("Brokers have different listeners", listeners=sorted(listeners))
                self._apply_metadata(request)
                # A dead broker no longer holds back the low watermark.
                self._manager.delete_records_purgatory.check_all()
                return control.UpdateMetadataResponse(code)
            return self._with_epochs(control.UpdateMetadataResponse(code))

    def _apply_metadata(self, request: control.UpdateMetadataRequest) -> None:
        metadata = self._manager.metadata
        before = metadata.snapshot.topic_ids
        metadata.apply(request)
        for topic in request.topic_states:
            has_other_id = before.get(topic.topic_name) != metadata.snapshot.topic_ids.get(topic.topic_name)
            for state in topic.partition_states:
                # Fetches of what is not in the metadata any more are refused.
                if has_other_id or state.leader == LEADER_DURING_DELETE:
                    self._manager.changed(TopicPartition(topic.topic_name, state.partition_index))

    async def to_the_end(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Complete a request even if its sender disconnects meanwhile, as a controller that fails does.

        A half-done role change could not be repaired: the repeated request has the same leader epoch and is ignored.
        Raises StoppingError when the process is ending.
        """
        outcome: asyncio.Future[_T] = asyncio.get_running_loop().create_future()

        async def carry_out() -> None:
            try:
                outcome.set_result(await work())
            except asyncio.CancelledError:
                outcome.cancel()
                raise
            except Exception as error:
                outcome.set_exception(error)

        self._tasks.start(carry_out(), name="control-request")
        return await asyncio.shield(outcome)

    def _admit_request(self, request: control.ControlRequest) -> ErrorCode:
        """Check the broker epoch and the controller epoch of a request; remember the latter if both are valid."""
        code = validate_epochs(
            broker_epoch=request.broker_epoch,
            own_broker_epoch=self._broker_epoch(),
            controller_epoch=request.controller_epoch,
            known_controller_epoch=self.known_controller_epoch,
        )
        if code is ErrorCode.NONE and self._restored.refuses(request.controller_epoch):
            code = ErrorCode.STALE_CONTROLLER_EPOCH
        if code is ErrorCode.NONE:
            self.known_controller_epoch = request.controller_epoch
            self._handled += 1
            self._heads.received(f"controller-{request.controller_id}", request)
        else:
            _log.warning("Control request refused", request=type(request).__name__, code=code.name)
        return code

    def _with_epochs(self, refusal: _Refusal) -> _Refusal:
        """The refusal of a whole request with the epochs known here, so that the controller can say why."""
        return replace(refusal, controller_epoch=self.known_controller_epoch, broker_epoch=self._broker_epoch())

    def _cause(self, request: control.LeaderAndIsrRequest | control.StopReplicaRequest) -> Cause:
        """The newest event that the request follows from; the request itself where the controller names none."""
        if not request.causes:
            return Cause(type(request).__name__.removesuffix("Request"), self._handled)
        newest = request.causes[-1]
        return Cause(newest.event[:_EVENT_LENGTH_MAX], newest.id, newest.controller_id, newest.controller_epoch)

    async def _change_roles(
        self, request: control.LeaderAndIsrRequest, newer: dict[TopicPartition, LeaderEpoch]
    ) -> dict[TopicPartition, ErrorCode]:
        """Validate each partition state, change roles, clean up; returns the codes by partition.

        Fills `newer`: the leader epochs known here of partitions whose requested one is lower.
        """
        codes: dict[TopicPartition, ErrorCode] = {}
        orders: dict[RoleAction, list[BecomeLeaderOrFollower]] = {RoleAction.LEAD: [], RoleAction.FOLLOW: []}
        refreshed: dict[TopicPartition, TopicId | None] = {}
        cause = self._cause(request)
        for topic in request.topic_states:
            for state in topic.partition_states:
                tp = TopicPartition(topic.topic_name, state.partition_index)
                if self._manager.is_offline(tp):
                    codes[tp] = ErrorCode.KAFKA_STORAGE_ERROR
                    continue
                admission, order = self._admit(tp, topic.topic_id, state, cause)
                codes[tp] = admission.code
                known = self._known_epoch(tp)
                if admission is RoleAction.REFUSE_EPOCH and known > state.leader_epoch:
                    newer[tp] = known
                if admission in orders:
                    orders[admission].append(order)
                elif admission is RoleAction.CLEAR_TOPIC_ID:
                    refreshed[tp] = None
                elif admission is RoleAction.STORE_TOPIC_ID and order.state.leader != self._manager.own_id:
                    refreshed[tp] = topic.topic_id
        codes |= await self._carry_out(orders[RoleAction.LEAD], orders[RoleAction.FOLLOW])
        for tp, topic_id in refreshed.items():
            self._fetchers.set_topic_id(tp, topic_id)
        self.has_roles.set()
        self._fetchers.stop_idle()
        self._copies.stop_idle()
        return codes

    def _admit(
        self, tp: TopicPartition, topic_id: TopicId | None, state: control.LeaderAndIsrPartitionState, cause: Cause
    ) -> tuple[RoleAction, BecomeLeaderOrFollower]:
        partition = self._manager.host(tp)
        log = partition.log
        admission = classify_state(
            state,
            own_id=self._manager.own_id,
            current_epoch=partition.leader_epoch,
            topic_id=topic_id,
            log_topic_id=None if log is None else log.topic_id,
            log_epoch=_latest_epoch(self._manager.logs.get(tp)),
        )
        if admission is RoleAction.STORE_TOPIC_ID and log is not None and topic_id is not None:
            log.set_topic_id(topic_id)
        return admission, BecomeLeaderOrFollower(partition, topic_id, state, cause)

    def _known_epoch(self, tp: TopicPartition) -> LeaderEpoch:
        """The highest leader epoch of a partition that this broker knows: of its role, or of its log."""
        partition = self._manager.online(tp)
        role = NO_LEADER_EPOCH if partition is None else partition.leader_epoch
        return max(role, _latest_epoch(self._manager.logs.get(tp)))

    async def _carry_out(
        self,
        to_lead: list[BecomeLeaderOrFollower],
        to_follow: list[BecomeLeaderOrFollower],
        logs: LogsOfRequest | None = None,
    ) -> dict[TopicPartition, ErrorCode]:
        outcome = RoleChangeResult()
        logs = logs or await self._roles.logs_of_request([*to_lead, *to_follow])
        try:
            if to_lead:
                await self._roles.make_leaders(to_lead, logs, outcome)
            if to_follow:
                await self._roles.make_followers(to_follow, logs, outcome, is_stopping=self.is_stopping)
        finally:
            self._record_roles(outcome.taken, {order.partition.topic_partition: order.partition for order in to_lead})
            self._copies.resume(order.partition for order in (*to_lead, *to_follow))
        self._retry_later([o for o in (*to_lead, *to_follow) if o.partition.topic_partition not in outcome.failures])
        return outcome.failures

    def _record_roles(self, taken: Sequence[RoleTaken], leaders: Mapping[TopicPartition, HostedPartition]) -> None:
        """Record the roles, without those that were recorded before an ISR of theirs."""
        owed = []
        for role in taken:
            leader = leaders.get(role.topic_partition)
            if leader is None or leader.unrecorded_role is role:
                owed.append(role)
        for leader in leaders.values():
            leader.unrecorded_role = None
        self._manager.commit(*owed)

    def _retry_later(self, orders: Sequence[BecomeLeaderOrFollower]) -> None:
        """Carry out again what ended without a log because no topic config could be read (R3.12).

        The controller does not send the request again: to it the partition has been changed.
        """
        was_retrying = bool(self._without_log)
        for order in orders:
            tp = order.partition.topic_partition
            if order.partition.log is None:
                self._without_log[tp] = order
            else:
                self._without_log.pop(tp, None)
        if self._without_log and not was_retrying:
            self._tasks.start(self._retry(), name="role changes without topic configs")

    async def _retry(self) -> None:
        while self._without_log:
            await asyncio.sleep(_RETRY_S)
            # Without the lock: ZooKeeper may not respond for long.
            logs = await self._roles.logs_of_request(list(self._without_log.values()))
            async with self.lock:
                # Not deleted, and not changed by a later request.
                orders = [o for tp, o in self._without_log.items() if self._manager.online(tp) is o.partition]
                orders = [o for o in orders if o.partition.leader_epoch < o.state.leader_epoch]
                self._without_log = {order.partition.topic_partition: order for order in orders}
                leads = [order for order in orders if order.state.leader == self._manager.own_id]
                await self._carry_out(leads, [order for order in orders if order not in leads], logs)

    def _validate_stop(self, state: control.StopReplicaPartitionState) -> ErrorCode:
        tp = TopicPartition(state.topic_name, state.partition_index)
        if self._manager.is_offline(tp):
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition, log = self._manager.online(tp), self._manager.logs.get(tp)
        return validate_stop(
            state.leader_epoch,
            NO_LEADER_EPOCH if partition is None else partition.leader_epoch,
            state.topic_id,
            None if log is None else log.topic_id,
        )

    async def _stop(
        self, states: list[control.StopReplicaPartitionState], cause: Cause
    ) -> dict[TopicPartition, ErrorCode]:
        """Stop replicas and delete logs; returns the codes of partitions whose log could not be deleted (R4.3)."""
        partitions = [TopicPartition(state.topic_name, state.partition_index) for state in states]
        deleted = [tp for tp, state in zip(partitions, states, strict=True) if state.delete_partition]
        self._fetchers.remove(partitions)
        self._copies.remove(partitions)
        for partition in map(self._manager.online, deleted):
            if partition is not None:
                self._copies.abandon(partition, cause)
        self._manager.commit(*(ReplicaRemoved(tp) for tp in deleted if self._manager.online(tp) is not None))
        await self._manager.withdraw_isr_proposals(deleted)
        ids = {tp: log.topic_id for tp in partitions if (log := self._manager.logs.get(tp)) is not None}
        failures = await self._manager.logs.delete(deleted)
        for tp, error in failures.items():
            _log.error("Deleting a log failed", partition=str(tp), error=str(error))
        self._manager.commit(
            *(
                ReplicaStopped(
                    tp,
                    state.leader_epoch,
                    cause,
                    is_deleted=state.delete_partition and tp not in failures,
                    failure=failures.get(tp),
                    topic_id=ids.get(tp) or state.topic_id,
                )
                for tp, state in zip(partitions, states, strict=True)
            )
        )
        self._fetchers.stop_idle()
        self._copies.stop_idle()
        return {tp: getattr(error, "code", ErrorCode.UNKNOWN_SERVER_ERROR) for tp, error in failures.items()}


def _latest_epoch(log: PartitionLog | None) -> LeaderEpoch:
    return NO_LEADER_EPOCH if log is None else log.confirmed_epoch


def _answer(
    request: control.LeaderAndIsrRequest,
    code: ErrorCode,
    codes: Mapping[TopicPartition, ErrorCode] | None = None,
    newer: Mapping[TopicPartition, LeaderEpoch] = _NONE_NEWER,
) -> control.LeaderAndIsrResponse:
    """Build a response with the request's code and the partitions' codes; without `codes`, all get the request's.

    `newer`: leader epochs of this broker that are higher than those requested.
    """
    return control.LeaderAndIsrResponse(
        code,
        tuple(
            control.LeaderAndIsrPartitionError(
                topic.topic_name,
                topic.topic_id,
                state.partition_index,
                code if codes is None else codes[tp],
                newer.get(tp, NO_LEADER_EPOCH),
            )
            for topic in request.topic_states
            for state in topic.partition_states
            for tp in (TopicPartition(topic.topic_name, state.partition_index),)
        ),
    )
