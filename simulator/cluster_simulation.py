"""Simulates clusters under random faults and requests; once the faults end, the cluster must converge."""

import asyncio
from random import Random
from typing import Final

from cluster.config.settings import Settings
from simulator.actions import Action, Limit, Weights, draw_action
from simulator.cluster import DEFAULT_SETTINGS, SimulatedCluster, draw_protocol
from simulator.convergence import check_context, check_gauges, check_standbys, check_state_change_logs, differences
from simulator.faults import Faults, Supervisor
from simulator.replica_contents import are_level, check_contents
from simulator.run import Simulation
from simulator.violations import CONVERGENCE, violated
from simulator.workload import AdminWorkload, Producers

_CONTROLLERS: Final = 3
_BROKERS: Final = 4
_REQUEST_TIMEOUT_S: Final = 60
_CONVERGENCE_S: Final = 240
_LEVEL_S: Final = 60


class ClusterSimulation(Simulation):
    """Administrative requests during crashes, pauses, shutdowns, session expiries, lost responses and broken links."""

    workload = "admin"

    def __init__(self, seed: int, settings: Settings = DEFAULT_SETTINGS, kafka_brokers: int = 0) -> None:
        # Drawn from a generator of its own, so that known seeds still draw the same faults.
        elect_first = Random(f"elect first/{seed}").random() < 0.5
        settings = settings.model_copy(update={"klamm_failover_elect_first": elect_first})
        cluster = SimulatedCluster(
            seed, controllers=_CONTROLLERS, brokers=_BROKERS, kafka_brokers=kafka_brokers, settings=settings
        )
        super().__init__(cluster, Random(seed), request_timeout_s=_REQUEST_TIMEOUT_S)
        self.supervisor = Supervisor(cluster)
        self.faults = Faults(cluster, self._random, self.background, self.supervisor)
        self.admin = AdminWorkload(cluster, self._random, self.background)

    def weights(self) -> Weights:
        """The actions and their weights."""
        return self.admin.topic_requests() | self.faults.common()

    async def prepare(self) -> None:
        """Start all nodes, and wait for an active controller."""
        await self.admin.zookeeper.start_session()
        await self.start_nodes()

    async def start_nodes(self) -> None:
        """Start all nodes in the order in which they are listed, and wait for an active controller."""
        for node in self.cluster.nodes:
            self.supervisor.start(node)
        await self.cluster.until(lambda: self.cluster.active_controller() is not None, "an active controller")

    def choose(self) -> Action:
        """Draw the next action by its weight."""
        return draw_action(self._random, self.weights())

    async def pause(self) -> None:
        """Wait for a random time between two actions, mostly a short one, so that actions meet."""
        await asyncio.sleep(self._random.choice((0.0, 0.002, 0.02, 0.3, 2.0)))
        self.supervisor.end_failed_starts()

    async def converge(self) -> None:
        """End all faults, and wait until the cluster has the state that was asked for. Raises ViolationError."""
        self.faults.end_all()
        await self.background.wait()
        self.raise_first_error()
        try:
            await self.cluster.until(self._has_converged, "the cluster has converged", _CONVERGENCE_S)
        except TimeoutError as error:
            raise violated(CONVERGENCE, "\n".join([str(error), *differences(self.cluster)])) from None

    def _has_converged(self) -> bool:
        return self.supervisor.start_all() and not differences(self.cluster)

    def check(self) -> None:
        """Check memory, metrics and state-change logs of the converged cluster. Raises ViolationError."""
        active = self.cluster.active_controller()
        assert active is not None, "the cluster has converged"
        check_context(active.context)
        check_standbys(self.cluster)
        check_gauges(self.cluster)
        if self.cluster.settings.inter_broker_protocol_version.assigns_topic_ids:
            # Records of topics of the same name differ in nothing else.
            check_state_change_logs(self.cluster)


class LoadedClusterSimulation(ClusterSimulation):
    """The same with producers, elections, config changes, network partitions and, in some runs, power failures.

    No acknowledged record may be lost without a power failure; the replicas end with the same records in any case.
    """

    workload = "load"

    def __init__(self, seed: int) -> None:
        chance = Random(f"settings/{seed}")
        super().__init__(seed, _draw_settings(chance, seed))
        self.power_fails = chance.random() < 0.4
        if chance.random() < 0.5:
            self.cluster.network.latency_s = (0.0002, chance.choice((0.02, 0.2, 0.8)))
        self.producers = Producers(self.cluster, self._random, self.background)

    def weights(self) -> Weights:
        """The actions and their weights; power failures only in some runs."""
        more = self.admin.leader_and_config_requests() | self.faults.partitions()
        return super().weights() | more | (self.faults.power_failures() if self.power_fails else {})

    async def run(self, limit: Limit) -> None:
        """Run with producers, then check that all replicas end with the same records. Raises ViolationError."""
        load = asyncio.get_running_loop().create_task(self.producers.run())
        try:
            await super().run(limit)
        finally:
            self.producers.stop()
            await load
        try:
            await self.cluster.until(lambda: are_level(self.cluster), "all replicas end alike", _LEVEL_S)
        except TimeoutError as error:
            raise violated("P39", str(error)) from None
        check_contents(self.cluster, self.producers.acknowledged, may_lose=self.power_fails)

    async def converge(self) -> None:
        """Stop the producers, then converge as without them."""
        # On a slow network followers would never catch up with a leader that continues to append.
        self.producers.stop()
        await super().converge()


def _draw_settings(chance: Random, seed: int) -> Settings:
    return Settings(
        inter_broker_protocol_version=draw_protocol(f"load/{seed}"),
        zookeeper_session_timeout_ms=chance.choice((2000, 6000)),
        replica_lag_time_max_ms=chance.choice((1000, 4000)),
        min_insync_replicas=chance.choice((1, 2)),
        auto_leader_rebalance_enable=chance.random() < 0.5,
        leader_imbalance_check_interval_seconds=3,
        replica_socket_timeout_ms=chance.choice((1000, 30_000)),
        num_replica_fetchers=chance.choice((1, 3)),
        klamm_replica_truncation_mode=chance.choice(("fetch", "epoch-query")),
        log_segment_bytes=chance.choice((400, 5000)),
        log_segment_delete_delay_ms=chance.choice((10, 60_000)),
        log_flush_interval_ms=chance.choice((500, 60_000)),
        replica_high_watermark_checkpoint_interval_ms=chance.choice((300, 5000)),
    )
