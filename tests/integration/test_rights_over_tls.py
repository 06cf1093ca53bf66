"""Every RPC by who calls, over real TLS: rights follow the certificate of the call, and nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from cluster.metrics.registry import Metrics
from cluster.requests.cluster import DescribeFindingsRequest, WatchRequest
from cluster.rpc.behaviours import PRINCIPAL_HEADER
from cluster.rpc.client import RpcClient
from cluster.rpc.methods import METHOD_OF_REQUEST, encode_request
from cluster.rpc.rights import AuthorizedHandler
from cluster.rpc.serving import Listener, RpcServer, start_server
from cluster.rpc.transport_security import ChannelSecurity
from cluster.security.identities import Identity, NodeName
from cluster.tls.live import ListenerTls, LiveMaterial
from cluster.tls.settings import TlsSettings
from tests.processes.certificates import Issuer
from tests.processes.scripted_servers import TIMEOUT_MS
from tests.rights.matrix import IDENTITIES, METHODS, NONE, ROOT, Node, Rules, authorizer_for, expected, request_of, seen
from tests.timeouts import TIMEOUT_S

YEAR_MS = 2**31 - 1


class Parties:
    """The certificate that each identity shows; none is anonymous."""

    def __init__(self, folder: Path) -> None:
        self.issuer = Issuer(folder)
        self._made: dict[tuple[str, NodeName | None], LiveMaterial] = {}
        self.server = self._live(self.issuer.issue("server"))

    def of(self, identity: Identity) -> LiveMaterial:
        name, node = identity.principal.name.removeprefix("CN="), identity.node
        if (name, node) not in self._made:
            uri = "" if node is None else str(node)
            file = None if name == "ANONYMOUS" else self.issuer.issue(f"c{len(self._made)}", subject=name, uri=uri)
            self._made[name, node] = self._live(file)
        return self._made[name, node]

    def _live(self, keystore: Path | None) -> LiveMaterial:
        shown = None if keystore is None else str(keystore)
        return LiveMaterial(
            TlsSettings(keystore_location=shown, truststore_location=str(self.issuer.authority)), "test"
        )


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    return Parties(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def serving(handler: Any, tls: ListenerTls | None) -> AsyncIterator[RpcServer]:
    server = await start_server(Listener("127.0.0.1:0", tls=tls), handler, METHODS, Metrics())
    try:
        yield server
    finally:
        await server.stop(0)


async def test_every_rpc_by_every_certificate(parties: Parties) -> None:
    node, rules, wrong, cells = Node(), Rules(NONE), [], 0
    handler = AuthorizedHandler(node, rules, Metrics())
    # Without a certificate one gets in where the port demands none.
    ports = {needs: ListenerTls(parties.server, needs, YEAR_MS) for needs in (True, False)}
    async with serving(handler, ports[True]) as closed, serving(handler, ports[False]) as open_to_all:
        for who, identity in IDENTITIES.items():
            client = RpcClient(security=ChannelSecurity(parties.of(identity)))
            address = (open_to_all if who == "anonymous" else closed).address

            async def ask(request: Any, client: RpcClient = client, address: str = address) -> Any:
                if isinstance(request, WatchRequest):
                    return [answer async for answer in client.stream(address, request)]
                return await client.call(address, request, TIMEOUT_MS)

            try:
                # Authenticate is answered before anything is known of the caller.
                for method in (one for one in METHODS if one.name != "Authenticate"):
                    rules.authorizer = authorizer_for(who, method.name)
                    cells += 1
                    found = await seen(method.name, request_of(method), node, ask)
                    if found != (right := expected(who, method.name)):
                        wrong.append(f"{method.name} by {who}: {found}, not {right}")
            finally:
                await client.close()
    print(f"\n{cells} cells over TLS")
    assert wrong == []


async def test_a_claimed_principal_counts_for_nothing_without_tls() -> None:
    node = Node()
    handler = AuthorizedHandler(node, Rules(NONE), Metrics())
    async with serving(handler, None) as server:
        request = DescribeFindingsRequest()
        async with grpc.aio.insecure_channel(server.address) as channel:
            call = channel.unary_unary(METHOD_OF_REQUEST[type(request)].path)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(encode_request(request), metadata=((PRINCIPAL_HEADER, str(ROOT)),), timeout=TIMEOUT_S)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "User:ANONYMOUS at 127.0.0.1 may not Describe Cluster kafka-cluster" in (refused.value.details() or "")
    assert node.handled == []
