"""Users in ZooKeeper, as Kafka's tools write them, at the listeners of a real controller and a real agent."""

import asyncio
import json
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests.cluster import DescribeClusterRequest, DescribeClusterResponse
from cluster.rpc.client import RpcClient
from cluster.rpc.transport_security import ChannelSecurity
from cluster.sasl.clients import ClientCredentials
from cluster.tls.live import LiveMaterial
from cluster.tls.secret import Secret
from cluster.tls.settings import TlsSettings
from cluster.znodes.configs import CONFIG_CHANGE_PREFIX
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.certificates import Issuer, write_secret
from tests.processes.commands import run_klamm
from tests.processes.programs import LONG_SESSIONS, Programs
from tests.timeouts import TIMEOUT_S
from tests.unit.cluster.sasl.test_scram import OF_KAFKA, PASSWORDS

pytestmark = pytest.mark.real
Start = Callable[..., "subprocess.Popen[str]"]


class SecuredProcesses:
    """A controller whose clients have passwords, and an agent with a listener for such clients."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.zookeeper, self.issuer = zookeeper, Issuer(folder)
        controller, agent, external = _free_ports(3)
        self.controller, self.agent = f"127.0.0.1:{controller}", f"127.0.0.1:{external}"
        self._programs = Programs(folder)
        self._start("controller", 1001, "SASL_SSL", listen=self.controller)
        self._start("broker_agent", 1, "SSL", listen=f"127.0.0.1:{agent}", external_listen=self.agent)

    def _start(self, module: str, node: int, clients: str, **fields: object) -> None:
        role = "controller" if module == "controller" else "broker"
        settings = {
            **LONG_SESSIONS,
            "listener.security.protocol.map": f"PLAINTEXT:{clients},CONTROL:SSL,EXTERNAL:SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "ssl.keystore.location": str(self.issuer.issue(module, uri=f"klamm://{role}/{node}")),
            "ssl.truststore.location": str(self.issuer.authority),
        }
        node_fields = {"id": node, "zookeeper": self.zookeeper, "control_listen": "127.0.0.1:0"}
        self._programs.start(module, node_fields | fields, settings)

    def end(self) -> None:
        self._programs.end()

    async def ask(self, address: str, mechanism: str, password: str) -> DescribeClusterResponse:
        """Ask as alice, until the process has read its users."""
        credentials = ClientCredentials(mechanism, "alice", Secret(password))
        material = LiveMaterial(TlsSettings(truststore_location=str(self.issuer.authority)))
        client = RpcClient(security=ChannelSecurity(material), sasl=lambda: credentials)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    try:
                        return await client.call(address, DescribeClusterRequest(), TIMEOUT_S * 1000)
                    except PeerUnreachableError:
                        await asyncio.sleep(0.05)
        finally:
            await client.close()

    def set_user(self, user: str, credentials: Mapping[str, str]) -> None:
        """Write as `kafka-configs` does."""
        with plain_client(self.zookeeper) as tool:
            body = json.dumps({"version": 1, "config": dict(credentials)}).encode()
            tool.ensure_path(f"/config/users/{user}")
            tool.set(f"/config/users/{user}", body)
            notice = json.dumps({"version": 2, "entity_path": f"users/{user}"}).encode()
            tool.create(CONFIG_CHANGE_PREFIX, notice, sequence=True, makepath=True)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def processes(tmp_path: Path, zookeeper: str) -> Iterator[SecuredProcesses]:
    running = SecuredProcesses(tmp_path, zookeeper)
    yield running
    running.end()


async def until_refused(ask: Callable[[], Any]) -> ApiError:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                await ask()
            except ApiError as error:
                return error
            await asyncio.sleep(0.05)


async def test_a_user_of_kafkas_tool_gets_in_and_one_who_is_removed_does_not(
    processes: SecuredProcesses, tmp_path: Path
) -> None:
    await asyncio.to_thread(processes.set_user, "alice", OF_KAFKA)
    for address in (processes.controller, processes.agent):
        for mechanism, password in PASSWORDS.items():
            assert (await processes.ask(address, mechanism, password)).cluster_id
        with pytest.raises(ApiError) as refused:
            await processes.ask(address, "SCRAM-SHA-256", "wrong")
        assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    config = tmp_path / "alice.properties"
    lines = [
        "security.protocol=SASL_SSL",
        "sasl.mechanism=SCRAM-SHA-512",
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="alice" password="{PASSWORDS["SCRAM-SHA-512"]}";',
        f"ssl.truststore.location={processes.issuer.authority}",
    ]
    write_secret(config, "\n".join(lines).encode())
    where = ("--bootstrap", processes.controller, "--command-config", str(config))
    listed = await asyncio.to_thread(run_klamm, "topics", "list", *where)
    assert listed.returncode == 0, listed.stderr
    config.chmod(0o644)
    open_to_others = await asyncio.to_thread(run_klamm, "topics", "list", *where)
    assert "has sasl.jaas.config in it, and others may read" in open_to_others.stderr

    await asyncio.to_thread(processes.set_user, "alice", {"SCRAM-SHA-512": OF_KAFKA["SCRAM-SHA-512"]})
    for address in (processes.controller, processes.agent):

        async def ask(address: str = address) -> None:
            await processes.ask(address, "SCRAM-SHA-256", PASSWORDS["SCRAM-SHA-256"])

        refusal = await until_refused(ask)
        assert refusal.message == "authentication failed: unknown user, or wrong password or token"
        assert (await processes.ask(address, "SCRAM-SHA-512", PASSWORDS["SCRAM-SHA-512"])).cluster_id
