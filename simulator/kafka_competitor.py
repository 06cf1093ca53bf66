"""The controller of an Apache Kafka broker as ZooKeeper sees it: competes for `/controller`, fails over slowly, and
learns late that another controller was elected.

It works off one event after the other, as Kafka's does: while it fails over, it does not see that it was pushed out,
and continues to write under the version of `/controller_epoch` that it won with. Source: Kafka KafkaController,
KafkaZkClient.registerControllerAndIncrementControllerEpoch.
"""

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

from msgspec.structs import replace

from cluster.aio.clock import WallClock
from cluster.model.broker import BrokerId, ControllerEpoch, ControllerId, LeaderEpoch, PartitionEpoch, ZkVersion
from cluster.model.errors import OutcomeUnknownError, SessionExpiredError, ZooKeeperError
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.znodes.controller import (
    decode_controller,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from cluster.znodes.paths import BROKERS_TOPICS, CONTROLLER, CONTROLLER_EPOCH, state_path, topic_path
from cluster.znodes.topics import decode_state, decode_topic, encode_state
from cluster.zookeeper.port import (
    Check,
    Create,
    Op,
    OpResult,
    SessionEvent,
    SessionState,
    SetData,
    WatchEvent,
    ZooKeeper,
)

_NEXT_SESSION_S: Final = 1
_WRITES_OF_FAILOVER: Final = 4
_BETWEEN_WRITES_S: Final = (0.01, 0.3, 3.0)


class KafkaCompetitor:
    """One broker's controller over its sessions. `epoch_won`: the epoch under which it believes to rule, if it does."""

    def __init__(self, zookeeper: ZooKeeper, id_: BrokerId, random: Random, clock: WallClock) -> None:
        self.id = ControllerId(id_)
        self.epoch_won: ControllerEpoch | None = None
        self._zookeeper, self._random, self._clock = zookeeper, random, clock
        self._version = ZkVersion(0)
        self._events: asyncio.Queue[WatchEvent | SessionEvent] = asyncio.Queue()

    async def run(self) -> None:
        """Compete until cancelled."""
        self._zookeeper.listen(self._events.put_nowait)
        await self._start_session()
        while True:
            with suppress(SessionExpiredError):
                await self._compete()
            event = await self._events.get()
            if event == SessionEvent(SessionState.EXPIRED, self._zookeeper.session_id):
                self.epoch_won = None
                await self._start_session()

    async def _start_session(self) -> None:
        while True:
            try:
                return await self._zookeeper.start_session()
            except ZooKeeperError:
                await asyncio.sleep(_NEXT_SESSION_S)

    async def _compete(self) -> None:
        znode = await self._zookeeper.get(CONTROLLER, watch=True)
        if znode is not None:
            if decode_controller(znode.data) != self.id:
                self.epoch_won = None
            return
        self.epoch_won = None
        stored = await self._zookeeper.get(CONTROLLER_EPOCH)
        if stored is None:
            return
        epoch = ControllerEpoch(decode_controller_epoch(stored.data) + 1)
        body = encode_controller(self.id, self._clock.now_ms())
        raise_epoch = SetData(CONTROLLER_EPOCH, encode_controller_epoch(epoch), stored.stat.version)
        results = await self._try([Create(CONTROLLER, body, ephemeral=True), raise_epoch])
        if results is not None and all(result.ok for result in results):
            self.epoch_won, self._version = epoch, ZkVersion(stored.stat.version + 1)
            await self._fail_over(epoch)

    async def _fail_over(self, epoch: ControllerEpoch) -> None:
        """Move a few leaders, one partition at a time."""
        for _ in range(_WRITES_OF_FAILOVER):
            await asyncio.sleep(self._random.choice(_BETWEEN_WRITES_S))
            found = await self._some_partition()
            if found is None:
                continue
            tp, state = found
            leader = self._random.choice(state.isr)
            moved = replace(
                state, leader=leader, leader_epoch=LeaderEpoch(state.leader_epoch + 1), controller_epoch=epoch
            )
            fence = Check(CONTROLLER_EPOCH, self._version)
            await self._try([fence, SetData(state_path(tp), encode_state(moved), state.partition_epoch)])

    async def _some_partition(self) -> tuple[TopicPartition, LeaderAndIsr] | None:
        topics = await self._zookeeper.children(BROKERS_TOPICS)
        if not topics:
            return None
        topic = self._random.choice(topics)
        znode = await self._zookeeper.get(topic_path(topic))
        if znode is None:
            return None
        tp = TopicPartition(topic, self._random.choice(list(decode_topic(topic, znode.data).partitions)))
        stored = await self._zookeeper.get(state_path(tp))
        state = None if stored is None else decode_state(tp, stored.data, PartitionEpoch(stored.stat.version))
        return None if state is None else (tp, state)

    async def _try(self, ops: list[Op]) -> list[OpResult] | None:
        try:
            return await self._zookeeper.multi(ops)
        except OutcomeUnknownError:
            return None
