"""Answers Metadata and DescribeCluster requests of clients."""

import asyncio
from typing import Final

from broker_agent.metadata_cache import MetadataCache
from broker_agent.registration.controller_finder import ControllerFinder
from cluster.model.broker import UNKNOWN_BROKER_EPOCH, BrokerId, ControllerEpoch, RegisteredBroker
from cluster.model.errors import ZooKeeperError
from cluster.requests.cluster import DescribeClusterResponse, DescribedBroker, DescribedController
from cluster.requests.data import MetadataRequest, MetadataResponse
from cluster.zookeeper.port import ZooKeeper
from cluster.zookeeper.registrations import registered_brokers, registered_controllers

_TIMEOUT_S: Final = 0.5
"""Without ZooKeeper the last UpdateMetadata is known at once; a client may not wait much longer."""


class ClusterDescriptions:
    """Answers Metadata from the cache only, DescribeCluster from the current registrations."""

    def __init__(
        self,
        own_id: BrokerId,
        cluster_id: str,
        *,
        zookeeper: ZooKeeper,
        finder: ControllerFinder,
        metadata: MetadataCache,
    ) -> None:
        self._own_id = own_id
        self._cluster_id = cluster_id
        self._zookeeper = zookeeper
        self._finder = finder
        self._metadata = metadata

    async def metadata(self, request: MetadataRequest) -> MetadataResponse:
        """The leaders and replicas from the last UpdateMetadata (R4.13)."""
        return MetadataResponse(
            brokers=self._metadata.describe_brokers(),
            cluster_id=self._cluster_id,
            controller_id=self._metadata.snapshot.controller_id,
            topics=await self._metadata.describe_topics(request.topics),
        )

    async def describe_cluster(self, controller_epoch: ControllerEpoch) -> DescribeClusterResponse:
        """The active controller and the live brokers; without ZooKeeper, those of the last UpdateMetadata."""
        controllers: tuple[DescribedController, ...] = ()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                registered = await registered_brokers(self._zookeeper)
                controllers = await registered_controllers(self._zookeeper)
        except (ZooKeeperError, TimeoutError):
            registered = [
                RegisteredBroker(broker, UNKNOWN_BROKER_EPOCH)
                for _, broker in sorted(self._metadata.snapshot.brokers.items())
            ]
        endpoint = self._finder.endpoint
        described = [
            DescribedBroker(broker.id, reachable, epoch, broker.rack)
            for broker, epoch in ((r.broker, r.epoch) for r in registered)
            if (reachable := broker.endpoint(self._metadata.listener)) is not None
        ]
        return DescribeClusterResponse(
            cluster_id=self._cluster_id,
            controller_id=self._finder.controller_id,
            controller_address="" if endpoint is None else endpoint.address,
            controller_epoch=controller_epoch,
            brokers=tuple(described),
            node_id=self._own_id,
            node_role="broker",
            controllers=controllers,
        )
