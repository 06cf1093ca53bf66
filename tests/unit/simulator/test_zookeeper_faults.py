"""The in-memory ZooKeeper beyond the contract: hanging and crashed processes, outages, determinism. Virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from cluster.model.errors import SessionExpiredError, ZooKeeperUnreachableError
from cluster.zookeeper.port import Create, SessionEvent, SessionState, SetData, WatchEvent
from simulator.virtual_time_loop import VirtualTimeLoop
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient

Received = list[tuple[float, WatchEvent | SessionEvent]]


def run(test: Callable[[SimulatedZooKeeper], Awaitable[None]], seed: int = 1) -> SimulatedZooKeeper:
    loop, server = VirtualTimeLoop(), SimulatedZooKeeper(Random(seed))
    loop.run_until_complete(test(server))
    assert loop.unhandled == []
    return server


async def start(server: SimulatedZooKeeper, timeout_ms: int = 2000) -> tuple[SimulatedZooKeeperClient, Received]:
    client, received = SimulatedZooKeeperClient(server, session_timeout_ms=timeout_ms, connection_timeout_ms=1000), []
    loop = asyncio.get_running_loop()
    client.listen(lambda event: received.append((loop.time(), event)))
    await client.start_session()
    return client, received


def states(received: Received) -> list[SessionState]:
    return [event.state for _, event in received if isinstance(event, SessionEvent)]


def test_a_crashed_client_keeps_its_ephemerals_until_its_session_expires() -> None:
    async def test(server: SimulatedZooKeeper) -> None:
        client, received = await start(server)
        observer, _ = await start(server)
        await client.multi([Create("/e", ephemeral=True)])
        client.crash()
        await asyncio.sleep(1.9)
        assert await observer.exists("/e") is not None
        await asyncio.sleep(0.2)
        assert await observer.exists("/e") is None
        assert states(received) == [SessionState.CONNECTED]

    run(test)


def test_a_crash_while_a_session_is_closed_leaves_no_session_behind() -> None:
    async def test(server: SimulatedZooKeeper) -> None:
        client, _ = await start(server)
        closing = asyncio.ensure_future(client.close())
        await asyncio.sleep(0)
        client.pause()
        client.crash()
        await asyncio.sleep(3)
        assert server._sessions == {}
        closing.cancel()

    run(test)


def test_a_crashed_client_writes_nothing_more_but_what_had_left() -> None:
    async def test(server: SimulatedZooKeeper) -> None:
        client, _ = await start(server)
        observer, _ = await start(server)
        calls = [asyncio.ensure_future(client.multi([Create("/before")]))]
        await asyncio.sleep(0)
        client.crash()
        calls.append(asyncio.ensure_future(client.multi([Create("/after")])))
        await asyncio.sleep(1)
        assert await observer.children("/") == ("before",)
        assert not any(call.done() for call in calls)
        for call in calls:
            call.cancel()

    run(test)


def test_a_stopped_client_first_hears_what_had_arrived_and_then_of_its_expiry() -> None:
    async def test(server: SimulatedZooKeeper) -> None:
        client, received = await start(server)
        other, _ = await start(server)
        await client.multi([Create("/a"), Create("/e", ephemeral=True)])
        await client.get("/a", watch=True)
        client.pause()
        await other.multi([SetData("/a", b"1")])
        late = asyncio.ensure_future(client.multi([SetData("/a", b"by a zombie")]))
        await asyncio.sleep(3)
        assert await other.exists("/e") is None
        assert len(received) == 1
        client.resume()
        with pytest.raises(SessionExpiredError):
            await late
        await asyncio.sleep(1)
        assert [type(event) for _, event in received] == [SessionEvent, WatchEvent, SessionEvent, SessionEvent]
        assert states(received) == [SessionState.CONNECTED, SessionState.DISCONNECTED, SessionState.EXPIRED]
        znode = await other.get("/a")
        assert znode is not None
        assert znode.data == b"1"

    run(test)


def test_a_client_stopped_for_less_than_its_session_goes_on() -> None:
    async def test(server: SimulatedZooKeeper) -> None:
        client, received = await start(server)
        await client.multi([Create("/e", ephemeral=True)])
        client.pause()
        await asyncio.sleep(1.5)
        client.resume()
        await asyncio.sleep(1.5)
        assert await client.exists("/e") is not None
        assert states(received) == [SessionState.CONNECTED]

    run(test)


def test_a_session_opened_while_its_client_is_stopped_expires() -> None:
    async def test(server: SimulatedZooKeeper) -> None:
        client, received = SimulatedZooKeeperClient(server, session_timeout_ms=2000), []
        client.listen(received.append)
        opening = asyncio.ensure_future(client.start_session())
        await asyncio.sleep(0)
        client.pause()
        await asyncio.sleep(3)
        assert server._sessions == {}
        client.resume()
        await opening
        await asyncio.sleep(1)
        assert [event.state for event in received] == [  # type: ignore[attr-defined]
            SessionState.CONNECTED,
            SessionState.DISCONNECTED,
            SessionState.EXPIRED,
        ]

    run(test)


def test_a_client_stopped_for_longer_than_its_session_ends_it_though_no_server_did() -> None:
    async def test(server: SimulatedZooKeeper) -> None:
        client, received = await start(server)
        await client.multi([Create("/e", ephemeral=True)])
        server.shut_down()
        client.pause()
        await asyncio.sleep(2.1)
        client.resume()
        await asyncio.sleep(0.1)
        server.start_up()
        assert states(received) == [SessionState.CONNECTED, SessionState.DISCONNECTED, SessionState.EXPIRED]
        await client.start_session()
        assert await client.exists("/e") is not None
        await asyncio.sleep(2.1)
        assert await client.exists("/e") is None

    run(test)


def test_a_disconnection_longer_than_the_session_expires_it() -> None:
    async def test(server: SimulatedZooKeeper) -> None:
        client, received = await start(server)
        await client.multi([Create("/e", ephemeral=True)])
        client.disconnect(seconds=2.5)
        with pytest.raises(SessionExpiredError):
            await client.get("/e")
        await asyncio.sleep(0)
        assert states(received) == [SessionState.CONNECTED, SessionState.DISCONNECTED, SessionState.EXPIRED]
        assert received[-1][0] > 2.5
        await client.start_session()
        assert await client.exists("/e") is None

    run(test)


def test_no_session_expires_while_the_server_is_down() -> None:
    async def test(server: SimulatedZooKeeper) -> None:
        client, received = await start(server)
        await client.multi([Create("/e", ephemeral=True)])
        server.shut_down()
        with pytest.raises(ZooKeeperUnreachableError):
            await start(server)
        await asyncio.sleep(10)
        server.start_up()
        assert await client.exists("/e") is not None
        assert states(received) == [SessionState.CONNECTED, SessionState.DISCONNECTED, SessionState.CONNECTED]

    run(test)


def history(seed: int) -> str:
    """What three clients hear while they create and watch, and are disconnected now and then."""
    lines: list[str] = []

    async def test(server: SimulatedZooKeeper) -> None:
        chance = Random(seed)
        clients = [await start(server) for _ in range(3)]
        for number in range(60):
            client, _ = chance.choice(clients)
            await client.children("/", watch=True)
            await client.multi_many([[Create(f"/n{number}-", ephemeral=True, sequential=True)]])
            if chance.random() < 0.1:
                client.disconnect(chance.random())
        for _, received in clients:
            lines.extend(f"{when:.9f} {event}" for when, event in received)

    server = run(test, seed)
    return "\n".join([*lines, str(server.tree.zxid), *sorted(server.tree.znodes)])


def test_one_seed_gives_one_history_and_another_seed_another() -> None:
    assert history(1) == history(1)
    assert history(1) != history(2)
