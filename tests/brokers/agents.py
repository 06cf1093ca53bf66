"""Broker agents in one process on virtual time, with a controller that the test scripts.

The agents are the real ones, on the simulated network, ZooKeeper and disk. The played controller keeps one
leadership per partition, tells it to whom the test says, and answers AlterPartition.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial, wraps
from random import Random
from typing import Any, ParamSpec

from msgspec.structs import replace

from broker_agent.agent import Agent, AgentDependencies
from broker_agent.log.checkpoints import MetaProperties
from broker_agent.log.log_directories import LogDirectories
from broker_agent.log.log_metrics import LogMetrics
from broker_agent.log.opening import LoadOptions, open_log_directories
from broker_agent.log.segments import LogDependencies
from broker_agent.node import AgentNode
from broker_agent.registration.identity import create_persistent_paths
from broker_agent.registration.in_sync_partitions import read_in_sync_partitions
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.requests.topic_configs import TopicConfigs, default_log_config
from cluster.aio.tasks import TaskSet
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import (
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.process.log_level import LogLevel
from cluster.requests.agents import (
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    DamagedReplicaResult,
    ReportDamagedReplicasRequest,
    ReportDamagedReplicasResponse,
)
from cluster.requests.context import RequestContext
from cluster.requests.control import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
    RequestCause,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from cluster.requests.data import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
)
from cluster.znodes.controller import encode_controller
from cluster.znodes.paths import CONTROLLER, controller_registration_path
from cluster.znodes.registrations import encode_controller_registration
from cluster.zookeeper.port import Create
from simulator.cluster import VirtualClock
from simulator.disk import SimulatedDisk
from simulator.network import SimulatedClusterClient, SimulatedNetwork
from simulator.nodes import SimulatedWorkers
from simulator.record_batches import encode_client_batch
from simulator.virtual_time_loop import VirtualTimeLoop
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient
from state_log.record import LoggedStateChange
from tests.brokers.adapters import Records, SteppedStopwatch

CLUSTER_ID = "cluster-of-the-test"
CONTROLLER_ID = ControllerId(1001)
CONTROLLER_ENDPOINTS = (Endpoint("controller", 9090), Endpoint("controller", 9091, "CONTROL"))
REGISTRATION = encode_controller_registration(CONTROLLER_ID, CONTROLLER_ENDPOINTS, 0)
TOPIC = "orders"
TOPIC_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAQ")
TP = TopicPartition(TOPIC, 0)
CONTEXT = RequestContext()

_P = ParamSpec("_P")


async def connect(server: SimulatedZooKeeper) -> SimulatedZooKeeperClient:
    """A session that nobody listens to, on a server that has the paths an agent needs."""
    client = SimulatedZooKeeperClient(server, session_timeout_ms=6000)
    client.listen(lambda _: None)
    await client.start_session()
    await create_persistent_paths(client)
    return client


def virtually(test: Callable[_P, Coroutine[Any, Any, None]]) -> Callable[_P, None]:
    """Run an async test on virtual time, so that thirty seconds of lag take none."""

    @wraps(test)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        loop = VirtualTimeLoop(max_steps=3_000_000)
        loop.run_until_complete(test(*args, **kwargs))
        assert loop.unhandled == []

    return run


class AgentProcess:
    """One agent with everything it owns."""

    def __init__(self, world: "AgentWorld", broker: BrokerId) -> None:
        self.world, self.id = world, broker
        names = world.settings.listener_names
        self.endpoint = Endpoint(f"broker-{broker}", 9092, names.client)
        self.control_endpoint = Endpoint(f"broker-{broker}", 9093, names.control)
        self.disk = SimulatedDisk(world.clock, Random(broker))
        self.random = Random(broker)  # One for all its lives: names that it draws must not come again.
        self.records = Records()
        self.metrics = Metrics()
        self.stop_requested = asyncio.Event()
        self.boots = 1
        self.stopwatch = SteppedStopwatch()
        self.zookeeper: SimulatedZooKeeperClient
        self.logs: LogDirectories
        self.agent: Agent
        self.node: AgentNode
        self.tasks: TaskSet

    async def start(self, *paths: str) -> None:
        events: asyncio.Queue[Any] = asyncio.Queue()
        failed: asyncio.Queue[str] = asyncio.Queue()
        settings, least = self.world.settings, self.world.settings.klamm_log_dir_min_free_bytes
        self.zookeeper = SimulatedZooKeeperClient(self.world.zookeeper, session_timeout_ms=6000)
        self.zookeeper.listen(events.put_nowait)
        await self.zookeeper.start_session()
        await create_persistent_paths(self.zookeeper)
        configs = TopicConfigs(self.zookeeper, default_log_config(settings), 5000)
        self.logs = await open_log_directories(
            LogDependencies(self.disk, self.world.clock, self.random, LogMetrics(self.metrics, per_partition=True)),
            paths or self.world.log_dirs,
            MetaProperties(self.id, CLUSTER_ID),
            lambda directory, _: failed.put_nowait(directory),
            options=LoadOptions(
                default_config=configs.defaults,
                boot_id=f"boot-{self.boots}",
                min_free_bytes=least,
                read_in_sync=partial(read_in_sync_partitions, self.zookeeper, self.id),
            ),
        )
        self.log_level = LogLevel(settings.log_level)
        dependencies = AgentDependencies(
            settings=settings,
            cluster_id=CLUSTER_ID,
            zookeeper=self.zookeeper,
            zookeeper_events=events,
            logs=self.logs,
            failed_directories=failed,
            client=SimulatedClusterClient(self.world.network, self.endpoint.address),
            workers=SimulatedWorkers(Random(self.id), latency_s=(0.0001, 0.003)),
            clock=self.world.clock,
            sink=self.records,
            apis=(),
            metrics=self.metrics,
            configs=configs,
            request_stop=self.stop_requested.set,
            recorded_roles=self._recorded_roles,
            log_level=self.log_level,
            stopwatch=self.stopwatch,
            random=self.random,
        )
        self.tasks = TaskSet()
        await self.tasks.__aenter__()
        self.agent = Agent(Broker(self.id, ()), dependencies, self.tasks)
        self.node = AgentNode(self.agent, dependencies)
        for endpoint in self.endpoints:
            self.world.network.attach(endpoint, self.node)
        await self.agent.start(self.endpoints)

    @property
    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        return self.endpoint, self.control_endpoint

    def _close_ports(self) -> None:
        for endpoint in self.endpoints:
            self.world.network.detach(endpoint)

    async def _recorded_roles(self) -> list[LoggedStateChange]:
        return []

    async def stop(self) -> None:
        """Graceful end."""
        self._close_ports()
        await self.agent.stop()
        await self.tasks.__aexit__(None, None, None)

    async def crash(self, *, power_fails: bool = False) -> None:
        """kill -9, or worse."""
        self._close_ports()
        self.zookeeper.crash()
        self.tasks.cancel_all()
        if power_fails:
            self.disk.lose_power()
            self.boots += 1
        else:
            self.disk.kill_process()
        await self.tasks.__aexit__(None, None, None)

    @property
    def epoch(self) -> BrokerEpoch:
        return self.agent.registration.epoch

    def partition(self, tp: TopicPartition = TP) -> HostedPartition:
        partition = self.agent.manager.online(tp)
        assert partition is not None
        return partition

    def offsets(self, tp: TopicPartition = TP) -> tuple[int, int]:
        """(high watermark, log end offset)."""
        log = self.partition(tp).log
        assert log is not None
        return log.high_watermark, log.log_end_offset

    async def handle(self, request: Any) -> Any:
        return await self.node.handle(CONTEXT, request)

    async def produce(
        self, count: int = 1, *, acks: int = 1, tp: TopicPartition = TP, timeout_ms: int = 1000
    ) -> ProducePartitionResult:
        records = encode_client_batch(b"r" * 13, count, timestamp=self.world.clock.now_ms())
        item = ProducePartition(tp.topic, tp.partition, records)
        response = await self.handle(ProduceRequest(acks, timeout_ms, (item,)))
        result: ProducePartitionResult = response.partitions[0]
        return result

    async def fetch(
        self,
        offset: int,
        *,
        replica: int = -1,
        epoch: int = -1,
        last_epoch: int = -1,
        tp: TopicPartition = TP,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        topic_id: TopicId | None = TOPIC_ID,
        log_start: int = 0,
    ) -> FetchPartitionData:
        item = FetchPartition(
            topic=tp.topic,
            topic_id=topic_id,
            partition=tp.partition,
            fetch_offset=Offset(offset),
            partition_max_bytes=max_bytes,
            current_leader_epoch=LeaderEpoch(epoch),
            last_fetched_epoch=LeaderEpoch(last_epoch),
            log_start_offset=Offset(log_start),
        )
        request = FetchRequest(BrokerId(replica), (item,), max_wait_ms, min_bytes, 1 << 25)
        response = await self.handle(request)
        data: FetchPartitionData = response.partitions[0]
        return data


class PlayedController:
    """Answers AlterPartition as `answer` says; by default it accepts and keeps the new ISR."""

    def __init__(self, world: "AgentWorld") -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.answer: Callable[[AlterPartitionItem], AlterPartitionResult | None] = world.accept
        self.top_level = ErrorCode.NONE
        self.cause: RequestCause | None = None
        """What its answers name as the event of the ISRs that it accepts."""
        self.shutdown_requests: list[tuple[float, ControlledShutdownRequest]] = []
        """When each was received, in seconds of the loop's time."""
        self.shutdown_answers: list[ControlledShutdownResponse | None] = []
        """What the next ones are answered: None, not at all; the rest, that nothing remains."""
        self.damaged: dict[BrokerId, set[TopicPartition]] = {}
        """Replicas that brokers have reported as damaged."""
        self.damage_reports: list[ReportDamagedReplicasRequest] = []
        self.report_code = ErrorCode.NONE
        """What each reported replica is answered."""
        self.others: dict[type, Callable[[Any], Any]] = {}

    async def handle(self, _: RequestContext, request: Any) -> Any:
        if isinstance(request, ControlledShutdownRequest):
            return await self._answer_shutdown(request)
        if isinstance(request, ReportDamagedReplicasRequest):
            return self._answer_report(request)
        if type(request) in self.others:
            return self.others[type(request)](request)
        assert isinstance(request, AlterPartitionRequest)
        self.requests.append(request)
        if self.top_level is not ErrorCode.NONE:
            return AlterPartitionResponse(self.top_level)
        answers = [self.answer(item) for item in request.partitions]
        return AlterPartitionResponse(ErrorCode.NONE, tuple(a for a in answers if a is not None), self.cause)

    def _answer_report(self, request: ReportDamagedReplicasRequest) -> ReportDamagedReplicasResponse:
        reported = [TopicPartition(replica.topic_name, replica.partition_index) for replica in request.replicas]
        self.damaged.setdefault(request.broker_id, set()).update(reported)
        self.damage_reports.append(request)
        results = tuple(DamagedReplicaResult(*tp, self.report_code) for tp in reported)
        return ReportDamagedReplicasResponse(ErrorCode.NONE, results)

    async def _answer_shutdown(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        self.shutdown_requests.append((asyncio.get_running_loop().time(), request))
        if not self.shutdown_answers:
            return ControlledShutdownResponse(ErrorCode.NONE)
        answer = self.shutdown_answers.pop(0)
        return await asyncio.get_running_loop().create_future() if answer is None else answer


class AgentWorld:
    """The cluster: agents by id, the controller, and the leadership it decided for each partition."""

    def __init__(self, **settings: object) -> None:
        self.clock = VirtualClock()
        self.zookeeper = SimulatedZooKeeper(Random(1))
        self.network = SimulatedNetwork(Random(2))
        values: dict[str, Any] = {"zookeeper_session_timeout_ms": 6000, **settings}
        self.settings = Settings(**values)
        self.agents: dict[int, AgentProcess] = {}
        self.log_dirs: tuple[str, ...] = ("/data",)  # Of each agent.
        self.controller_epoch = ControllerEpoch(1)
        self.causes: tuple[RequestCause, ...] = ()
        """What the requests of the controller follow from."""
        self.states: dict[TopicPartition, LeaderAndIsrPartitionState] = {}
        self.controller = PlayedController(self)
        for endpoint in CONTROLLER_ENDPOINTS:
            self.network.attach(endpoint, self.controller)

    async def start(self, *brokers: int) -> None:
        """Start these agents, with an active controller that they can find."""
        client = SimulatedZooKeeperClient(self.zookeeper)
        client.listen(lambda _: None)
        await client.start_session()
        await create_persistent_paths(client)
        await client.multi(
            [
                Create(controller_registration_path(CONTROLLER_ID), REGISTRATION, ephemeral=True),
                Create(CONTROLLER, encode_controller(CONTROLLER_ID, 0), ephemeral=True),
            ]
        )
        for broker in brokers:
            process = AgentProcess(self, BrokerId(broker))
            await process.start()
            self.agents[broker] = process

    async def stop(self) -> None:
        for process in self.agents.values():
            await process.stop()

    def accept(self, item: AlterPartitionItem) -> AlterPartitionResult:
        tp = TopicPartition(item.topic_name, item.partition_index)
        state = self.states[tp]
        epoch = PartitionEpoch(state.partition_epoch + 1)
        if (item.leader_epoch, item.partition_epoch) != (state.leader_epoch, state.partition_epoch):
            return refuse(item, ErrorCode.INVALID_UPDATE_VERSION)
        self.states[tp] = replace(state, isr=item.new_isr, partition_epoch=epoch)
        return AlterPartitionResult(
            item.topic_name,
            item.topic_id,
            item.partition_index,
            ErrorCode.NONE,
            state.leader,
            state.leader_epoch,
            item.new_isr,
            0,
            epoch,
        )

    def decide(
        self, leader: int, isr: Sequence[int], *, replicas: Sequence[int] = (), tp: TopicPartition = TP, **changes: Any
    ) -> LeaderAndIsrPartitionState:
        """The next leadership of a partition: its epochs rise by one."""
        old = self.states.get(tp)
        ids = tuple(map(BrokerId, replicas or (old.replicas if old is not None else isr)))
        state = LeaderAndIsrPartitionState(
            partition_index=tp.partition,
            controller_epoch=self.controller_epoch,
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(0 if old is None else old.leader_epoch + 1),
            isr=tuple(map(BrokerId, isr)),
            partition_epoch=PartitionEpoch(0 if old is None else old.partition_epoch + 1),
            replicas=ids,
            is_new=old is None,
        )
        self.states[tp] = replace(state, **changes)
        return self.states[tp]

    async def tell(self, *brokers: int, tp: TopicPartition = TP, topic_id: TopicId | None = TOPIC_ID) -> ErrorCode:
        """Send the present leadership of a partition to these brokers; the code of the last one."""
        code = ErrorCode.NONE
        for broker in brokers:
            process = self.agents[broker]
            response: LeaderAndIsrResponse = await process.handle(
                self.leader_and_isr(self.states[tp], tp=tp, topic_id=topic_id, broker_epoch=process.epoch)
            )
            code = response.error_code or response.partition_errors[0].error_code
        return code

    async def tell_together(self, broker: int, *partitions: TopicPartition) -> LeaderAndIsrResponse:
        """Send the present leaderships of these partitions of TOPIC in one request."""
        states = tuple(self.states[tp] for tp in partitions)
        topics = (LeaderAndIsrTopicState(TOPIC, TOPIC_ID, states),)
        request = LeaderAndIsrRequest(CONTROLLER_ID, self.controller_epoch, BrokerEpoch(-1), topics, causes=self.causes)
        response: LeaderAndIsrResponse = await self.agents[broker].handle(request)
        return response

    def leader_and_isr(
        self,
        state: LeaderAndIsrPartitionState,
        *,
        tp: TopicPartition = TP,
        topic_id: TopicId | None = TOPIC_ID,
        broker_epoch: BrokerEpoch = BrokerEpoch(-1),
    ) -> LeaderAndIsrRequest:
        topics = (LeaderAndIsrTopicState(tp.topic, topic_id, (state,)),)
        return LeaderAndIsrRequest(CONTROLLER_ID, self.controller_epoch, broker_epoch, topics, causes=self.causes)

    async def update_metadata(self, *alive: int, to: Sequence[int] = ()) -> None:
        """Tell the agents (`to`, or all) the live brokers and every leadership."""
        request = self.metadata(*alive)
        for broker in to or tuple(self.agents):
            response = await self.agents[broker].handle(request)
            assert response.error_code is ErrorCode.NONE

    def metadata(self, *alive: int) -> UpdateMetadataRequest:
        topics = tuple(
            UpdateMetadataTopicState(tp.topic, TOPIC_ID, (_metadata_state(state),)) for tp, state in self.states.items()
        )
        brokers = tuple(Broker(BrokerId(b), self.agents[b].endpoints) for b in alive or tuple(self.agents))
        return UpdateMetadataRequest(CONTROLLER_ID, self.controller_epoch, BrokerEpoch(-1), topics, brokers)

    async def create(self, leader: int, isr: Sequence[int], *, replicas: Sequence[int] = ()) -> None:
        """Decide on a new partition and tell everybody, metadata first."""
        state = self.decide(leader, isr, replicas=replicas)
        await self.update_metadata()
        await self.tell(*state.replicas)

    async def stop_replica(
        self, broker: int, *, delete: bool = False, epoch: int = -1, tp: TopicPartition = TP
    ) -> StopReplicaResponse:
        state = StopReplicaPartitionState(tp.topic, tp.partition, LeaderEpoch(epoch), delete)
        request = StopReplicaRequest(CONTROLLER_ID, self.controller_epoch, BrokerEpoch(-1), (state,), self.causes)
        response: StopReplicaResponse = await self.agents[broker].handle(request)
        return response


def refuse(item: AlterPartitionItem, code: ErrorCode) -> AlterPartitionResult:
    return AlterPartitionResult(item.topic_name, item.topic_id, item.partition_index, code)


def _metadata_state(state: LeaderAndIsrPartitionState) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=state.partition_index,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        zk_version=state.partition_epoch,
        replicas=state.replicas,
    )


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Wait (virtually) for a condition. Fails when it does not come true in time."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own.
            await asyncio.sleep(0.001)


async def finished(waiting: Awaitable[Any], within_s: float = 60.0) -> Any:
    async with asyncio.timeout(within_s):
        return await waiting
