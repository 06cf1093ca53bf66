"""Makes the active controller of each won election, with what a candidate has for as long as its process lives."""

import asyncio
from collections.abc import Callable
from random import Random

from cluster.aio.clock import WallClock
from cluster.aio.tasks import TaskSet
from cluster.zookeeper.port import ZooKeeper
from controller.active_controller import ActiveController
from controller.broker_channels import BrokerChannels, OnAnswer
from controller.config import ControllerConfig
from controller.context.controller_context import ControllerContext
from controller.controller_election import ElectedEpoch
from controller.dispatch import dispatch
from controller.dynamic_settings import DynamicSettings
from controller.events import Event
from controller.metrics import ControllerMetrics, FailoverTimings
from controller.mutation_quotas import MutationQuotas
from controller.ports import BrokerClient
from state_log.record import StateChangeSink
from state_log.witnessed_heads import WitnessedHeads


class ActiveControllers:
    """Of one candidate. `enqueue`: puts an event at the end of its event loop's queue."""

    def __init__(
        self,
        *,
        config: ControllerConfig,
        settings: DynamicSettings,
        mutation_quotas: MutationQuotas,
        zookeeper: ZooKeeper,
        broker_client: BrokerClient,
        sink: StateChangeSink,
        heads: WitnessedHeads,
        metrics: ControllerMetrics,
        clock: WallClock,
        random: Random,
        tasks: TaskSet,
        enqueue: Callable[[Event], None],
    ) -> None:
        self._config, self._settings, self._zookeeper = config, settings, zookeeper
        self._broker_client, self._sink, self._heads = broker_client, sink, heads
        self._mutation_quotas = mutation_quotas
        self._metrics, self._clock, self._random = metrics, clock, random
        self._tasks, self._enqueue = tasks, enqueue

    def begin(self, elected: ElectedEpoch, on_answer: OnAnswer) -> ActiveController:
        """The active controller of a new controller epoch, which knows nothing yet."""
        registry = self._metrics.registry
        timings = FailoverTimings(registry, asyncio.get_running_loop().time(), elected.vacant_since)
        channels = BrokerChannels(
            self._broker_client,
            self._tasks,
            registry,
            listeners=self._config.listeners,
            timings=timings,
            on_answer=on_answer,
            heads=self._heads,
        )
        return ActiveController(
            ControllerContext(elected.epoch, elected.epoch_zk_version, asyncio.get_running_loop().time),
            self._zookeeper,
            react=dispatch,
            config=self._config,
            settings=self._settings,
            mutation_quotas=self._mutation_quotas,
            channels=channels,
            brokers=self._broker_client,
            sink=self._sink,
            clock=self._clock,
            metrics=self._metrics,
            timings=timings,
            random=self._random,
            enqueue=self._enqueue,
            run_aside=lambda coroutine: self._tasks.start(coroutine, name="questions to brokers"),
        )
