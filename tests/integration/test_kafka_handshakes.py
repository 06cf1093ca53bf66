"""TLS handshakes at a controller's Kafka listeners: who is refused is counted and named, files take effect without a
restart, and nobody keeps others out.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from cluster.aio.tasks import TaskSet
from cluster.config.kafka_listeners import KafkaListener
from cluster.config.kafka_tls import kafka_tls
from cluster.config.settings import Settings
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.connections import ApiVersionsRequest, ApiVersionsResponse
from cluster.kafka_wire.messages.control import UpdateMetadataResponse
from cluster.metrics.registry import Metrics
from cluster.model.broker import Endpoint
from cluster.model.errors import PeerUnreachableError
from cluster.tls.contexts import client_context
from cluster.tls.live import LiveMaterial
from cluster.tls.settings import TlsSettings
from controller.adapters.kafka.authorizers import Authorizers
from controller.adapters.kafka.broker_client import KafkaBrokerClient
from controller.adapters.kafka.handshakes import Handshakes
from controller.adapters.kafka.served_connection import ServerLimits
from controller.adapters.kafka.wire_server import KafkaServer
from tests.integration.test_kafka_broker_client import CONTROLLER, SETTINGS, UPDATE
from tests.kafka.peers import LIMITS, KafkaPeer, places
from tests.processes.certificates import Issuer
from tests.timeouts import TIMEOUT_S

_HELLO = bytes.fromhex("16030100c8010000c40303")
"""How a ClientHello begins; the rest of its 200 bytes never comes."""


class Port:
    """A listener that demands certificates by `issuer`."""

    def __init__(self, folder: Path) -> None:
        self.issuer, self.other = Issuer(folder / "ours"), Issuer(folder / "theirs", "other")
        self.trust = folder / "trust.pem"
        self.trust.write_bytes(self.issuer.authority.read_bytes())
        self.node = self.issuer.issue("node")
        self.client = self.issuer.issue("client")
        settings = Settings(
            ssl_keystore_location=str(self.node), ssl_truststore_location=str(self.trust), ssl_client_auth="required"
        )
        listener = KafkaListener("SSL", "127.0.0.1", 0, "SSL", Endpoint("127.0.0.1", 0, "SSL", "SSL"))
        self.materials: list[LiveMaterial] = []
        self.tls = kafka_tls(settings, (listener,), self._load)
        self.metrics = Metrics()
        self.peer = KafkaPeer({ApiKey.UPDATE_METADATA: lambda _: UpdateMetadataResponse()})
        self.port = 0

    def _load(self, use: str, settings: TlsSettings) -> LiveMaterial:
        self.materials.append(LiveMaterial(settings, use))
        return self.materials[-1]

    def refresh(self) -> None:
        for material in self.materials:
            material.refresh()

    def replace_node(self, issuer: Issuer) -> None:
        """Replace the listener's own key and certificate."""
        issuer.issue("next").rename(self.node)

    def refused(self) -> int:
        return self.metrics.meter("klamm.tls", "Handshakes", "Failed", listener="SSL").count

    @asynccontextmanager
    async def open(self, limits: ServerLimits = LIMITS, at_once: int = 8) -> AsyncIterator["Port"]:
        async with TaskSet() as tasks:
            handshakes = Handshakes(
                "SSL", self.tls.listening["SSL"], asyncio.Semaphore(at_once), self.metrics, self.tls.refused
            )
            server = KafkaServer(self.peer.open, limits, tasks, places())
            self.port = await server.start("127.0.0.1", 0, tls=handshakes)
            try:
                yield self
            finally:
                await server.stop(0)

    async def ask(self, keystore: Path | None, trust: Path | None = None) -> KafkaConnection:
        """Connect as a client, and be answered."""
        trusted = str(self.issuer.authority if trust is None else trust)
        shown = None if keystore is None else str(keystore)
        tls = client_context(TlsSettings(keystore_location=shown, truststore_location=trusted))
        endpoint = Endpoint("127.0.0.1", self.port)
        connection = await KafkaConnection.open(endpoint, client_id="c", timeout_s=TIMEOUT_S, tls=tls)
        try:
            await connection.call(ApiVersionsRequest(), 0, ApiVersionsResponse, timeout_s=TIMEOUT_S)
        except PeerUnreachableError:
            connection.close()
            raise
        return connection

    async def send(self, data: bytes) -> asyncio.StreamWriter:
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        return writer


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - nothing tells of it.
            await asyncio.sleep(0.02)


