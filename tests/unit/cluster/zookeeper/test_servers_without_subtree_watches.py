"""Servers that have no watches of subtrees. They are played here: the answers are those of the servers' own code.

Source: ZooKeeper 3.5 UnimplementedRequestProcessor, 3.8 FinalRequestProcessor and IWatchManager.
"""

import asyncio
import struct
from asyncio import StreamReader, StreamWriter

import pytest

from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.kazoo_requests import (
    ADD_WATCH,
    EXISTS,
    MARSHALLING_ERROR,
    NO_NODE,
    SET_WATCHES,
    SET_WATCHES_2,
    UNIMPLEMENTED,
)
from tests.contract.zookeeper_worlds import Events
from tests.timeouts import TIMEOUT_S

CLOSE = -11


class PlayedServer:
    """One session; no znodes. `errors`: the answers of request types that this server does not know."""

    def __init__(self, errors: dict[int, int] | None = None) -> None:
        self.errors = {} if errors is None else errors
        self.asked: list[int] = []
        self._writers: list[StreamWriter] = []

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Close the connections."""
        for writer in self._writers:
            writer.close()

    async def stop(self) -> None:
        self.cut()
        self._server.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._writers.append(writer)
        try:
            await self._frame(reader)
            self._send(writer, struct.pack("!iiqi16s?", 0, 30_000, 0x1234, 16, b"p" * 16, False))
            while True:
                xid, kind = struct.unpack_from("!ii", await self._frame(reader))
                self.asked.append(kind)
                error = self.errors.get(kind, NO_NODE if kind == EXISTS else 0)
                self._send(writer, struct.pack("!iqi", xid, 7, error))
                if error == UNIMPLEMENTED or kind == CLOSE:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _frame(self, reader: StreamReader) -> bytes:
        (length,) = struct.unpack("!i", await reader.readexactly(4))
        return await reader.readexactly(length)

    def _send(self, writer: StreamWriter, body: bytes) -> None:
        writer.write(struct.pack("!i", len(body)) + body)


async def client_of(server: PlayedServer) -> KazooZooKeeper:
    client = KazooZooKeeper(
        await server.start(), session_timeout_ms=30_000, connection_timeout_ms=TIMEOUT_S * 1000, creates_chroot=False
    )
    client.listen(Events())
    await client.start_session()
    return client


@pytest.mark.parametrize("error", [UNIMPLEMENTED, MARSHALLING_ERROR])
def test_a_server_that_refuses_the_watch_has_none(error: int) -> None:
    async def test() -> None:
        server = PlayedServer({ADD_WATCH: error})
        client = await client_of(server)
        assert not await client.watch_subtree("/t", lambda _: None)
        assert await client.exists("/t") is None
        await client.close()
        await server.stop()

    asyncio.run(test())


@pytest.mark.rule("ZC-5")
def test_after_a_newer_server_an_older_one_is_asked_once_to_restore_the_watch() -> None:
    """It closes the connection for that, so that a client that asked again and again would get no answer any more."""

    async def test() -> None:
        server = PlayedServer()
        client = await client_of(server)
        assert await client.watch_subtree("/t", lambda _: None)
        await client.watch_many(["/t/a"])
        server.errors = {ADD_WATCH: UNIMPLEMENTED, SET_WATCHES_2: UNIMPLEMENTED}
        server.asked.clear()
        server.cut()
        async with asyncio.timeout(TIMEOUT_S):
            assert await client.exists("/t") is None
            assert server.asked.count(SET_WATCHES_2) == 1
            assert server.asked.count(SET_WATCHES) >= 1
            assert not await client.watch_subtree("/t", lambda _: None)
            await client.unwatch_subtree("/t")
            assert await client.exists("/t") is None
        await client.close()
        await server.stop()

    asyncio.run(test())
