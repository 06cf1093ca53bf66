"""Config change notifications: in order, each at least once, across session expiries and failing readers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import pytest

from cluster.znodes.configs import CONFIG_CHANGE_PREFIX, ConfigEntity, encode_config_change
from cluster.znodes.paths import CONFIG_CHANGES
from cluster.zookeeper.config_changes import ConfigChanges
from cluster.zookeeper.port import Create, WatchEvent
from simulator.cluster import VirtualClock
from simulator.virtual_time_loop import VirtualTimeLoop
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient

MINUTE_S = 60


class Listener:
    """`received`: per call whether it was a new session, and the names. The first `failures` calls fail."""

    def __init__(self, failures: int = 0) -> None:
        self.received: list[tuple[bool, list[str]]] = []
        self.failures = failures
        self.server = SimulatedZooKeeper(Random(1))
        self.client = SimulatedZooKeeperClient(self.server)
        self.changes = ConfigChanges(self.client, VirtualClock(), self.take_over)

    async def take_over(self, entities: Sequence[ConfigEntity], *, is_new_session: bool) -> None:
        self.received.append((is_new_session, [entity.name for entity in entities]))
        if self.failures:
            self.failures -= 1
            raise ValueError("settings make no sense")

    async def announce(self, *topics: str) -> None:
        for topic in topics:
            change = encode_config_change(ConfigEntity("topics", topic))
            (result,) = await self.client.multi([Create(CONFIG_CHANGE_PREFIX, change, sequential=True)])
            assert result.ok

    @property
    def left(self) -> int:
        return len(self.server.tree.children(CONFIG_CHANGES) or ())


def run(scenario: Callable[[Listener], Awaitable[None]], **settings: int) -> None:
    async def main() -> None:
        listener = Listener(**settings)
        listener.client.listen(lambda event: isinstance(event, WatchEvent) and listener.changes.changed(event.kind))
        await listener.client.start_session()
        await listener.client.multi([Create("/config")])
        await listener.client.multi([Create(CONFIG_CHANGES)])
        following = asyncio.ensure_future(listener.changes.run())
        await scenario(listener)
        following.cancel()

    VirtualTimeLoop(max_steps=200_000).run_until_complete(main())


@pytest.mark.rule("R15.2", "EP-34")
def test_changes_are_handled_once_in_their_order_and_all_of_them_again_after_a_new_session() -> None:
    async def scenario(listener: Listener) -> None:
        await listener.announce("b", "a", "b")
        listener.changes.start_session()
        await asyncio.sleep(1)
        assert listener.received == [(True, ["b", "a"])]
        await listener.announce("c")
        await asyncio.sleep(1)
        assert listener.received[1:] == [(False, ["c"])]
        listener.changes.start_session()
        await asyncio.sleep(1)
        assert listener.received[2:] == [(True, ["b", "a", "c"])]

    run(scenario)


@pytest.mark.rule("R15.2", "EP-34")
def test_what_could_not_be_taken_over_comes_again() -> None:
    async def scenario(listener: Listener) -> None:
        await listener.announce("a")
        listener.changes.start_session()
        await asyncio.sleep(3)
        assert listener.received == [(True, ["a"])] * 2
        listener.failures = 1
        await listener.announce("b")
        await asyncio.sleep(3)
        assert listener.received[2:] == [(False, ["b"])] * 2

    run(scenario, failures=1)


@pytest.mark.rule("R15.2", "EP-34")
def test_announcements_are_removed_after_a_quarter_of_an_hour() -> None:
    async def scenario(listener: Listener) -> None:
        listener.changes.start_session()
        await listener.announce("a")
        await asyncio.sleep(14 * MINUTE_S)
        await listener.announce("b")
        await asyncio.sleep(1)
        assert listener.left == 2
        await asyncio.sleep(2 * MINUTE_S)
        await listener.announce("c")
        await asyncio.sleep(1)
        assert listener.left == 2

    run(scenario)


def test_nodes_of_other_names_and_malformed_ones_are_passed_over() -> None:
    async def scenario(listener: Listener) -> None:
        for name, data in (("other", b""), ("config_change_x", b""), ("config_change_", b"no json")):
            await listener.client.multi([Create(f"{CONFIG_CHANGES}/{name}", data, sequential=name.endswith("_"))])
        await listener.announce("a")
        listener.changes.start_session()
        await asyncio.sleep(1)
        assert listener.received == [(True, ["a"])]

    run(scenario)
