"""Random faults on candidates: sessions expire, connections break, tools overwrite `/controller`; one ends up active.

Each seed is one course of faults. Failures name the seed; `run_virtually` makes it the same each time.
"""

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final

import pytest

from cluster.model.broker import ControllerEpoch, ControllerId
from cluster.model.errors import OutcomeUnknownError
from cluster.znodes.controller import decode_controller_epoch, encode_controller_epoch
from cluster.znodes.paths import CONTROLLER, CONTROLLER_EPOCH, controller_registration_path
from cluster.zookeeper.port import Delete, Op, SetData
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

SEEDS: Final = 40
FAULTS: Final = 25
IDS: Final = (1001, 1002, 1003)


class Weather:
    """What can happen to candidates; each method is one fault."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random = world, Random(seed)
        self.candidates = {number: self._start(number) for number in IDS}
        self.seen_epochs: list[int] = []
        self.faults: list[Callable[[], Awaitable[None]]] = [
            self.expire,
            self.disconnect,
            self.hang,
            self.lose_writes,
            self.lose_writes,
            self.restart,
            self.delete_controller,
            self.overwrite_controller,
            self.raise_epoch,
            self.delete_registration,
        ]

    def _start(self, number: int) -> RunningController:
        c = self.world.start_controller(number)
        self._shake(c.zookeeper)
        return c

    def _shake(self, client: SimulatedZooKeeperClient) -> None:
        """Let the transactions in `self.losses` be lost there, lost back, or arrive late."""
        original = client.multi_many
        self.losses = 0

        async def multi_many(transactions: Sequence[Sequence[Op]]) -> list[Any]:
            if not self.losses or self.random.random() < 0.5:
                return await original(transactions)
            self.losses -= 1
            if self.random.random() < 0.5:
                await original(transactions)
            return [OutcomeUnknownError("lost") for _ in transactions]

        client.multi_many = multi_many  # type: ignore[method-assign]

    def _any(self) -> RunningController:
        return self.random.choice(list(self.candidates.values()))

    async def expire(self) -> None:
        self._any().zookeeper.expire()

    async def disconnect(self) -> None:
        self._any().zookeeper.disconnect(self.random.choice((0.05, 0.5, 3.0, 9.0)))

    async def hang(self) -> None:
        client = self._any().zookeeper
        client.pause()
        await quiesce(self.random.choice((0.5, 3.0, 9.0)))
        client.resume()

    async def lose_writes(self) -> None:
        self.losses += self.random.randrange(1, 6)

    async def restart(self) -> None:
        number = self.random.choice(IDS)
        if self.random.random() < 0.5:
            self.candidates[number].crash()
        else:
            await self.candidates[number].stop()
        self.candidates[number] = self._start(number)

    async def delete_controller(self) -> None:
        await self.world.tool.multi([Delete(CONTROLLER)])

    async def overwrite_controller(self) -> None:
        # Malformed values only: a well-formed id counts as the active controller, as in Kafka.
        await self.world.tool.multi([SetData(CONTROLLER, self.random.choice((b"", b"no json", b"{}")))])

    async def raise_epoch(self) -> None:
        znode = await self.world.tool.get(CONTROLLER_EPOCH)
        if znode is not None:
            epoch = ControllerEpoch(decode_controller_epoch(znode.data) + self.random.randrange(3))
            await self.world.tool.multi([SetData(CONTROLLER_EPOCH, encode_controller_epoch(epoch))])

    async def delete_registration(self) -> None:
        await self.world.tool.multi([Delete(controller_registration_path(ControllerId(self.random.choice(IDS))))])


async def check_that_one_is_active(weather: Weather, topic: str) -> None:
    world = weather.world
    # The next write finds out about an epoch that was changed by hand.
    await world.create_topic(topic, [1])
    await world.leads(topic, leader=1)
    await quiesce(5)
    (active,) = [c for c in weather.candidates.values() if c.is_active]
    assert [c.controller.is_active for c in weather.candidates.values()].count(True) == 1
    znode, epoch = await world.tool.get(CONTROLLER), await world.tool.get(CONTROLLER_EPOCH)
    assert znode is not None
    assert epoch is not None
    assert znode.stat.ephemeral_owner == active.zookeeper.session_id
    assert active.context.epoch == decode_controller_epoch(epoch.data)
    assert active.context.epoch_zk_version == epoch.stat.version
    weather.seen_epochs.append(active.context.epoch)
    for number, c in weather.candidates.items():
        registration = await world.tool.get(controller_registration_path(ControllerId(number)))
        assert registration is not None
        assert registration.stat.ephemeral_owner == c.zookeeper.session_id


@pytest.mark.rule("EL-1", "EL-3", "EL-5", "EL-7", "EL-9", "EL-10", "EL-12", "EL-20", "EL-23", "INV-5", "D-2", "D-26")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_exactly_one_candidate_is_active_in_the_end(seed: int) -> None:
    async def main() -> None:
        world = await World().start()
        weather = Weather(world, seed)
        await until(lambda: any(c.is_active for c in weather.candidates.values()))
        await world.start_broker(1)
        for number in range(FAULTS):
            await weather.random.choice(weather.faults)()
            await quiesce(weather.random.choice((0.0, 0.005, 0.05, 0.5, 2.0)))
            if number % 5 == 4:
                weather.losses = 0
                await quiesce(30)
                await check_that_one_is_active(weather, f"t{number}")
        assert weather.seen_epochs == sorted(weather.seen_epochs)
        for c in weather.candidates.values():
            await c.stop()

    run_virtually(main)
