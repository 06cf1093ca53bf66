"""`klamm adopt --execute` with real candidates, ZooKeeper and sockets, and brokers that answer as they are told to.

Brokers of Kafka's own do the same in the deep suite.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from cluster.kafka_wire.messages import acls as wire_acls
from cluster.kafka_wire.messages import configs as wire_configs
from cluster.kafka_wire.messages import control as wire_control
from cluster.kafka_wire.messages import data as wire_data
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.model.broker import Broker
from cluster.model.errors import ErrorCode
from cluster.znodes.registrations import encode_broker
from tests.controllers.plain_zookeeper import plain_client
from tests.kafka.adopted import filled_in, tree
from tests.kafka.peers import KafkaPeer, kafka_broker
from tests.processes.commands import LAUNCHER

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]
_POLL_S: Final = 0.1


class Brokers:
    """Two of them; the first is the controller whenever nobody else is. `obeys`: whether they take control requests."""

    def __init__(self, zookeeper: str, client: KazooClient) -> None:
        self.zookeeper, self._client = zookeeper, client
        self.settings = {"inter.broker.protocol.version": "3.9-IV0"}
        self.obeys, self.has_authorizer = True, False
        self.registered: dict[int, Broker] = {}
        self.controller: tuple[int, Any] = (1, None)
        self.peers = {number: self._peer() for number in (1, 2)}

    def _peer(self) -> KafkaPeer:
        return KafkaPeer(
            {
                ApiKey.METADATA: self._metadata,
                ApiKey.DESCRIBE_CONFIGS: self._configs,
                ApiKey.DESCRIBE_ACLS: self._acls,
                ApiKey.UPDATE_METADATA: self._update,
                ApiKey.LEADER_AND_ISR: lambda _: wire_control.LeaderAndIsrResponse(),
                ApiKey.STOP_REPLICA: lambda _: wire_control.StopReplicaResponse(),
            }
        )

    def _metadata(self, _: Any) -> wire_data.MetadataResponse:
        id_, endpoint = self.controller
        own = self.registered.values()
        found = [(broker.id, broker.endpoints[0].host, broker.endpoints[0].port) for broker in own]
        found += [] if endpoint is None else [(id_, endpoint.host, endpoint.port)]
        brokers = tuple(
            wire_data.MetadataResponseBroker(node_id=id_, host=host, port=port) for id_, host, port in found
        )
        return wire_data.MetadataResponse(brokers=brokers, controller_id=id_)

    def _configs(self, request: Any) -> wire_configs.DescribeConfigsResponse:
        configs = tuple(
            wire_configs.DescribeConfigsResourceResult(name=name, value=value) for name, value in self.settings.items()
        )
        resource = request.resources[0]
        result = wire_configs.DescribeConfigsResult(resource_name=resource.resource_name, configs=configs)
        return wire_configs.DescribeConfigsResponse(results=(result,))

    def _acls(self, _: Any) -> wire_acls.DescribeAclsResponse:
        code = ErrorCode.NONE if self.has_authorizer else ErrorCode.SECURITY_DISABLED
        return wire_acls.DescribeAclsResponse(error_code=code)

    def _update(self, request: Any) -> wire_control.UpdateMetadataResponse:
        if self.obeys:
            live = next(broker for broker in request.live_brokers if broker.id == request.controller_id)
            self.controller = (request.controller_id, live.endpoints[0])
        return wire_control.UpdateMetadataResponse()

    async def rule(self) -> None:
        """As Kafka's brokers do it: the first takes `/controller` where there is none."""
        while True:
            with suppress(NodeExistsError):
                self._client.create("/controller", b'{"version":1,"brokerid":1,"timestamp":"1"}', ephemeral=True)
                epoch = int(self._client.get("/controller_epoch")[0])
                self._client.set("/controller_epoch", str(epoch + 1).encode())
                self.controller = (1, None)
            await asyncio.sleep(_POLL_S)

    def data(self, path: str) -> bytes | None:
        try:
            found: bytes = self._client.get(path)[0]
        except NoNodeError:
            return None
        return found


