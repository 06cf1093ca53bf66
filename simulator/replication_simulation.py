"""Simulates one partition under load with crashes, pauses, power failures, broken links and leader changes.

No committed record may be lost, and replicas must never disagree about one. A checker observes all replicas after every
callback of the event loop.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final, Literal

from broker_agent.log.record_batch import parse_header
from cluster.config.settings import Settings
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests.data import (
    FetchPartition,
    FetchRequest,
    ProducePartition,
    ProduceRequest,
)
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from simulator.actions import Action, Weights, draw_action
from simulator.cluster import SimulatedCluster, draw_protocol
from simulator.convergence import check_state_change_logs
from simulator.nodes import LOG_DIRECTORY, SimulatedAgent, SimulatedNode
from simulator.record_batches import encode_client_batch
from simulator.replication_checker import ReplicationChecker
from simulator.run import Simulation
from simulator.violations import CONVERGENCE, violated
from simulator.virtual_time_loop import virtual_loop

TruncationMode = Literal["fetch", "epoch-query"]

PARTITION: Final = TopicPartition("orders", 0)
_BROKERS: Final = (BrokerId(1), BrokerId(2), BrokerId(3))


class ReplicationSimulation(Simulation):
    """Clients produce and consume while agents fail in every way that must not lose a committed record."""

    workload = "replication"

    def __init__(
        self,
        seed: int,
        truncation_mode: TruncationMode,
        version: ProtocolVersion | None = None,
        *,
        log_directories: Sequence[str] = (LOG_DIRECTORY,),
        min_free_bytes: int | None = None,
    ) -> None:
        """Simulate followers with `klamm.replica.truncation.mode` set to `truncation_mode`.

        `version` is that of the protocol; it is drawn if not given. `min_free_bytes`: `klamm.log.dir.min.free.bytes`.
        """
        chance = Random(f"replication-safety/{seed}/{truncation_mode}")
        settings = Settings(
            min_insync_replicas=chance.choice((1, 2)),
            zookeeper_session_timeout_ms=2000,
            replica_lag_time_max_ms=1500,
            replica_fetch_wait_max_ms=chance.choice((50, 500)),
            replica_fetch_backoff_ms=100,
            replica_socket_timeout_ms=1000,
            # With one slot only one follower of a leader has a session.
            max_incremental_fetch_session_cache_slots=Random(f"sessions/{seed}/{truncation_mode}").choice(
                (1, 1000, 1000)
            ),
            request_timeout_ms=1000,
            replica_high_watermark_checkpoint_interval_ms=700,
            log_flush_interval_ms=chance.choice((500, 60_000)),
            log_flush_offset_checkpoint_interval_ms=900,
            # From a separate generator, so that known failing seeds still draw the same faults.
            log_segment_bytes=Random(f"segments/{seed}/{truncation_mode}").choice((300, 2000, 1 << 30)),
            klamm_replica_truncation_mode=truncation_mode,
            klamm_log_dir_min_free_bytes=min_free_bytes,
            inter_broker_protocol_version=(
                draw_protocol(f"replication/{seed}/{truncation_mode}") if version is None else version
            ),
        )
        cluster = SimulatedCluster(
            seed, controllers=2, brokers=len(_BROKERS), settings=settings, log_directories=log_directories
        )
        super().__init__(cluster, chance)
        self.checker = ReplicationChecker(self.cluster, PARTITION)
        self._sent = 0
        self._out_of_contact_until = 0.0
        self._is_over = False

    async def prepare(self) -> None:
        """Start all nodes and clients, create the topic, and observe the replicas after each step from now on."""
        virtual_loop().after_step = self.checker.observe
        self.cluster.start_all()
        await self._create_topic()
        self.background.start(self._load())

    def weights(self) -> Weights:
        """The actions and their weights."""
        return {
            self.crash: 4,
            self.lose_power: 4,
            self.restart: 9,
            self.cut: 5,
            self.heal: 5,
            self.expire: 5,
            self.hang: 4,
            self.lose_controller: 2,
            self.end_fetch_session: 3,
        }

    def choose(self) -> Action:
        """Draw the next action by its weight."""
        return draw_action(self._random, self.weights())

    async def pause(self) -> None:
        """Wait for a random time between two actions, a second on average."""
        await asyncio.sleep(self._random.expovariate(1))

    async def _create_topic(self) -> None:
        cluster = self.cluster
        await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
        ids = cluster.zookeeper.tree.children
        await cluster.until(lambda: len(ids("/brokers/ids") or ()) == len(_BROKERS), "all agents registered")
        active = cluster.active_controller()
        assert active is not None, "there was one a moment ago"
        topic = NewTopic(PARTITION.topic, assignments={0: _BROKERS})
        await cluster.network.call("client", active.address, CreateTopicsRequest((topic,)))
        await cluster.until(lambda: len(self.checker.replicas) == len(_BROKERS), "all replicas hosted")

    # Clients

    async def _load(self) -> None:
        while not self._is_over:
            act = self._random.choices((self._produce, self._consume), (6, 1))[0]
            for _ in range(self._random.choice((1, 1, 1, 4))):
                self.background.start(act())
            await asyncio.sleep(self._random.expovariate(5))

    def _some_leader(self) -> SimulatedAgent | None:
        """An agent that believes to be leader; with several, a random one."""
        leaders = [broker for broker, replica in sorted(self.checker.replicas.items()) if replica.view.leads]
        return self.cluster.agents[BrokerId(self._random.choice(leaders))] if leaders else None

    async def _produce(self) -> None:
        leader = self._some_leader()
        if leader is None:
            return
        self._sent += 1
        count, acks = self._random.randint(1, 3), self._random.choice((-1, -1, 1, 0))
        records = encode_client_batch(
            b"%08d" % self._sent, count, timestamp=self.cluster.clock.now_ms(), gzip=self._sent % 5 == 0
        )
        crc = parse_header(records).crc
        self.checker.sent.add(crc)
        request = ProduceRequest(acks, 3000, (ProducePartition(PARTITION.topic, PARTITION.partition, records),))
        answer = await self.cluster.network.call("client", leader.address, request)
        if answer.partitions[0].error_code is ErrorCode.NONE and acks == -1:
            self.checker.add_acknowledged(answer.partitions[0].base_offset, crc)

    async def _consume(self) -> None:
        leader = self._some_leader()
        if leader is None:
            return
        end = self.checker.replicas[leader.id].view.high_watermark
        item = FetchPartition(PARTITION.topic, None, PARTITION.partition, Offset(self._random.randint(0, end)), 1 << 20)
        request = FetchRequest(BrokerId(-1), (item,), 500, 1, 1 << 20)
        answer = await self.cluster.network.call("client", leader.address, request)
        if answer.partitions[0].error_code is ErrorCode.NONE:
            self.checker.add_read(answer.partitions[0].records, answer.partitions[0].high_watermark)

    # Faults

    def _running(self) -> list[SimulatedAgent]:
        return [agent for agent in self.cluster.agents.values() if agent.is_running]

    async def crash(self) -> None:
        """Kill an agent, unless it is the only one that runs."""
        if len(self._running()) > 1:
            victim = self._random.choice(self._running())
            victim.crash()
            self.checker.process_ended(victim, power_failed=False)

    async def lose_power(self) -> None:
        """Cut the power only if an intact ISR member stays alive and registered; otherwise records may legitimately
        be lost.
        """
        with suppress(TimeoutError):
            await self.cluster.until(self._is_calm, "all that run are registered", timeout_s=8)
            running = self._running()
            victim = self._random.choice(running)
            if any(agent.id in self.checker.sound_isr for agent in running if agent is not victim):
                victim.lose_power()
                self.checker.process_ended(victim, power_failed=True)
                # Nor may one that fetched before be granted to join yet, where a leader has asked for it.
                await self.cluster.until(
                    lambda: victim.id not in self._isr() | self._isr_of_leaders(),
                    "the victim is out of the ISR",
                    timeout_s=8,
                )

    def _registered(self) -> list[SimulatedAgent]:
        names = self.cluster.zookeeper.tree.children("/brokers/ids") or ()
        return [agent for agent in self._running() if str(agent.id) in names]

    def _is_calm(self) -> bool:
        names = self.cluster.zookeeper.tree.children("/brokers/ids") or ()
        alive = {str(agent.id) for agent in self._running()}
        in_contact = asyncio.get_running_loop().time() >= self._out_of_contact_until
        return alive == set(names) and in_contact and bool(alive) and self._isr() <= {int(name) for name in names}

    def _isr_of_leaders(self) -> set[int]:
        """The members of the ISR that may be in effect, as the leaders see it."""
        views = (replica.view for replica in self.checker.replicas.values())
        return {member for view in views if view.leads for member in view.maximal}

    def _isr(self) -> set[int]:
        return set() if self.checker.state is None else set(self.checker.state.isr)

    async def restart(self) -> None:
        """Start an ended agent once its old registration has expired."""
        dead = [agent for agent in self.cluster.agents.values() if not agent.is_running]
        if dead:
            # Its registration must have expired; until then a new process cannot register the id.
            await asyncio.sleep(2.5)
            self._random.choice(dead).start()

    def _link(self, one: SimulatedNode, other: SimulatedNode) -> list[tuple[str, str]]:
        ends = [(node.incarnations[-1].source, node.address) for node in (one, other) if node.incarnations]
        (source, address), (other_source, other_address) = ends
        return [
            (source, other_address),
            (other_address, source),
            (other_source, address),
            (address, other_source),
        ]

    async def cut(self) -> None:
        """Break one or both directions between two nodes, permanently or for some time."""
        agent = self._random.choice(list(self.cluster.agents.values()))
        other = self._random.choice([node for node in self.cluster.nodes if node is not agent])
        directions = self._link(agent, other)
        for source, target in directions if self._random.random() < 0.6 else directions[:2]:
            self.cluster.network.cut(source, target)

    async def heal(self) -> None:
        """Repair every broken link."""
        self.cluster.network.heal_all()

    async def expire(self) -> None:
        """Expire a live broker's session; sometimes it cannot reconnect for long."""
        registered = self._registered()
        if not registered:
            return
        process = self._random.choice(registered).incarnations[-1]
        if self._random.random() < 0.5:
            process.zookeeper.expire()
            return
        process.zookeeper.disconnect(self._some_seconds_out_of_contact())

    async def hang(self) -> None:
        """Pause a process for less or more than its session timeout."""
        awake = self.cluster.awake()
        if awake:
            self.cluster.hang(self._random.choice(awake), self._some_seconds_out_of_contact())

    def _some_seconds_out_of_contact(self) -> float:
        seconds = self._random.uniform(0.5, 5)
        self._out_of_contact_until = max(self._out_of_contact_until, asyncio.get_running_loop().time() + seconds)
        return seconds

    async def lose_controller(self) -> None:
        """Kill the active controller, or start the one that was killed."""
        active = self.cluster.active_controller()
        standby = [node for node in self.cluster.controllers.values() if not node.is_running]
        if standby:
            standby[0].start()
        elif active is not None:
            active.crash()

    async def end_fetch_session(self) -> None:
        """Let a leader end a follower's fetch session, as if another one had taken its slot."""
        managers = [agent.agent.manager for agent in self._running() if agent.agent is not None]
        found = [(manager.fetch_sessions, session) for manager in managers for session in manager.fetch_sessions]
        if found:
            sessions, session = self._random.choice(found)
            sessions.end(session)

    async def converge(self) -> None:
        """End all faults, and wait until all replicas are in sync with the same records. Raises ViolationError."""
        self._is_over = True
        await self.heal()
        self.cluster.resume_all()
        await self.background.wait()
        await asyncio.sleep(6)
        for node in self.cluster.nodes:
            if not node.is_running:
                node.start()
        try:
            await self.cluster.until(self._is_in_sync, "all replicas in sync", timeout_s=180)
            self.background.start(self._produce())
            await self.background.wait()
            await self.cluster.until(self._is_level, "all replicas the same", timeout_s=60)
        except TimeoutError as error:
            raise violated(CONVERGENCE, f"{error}: {self.checker.state}") from None

    def check(self) -> None:
        """Check the records of all replicas, and the state-change logs. Raises ViolationError."""
        self.checker.check_end(self.cluster.agents)
        check_state_change_logs(self.cluster)

    def _is_in_sync(self) -> bool:
        state = self.checker.state
        return state is not None and state.leader >= 0 and len(state.isr) == len(_BROKERS)

    def _is_level(self) -> bool:
        views = [replica.view for replica in self.checker.replicas.values()]
        return len({(view.end, view.high_watermark) for view in views}) == 1 and views[0].end == views[0].high_watermark
