"""Random control requests, some stale or malformed, to one agent, compared with a model."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from cluster.model.broker import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.control import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
)
from simulator.virtual_time_loop import VirtualTimeLoop
from tests.brokers.agents import CONTROLLER_ID, TOPIC, AgentProcess, AgentWorld
from tests.examples import number_of_examples

OWN, ALIVE, DEAD = 1, 2, 3
IDS = (None, TopicId("B" * 22), TopicId("C" * 22))


class Headers(Struct, frozen=True):
    """`incarnation`: None for no epoch, else what is added to the agent's own."""

    controller_epoch: int
    incarnation: int | None


class Order(Struct, frozen=True):
    headers: Headers
    topic_id: TopicId | None
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    is_replica: bool


class Stop(Struct, frozen=True):
    headers: Headers
    partition: int
    leader_epoch: int
    delete: bool


class Restart(Struct, frozen=True):
    pass


class Model(Struct):
    """One partition as the rules have it. Its log, if `has_log`, stays on disk over a restart."""

    is_hosted: bool = False
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = 0
    is_attached: bool = False
    is_fetched: bool = False
    has_log: bool = False
    log_id: TopicId | None = None
    log_epoch: int = -1

    def obey(self, order: Order) -> ErrorCode:
        """Topic id, then leader epoch, then roles (R2.3)."""
        self.is_hosted = True
        attached_id = self.log_id if self.is_attached else None
        if order.topic_id is not None and attached_id is not None and order.topic_id != attached_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if order.leader_epoch < self.log_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if order.leader_epoch == self.leader_epoch:
            return self._obey_again(order, attached_id)
        if order.leader_epoch < self.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return self._change_role(order) if order.is_replica else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _change_role(self, order: Order) -> ErrorCode:
        """Become leader or follower (R3.1 to R3.13)."""
        if order.leader == OWN:
            self.is_fetched = False
        elif order.leader != ALIVE:
            return self._attach(order)
        if order.partition_epoch < self.partition_epoch:
            return ErrorCode.NONE
        code = self._attach(order)
        if code is ErrorCode.NONE:
            self.leader, self.leader_epoch = order.leader, order.leader_epoch
            self.partition_epoch = order.partition_epoch
            self.is_fetched = order.leader != OWN
            if order.leader == OWN:
                self.log_epoch = order.leader_epoch
        return code

    def _obey_again(self, order: Order, attached_id: TopicId | None) -> ErrorCode:
        if order.topic_id is not None and attached_id is None:
            self.log_id = order.topic_id
            return ErrorCode.NONE
        if order.topic_id is None and attached_id is not None and order.leader != OWN:
            return ErrorCode.NONE
        return ErrorCode.STALE_CONTROLLER_EPOCH

    def _attach(self, order: Order) -> ErrorCode:
        if order.topic_id is not None and self.log_id is not None and order.topic_id != self.log_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        self.has_log = self.is_attached = True
        self.log_id = self.log_id or order.topic_id
        return ErrorCode.NONE

    def stop(self, order: Stop) -> ErrorCode:
        """Stop unless the leader epoch is older (R4.2, R4.3)."""
        if self.is_hosted and order.leader_epoch >= 0 and order.leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        self.is_fetched = False
        if order.delete:
            self.forget()
            self.has_log, self.log_id = False, None
        return ErrorCode.NONE

    def forget(self) -> None:
        """What is in memory only; and the epoch of the log, which has no records of it."""
        self.is_hosted = self.is_attached = self.is_fetched = False
        self.leader, self.leader_epoch, self.partition_epoch, self.log_epoch = -1, -1, 0, -1


