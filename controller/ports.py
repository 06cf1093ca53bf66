"""Ports of the controller: sending requests to brokers, and subsets of larger interfaces."""

from asyncio import Future
from collections.abc import Mapping, Sequence
from typing import Protocol

from cluster.model.broker import Broker, BrokerId
from cluster.model.partition import LeaderAndIsr, TopicAssignment, TopicPartition
from cluster.requests.control import ControlRequest, ControlResponse
from cluster.requests.recovery import DescribeReplicasResponse
from cluster.zookeeper.port import Znode
from controller.decisions.brokers.refusals import ChannelState


class BrokerQueries(Protocol):
    """Asks brokers, and changes nothing."""

    async def describe_replicas(self, broker: Broker, *, recovers: bool) -> DescribeReplicasResponse:
        """Ask once what the broker has and knows; see the request. Raises PeerUnreachableError, ApiError."""
        ...

    def oldest_release(self) -> str | None:
        """The oldest release of Apache Kafka among the connected brokers; None if there are none of Kafka's."""
        ...

    def brokers_with_authorizer(self) -> frozenset[BrokerId]:
        """The connected brokers of Apache Kafka that have an authorizer."""
        ...


class BrokerClient(BrokerQueries, Protocol):
    """Sends one control request to one broker; ordering and retries are the caller's."""

    async def send(self, broker: Broker, request: ControlRequest) -> ControlResponse:
        """Send a request and await the response, at most `request.timeout.ms`.

        Raises PeerUnreachableError if there was no response: the request may or may not have been applied.
        """

    async def forget(self, broker: Broker) -> None:
        """Close the connection to this broker, if there is one."""


class RequestChannels(Protocol):
    """An ordered queue of control requests for each registered broker."""

    def add(self, broker: Broker) -> None:
        """Open a channel; no effect if there is one."""

    def remove(self, broker: BrokerId) -> None:
        """Drop the queued requests and close the channel."""

    def stop(self) -> None:
        """Remove every channel."""

    def send(self, broker: BrokerId, request: ControlRequest, *, is_further_part: bool = False) -> None:
        """Queue a request; dropped if there is no channel. `is_further_part`: a too large one was divided, and the
        part before was queued just now.
        """

    def delivered(self, broker: BrokerId) -> "Future[bool]":
        """True once the broker responded to every request queued for it now; False if its channel is removed before."""

    def states(self) -> Mapping[BrokerId, ChannelState]:
        """Report what each broker refuses, and for how long it has not responded."""
        ...


class PartitionReads(Protocol):
    """Where a new controller has the topics and the states of their partitions from."""

    async def read_topics(self, topics: Sequence[str]) -> dict[str, TopicAssignment]:
        """The topics as ZooKeeper has them, with a watch on each; missing and malformed ones are omitted."""
        ...

    async def read_states(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, LeaderAndIsr]:
        """Leadership of the partitions that have a valid state znode, in their order."""
        ...


class ZooKeeperReads(Protocol):
    """The read-only part of the ZooKeeper port; arms no watches."""

    async def get_many(self, paths: Sequence[str]) -> list[Znode | None]:
        """Read znodes, in the order of the paths; None for one that is missing."""
        ...

    async def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        """List the children of znodes, in the order of the paths; None for one that is missing."""
        ...

    async def open_to_everyone(self, paths: Sequence[str]) -> list[bool]:
        """Whether everyone may change each znode, in the order of the paths."""
        ...
