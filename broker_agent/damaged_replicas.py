"""Replicas of this broker that have lost records: reports them to the controller until others lead, then fetches anew.

A replica whose damage is in the middle of its log fetches everything again, once it follows in a leader epoch that
began without it in the ISR: from then on it cannot be elected before it has caught up. Source: klamm. D-40, D-41, R9.31
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog
from msgspec.structs import replace

from broker_agent.controller_finder import ControllerFinder
from broker_agent.log_damage import DamagedReplica, LogDamage, damage_record
from broker_agent.log_reconciliation import FetchSetup
from broker_agent.ports import Log
from broker_agent.registration import Registration
from broker_agent.replica_fetchers import ReplicaFetchers
from broker_agent.replica_manager import ReplicaManager
from cluster.errors import ErrorCode, PeerUnreachableError, ZooKeeperError
from cluster.partition import TopicPartition
from cluster.requests.agents import RECOVERY, SCRUB, ReportDamagedReplicasRequest, ReportedDamage
from cluster.requests.control import LeaderAndIsrPartitionState
from state_log.record import Cause, Kind, StateChange

_RETRY_S: Final = 0.5
_AGAIN_S: Final = 5.0
"""Until the next report of replicas that wait for another to lead."""
_log = structlog.stdlib.get_logger()


class DamagedReplicas:
    """The replicas to be reported, and those to be fetched anew. `run` does the reporting."""

    def __init__(
        self,
        manager: ReplicaManager,
        fetchers: ReplicaFetchers,
        registration: Registration,
        finder: ControllerFinder,
        setup: FetchSetup,
    ) -> None:
        self._manager, self._fetchers = manager, fetchers
        self._registration, self._finder = registration, finder
        self._client, self._sink = setup.client, setup.sink
        self._unreported: dict[TopicPartition, DamagedReplica] = {}
        self._to_refetch: dict[TopicPartition, DamagedReplica] = {}
        self._added = asyncio.Event()

    def add_found_at_start(self, replicas: Sequence[DamagedReplica]) -> None:
        """Record what the logs had lost when they were opened (R9.22); before the broker registers."""
        for replica in replicas:
            self._add(replica)
        self._registration.has_damaged_replicas = bool(replicas)

    def add_found_by_scrub(self, log: Log, damage: LogDamage) -> None:
        """Stop fetching into a damaged log, and have it replaced; one that leads goes on until another one does."""
        tp = log.topic_partition
        if tp in self._to_refetch:
            return
        replica = DamagedReplica(tp, log.topic_id, log.directory, damage, SCRUB)
        _log.error("Replica is damaged", partition=str(tp), detail=replica.detail)
        self._manager.logs.add_damaged(replica)
        self._add(replica)
        partition = self._manager.online(tp)
        if partition is not None and not partition.is_leader:
            self._fetchers.fail(tp)

    def _add(self, replica: DamagedReplica) -> None:
        tp = replica.topic_partition
        self._unreported[tp] = replica
        if not replica.damage.is_cut:
            self._to_refetch[tp] = replica
        self._sink.append([damage_record(self._manager.own_id, replica)])
        self._added.set()

    def followed(self, log: Log, state: LeaderAndIsrPartitionState, cause: Cause) -> None:
        """The log follows in a new leader epoch: outside of the ISR a damaged one starts anew. Raises StorageError.

        In the same step as the role change: nothing is fetched in the new epoch before.
        """
        tp = log.topic_partition
        if self._manager.own_id in state.isr:
            return
        self._unreported.pop(tp, None)
        replica = self._to_refetch.pop(tp, None)
        if replica is None or replica.topic_id not in (None, log.topic_id):
            return
        end, high_watermark, start = log.log_end_offset, log.high_watermark, log.log_start_offset
        log.truncate_fully_and_start_at(start)
        logs = self._manager.logs
        logs.forget_damage(replica)
        logs.add_damaged(replace(replica, damage=replace(replica.damage, is_cut=True)))
        _log.warning("Damaged replica fetches all records anew", partition=str(tp), leader=state.leader, start=start)
        self._sink.append(
            [
                StateChange(
                    kind=Kind.TRUNCATION,
                    cause=cause,
                    topic=tp.topic,
                    topic_id=log.topic_id,
                    partition=tp.partition,
                    broker=self._manager.own_id,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    from_offset=end,
                    to_offset=start,
                    high_watermark=high_watermark,
                    reason=replica.found_by,
                )
            ]
        )

    async def run(self) -> None:
        """Report until cancelled; again to each controller, until it has answered for each replica."""
        while True:
            await self._added.wait()
            self._added.clear()
            pause_s: float | None = 0.0
            while pause_s is not None:
                await asyncio.sleep(pause_s)
                pause_s = await self._report()

    async def _report(self) -> float | None:
        """Send one report; returns the seconds until the next one, None if there is nothing left to report."""
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
        return any(replica.found_by == RECOVERY for replica in self._unreported.values())

    async def _send(self) -> bool:
        """Whether the controller answered for each replica."""
        controller = self._finder.control_endpoint
        if controller is None:
            return False
        sent = dict(self._unreported)
        damages = tuple(_reported(replica) for replica in sent.values())
        request = ReportDamagedReplicasRequest(self._manager.own_id, self._registration.epoch, damages)
        try:
            async with asyncio.timeout(self._manager.settings.request_timeout_ms / 1000):
                response = await self._client.report_damaged_replicas(controller, request)
        except (PeerUnreachableError, TimeoutError) as error:
            _log.debug("Reporting damaged replicas failed", controller=controller.address, error=str(error))
            return False
        if response.error_code is not ErrorCode.NONE:
            _log.info("Controller refused a report", controller=controller.address, code=response.error_code.name)
            return False
        for result in response.replicas:
            tp = TopicPartition(result.topic_name, result.partition_index)
            if result.error_code is ErrorCode.NONE and self._unreported.get(tp) is sent.get(tp):
                self._unreported.pop(tp, None)
        return True


def _reported(replica: DamagedReplica) -> ReportedDamage:
    damage = replica.damage
    return ReportedDamage(
        *(replica.topic_partition.topic, replica.topic_id, replica.topic_partition.partition),
        from_offset=damage.from_offset,
        to_offset=damage.to_offset,
        size=damage.size,
        found_by=replica.found_by,
    )
