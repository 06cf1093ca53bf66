"""The ZooKeeper port when connections break and sessions expire, on the real server and on the in-memory one."""

import asyncio
import itertools
from functools import partial
from random import Random

import pytest

from cluster.model.errors import OutcomeUnknownError, SessionExpiredError
from cluster.zookeeper.port import (
    Create,
    Delete,
    SessionState,
    SetData,
    WatchKind,
    ZkError,
)
from tests.contract.zookeeper_worlds import World, create, eventually

OK = ZkError.OK


@pytest.mark.rule("EL-24")
def test_a_disconnection_within_the_session_loses_neither_ephemerals_nor_watches(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        other, _ = await world.client()
        session = client.session_id
        await create(client, "/changed", "/same", "/deleted", "/parent", "/later")
        await client.multi([Create("/e", ephemeral=True)])
        for path in ("/changed", "/same", "/deleted", "/created", "/later"):
            await client.get(path, watch=True)
        await client.children("/parent", watch=True)
        await world.disconnect(client, 0.3)
        await eventually(lambda: SessionState.DISCONNECTED in events.states)
        await other.multi([SetData("/changed", b"1"), Delete("/deleted"), Create("/created"), Create("/parent/child")])
        # Asked while disconnected: waits, and is answered after the events.
        assert await client.children("/parent") == ("child",)
        assert sorted(events.watches) == sorted(
            [
                ("/changed", WatchKind.CHANGED),
                ("/deleted", WatchKind.DELETED),
                ("/created", WatchKind.CREATED),
                ("/parent", WatchKind.CHILDREN),
            ],
        )
        await other.multi([SetData("/later", b"1")])
        await eventually(lambda: ("/later", WatchKind.CHANGED) in events.watches)
        assert events.states == [SessionState.CONNECTED, SessionState.DISCONNECTED, SessionState.CONNECTED]
        assert client.session_id == session
        stat = await other.exists("/e")
        assert stat is not None
        assert stat.ephemeral_owner == session

    world.run(test)


@pytest.mark.rule("ZC-2")
def test_a_write_whose_answer_is_lost_has_an_unknown_outcome(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        await create(client, "/a")
        await world.lose_answer_of_next_write(client)
        with pytest.raises(OutcomeUnknownError):
            await client.multi([SetData("/a", b"applied", 0)])
        znode = await client.get("/a")
        assert znode is not None
        assert (znode.data, znode.stat.version) == (b"applied", 1)
        (again,) = await client.multi([SetData("/a", b"applied", 0)])
        assert again.error is ZkError.BAD_VERSION
        assert SessionState.EXPIRED not in events.states

    world.run(test)


def test_writes_made_while_disconnected_wait_for_the_connection(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        await create(client, "/a")
        await world.disconnect(client, 0.2)
        await eventually(lambda: SessionState.DISCONNECTED in events.states)
        results = await client.multi_many([[SetData("/a", b"1", 0)], [SetData("/a", b"2", 1)]])
        assert [result[0].error for result in results if isinstance(result, list)] == [OK, OK]

    world.run(test)


@pytest.mark.rule("ZC-3", "ZC-6", "EL-22")
def test_an_expired_session_ends_everything_and_a_new_one_starts_afresh(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        other, _ = await world.client()
        first = client.session_id
        await create(client, "/a")
        await client.multi([Create("/e", ephemeral=True)])
        await client.get("/a", watch=True)
        await world.expire(client)
        await eventually(lambda: events.states[-1:] == [SessionState.EXPIRED])
        assert events.all[-1].session_id == first  # type: ignore[union-attr]
        assert await other.exists("/e") is None
        with pytest.raises(SessionExpiredError):
            await client.get("/a")
        with pytest.raises(SessionExpiredError):
            await client.multi([SetData("/a", b"late")])
        (late,) = await client.multi_many([[SetData("/a", b"late")]])
        assert isinstance(late, SessionExpiredError)
        received = len(events.all)
        await other.multi([SetData("/a", b"1")])
        await client.start_session()
        assert client.session_id not in (0, first)
        await eventually(lambda: events.states[-1:] == [SessionState.CONNECTED])
        await other.multi([SetData("/a", b"2")])
        znode = await client.get("/a", watch=True)
        assert znode is not None
        assert znode.data == b"2"
        assert len(events.all) == received + 1, "a watch of the old session fired, or an event came twice"
        await other.multi([SetData("/a", b"3")])
        await eventually(lambda: events.watches == [("/a", WatchKind.CHANGED)])

    world.run(test)


def test_requests_in_flight_when_the_session_expires_are_all_answered(world: World) -> None:
    async def test(world: World) -> None:
        client, events = await world.client()
        await create(client, "/a")
        everything = asyncio.gather(
            client.multi_many([[SetData("/a", b"x")] for _ in range(500)]),
            *(client.get("/a") for _ in range(50)),
            return_exceptions=True,
        )
        await world.expire(client)
        await eventually(lambda: events.states[-1:] == [SessionState.EXPIRED])
        written, *read = await everything
        assert len(written) == 500
        assert all(isinstance(each, list | OutcomeUnknownError | SessionExpiredError) for each in written)
        assert all(isinstance(each, SessionExpiredError) for each in read if isinstance(each, BaseException))

    world.run(test)


def test_a_caller_that_gives_up_does_not_disturb_the_others(world: World) -> None:
    async def test(world: World) -> None:
        client, _ = await world.client()
        await create(client, "/a")
        impatient = asyncio.ensure_future(client.get("/a"))
        patient = asyncio.ensure_future(client.get("/a"))
        await asyncio.sleep(0)
        impatient.cancel()
        assert await patient is not None
        with pytest.raises(asyncio.CancelledError):
            await impatient
        assert await client.get("/a") is not None

    world.run(test)


def test_disconnections_at_any_moment_lose_no_change_and_invent_no_success(world: World) -> None:
    async def test(world: World) -> None:
        writer, _ = await world.client()
        paths = [f"/n{i}" for i in range(5)]
        await create(writer, *paths)
        reader, events = await world.client()
        chance, seen, stop = Random(5), {}, asyncio.Event()
        surely = dict.fromkeys(paths, 0)
        perhaps = dict.fromkeys(paths, 0)

        def has_received_more_than(done: int) -> bool:
            return len(events.watches) > done

        async def write() -> None:
            for round_ in range(150):
                await asyncio.sleep(chance.random() * 0.02)
                path = chance.choice(paths)
                try:
                    await writer.multi([SetData(path, f"{path} {round_}".encode())])
                    surely[path] += 1
                except OutcomeUnknownError:
                    perhaps[path] += 1
            stop.set()

        async def cut() -> None:
            while not stop.is_set():
                await asyncio.sleep(chance.random() * 0.05)
                await world.disconnect(chance.choice([writer, reader]), 0.02)
                await asyncio.sleep(0.15)

        async def read() -> None:
            seen.update(zip(paths, await reader.get_many(paths, watch=True), strict=True))
            for done in itertools.count():
                await eventually(partial(has_received_more_than, done))
                path = events.watches[done][0]
                seen[path] = await reader.get(path, watch=True)

        reading = asyncio.ensure_future(read())
        await asyncio.gather(write(), cut())
        last = dict(zip(paths, await writer.get_many(paths), strict=True))
        await eventually(lambda: seen == last)
        reading.cancel()
        assert SessionState.DISCONNECTED in events.states
        for path, znode in last.items():
            assert znode is not None
            assert surely[path] <= znode.stat.version <= surely[path] + perhaps[path]

    world.run(test)
