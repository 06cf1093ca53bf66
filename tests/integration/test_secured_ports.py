"""Every gRPC port under TLS, by who calls: nobody gets in whom its authority has not certified, and each side is told
what it can be told.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from admin.connecting.client import AdminClient
from admin.connecting.node_search import NoAnswerError
from broker_agent.adapters.grpc_server import serve_broker_agent
from cluster.config.config import load_config
from cluster.metrics.registry import Metrics
from cluster.model.broker import Endpoint
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError, TlsFailedError
from cluster.process.tls import ProcessTls
from cluster.requests.cluster import DescribeClusterRequest
from cluster.requests.context import PeerCertificate
from cluster.rpc.behaviours import PRINCIPAL_HEADER
from cluster.rpc.client import RpcClient
from cluster.rpc.methods import METHOD_OF_REQUEST, encode_request
from cluster.rpc.process_servers import serve_listeners
from cluster.rpc.serving import Listener, RpcServer
from cluster.rpc.transport_security import ChannelSecurity
from cluster.security.identities import Identity, NodeName, NodeRole
from cluster.security.mapping import parse_mapping_rules
from cluster.security.principals import Principal
from cluster.tls.live import ListenerTls, LiveMaterial
from cluster.tls.material import load_material
from cluster.tls.settings import TlsSettings
from controller.adapters.grpc_server import serve_controller
from tests.processes.certificates import Issuer, write_secret
from tests.processes.scripted_servers import DESCRIPTION, TIMEOUT_MS, Scripted
from tests.timeouts import TIMEOUT_S

YEAR_MS = 2**31 - 1
Serve = Callable[..., Any]
PORTS = {
    "controller, clients": (serve_controller, Listener("127.0.0.1:0")),
    "controller, control": (serve_controller, Listener("127.0.0.1:0", "CONTROL", is_control=True)),
    "agent, clients": (serve_broker_agent, Listener("127.0.0.1:0")),
    "agent, control": (serve_broker_agent, Listener("127.0.0.1:0", "CONTROL", is_control=True)),
    "agent, external": (serve_broker_agent, Listener("127.0.0.1:0", "EXTERNAL", is_external=True)),
}


class Authorities:
    """What each party shows, and whom it trusts."""

    def __init__(self, folder: Path) -> None:
        self.ours, self.theirs = Issuer(folder / "ours"), Issuer(folder / "theirs", "other authority")
        self.node = self.ours.issue("node", uri="klamm://broker/1")
        self.client = self.ours.issue("client", subject="alice", uri="klamm://broker/7")
        self.expired = self.ours.issue("expired", days=(-2, -1), subject="late")
        self.elsewhere = self.ours.issue("elsewhere", names=["other.example"])
        self.stranger = self.theirs.issue("stranger", subject="mallory")

    def live(self, keystore: Path | None, authority: Path) -> LiveMaterial:
        """Also of what was valid when it was read, and has expired since."""
        trusted = str(authority)
        valid = TlsSettings(keystore_location=str(self.node), truststore_location=trusted)
        live = LiveMaterial(valid, "test")
        shown = None if keystore is None else str(keystore)
        at = datetime.now(UTC) - timedelta(days=1.5) if keystore == self.expired else None
        live.current = load_material(TlsSettings(keystore_location=shown, truststore_location=trusted), at)
        return live


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Authorities:
    return Authorities(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def serving(
    port: str, material: LiveMaterial | None, *, max_age_ms: int = YEAR_MS, answer: Any = lambda _: DESCRIPTION
) -> AsyncIterator[tuple[RpcServer, Scripted]]:
    serve, listener = PORTS[port]
    tls = None if material is None else ListenerTls(material, requires_certificates=True, max_age_ms=max_age_ms)
    handler = Scripted(answer)
    listener = Listener(listener.address, listener.name, is_control=listener.is_control, tls=tls)
    server: RpcServer = await serve(listener, handler, Metrics())
    try:
        yield server, handler
    finally:
        await server.stop(0)


@asynccontextmanager
async def calling(security: ChannelSecurity | None) -> AsyncIterator[RpcClient]:
    client = RpcClient(security=security)
    try:
        yield client
    finally:
        await client.close()


def security(made: Authorities, keystore: Path | None, authority: Path | None = None) -> ChannelSecurity:
    return ChannelSecurity(made.live(keystore, made.ours.authority if authority is None else authority))


CALLERS: dict[str, tuple[Callable[[Authorities], ChannelSecurity | None], str]] = {
    "right": (lambda made: security(made, made.client), ""),
    "plaintext": (lambda _: None, "it speaks TLS, and this side does not, as security.protocol=SSL is not set"),
    "no certificate": (lambda made: security(made, None), "this side shows no certificate"),
    "other authority": (
        lambda made: security(made, made.stranger),
        "does not trust the certificate of this side, CN=mal",
    ),
    "expired": (lambda made: security(made, made.expired), "the certificate of this side, CN=late, expired at 20"),
    "trusts others only": (lambda made: security(made, made.client, made.theirs.authority), "TLS handshake failed: "),
}
SERVERS = {
    "of another name": (lambda made: made.elsewhere, "its certificate does not have the name by which it is reached"),
    "expired": (lambda made: made.expired, "TLS handshake failed: CERTIFICATE_VERIFY_FAILED: certificate has expired"),
    "of another authority": (lambda made: made.stranger, "TLS handshake failed: "),
}


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("caller", CALLERS)
async def test_a_port_answers_whom_its_authority_certified_and_nobody_else(
    made: Authorities, port: str, caller: str
) -> None:
    make, why = CALLERS[caller]
    ours = made.live(made.node, made.ours.authority)
    async with serving(port, ours) as (server, handler), calling(make(made)) as client:
        call = client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS)
        if not why:
            assert await call == DESCRIPTION
            return
        with pytest.raises(PeerUnreachableError, match=re.escape(why)):
            await call
        assert handler.asked == []


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("server", SERVERS)
async def test_a_node_sends_nothing_to_a_server_that_it_cannot_trust(made: Authorities, port: str, server: str) -> None:
    of, why = SERVERS[server]
    shown = made.live(of(made), made.ours.authority)
    async with serving(port, shown) as (running, handler), calling(security(made, made.client)) as client:
        with pytest.raises(PeerUnreachableError, match=re.escape(why)):
            await client.call(running.address, DescribeClusterRequest(), TIMEOUT_MS)
        assert handler.asked == []


async def test_a_client_under_tls_says_that_a_port_does_not_speak_it(made: Authorities) -> None:
    async with serving("agent, clients", None) as (server, _), calling(security(made, made.client)) as client:
        with pytest.raises(PeerUnreachableError, match="it does not speak TLS"):
            await client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS)


async def test_a_peer_that_closes_a_connection_is_not_said_to_speak_tls(made: Authorities) -> None:
    """It may have ended in that moment."""

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for of in (None, security(made, made.client), security(made, made.expired)):
        async with calling(of) as client:
            with pytest.raises(PeerUnreachableError) as caught:
                await client.call(address, DescribeClusterRequest(), TIMEOUT_MS)
            assert not isinstance(caught.value, TlsFailedError)
            assert "TLS" not in str(caught.value).replace("TLS handshake failed", "")
            assert "certificate" not in str(caught.value)
    server.close()


WRONG_SETTINGS: dict[str, Callable[[Authorities], TlsSettings | None]] = {
    "it speaks TLS, and this side does not": lambda _: None,
    "no authority in ssl.truststore.location has certified it": lambda made: TlsSettings(
        keystore_location=str(made.client), truststore_location=str(made.theirs.authority)
    ),
}


@pytest.mark.parametrize("why", WRONG_SETTINGS)
async def test_a_client_whose_settings_of_tls_are_certainly_wrong_does_not_wait(made: Authorities, why: str) -> None:
    ours = made.live(made.node, made.ours.authority)
    async with serving("controller, clients", ours) as (one, _), serving("agent, clients", ours) as (other, _):
        addresses = [one.address, other.address]
        tls = WRONG_SETTINGS[why](made)
        async with AdminClient(addresses, timeout_ms=TIMEOUT_S * 1000, tls=tls, origin="--bootstrap") as client:
            with pytest.raises(NoAnswerError) as caught:
                await client.describe_cluster()
    assert why in str(caught.value)
    # The time was not used up.
    assert "within" not in str(caught.value)
    advice = (
        "give --command-config FILE" if tls is None else "the TLS settings of this side are those of --command-config"
    )
    assert advice in str(caught.value)


async def test_a_client_waits_for_a_port_that_does_not_take_its_certificate(made: Authorities) -> None:
    """Only the other side knows why: its authorities may be about to change."""
    ours = made.live(made.node, made.ours.authority)
    tls = TlsSettings(keystore_location=str(made.stranger), truststore_location=str(made.ours.authority))
    async with serving("agent, clients", ours) as (server, _):
        client = AdminClient([server.address], timeout_ms=1500, tls=tls, origin="--bootstrap")
        said = ""
        # A busy machine may not get as far in time.
        async with asyncio.timeout(TIMEOUT_S):
            while "does not trust the certificate of this side" not in said:
                with pytest.raises(NoAnswerError, match=r"within 1.5 s") as caught:
                    await client.describe_cluster()
                said = str(caught.value)
        assert "the TLS settings of this side are those of --command-config" in said
        await client.rpc.close()


@pytest.mark.parametrize("keystore", ["client", "stranger"])
async def test_a_controller_of_kafka_brokers_has_tls_at_its_grpc_ports(made: Authorities, keystore: str) -> None:
    """Handshakes are counted there, whoever begins them: the library says no more."""
    settings = {
        "klamm.broker.protocol": "kafka",
        "klamm.kafka.listeners": "PLAINTEXT://127.0.0.1:19092",
        "listener.security.protocol.map": "GRPC:SSL,GRPC_CONTROL:SSL,PLAINTEXT:PLAINTEXT",
        "ssl.keystore.location": str(made.node),
        "ssl.truststore.location": str(made.ours.authority),
        "ssl.client.auth": "required",
    }
    where = {"zookeeper": "z:1", "listen": "127.0.0.1:0", "data": str(made.ours.folder)}
    config, metrics = load_config(None, {"id": 1001, **where, "settings": settings}), Metrics()
    handler, tls = Scripted(lambda _: DESCRIPTION), ProcessTls(config, metrics)

    async def serve(listener: Listener) -> RpcServer:
        return await serve_controller(listener, handler, metrics)

    servers = await serve_listeners(config, serve, tls)
    async with calling(security(made, getattr(made, keystore))) as client:
        for end in servers.endpoints:
            call = client.call(end.address, DescribeClusterRequest(), TIMEOUT_MS)
            if keystore == "client":
                await call
            else:
                with pytest.raises(PeerUnreachableError):
                    await call
    await servers.stop(0)
    assert {end.security_protocol for end in servers.endpoints} == {"SSL"}
    for name in ("GRPC", "GRPC_CONTROL"):
        assert metrics.meter("klamm.tls", "Handshakes", "Begun", listener=name).count > 0


async def test_a_listener_may_take_clients_without_certificates(made: Authorities) -> None:
    tls = ListenerTls(made.live(made.node, made.ours.authority), requires_certificates=False, max_age_ms=YEAR_MS)
    handler = Scripted(lambda _: DESCRIPTION)
    server = await serve_controller(Listener("127.0.0.1:0", tls=tls), handler, Metrics())
    async with calling(security(made, None)) as client:
        await client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS)
        await server.stop(0)
    context = handler.asked[0][0]
    assert (context.principal, context.certificate) == ("User:ANONYMOUS", None)
    assert context.identity == Identity(host="127.0.0.1")


async def test_health_is_answered_there_and_reflection_is_not(made: Authorities) -> None:
    async with serving("agent, clients", made.live(made.node, made.ours.authority)) as (server, _):
        credentials = security(made, made.client).credentials()
        async with grpc.aio.secure_channel(server.address, credentials) as channel:
            checked = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert checked.status == health_pb2.HealthCheckResponse.SERVING
            asked = reflection_pb2.ServerReflectionRequest(list_services="")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await anext(
                    aiter(reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([asked])))
                )
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_the_certificate_says_who_calls_and_the_header_does_not(made: Authorities) -> None:
    method = METHOD_OF_REQUEST[DescribeClusterRequest]
    async with serving("controller, clients", made.live(made.node, made.ours.authority)) as (server, handler):
        credentials = security(made, made.client).credentials()
        async with grpc.aio.secure_channel(server.address, credentials) as channel:
            await channel.unary_unary(method.path)(
                encode_request(DescribeClusterRequest()), metadata=((PRINCIPAL_HEADER, "root"),), timeout=TIMEOUT_S
            )
    context, _ = handler.asked[0]
    assert context.certificate == PeerCertificate("CN=alice", ("klamm://broker/7",))
    assert context.principal == "User:CN=alice"
    assert context.identity == Identity(Principal("User", "CN=alice"), "127.0.0.1", NodeName(NodeRole.BROKER, 7))


async def test_a_certificate_that_no_rule_is_for_is_refused_with_the_setting(made: Authorities) -> None:
    tls = ListenerTls(made.live(made.node, made.ours.authority), requires_certificates=True, max_age_ms=YEAR_MS)
    handler = Scripted(lambda _: DESCRIPTION)
    mapping = parse_mapping_rules("RULE:CN=(bob)/$1/")
    server = await serve_controller(Listener("127.0.0.1:0", tls=tls, mapping=mapping), handler, Metrics())
    async with calling(security(made, made.client)) as client:
        with pytest.raises(ApiError, match="none of ssl.principal.mapping.rules is for .*'CN=alice'") as refused:
            await client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS)
        await server.stop(0)
    assert (refused.value.code, handler.asked) == (ErrorCode.SASL_AUTHENTICATION_FAILED, [])


async def test_the_registration_of_a_peer_decides_only_where_no_listener_says_so(made: Authorities) -> None:
    both = made.live(made.client, made.ours.authority)
    strict, lenient = ChannelSecurity(both, frozenset({"CONTROL"})), ChannelSecurity(both, frozenset())
    ends = [Endpoint("h", 1, name, protocol) for name in ("CONTROL", "PLAINTEXT") for protocol in ("SSL", "PLAINTEXT")]
    assert [strict.secures(end) for end in ends] == [True, True, True, False]
    assert [lenient.secures(end) for end in ends] == [True, False, True, False]
    async with serving("agent, clients", None) as (server, _), calling(lenient) as client:
        host, port = server.address.split(":")
        with pytest.raises(PeerUnreachableError):
            await client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS)
        at = client.at(Endpoint(host, int(port)))
        assert await client.call(at, DescribeClusterRequest(), TIMEOUT_MS) == DESCRIPTION


class Load:
    """Calls without a pause, over several channels, until it is left; any failure fails the test."""

    def __init__(self, address: str, clients: list[RpcClient]) -> None:
        self._address, self._clients, self.answered = address, clients, 0

    async def __aenter__(self) -> "Load":
        self._tasks = [asyncio.create_task(self._call(client)) for client in self._clients for _ in range(4)]
        return self

    async def _call(self, client: RpcClient) -> None:
        while True:
            await client.call(self._address, DescribeClusterRequest(), TIMEOUT_MS)
            self.answered += 1

    async def more(self, calls: int) -> None:
        """Wait for so many more answers."""
        wanted = self.answered + calls
        async with asyncio.timeout(TIMEOUT_S):
            while self.answered < wanted:
                for task in self._tasks:
                    assert not task.done(), task.exception()
                await asyncio.sleep(0.01)

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        assert [one for one in ended if not isinstance(one, asyncio.CancelledError)] == []


async def test_certificates_and_the_authority_are_replaced_under_load_without_an_error(tmp_path: Path) -> None:
    """By a bundle of both authorities, as an operator does it: trust first, then certificates, then no more trust."""
    former, new = Issuer(tmp_path / "former"), Issuer(tmp_path / "new", "new authority")
    files = {name: former.issue(name) for name in ("server", "client")}
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(former.authority.read_bytes())
    server_side, client_side = (
        LiveMaterial(TlsSettings(keystore_location=str(files[name]), truststore_location=str(trusted)), name)
        for name in ("server", "client")
    )

    def replace_all(**contents: bytes) -> None:
        for name, content in contents.items():
            target = trusted if name == "trusted" else files[name]
            draft = target.with_suffix(".draft")
            draft.touch(0o600)
            draft.write_bytes(content)
            draft.replace(target)
        for live in (server_side, client_side):
            live.refresh()
            assert live.rejected == ()

    both = former.authority.read_bytes() + new.authority.read_bytes()
    async with (
        serving("agent, clients", server_side, max_age_ms=1000) as (server, _),
        calling(ChannelSecurity(client_side)) as first,
        calling(ChannelSecurity(client_side)) as second,
        Load(server.address, [first, second]) as load,
    ):
        await load.more(50)
        replace_all(trusted=both)
        await load.more(50)
        replace_all(server=new.issue("server").read_bytes())
        await load.more(50)
        replace_all(client=new.issue("client").read_bytes())
        await load.more(50)
        replace_all(trusted=new.authority.read_bytes())
        await load.more(50)
        # Those of before are out, though they have not expired.
        old = LiveMaterial(
            TlsSettings(keystore_location=str(former.issue("old")), truststore_location=str(new.authority)), "old"
        )
        async with calling(ChannelSecurity(old)) as outdated:
            with pytest.raises(PeerUnreachableError, match="perhaps it does not trust the certificate of this side"):
                await outdated.call(server.address, DescribeClusterRequest(), TIMEOUT_MS)


async def test_a_connection_is_replaced_with_age_and_no_call_notices(made: Authorities) -> None:
    peers: set[str] = set()

    async with (
        serving("agent, clients", made.live(made.node, made.ours.authority), max_age_ms=1000) as (server, handler),
        calling(security(made, made.client)) as client,
        Load(server.address, [client]) as load,
    ):
        async with asyncio.timeout(TIMEOUT_S):
            while len(peers) < 3:
                await load.more(20)
                peers |= {context.peer for context, _ in handler.asked}
                handler.asked.clear()


async def test_a_client_of_the_library_takes_up_its_new_certificate_and_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former, new = Issuer(tmp_path / "former"), Issuer(tmp_path / "new")
    keystore, trusted = former.issue("client"), tmp_path / "trusted.pem"
    trusted.write_bytes(former.authority.read_bytes())
    tls = TlsSettings(keystore_location=str(keystore), truststore_location=str(trusted))
    monkeypatch.setattr("cluster.tls.live.POLL_S", 0.05)

    def of(issuer: Issuer) -> LiveMaterial:
        files = TlsSettings(keystore_location=str(issuer.issue("server")), truststore_location=str(issuer.authority))
        return LiveMaterial(files, "server")

    async with AsyncExitStack() as stack:
        before, _ = await stack.enter_async_context(serving("agent, clients", of(former)))
        after, _ = await stack.enter_async_context(serving("agent, clients", of(new)))
        client = await stack.enter_async_context(AdminClient([before.address], tls=tls))
        await client.rpc.call(before.address, DescribeClusterRequest(), TIMEOUT_MS)
        for file, content in ((keystore, new.issue("client").read_bytes()), (trusted, new.authority.read_bytes())):
            write_secret(file, content)
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    await client.rpc.call(after.address, DescribeClusterRequest(), TIMEOUT_MS)
                except PeerUnreachableError:
                    await asyncio.sleep(0.05)
                else:
                    break
