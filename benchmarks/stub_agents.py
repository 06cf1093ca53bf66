"""Broker agents without logs, for benchmarks of the controller: real registrations and real gRPC servers.

A stub parses every request and keeps it before it responds, as an agent that hosts nothing would; the table is built
from the requests only when it is read, so that the controller has the machine's cores during the measurement. `python
-m benchmarks.stub_agents --zookeeper HOST:PORT/CHROOT [--certificates FOLDER]` reads commands as JSON lines from stdin
and responds to each with a line on stdout.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import grpc
from msgspec import Struct

from benchmarks.children import answer_commands
from benchmarks.embedded_zookeeper import client_tls, connect_to
from benchmarks.partition_table import Message, PartitionTable
from benchmarks.stub_proposals import IsrProposals, Proposed, add_up
from benchmarks.synthetic_cluster import read_partitions
from cluster.model.broker import Broker, BrokerEpoch, BrokerId, Endpoint
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import AlterPartitionResponse
from cluster.rpc.channels import MESSAGE_BYTES_MAX, server_options
from cluster.tls.settings import TlsSettings
from cluster.znodes.paths import BROKERS_IDS, broker_path
from cluster.znodes.registrations import encode_broker
from cluster.zookeeper.port import Create
from klamm.v1 import control_pb2 as pb

SERVICE = "klamm.v1.BrokerAgentService"
DIFFERENCES_SHOWN = 20
STOP_GRACE_S = 0.2


class Command(Struct, frozen=True):
    """`register` and `drop` a broker; `received` since the last call; `compare` with ZooKeeper all but `broker`;
    `leaders`; let `brokers`, and no others, `join` the ISRs; what was `proposed` since the last call.
    """

    do: Literal["register", "drop", "received", "compare", "leaders", "join", "proposed"]
    broker: BrokerId = BrokerId(-1)
    brokers: tuple[BrokerId, ...] = ()


class Received(Struct, frozen=True):
    """One request; times in ms since the Unix epoch."""

    broker: BrokerId
    kind: str
    bytes: int
    partitions: int
    arrived_at_ms: float
    acknowledged_at_ms: float


class StubAgent:
    """One registered broker that responds NONE to every request of the controller."""

    def __init__(self, broker: BrokerId, zookeeper: str, tls: TlsSettings | None = None) -> None:
        self._broker = broker
        self._server = grpc.aio.server(options=server_options(MESSAGE_BYTES_MAX))
        self._client = connect_to(zookeeper, tls)
        self._client.listen(lambda event: None)
        self._table = PartitionTable(broker, BrokerEpoch(-1))
        self._unapplied: list[tuple[Message, float]] = []
        self._received: list[Received] = []
        self.proposals = IsrProposals(broker, self._client, self._on_answer)

    async def register(self) -> None:
        requests = (pb.LeaderAndIsrRequest, pb.UpdateMetadataRequest, pb.StopReplicaRequest)
        kinds = {request.__name__.removesuffix("Request"): request for request in requests}
        service = grpc.method_handlers_generic_handler(
            SERVICE, {kind: self._handler(kind, request) for kind, request in kinds.items()}
        )
        self._server.add_generic_rpc_handlers((service,))
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        await self._client.start_session()
        body = encode_broker(Broker(self._broker, (Endpoint("127.0.0.1", port),)), int(time.time() * 1000))
        (created,) = await self._client.multi([Create(broker_path(self._broker), body, ephemeral=True)])
        stat = await self._client.exists(broker_path(self._broker))
        if not created.ok or stat is None:
            raise RuntimeError(f"broker {self._broker} cannot register: {created.error.name}")
        self._table.broker_epoch = self.proposals.broker_epoch = BrokerEpoch(stat.czxid)

    async def drop(self) -> None:
        """End the session, which deletes the registration, and then the server, as a failed broker would."""
        await self.proposals.close()
        await self._client.close()
        await self._server.stop(STOP_GRACE_S)

    def join(self, brokers: Sequence[BrokerId]) -> None:
        """Let these brokers join the ISRs of the partitions that this agent leads, from now on."""
        self.proposals.join(brokers)
        table = self.table()
        self.proposals.consider(table.led(table.hosted))

    def _on_answer(self, response: AlterPartitionResponse) -> None:
        self.table().alter(response)

    def _handler(self, kind: str, request_type: type[Any]) -> Any:
        async def handle(data: bytes, _: object) -> bytes:
            arrived_at_ms = time.time() * 1000
            message = request_type.FromString(data)
            acknowledged_at_ms = time.time() * 1000
            self._unapplied.append((message, acknowledged_at_ms))
            partitions = _count_partitions(message)
            if self.proposals.is_open and isinstance(message, pb.LeaderAndIsrRequest):
                self.proposals.consider(self.table().led(_partitions(message)))
            self._received.append(
                Received(self._broker, kind, len(data), partitions, arrived_at_ms, acknowledged_at_ms)
            )
            encoded: bytes = _answer(message).SerializeToString()
            return encoded

        return grpc.unary_unary_rpc_method_handler(handle)

    def take_received(self) -> list[Received]:
        """Requests since the last call, in order of arrival."""
        taken, self._received = self._received, []
        return taken

    def table(self) -> PartitionTable:
        for message, acknowledged_at_ms in self._unapplied:
            self._table.apply(message, acknowledged_at_ms)
        self._unapplied.clear()
        return self._table

    async def differences(self) -> list[str]:
        registered = await self._client.children(BROKERS_IDS)
        cluster = await read_partitions(self._client)
        return [
            f"agent {self._broker}: {line}"
            for line in self.table().differences(cluster, set(map(int, registered or ())))
        ]


def _answer(message: Message) -> Any:
    """The response that all is done; of a StopReplica it names each replica, as a deletion waits for that."""
    match message:
        case pb.LeaderAndIsrRequest():
            return pb.LeaderAndIsrResponse(error_code=ErrorCode.NONE)
        case pb.UpdateMetadataRequest():
            return pb.UpdateMetadataResponse(error_code=ErrorCode.NONE)
        case pb.StopReplicaRequest():
            stopped = [
                pb.StopReplicaPartitionError(
                    topic_name=state.topic_name, partition_index=state.partition_index, error_code=ErrorCode.NONE
                )
                for state in message.partition_states
            ]
            return pb.StopReplicaResponse(error_code=ErrorCode.NONE, partition_errors=stopped)


def _count_partitions(message: Message) -> int:
    if isinstance(message, pb.StopReplicaRequest):
        return len(message.partition_states)
    return sum(len(topic.partition_states) for topic in message.topic_states)


def _partitions(message: pb.LeaderAndIsrRequest) -> Iterator[TopicPartition]:
    for topic in message.topic_states:
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index)


class StubProcess:
    """The agents of this process, and the handler of commands."""

    def __init__(self, zookeeper: str, tls: TlsSettings | None) -> None:
        self._zookeeper, self._tls = zookeeper, tls
        self._agents: dict[BrokerId, StubAgent] = {}

    async def answer(self, command: Command) -> Any:
        match command.do:
            case "register":
                agent = self._agents[command.broker] = StubAgent(command.broker, self._zookeeper, self._tls)
                await agent.register()
            case "drop":
                dropped_at_ms = time.time() * 1000
                await self._agents.pop(command.broker).drop()
                return dropped_at_ms
            case "join":
                for agent in self._agents.values():
                    agent.join(command.brokers)
            case "compare":
                compared = [agent for broker, agent in self._agents.items() if broker != command.broker]
                return [line for agent in compared for line in await agent.differences()][:DIFFERENCES_SHOWN]
            case _:
                return self._report(command)
        return None

    def _report(self, command: Command) -> Any:
        match command.do:
            case "received":
                return [received for agent in self._agents.values() for received in agent.take_received()]
            case "leaders":
                return self._new_leaders()
            case "proposed":
                return self._proposed()

    def _proposed(self) -> Proposed:
        return add_up(agent.proposals.take() for agent in self._agents.values())

    def _new_leaders(self) -> dict[str, float]:
        """Find when the last of this process's agents received the current leader, per partition, in ms."""
        latest: dict[str, float] = {}
        for agent in self._agents.values():
            for tp, at_ms in agent.table().new_leaders_at_ms.items():
                latest[str(tp)] = max(at_ms, latest.get(str(tp), 0.0))
        return latest


async def serve(zookeeper: str, tls: TlsSettings | None) -> None:
    await answer_commands(Command, StubProcess(zookeeper, tls).answer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--certificates", type=Path, help="a folder with those of `client_tls`")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.zookeeper, arguments.certificates and client_tls(arguments.certificates)))
