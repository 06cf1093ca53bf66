"""Replicas of this broker that have lost records: reports them to the controller until others lead, then fetches
all their records again.

A replica whose damage is in the middle of its log fetches everything again, once it follows in a leader epoch that
began without it in the ISR: from then on it cannot be elected before it has caught up, and back in the ISR it is
healed. A replica that may lack its newest records, after an unclean shutdown of the machine, is named in the same way,
until the controller has answered or it has another role. Source: klamm. D-40, D-41, D-119, R9.31 to R9.33
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import structlog
from msgspec.structs import replace

from broker_agent.log.partition_log import PartitionLog
from broker_agent.log_damage import DamagedReplica, LogDamage
from broker_agent.ports import ClusterClient
from broker_agent.registration.controller_finder import ControllerFinder
from broker_agent.registration.registration import Registration
from broker_agent.replica_changes import DamageFound, LogTruncated
from broker_agent.replication.replica_fetchers import ReplicaFetchers
from broker_agent.replication.replica_manager import ReplicaManager
from cluster.model.broker import NO_LEADER_EPOCH, LeaderEpoch
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError, ZooKeeperError
from cluster.model.partition import TopicPartition
from cluster.requests.agents import (
    SCRUB,
    DamagedReplicaResult,
    ReportDamagedReplicasRequest,
    ReportedDamage,
)
from cluster.requests.control import LeaderAndIsrPartitionState
from state_log.record import Cause

_RETRY_S: Final = 0.5
_AGAIN_S: Final = 5.0
"""Until the next report of replicas that wait for another to lead."""
_CHECK_S: Final = 1.0
"""Interval of the check which replicas are healed, while some are damaged."""
_log = structlog.stdlib.get_logger()


class DamagedReplicas:
    """The replicas to be reported, and those to be fetched again. `run` does the reporting."""

    def __init__(
        self,
        manager: ReplicaManager,
        fetchers: ReplicaFetchers,
        registration: Registration,
        finder: ControllerFinder,
        client: ClusterClient,
    ) -> None:
        self._manager, self._fetchers = manager, fetchers
        self._registration, self._finder = registration, finder
        self._client = client
        self._unreported: dict[TopicPartition, DamagedReplica] = {}
        self._to_refetch: dict[TopicPartition, DamagedReplica] = {}
        self._found: set[TopicPartition] = set()
        """Named to the controller by this process, and not replaced since: the next pass of the scrub adds nothing."""
        self._asked: set[TopicPartition] = set()
        """Named in a report that the controller has answered, be it that they wait."""
        self._answered = asyncio.Event()
        """Set at the next such report."""
        self._added = asyncio.Event()
        self._changed = asyncio.Event()

    def add_known_at_start(self) -> None:
        """Record what the logs had lost when they were opened (R9.22); before the broker registers.

        What an earlier process found is named again, unless the replica was replaced or has led since (R9.33).
        """
        logs = self._manager.logs
        self.add_known(logs.newly_damaged, logs.damaged_replicas)
        self._registration.has_damaged_replicas = bool(self._unreported)

    def add_known(self, newly: Iterable[DamagedReplica], known: Sequence[DamagedReplica]) -> None:
        """Record what opened logs had lost, and have what is known of them named."""
        for replica in newly:
            self._manager.commit(DamageFound(replica))
        for replica in known:
            if not replica.damage.is_cut:
                self._to_refetch[replica.topic_partition] = replica
            if replica.is_unanswered:
                self._name(replica)
        if known:
            self._changed.set()

    async def until_answered(self, partitions: Iterable[TopicPartition]) -> None:
        """Return when the controller has answered a report that named these partitions, as far as there is a report."""
        waiting = set(partitions)
        while waiting := {tp for tp in waiting if tp in self._unreported and tp not in self._asked}:
            await self._answered.wait()

    def add_found_by_scrub(self, log: PartitionLog, damage: LogDamage) -> None:
        """Stop fetching into a damaged log, and have it replaced; one that leads continues until another one does."""
        tp = log.topic_partition
        if tp in self._found:
            return
        partition = self._manager.online(tp)
        leads = partition is not None and partition.is_leader
        replica = DamagedReplica(tp, log.topic_id, log.directory, damage, SCRUB, has_led=leads)
        _log.error("Replica is damaged", partition=str(tp), detail=replica.detail)
        self._manager.commit(DamageFound(replica))
        self._manager.logs.add_damaged(replica)
        self._to_refetch[tp] = replica
        self._name(replica)
        self._changed.set()
        if partition is not None and not leads:
            self._fetchers.fail(tp)

    def _name(self, replica: DamagedReplica) -> None:
        """Have it named to the controller."""
        self._unreported[replica.topic_partition] = replica
        self._asked.discard(replica.topic_partition)
        if not replica.is_in_doubt:
            self._found.add(replica.topic_partition)
        self._added.set()

    def _replace(self, replica: DamagedReplica, changed: DamagedReplica) -> None:
        self._manager.logs.forget_damage(replica)
        self._manager.logs.add_damaged(changed)

    def led(self, tp: TopicPartition) -> None:
        """The replica leads in a new leader epoch: what it does not have the others cannot keep, either."""
        for replica in self._manager.logs.damage_of(tp):
            if replica.is_in_doubt:
                self._end_doubt(replica)
            elif self._is_back_in_sync(replica):
                self._heal(replica)
            elif not replica.has_led:
                self._replace(replica, replace(replica, has_led=True))

    def followed(self, log: PartitionLog, state: LeaderAndIsrPartitionState, cause: Cause) -> None:
        """The log follows in a new leader epoch: outside of the ISR a damaged one is emptied. Raises StorageError.

        In the same step as the role change: nothing is fetched in the new epoch before.
        """
        tp = log.topic_partition
        if self._manager.own_id in state.isr:
            return
        self._unreported.pop(tp, None)
        self._found.discard(tp)
        self._left_isr(tp, state.leader_epoch)
        replica = self._to_refetch.pop(tp, None)
        if replica is None or replica.topic_id not in (None, log.topic_id):
            return
        end, high_watermark, start = log.log_end_offset, log.high_watermark, log.log_start_offset
        log.truncate_fully_and_start_at(start)
        _log.warning("Damaged replica fetches all records again", partition=str(tp), leader=state.leader, start=start)
        self._manager.commit(
            LogTruncated(
                *(tp, log.topic_id, state.leader, state.leader_epoch, cause),
                from_offset=end,
                to_offset=start,
                high_watermark=high_watermark,
                reason=replica.found_by,
            )
        )

    def _left_isr(self, tp: TopicPartition, epoch: LeaderEpoch) -> None:
        """Note that the replica has what it fetches from now on; what it had to be emptied of is at its end, too."""
        for replica in self._manager.logs.damage_of(tp):
            if replica.is_in_doubt:
                self._end_doubt(replica)
            elif not replica.is_lost:
                damage = replace(replica.damage, is_cut=True)
                self._replace(replica, replace(replica, damage=damage, has_led=False, left_isr_in=epoch))

    def forget_ended(self) -> None:
        """Forget the damage of replicas that are back in the ISR, or whose damaged records were deleted (R9.33)."""
        for replica in self._manager.logs.damaged_replicas:
            if replica.is_in_doubt:
                continue
            partition = self._manager.online(replica.topic_partition)
            log = None if partition is None else partition.log
            if log is not None and log.log_start_offset >= replica.damage.to_offset:
                self._forget(replica)
                _log.info("Damaged records are deleted", partition=str(replica.topic_partition), detail=replica.detail)
            elif self._is_back_in_sync(replica):
                self._heal(replica)

    async def acknowledge(self, tp: TopicPartition, *, validate_only: bool) -> tuple[DamagedReplica, ...]:
        """Forget what is lost for good (R9.33); returns it. Raises ApiError if nothing is, or if it heals by itself."""
        known = [replica for replica in self._manager.logs.damage_of(tp) if not replica.is_in_doubt]
        lost = tuple(replica for replica in known if replica.is_lost)
        if not known:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"broker {self._manager.own_id} knows of no damage of {tp}; see `klamm cluster health`",
            )
        if not lost:
            remedy = known[0].remedy(self._manager.own_id)
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{tp}: {known[0].damage.offsets} are not given up: {remedy}")
        if not validate_only:
            for replica in lost:
                self._forget(replica)
                _log.warning("Loss of records is acknowledged", partition=str(tp), detail=replica.detail)
            await self._manager.logs.write_damaged_replicas()
        return lost

    def _is_back_in_sync(self, replica: DamagedReplica) -> bool:
        """Whether the controller has it in the ISR again, since a leader epoch in which it was not."""
        if replica.is_lost or replica.left_isr_in == NO_LEADER_EPOCH:
            return False
        state = self._manager.metadata.partition_state(replica.topic_partition)
        return state is not None and state.leader_epoch >= replica.left_isr_in and self._manager.own_id in state.isr

    def _heal(self, replica: DamagedReplica) -> None:
        self._forget(replica)
        _log.info(
            "Damaged replica is healed: fetched again and in the ISR",
            partition=str(replica.topic_partition),
            offsets=replica.damage.offsets,
        )

    def _end_doubt(self, replica: DamagedReplica) -> None:
        """Forget the doubt: what the replica may lack it fetches outside of the ISR, or the others follow it."""
        tp = replica.topic_partition
        self._manager.logs.forget_damage(replica)
        if self._unreported.get(tp) == replica:
            del self._unreported[tp]

    def _forget(self, replica: DamagedReplica) -> None:
        self._manager.logs.forget_damage(replica)
        if self._to_refetch.get(replica.topic_partition) == replica:
            del self._to_refetch[replica.topic_partition]
            self._found.discard(replica.topic_partition)

    async def watch(self) -> None:
        """Forget what is over, and keep the files of the log directories up to date, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._manager.logs.damaged_replicas:
                await asyncio.sleep(_CHECK_S)
                self.forget_ended()
                await self._manager.logs.write_damaged_replicas()

    async def run(self) -> None:
        """Report until cancelled; again to each controller, until it has answered for each replica.

        At once to another one: until then it does not know of this broker's sound replicas, either.
        """
        while True:
            await self._added.wait()
            self._added.clear()
            pause_s = await self._report()
            while pause_s is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._finder.found.wait()
                pause_s = await self._report()

    async def _report(self) -> float | None:
        """Send one report; returns the seconds until the next one, None if there is nothing left to report."""
        self._finder.found.clear()
        if not self._unreported and not self._registration.has_damaged_replicas:
            return None
        if not await self._send():
            return _RETRY_S
        if self._registration.has_damaged_replicas and not self._has_recovered_ones():
            # The next controller need not wait for a report: what this one decided is in ZooKeeper.
            try:
                if not await self._registration.withdraw_damage():
                    return _RETRY_S
            except ZooKeeperError as error:
                _log.debug("Changing the registration failed", error=str(error))
                return _RETRY_S
        return _AGAIN_S if self._unreported else None

    def _has_recovered_ones(self) -> bool:
        return any(replica.found_by != SCRUB for replica in self._unreported.values())

    async def _send(self) -> bool:
        """Whether the controller answered for each replica."""
        controller = self._finder.control_endpoint
        if controller is None:
            return False
        sent = dict(self._unreported)
        damages = tuple(map(self._reported, sent.values()))
        request = ReportDamagedReplicasRequest(self._manager.own_id, self._registration.epoch, damages)
        try:
            async with asyncio.timeout(self._manager.settings.request_timeout_ms / 1000):
                response = await self._client.ask_controller(controller, request)
        except (PeerUnreachableError, TimeoutError) as error:
            _log.debug("Reporting damaged replicas failed", controller=controller.address, error=str(error))
            return False
        if response.error_code is not ErrorCode.NONE:
            _log.info("Controller refused a report", controller=controller.address, code=response.error_code.name)
            return False
        self._take_answers(sent, response.replicas)
        self._asked |= sent.keys()
        answered, self._answered = self._answered, asyncio.Event()
        answered.set()
        await self._manager.logs.write_damaged_replicas()
        return True

    def _take_answers(
        self, sent: Mapping[TopicPartition, DamagedReplica], results: Iterable[DamagedReplicaResult]
    ) -> None:
        """Report replicas no more that the controller answered without an error, and end the doubt about them."""
        for result in results:
            tp = TopicPartition(result.topic_name, result.partition_index)
            replica = self._unreported.get(tp)
            if result.error_code is not ErrorCode.NONE or replica is None or replica is not sent.get(tp):
                continue
            if replica.is_in_doubt:
                self._end_doubt(replica)
            else:
                del self._unreported[tp]

    def _reported(self, replica: DamagedReplica) -> ReportedDamage:
        damage, tp = replica.damage, replica.topic_partition
        log = self._manager.logs.get(tp)
        epoch = None if log is None else log.latest_epoch
        return ReportedDamage(
            *(tp.topic, replica.topic_id, tp.partition),
            from_offset=damage.from_offset,
            to_offset=damage.to_offset,
            size=damage.size,
            found_by=replica.found_by,
            is_end_known=damage.is_end_known,
            log_epoch=NO_LEADER_EPOCH if epoch is None else epoch,
        )