class Commands:
    """Runs `klamm` beside the brokers, which live in this process."""

    def __init__(self, zookeeper: str, folder: Path, cleanup: AsyncExitStack) -> None:
        self._zookeeper, self._folder, self._cleanup = zookeeper, folder, cleanup

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *LAUNCHER, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        self._cleanup.push_async_callback(_end, process)
        return process

    async def adopt(self, *options: str) -> tuple[int | None, Any, str]:
        process = await self.start("adopt", "--zookeeper", self._zookeeper, "-o", "json", *options)
        out, error = await process.communicate()
        assert out, error.decode()
        return process.returncode, json.loads(out), error.decode()

    async def controller(self, command: str, *more: str) -> None:
        arguments = filled_in(command, {}, self._folder)
        id_ = arguments[arguments.index("--id") + 1]
        process = await asyncio.create_subprocess_exec(
            *LAUNCHER, *arguments, *more, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        self._cleanup.push_async_callback(_end, process)
        path = f"/controllers/ids/{id_}"
        while path not in tree(self._zookeeper, "/zookeeper"):
            assert process.returncode is None
            await asyncio.sleep(_POLL_S)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


@asynccontextmanager
async def cluster(zookeeper: str, folder: Path) -> AsyncIterator[tuple[Brokers, Commands]]:
    async with AsyncExitStack() as stack:
        client = stack.enter_context(plain_client(zookeeper))
        brokers = Brokers(zookeeper, client)
        for path in ("/brokers/ids", "/brokers/topics", "/controllers"):
            client.ensure_path(path)
        client.delete("/controllers")
        client.create("/controller_epoch", b"7")
        for number, peer in brokers.peers.items():
            broker = await stack.enter_async_context(kafka_broker(peer, number))
            brokers.registered[number] = broker
            client.create(f"/brokers/ids/{number}", encode_broker(broker, 0), ephemeral=True)
        rules = asyncio.create_task(brokers.rule())
        stack.callback(rules.cancel)
        yield brokers, Commands(zookeeper, folder, stack)


def snapshot(zookeeper: str) -> dict[str, Any]:
    return tree(zookeeper, "/zookeeper")


@pytest.mark.rule("D-116", "D-117")
async def test_the_printed_commands_are_adopted_and_a_candidate_that_does_not_suit_is_refused(
    tmp_path: Path, zookeeper: str
) -> None:
    async with cluster(zookeeper, tmp_path) as (brokers, klamm):
        code, found, _ = await klamm.adopt()
        assert (code, found["refusals"]) == (0, [])
        await klamm.controller(found["commands"][0], "--override", "inter.broker.listener.name=INTERNAL")
        before = snapshot(zookeeper)
        code, found, _ = await klamm.adopt("--execute")
        assert code == 1
        assert found["refusals"] == [
            "candidate 901 takes INTERNAL for the listener between brokers, which is PLAINTEXT: add --override "
            "inter.broker.listener.name=PLAINTEXT"
        ]
        assert snapshot(zookeeper) == before
        assert brokers.controller == (1, None)


@pytest.mark.rule("D-117")
async def test_nothing_is_written_before_a_candidate_is_registered(tmp_path: Path, zookeeper: str) -> None:
    async with cluster(zookeeper, tmp_path) as (_, klamm):
        await klamm.adopt()
        before = snapshot(zookeeper)
        code, found, said = await klamm.adopt("--execute", "--timeout", "1")
        assert (code, found["refusals"]) == (1, ["no controller of klamm registered within 1 s"])
        assert "nothing was changed" in said
        assert snapshot(zookeeper) == before


@pytest.mark.rule("D-117", "D-118")
async def test_the_adoption_names_the_brokers_and_a_topic_can_be_created(tmp_path: Path, zookeeper: str) -> None:
    async with cluster(zookeeper, tmp_path) as (brokers, klamm):
        command = (await klamm.adopt())[1]["commands"][0]
        await klamm.controller(command)
        code, found, said = await klamm.adopt("--execute")
        assert code == 0, said
        assert found["took_over"] == {"controller": 901, "obeyed_by": {"1": 901, "2": 901}}
        assert json.loads(brokers.data("/klamm/adoption") or b"{}")["brokers"] == [1, 2]
        # An adoption that does not succeed leaves the one before as it is.
        former = brokers.data("/klamm/adoption")
        brokers.has_authorizer = False
        brokers.obeys, brokers.controller = False, (1, None)
        code, _, said = await klamm.adopt("--execute", "--mode", "persistent", "--timeout", "3")
        assert code == 1
        assert "wrote /klamm/adoption as it was before" in said
        assert brokers.data("/klamm/adoption") == former


@pytest.mark.rule("D-118")
@pytest.mark.parametrize("fault", ["no obedience", "no creation", "SIGTERM", "SIGINT"])
async def test_an_adoption_that_does_not_succeed_is_given_back(tmp_path: Path, zookeeper: str, fault: str) -> None:
    async with cluster(zookeeper, tmp_path) as (brokers, klamm):
        await klamm.controller((await klamm.adopt())[1]["commands"][0])
        brokers.obeys = fault == "no creation"
        process = await klamm.start("adopt", "--zookeeper", zookeeper, "--execute", "--timeout", "8")
        while brokers.data("/klamm/adoption") is None:
            assert process.returncode is None
            await asyncio.sleep(_POLL_S)
        if fault == "no creation":
            brokers.has_authorizer = True
        elif fault.startswith("SIG"):
            await asyncio.sleep(1)
            process.send_signal(signal.Signals[fault])
        _, error = await process.communicate()
        said = error.decode()
        assert process.returncode == 1, said
        assert "klamm: giving the cluster back" in said
        assert "klamm: the cluster is as it was before" in said
        expected = {
            "no obedience": "timed out: the active controller is 901; brokers 1, 2 do not obey it",
            "no creation": "CLUSTER_AUTHORIZATION_FAILED",
        }
        assert expected.get(fault, "klamm: interrupted") in said
        assert brokers.data("/klamm/adoption") is None
        assert json.loads(brokers.data("/controller") or b"{}")["brokerid"] == 1