class Run:
    """An agent beside its models."""

    def __init__(self, world: AgentWorld) -> None:
        self.world = world
        self.agent: AgentProcess = world.agents[OWN]
        self.models = {number: Model() for number in range(2)}
        self.controller_epoch = 0

    async def tell_metadata(self) -> None:
        other = AgentProcess(self.world, BrokerId(ALIVE))
        self.world.agents[ALIVE] = other
        self.world.controller_epoch = ControllerEpoch(self.controller_epoch)
        await self.world.update_metadata(OWN, ALIVE, to=[OWN])
        del self.world.agents[ALIVE]

    async def obey(self, order: Order) -> None:
        replicas = (OWN, ALIVE, DEAD) if order.is_replica else (ALIVE, DEAD)
        state = LeaderAndIsrPartitionState(
            partition_index=order.partition,
            controller_epoch=ControllerEpoch(order.headers.controller_epoch),
            leader=BrokerId(order.leader),
            leader_epoch=LeaderEpoch(order.leader_epoch),
            isr=(BrokerId(max(order.leader, OWN)),),
            partition_epoch=PartitionEpoch(order.partition_epoch),
            replicas=tuple(map(BrokerId, replicas)),
        )
        topic = LeaderAndIsrTopicState(TOPIC, order.topic_id, (state,))
        request = LeaderAndIsrRequest(CONTROLLER_ID, *self._epochs(order.headers), (topic,))
        whole = self._validate(order.headers)
        code = self.models[order.partition].obey(order) if whole is ErrorCode.NONE else whole
        response = await self.agent.handle(request)
        assert response.error_code is whole
        assert [error.error_code for error in response.partition_errors] == [code]

    async def stop(self, order: Stop) -> None:
        state = StopReplicaPartitionState(TOPIC, order.partition, LeaderEpoch(order.leader_epoch), order.delete)
        request = StopReplicaRequest(CONTROLLER_ID, *self._epochs(order.headers), (state,))
        whole = self._validate(order.headers)
        codes = [self.models[order.partition].stop(order)] if whole is ErrorCode.NONE else []
        response = await self.agent.handle(request)
        assert response.error_code is whole
        assert [error.error_code for error in response.partition_errors] == codes

    async def restart(self, _: Restart) -> None:
        await self.agent.stop()
        await self.agent.start()
        self.controller_epoch = 0
        for model in self.models.values():
            model.forget()
        await self.tell_metadata()

    def _epochs(self, headers: Headers) -> tuple[ControllerEpoch, BrokerEpoch]:
        epoch = -1 if headers.incarnation is None else self.agent.epoch + headers.incarnation
        return ControllerEpoch(headers.controller_epoch), BrokerEpoch(epoch)

    def _validate(self, headers: Headers) -> ErrorCode:
        if headers.incarnation is not None and headers.incarnation < 0:
            return ErrorCode.STALE_BROKER_EPOCH
        if headers.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = headers.controller_epoch
        return ErrorCode.NONE

    def compare(self) -> None:
        assert self.agent.agent.control.known_controller_epoch == self.controller_epoch
        for number, model in self.models.items():
            tp = TopicPartition(TOPIC, number)
            partition, log = self.agent.agent.manager.online(tp), self.agent.logs.get(tp)
            found = Model(
                is_hosted=partition is not None,
                leader=-1 if partition is None else partition.leader_id,
                leader_epoch=-1 if partition is None else partition.leader_epoch,
                partition_epoch=0 if partition is None else partition.partition_epoch,
                is_attached=partition is not None and partition.log is not None,
                is_fetched=self.agent.agent.fetchers.state(tp) is not None,
                has_log=log is not None,
                log_id=None if log is None else log.topic_id,
                log_epoch=-1 if log is None or log.latest_epoch is None else log.latest_epoch,
            )
            assert found == model


# Mostly the present controller speaks to the present life of the agent; now and then an older one, or to an older one.
headers = st.builds(
    Headers, controller_epoch=st.sampled_from((2, 2, 2, 2, 3, 1)), incarnation=st.sampled_from((0, 0, 0, None, 5, -1))
)
partitions = st.integers(0, 1)
orders = st.builds(
    Order,
    headers=headers,
    topic_id=st.sampled_from((IDS[1], IDS[1], IDS[1], *IDS)),
    partition=partitions,
    leader=st.sampled_from((OWN, OWN, ALIVE, ALIVE, DEAD, -1)),
    leader_epoch=st.integers(0, 6),
    partition_epoch=st.integers(0, 3),
    is_replica=st.sampled_from((True, True, True, False)),
)
stops = st.builds(Stop, headers=headers, partition=partitions, leader_epoch=st.integers(-2, 6), delete=st.booleans())
steps = st.lists(st.one_of(orders, orders, orders, stops, st.just(Restart())), min_size=5, max_size=30)


@pytest.mark.rule("R2.1", "R2.2", "R2.3", "R2.4", "R2.6", "R3.3", "R3.8", "R3.9", "R3.11", "R3.13", "R4.1", "R4.2")
@pytest.mark.rule("R1.16", "R1.17", "R4.4", "R4.6", "P17", "P26", "P27")
@settings(
    max_examples=number_of_examples(60, deep=150),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(steps=steps)
def test_every_order_does_what_the_rules_say_and_nothing_else(steps: list[Any]) -> None:
    async def check() -> None:
        world = AgentWorld()
        await world.start(OWN)
        run = Run(world)
        await run.tell_metadata()
        obey: dict[type, Callable[[Any], Awaitable[None]]] = {Order: run.obey, Stop: run.stop, Restart: run.restart}
        for step in steps:
            await obey[type(step)](step)
            run.compare()
        await world.stop()

    VirtualTimeLoop(max_steps=1_000_000).run_until_complete(check())
