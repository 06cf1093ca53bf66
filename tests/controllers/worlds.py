"""A controller under test: the real one on the in-memory ZooKeeper, with brokers that record requests and respond."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import Broker, BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Endpoint
from cluster.model.errors import ErrorCode, PeerRefusesError, PeerUnreachableError
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.process.log_level import LogLevel
from cluster.requests.context import RequestContext
from cluster.requests.control import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StateLogHead,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from cluster.requests.recovery import DescribeReplicasResponse
from cluster.znodes.candidates import CandidateProfile
from cluster.znodes.paths import broker_path, state_path, topic_path
from cluster.znodes.registrations import encode_broker
from cluster.znodes.topics import decode_state, decode_topic, encode_topic
from cluster.zookeeper.port import Create, Delete, Op, SessionEvent, SetData, WatchEvent
from controller.config import ControllerConfig
from controller.controller import Controller
from controller.controller_state import ControllerState
from controller.node import ControllerNode
from simulator.cluster import VirtualClock, simulate
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient
from state_log.record import Kind, StateChange

_T = TypeVar("_T")
SESSION_MS = 6000


def run_virtually(main: Callable[[], Coroutine[Any, Any, _T]], *, max_steps: int = 3_000_000) -> _T:
    """Run a coroutine to its end on virtual time; what it leaves running is ended."""
    return simulate(main, max_steps=max_steps)


PROFILE: Final = CandidateProfile("0.3", "klamm", "3.9", "PLAINTEXT", "CONTROL")


class RecordingBrokers:
    """A BrokerClient whose brokers take everything and say NONE. `unreachable` ones do not answer.

    `answers` are codes of whole requests, without results; `deletions` are codes for each replica to be deleted.
    """

    def __init__(self) -> None:
        self.received: list[tuple[BrokerId, ControlRequest]] = []
        self.unreachable: set[BrokerId] = set()
        self.hanging: set[BrokerId] = set()
        """Those that do not say what they have, as one that is paused; they answer everything else."""
        self.refusal: PeerRefusesError | None = None
        """What all brokers do with every request."""
        self.with_authorizer: set[BrokerId] = set()
        self.answers: dict[BrokerId, ErrorCode] = {}
        self.results: dict[BrokerId, dict[TopicPartition, ErrorCode]] = {}
        """What a broker answers about single partitions of a LeaderAndIsr, under the ids of topics that have one."""
        self.deletions: dict[BrokerId, ErrorCode] = {}
        self.forgotten: list[BrokerId] = []
        self.descriptions: dict[BrokerId, DescribeReplicasResponse] = {}
        """What a broker has and knows; by default nothing."""
        self.recovering: list[BrokerId] = []
        """Those told that a recovery is carried out."""
        self.heads: dict[int, StateLogHead] = {}
        """What a broker says of its state-change log."""

    async def send(self, broker: Broker, request: ControlRequest) -> ControlResponse:
        return replace(await self._answer(broker, request), state_log_head=self.heads.get(broker.id))

    async def _answer(self, broker: Broker, request: ControlRequest) -> ControlResponse:
        await asyncio.sleep(0.001)
        if broker.id in self.unreachable:
            raise PeerUnreachableError(str(broker.id), "unplugged")
        if self.refusal is not None:
            raise self.refusal
        self.received.append((broker.id, request))
        code = self.answers.get(broker.id, ErrorCode.NONE)
        match request:
            case LeaderAndIsrRequest():
                return LeaderAndIsrResponse(code, self._results(broker.id, request))
            case UpdateMetadataRequest():
                return UpdateMetadataResponse(code)
            case StopReplicaRequest():
                stopped = self.deletions.get(broker.id, ErrorCode.NONE)
                return StopReplicaResponse(
                    code,
                    tuple(
                        StopReplicaPartitionError(
                            s.topic_name, s.partition_index, stopped if s.delete_partition else ErrorCode.NONE
                        )
                        for s in request.partition_states
                        if code is ErrorCode.NONE
                    ),
                )

    def _results(self, broker: BrokerId, request: LeaderAndIsrRequest) -> tuple[LeaderAndIsrPartitionError, ...]:
        codes = self.results.get(broker, {})
        return tuple(
            LeaderAndIsrPartitionError(
                topic.topic_name if topic.topic_id is None else "", topic.topic_id, state.partition_index, codes[tp]
            )
            for topic in request.topic_states
            for state in topic.partition_states
            if (tp := TopicPartition(topic.topic_name, state.partition_index)) in codes
        )

    def oldest_release(self) -> str | None:
        return None

    def brokers_with_authorizer(self) -> frozenset[BrokerId]:
        return frozenset(self.with_authorizer)

    async def describe_replicas(self, broker: Broker, *, recovers: bool) -> DescribeReplicasResponse:
        await asyncio.sleep(0.001)
        if broker.id in self.unreachable:
            raise PeerUnreachableError(str(broker.id), "unplugged")
        if broker.id in self.hanging:
            await asyncio.Event().wait()
        self.recovering += [broker.id] if recovers else []
        return self.descriptions.get(broker.id, DescribeReplicasResponse(broker.id, ControllerEpoch(0)))

    async def forget(self, broker: Broker) -> None:
        self.forgotten.append(broker.id)

    def of(self, broker: int, kind: type[_T]) -> list[_T]:
        return [request for b, request in self.received if b == broker and isinstance(request, kind)]


class MemorySink:
    def __init__(self) -> None:
        self.changes: list[StateChange] = []
        self.flushed_head: StateLogHead | None = None

    def append(self, changes: Sequence[StateChange]) -> None:
        self.changes.extend(changes)

    def of(self, kind: Kind) -> list[StateChange]:
        return [change for change in self.changes if change.kind is kind]


class RunningController:
    """One candidate with its own session."""

    def __init__(self, world: "World", controller_id: int, config: ControllerConfig) -> None:
        self.zookeeper = SimulatedZooKeeperClient(world.server, session_timeout_ms=SESSION_MS)
        self.brokers = RecordingBrokers()
        self.sink = MemorySink()
        self.metrics = Metrics()
        self.log_level = LogLevel()
        self.controller = Controller(
            config=config,
            zookeeper=self.zookeeper,
            broker_client=self.brokers,
            sink=self.sink,
            registry=self.metrics,
            clock=VirtualClock(),
            random=Random(controller_id),
            log_level=self.log_level,
        )
        self.node = ControllerNode(self.controller, self.zookeeper, ())
        self._stop = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self.controller.run(self._stop))

    async def stop(self) -> None:
        self._stop.set()
        await self.task

    def crash(self) -> None:
        """As kill -9: nothing is said to anybody; the session lives on until it times out."""
        self.zookeeper.crash()
        self.task.cancel()

    async def ask(self, request: Any) -> Any:
        return await self.node.handle(RequestContext(), request)

    def gauge(self, name: str, type_: str = "KafkaController") -> float:
        return self.metrics.gauge("kafka.controller", type_, name).value

    @property
    def election_epoch(self) -> float:
        return self.metrics.gauge("klamm.controller", "Election", "ControllerEpoch").value

    @property
    def is_active(self) -> bool:
        """Whether it is active and idle: failover and every later event are done."""
        return self.gauge("ActiveControllerCount") == 1 and self.gauge("ControllerState") == ControllerState.IDLE

    @property
    def context(self) -> Any:
        active = self.controller._active
        assert active is not None, "not active"
        return active.context


_SETTINGS = {
    "takeover": "klamm_takeover",
    "protocol_version": "inter_broker_protocol_version",
    "leader_rebalance_max_elections": "klamm_leader_rebalance_max_elections",
    "damaged_replica_election_delay_ms": "klamm_damaged_replica_election_delay_ms",
    "delete_topic_absent_broker_grace_ms": "klamm_delete_topic_absent_broker_grace_ms",
    "default_partitions": "num_partitions",
}
"""What tests call shorter than the settings are."""


class World:
    """One in-memory ZooKeeper; a tool's session to look and write with; brokers as mere registrations."""

    def __init__(self, seed: int = 1) -> None:
        self.server = SimulatedZooKeeper(Random(seed))
        self.tool = SimulatedZooKeeperClient(self.server, session_timeout_ms=600_000)
        self.tool.listen(_ignore)
        self._broker_sessions: dict[int, SimulatedZooKeeperClient] = {}

    async def start(self) -> "World":
        await self.tool.start_session()
        return self

    def start_controller(self, controller_id: int = 1001, **settings: Any) -> RunningController:
        port = 9000 + controller_id
        endpoints = (Endpoint("controller", port), Endpoint("controller", 10_000 + port, "CONTROL"))
        own = {name: settings.pop(name) for name in ("as_broker", "profile", "supported_features") if name in settings}
        if settings.pop("governs_kafka", False):
            settings["klamm_broker_protocol"] = "kafka"
        named = Settings(**{_SETTINGS.get(name, name): value for name, value in settings.items()})
        config = ControllerConfig(ControllerId(controller_id), endpoints, named, **{"profile": PROFILE, **own})
        return RunningController(self, controller_id, config)

    async def start_broker(self, *brokers: int, rack: str | None = None, damaged: bool = False) -> None:
        """`damaged`: with a registration that announces a report of damaged replicas."""
        for broker in brokers:
            session = SimulatedZooKeeperClient(self.server, session_timeout_ms=SESSION_MS)
            session.listen(_ignore)
            await session.start_session()
            record = Broker(BrokerId(broker), (Endpoint(f"host{broker}", 9092),), rack, has_damaged_replicas=damaged)
            path = broker_path(record.id)
            await session.multi([Create(path, b"", ephemeral=True), SetData(path, encode_broker(record, 1), 0)])
            self._broker_sessions[broker] = session

    async def stop_broker(self, *brokers: int) -> None:
        for broker in brokers:
            await self._broker_sessions.pop(broker).close()

    async def broker_epoch(self, broker: int) -> BrokerEpoch:
        znode = await self.tool.get(broker_path(BrokerId(broker)))
        assert znode is not None
        return BrokerEpoch(znode.stat.czxid)

    async def write(self, *ops: Op) -> None:
        results = await self.tool.multi(ops)
        assert all(result.ok for result in results), results

    async def create(self, path: str, data: bytes = b"") -> None:
        """Create a node and its parents."""
        parts = path.strip("/").split("/")
        for length in range(1, len(parts)):
            await self.tool.multi([Create("/" + "/".join(parts[:length]))])
        await self.write(Create(path, data))

    async def delete(self, path: str) -> None:
        await self.write(Delete(path))

    async def create_topic(self, topic: str, *replicas: Sequence[int], topic_id: str | None = None) -> None:
        """As an administration tool does it: only the topic node."""
        partitions = {p: ReplicaAssignment(tuple(map(BrokerId, r))) for p, r in enumerate(replicas)}
        await self.create(topic_path(topic), encode_topic(TopicAssignment(partitions, topic_id)))

    async def topic(self, topic: str) -> TopicAssignment | None:
        znode = await self.tool.get(topic_path(topic))
        return None if znode is None else decode_topic(topic, znode.data)

    async def state(self, topic: str, partition: int = 0) -> LeaderAndIsr | None:
        tp = TopicPartition(topic, partition)
        znode = await self.tool.get(state_path(tp))
        return None if znode is None else decode_state(tp, znode.data, znode.stat.version)  # type: ignore[arg-type]

    async def leads(
        self, topic: str, partition: int = 0, *, leader: int, isr: Sequence[int] | None = None
    ) -> LeaderAndIsr:
        """Wait until ZooKeeper says so."""

        async def as_wanted() -> LeaderAndIsr | None:
            state = await self.state(topic, partition)
            fits = state is not None and state.leader == leader and (isr is None or state.isr == tuple(isr))
            return state if fits else None

        return await until(as_wanted, f"{topic}-{partition} led by {leader} with ISR {isr}")


async def running_cluster(*brokers: int, **settings: Any) -> tuple[World, RunningController]:
    """An active controller, and brokers that it knows and has told what there is to tell."""
    world = await World().start()
    c = world.start_controller(**settings)
    await until(lambda: c.is_active, "active")
    await world.start_broker(*brokers)
    await until(lambda: c.gauge("ActiveBrokerCount") == len(brokers), "brokers known")
    await quiesce()
    return world, c


async def until(condition: Callable[[], Any | Awaitable[Any]], what: str = "", *, deadline_s: float = 60) -> Any:
    """Poll for a truthy value until a deadline in virtual time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert loop.time() < end, f"not within {deadline_s} s: {what}"
        await asyncio.sleep(0.01)


async def quiesce(seconds: float = 0.5) -> None:
    """Let everything that is under way come to rest; virtual time costs nothing."""
    await asyncio.sleep(seconds)


def _ignore(_notification: WatchEvent | SessionEvent) -> None:
    pass