@pytest.fixture
def port(tmp_path: Path) -> Port:
    return Port(tmp_path)


async def test_refused_clients_are_counted_and_named(port: Port) -> None:
    stranger = port.other.issue("stranger")
    with capture_logs() as lines:
        async with port.open():
            await refuse_five(port, stranger)
    assert port.refused() == 5
    assert (
        [line["why"] for line in lines if line["event"] == "TLS handshake failed" and line["peer"] == "127.0.0.1"]
        == [
            "it shows no certificate",
            "its certificate is not accepted: unable to get local issuer certificate",
            "it closed the connection, perhaps because it does not trust the certificate of this side",
            "it speaks HTTP without TLS",
            "it does not speak TLS",
        ]
        == [refusal.why for refusal in reversed(port.tls.refused.recent(time.time()))]
    )


async def refuse_five(port: Port, stranger: Path) -> None:
    for keystore in (None, stranger):
        with pytest.raises(PeerUnreachableError):
            await port.ask(keystore)
    with pytest.raises(PeerUnreachableError):
        await port.ask(port.client, trust=port.other.authority)
    for refused, sent in enumerate((b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x11\0\x12\0\0nonsense"), 4):
        (await port.send(sent)).close()
        await eventually(lambda expected=refused: port.refused() == expected)
    # Who only looks whether the port is open is not refused anything.
    (await port.send(b"")).close()
    (await port.ask(port.client)).close()


async def test_half_handshakes_and_silence_keep_nobody_out(port: Port) -> None:
    """There is one turn, and everybody else stops within it, or before."""
    async with port.open(replace(LIMITS, setup_s=2), at_once=1):
        held = [await port.send(_HELLO if n % 2 else b"") for n in range(20)]
        connection = await port.ask(port.client)
        await eventually(lambda: port.refused() == 20)
        connection.close()
        for writer in held:
            writer.close()


async def test_an_authority_is_removed_and_a_certificate_replaced_without_a_restart(port: Port) -> None:
    async with port.open():
        (await port.ask(port.client)).close()
        later = port.other.issue("client")
        port.trust.write_bytes(port.issuer.authority.read_bytes() + port.other.authority.read_bytes())
        port.refresh()
        for keystore in (port.client, later):
            (await port.ask(keystore)).close()
        port.trust.write_bytes(port.other.authority.read_bytes())
        port.replace_node(port.other)
        port.refresh()
        (await port.ask(later, port.other.authority)).close()
        with pytest.raises(PeerUnreachableError):
            await port.ask(port.client, port.other.authority)
        with pytest.raises(
            PeerUnreachableError,
            match=r"certificate verify failed.* no authority in ssl\.truststore\.location has certified it",
        ):
            await port.ask(later)


async def test_files_that_cannot_be_used_leave_the_listener_as_it_was(port: Port) -> None:
    async with port.open():
        port.trust.write_bytes(b"nothing")
        port.refresh()
        (await port.ask(port.client)).close()
        assert any(material.rejected for material in port.materials)


async def test_an_idle_connection_is_closed_at_its_age(port: Port) -> None:
    async with port.open(replace(LIMITS, age_s=0.2)):
        connection = await port.ask(port.client)
        await eventually(lambda: not connection.is_open)
        (await port.ask(port.client)).close()


async def test_brokers_are_called_anew_when_the_certificate_was_replaced(port: Port) -> None:
    async with port.open():
        broker = replace(CONTROLLER, endpoints=(Endpoint("127.0.0.1", port.port, "PLAINTEXT", "SSL"),))
        client = KafkaBrokerClient(SETTINGS, "klamm-1001", CONTROLLER, port.tls.to_brokers, Authorizers())
        for _ in range(2):
            await client.send(broker, UPDATE)
        assert port.peer.connections == 1
        port.replace_node(port.issuer)
        port.refresh()
        for _ in range(2):
            await client.send(broker, UPDATE)
        assert port.peer.connections == 2
        await client.close()


def test_what_is_passed_on_shows_no_certificate_after_a_replacement_either(port: Port) -> None:
    before = port.tls.passing_on.current()
    port.replace_node(port.issuer)
    port.refresh()
    assert port.tls.passing_on.current() is not before
