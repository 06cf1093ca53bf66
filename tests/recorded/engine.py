"""Replays one scenario on one cluster: runs each step, waits until nothing changes, and records a snapshot.

All times are those of the event loop, so the same engine runs on real processes and, in virtual time, on the
simulator.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Set
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from cluster.model.errors import ZooKeeperError
from cluster.zookeeper.port import Delete, ZooKeeper
from tests.recorded.administration import commit, write, write_by_hand
from tests.recorded.conditions import holds
from tests.recorded.scenario import (
    CreateTopic,
    DeleteControllerZnode,
    DeleteTopic,
    GrowTopic,
    Kill,
    KillController,
    Pause,
    PauseController,
    PreferredElection,
    Produce,
    Reassign,
    RestartController,
    Resume,
    ResumeController,
    Scenario,
    SetTopicConfig,
    Start,
    StartBrokers,
    Step,
    Stop,
    Wait,
    WriteZnode,
)
from tests.recorded.snapshot import Snapshot, controller_epoch, take_snapshot

POLL_S = 0.2


class ClusterDriver(Protocol):
    """A cluster that can be put through a scenario: two controller candidates, and data brokers.

    A call returns when the thing is done or under way; waiting is the engine's part. Before the engine starts one
    controller is active, and no broker runs. `zookeeper` is a session of the engine's own.
    """

    @property
    def zookeeper(self) -> ZooKeeper: ...

    @property
    def controllers(self) -> Set[int]:
        """Ids that are never data brokers."""

    async def restart_exited(self) -> None:
        """Called while the engine waits: start again what gave up starting, as a supervisor would."""

    async def start_brokers(self, racks: Mapping[int, str | None]) -> None: ...

    async def start_broker(self, broker: int, *, wipe: bool) -> None: ...

    async def stop_broker(self, broker: int) -> None:
        """Controlled shutdown; returns when the broker has ended."""

    async def kill_broker(self, broker: int) -> None: ...

    async def pause_broker(self, broker: int) -> None: ...

    async def resume_broker(self, broker: int) -> None: ...

    async def kill_controller(self) -> None:
        """Kill the active one and delete its ephemerals at once; returns when the other is active."""

    def election(self) -> AbstractAsyncContextManager[None]:
        """Around what makes /controller vacant: only a controller becomes active, never a data broker."""

    async def restart_controllers(self) -> None:
        """Start those that were killed."""

    async def pause_controller(self, *, expire: bool) -> None:
        """Hang the active one. `expire`: also delete /controller; returns when the other is active and the
        session of the hanging one is gone."""

    async def resume_controllers(self) -> None: ...

    async def produce(self, topic: str, partition: int, count: int, acks: str) -> int:
        """Send `count` small records; how many were acknowledged within about 20 s."""


class StepResult(Struct, frozen=True):
    """What one step came to. `met` and `quiet` are None for a step that did not wait, `snapshot` for one that was
    not recorded."""

    outcome: dict[str, Any]
    met: bool | None = None
    quiet: bool | None = None
    snapshot: Snapshot | None = None

    def fields(self) -> dict[str, Any]:
        """Flat, under the names of the golden traces."""
        found: dict[str, Any] = {"outcome": self.outcome, **(self.snapshot or {})}
        if self.met is not None:
            found.update(until_met=self.met, quiet=self.quiet)
        return found


async def replay(scenario: Scenario, driver: ClusterDriver, say: Callable[[str], None]) -> list[StepResult]:
    engine = _Engine(driver, await controller_epoch(driver.zookeeper))
    results = []
    for index, step in enumerate(scenario.steps):
        say(f"{scenario.name} {index}: {msgspec.json.encode(step).decode()}")
        results.append(await engine.run(step))
    return results


class _Engine:
    def __init__(self, driver: ClusterDriver, epoch_base: int) -> None:
        self._driver, self._zookeeper, self._epoch_base = driver, driver.zookeeper, epoch_base
        self._random = random.Random(0)

    async def run(self, step: Step) -> StepResult:
        epoch_delta = await controller_epoch(self._zookeeper) - self._epoch_base
        outcome = await self._act(step)
        if not step.wait:
            return StepResult(outcome)
        met, quiet, snapshot = await self._wait(step, epoch_delta)
        return StepResult(outcome, met, quiet, snapshot if step.snapshot else None)

    async def _act(self, step: Step) -> dict[str, Any]:
        """Empty when there is nothing to tell; {"acked": n} of produce; {"error": kind} of a refused write."""
        match step:
            case Produce(topic=topic, partition=partition, count=count, acks=acks):
                return {"acked": await self._driver.produce(topic, partition, count, str(acks))}
            case Wait(seconds=seconds):
                await asyncio.sleep(seconds)
                return {}
            case CreateTopic() | GrowTopic() | DeleteTopic() | Reassign() | PreferredElection() | SetTopicConfig():
                return await write(self._zookeeper, step, self._random)
            case WriteZnode():
                return await write_by_hand(self._zookeeper, step)
            case DeleteControllerZnode():
                async with self._driver.election():
                    return await commit(self._zookeeper, [Delete("/controller")])
            case _:
                await self._disturb(step)
                return {}

    async def _disturb(self, step: Step) -> None:
        driver = self._driver
        match step:
            case StartBrokers(brokers=brokers, racks=racks):
                await driver.start_brokers({broker: racks.get(broker) for broker in brokers})
            case Kill(broker=broker):
                await driver.kill_broker(broker)
            case Stop(broker=broker):
                await driver.stop_broker(broker)
            case Start(broker=broker, wipe=wipe):
                await driver.start_broker(broker, wipe=wipe)
            case Pause(broker=broker):
                await driver.pause_broker(broker)
            case Resume(broker=broker):
                await driver.resume_broker(broker)
            case KillController():
                await driver.kill_controller()
            case RestartController():
                await driver.restart_controllers()
            case PauseController(expire=expire):
                await driver.pause_controller(expire=expire)
            case ResumeController():
                await driver.resume_controllers()
            case _:
                raise AssertionError(f"no driver call for {step}")

    async def _wait(self, step: Step, epoch_delta: int) -> tuple[bool, bool, Snapshot | None]:
        """Until the conditions hold and the picture has rested for the step's quiet time, or its time is up."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + step.max_s
        last: Snapshot | None = None
        since = loop.time()
        while True:
            await self._driver.restart_exited()
            try:
                snapshot = await take_snapshot(self._zookeeper, self._driver.controllers, self._epoch_base)
            except ZooKeeperError:
                snapshot = None
            now = loop.time()
            if snapshot is None or snapshot != last:
                last, since = snapshot, now
            shown = last
            met = shown is not None and all(holds(c, shown, epoch_delta) for c in (*step.until, *step.implied))
            quiet = shown is not None and now - since >= step.quiet_seconds
            if (met and quiet) or now > limit:
                return met, quiet, shown
            await asyncio.sleep(POLL_S)
