"""The administrative client: one method per request."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence

from admin import record_deletion
from admin.connection import PROBE_TIMEOUT_MS, RETRY_PAUSE_S, ClusterConnection
from admin.topology import Topology
from cluster.kafka_wire.messages.data import DescribeLogDirsResult
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import (
    ApiError,
    ConnectionRefusedByHostError,
    ErrorCode,
    PeerUnreachableError,
    known_code,
)
from cluster.model.partition import TopicPartition
from cluster.requests import cluster, configs, elections, reassignments, recovery, topics

_LAST_WORD_MS = 1_000
"""How long a command that had no answer until its timeout may ask why."""


class AdminClient(ClusterConnection):
    """A connection with everything that can be asked of the controller, and errors as there."""

    async def create_topics(
        self, new: Sequence[topics.NewTopic], *, validate_only: bool = False
    ) -> topics.CreateTopicsResponse:
        """Create topics and wait until their partitions have leaders. One result per topic.

        An attempt whose answer was lost is sent again; only after a failover in between may
        TOPIC_ALREADY_EXISTS speak of our own topic. So it is with every mutation here.
        """
        request = topics.CreateTopicsRequest(tuple(new), self._timeout_ms, validate_only)
        return await self.ask_controller(request)

    async def create_partitions(
        self, new: Sequence[topics.NewPartitions], *, validate_only: bool = False
    ) -> topics.CreatePartitionsResponse:
        """Add partitions to topics and wait until they have leaders. One result per topic."""
        request = topics.CreatePartitionsRequest(tuple(new), self._timeout_ms, validate_only)
        return await self.ask_controller(request)

    async def delete_topics(
        self, names: Sequence[str], *, wait_ms: int | None = None, validate_only: bool = False
    ) -> topics.DeleteTopicsResponse:
        """Mark topics for deletion and wait until they are gone, at most `wait_ms`; default: the client's timeout.

        REQUEST_TIMED_OUT means that the deletion is under way: `describe_topic_deletions` tells how far it is.
        """
        limit_ms = self._timeout_ms if wait_ms is None else wait_ms
        request = topics.DeleteTopicsRequest(tuple(map(topics.TopicToDelete, names)), limit_ms, validate_only)
        return await self.ask_controller(request)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, Offset], *, wait_ms: int | None = None, validate_only: bool = False
    ) -> record_deletion.Results:
        """Delete the records below these offsets, -1: below the high watermark. One result per partition.

        REQUEST_TIMED_OUT means that the leader has deleted them, or may have, but not every live follower has.
        """
        limit_ms = self._timeout_ms if wait_ms is None else wait_ms
        return await record_deletion.delete_records(
            Topology(self), offsets, wait_ms=limit_ms, validate_only=validate_only
        )

    async def list_topics(self) -> topics.ListTopicsResponse:
        return await self.ask_controller(topics.ListTopicsRequest())

    async def describe_topics(self, names: Sequence[str] | None = None) -> topics.DescribeTopicsResponse:
        """Partitions and configs of these topics, of all with None; an unknown one has its error code."""
        return await self.ask_controller(topics.DescribeTopicsRequest(_all_or(names)))

    async def describe_topic_deletions(
        self, names: Sequence[str] | None = None
    ) -> topics.DescribeTopicDeletionsResponse:
        """Progress of the deletions of these topics, of all with None, and what they wait for."""
        request = topics.DescribeTopicDeletionsRequest(_all_or(names))
        return await self.ask_controller(request)

    async def alter_partition_reassignments(
        self, topics: Sequence[reassignments.ReassignableTopic], *, validate_only: bool = False
    ) -> reassignments.AlterPartitionReassignmentsResponse:
        """Begin, replace or cancel reassignments. Success means accepted and recorded, not completed."""
        request = reassignments.AlterPartitionReassignmentsRequest(tuple(topics), self._timeout_ms, validate_only)
        return await self.ask_controller(request)

    async def list_partition_reassignments(
        self, topics: Sequence[reassignments.ListPartitionReassignmentsTopics] | None = None
    ) -> reassignments.ListPartitionReassignmentsResponse:
        """Ongoing reassignments of these partitions, or all with None."""
        request = reassignments.ListPartitionReassignmentsRequest(
            None if topics is None else tuple(topics), self._timeout_ms
        )
        return await self.ask_controller(request)

    async def describe_reassignments(
        self, names: Sequence[str] | None = None
    ) -> reassignments.DescribeReassignmentsResponse:
        """Progress of the reassignments of these topics, of all with None, and what they wait for."""
        return await self.ask_controller(reassignments.DescribeReassignmentsRequest(_all_or(names)))

    async def elect_leaders(
        self,
        election_type: int,
        partitions: Sequence[elections.ElectLeadersTopic] | None,
        *,
        validate_only: bool = False,
    ) -> elections.ElectLeadersResponse:
        """Elect PREFERRED leaders, or UNCLEAN ones where there is none, of these partitions, of all with None."""
        chosen = None if partitions is None else tuple(partitions)
        request = elections.ElectLeadersRequest(election_type, chosen, self._timeout_ms, validate_only)
        return await self.ask_controller(request)

    async def plan_controlled_shutdown(self, broker: BrokerId) -> elections.PlanControlledShutdownResponse:
        """Plan a controlled shutdown of this broker, without changing anything."""
        return await self.ask_controller(elections.PlanControlledShutdownRequest(broker))

    async def shut_down_broker(self, broker: cluster.DescribedBroker) -> elections.ShutdownResponse:
        """Request a controlled shutdown of this incarnation of a broker. Returns when it has begun."""
        request = elections.ShutdownRequest(broker.id, broker.epoch)
        try:
            response = await self.ask_broker(broker.endpoint.address, request, PROBE_TIMEOUT_MS)
        except PeerUnreachableError as error:
            why = (
                f"{error.why}: it is not shutting down unless it gets the request later; if it hangs, kill its process"
            )
            raise PeerUnreachableError(f"broker {broker.id} at {error.address} does not answer", why) from error
        return response

    async def registered_broker(self, broker_id: int) -> cluster.DescribedBroker:
        """Raises ApiError(BROKER_NOT_AVAILABLE) if it is not registered."""
        for broker in (await self.describe_controller()).brokers:
            if broker.id == broker_id:
                return broker
        message = "the broker is not registered; 'klamm brokers list' shows those that are"
        raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, message, field="broker", value=broker_id)

    async def acknowledge_damage(
        self, broker: cluster.DescribedBroker, partition: TopicPartition, *, validate_only: bool = False
    ) -> cluster.AcknowledgeDamageResponse:
        """End the finding that this broker's replica has lost records for good. Raises ApiError if it has not."""
        request = cluster.AcknowledgeDamageRequest(broker.id, *partition, validate_only)
        return await self.ask_broker(broker.endpoint.address, request, PROBE_TIMEOUT_MS)

    async def describe_findings(self) -> cluster.DescribeFindingsResponse:
        """What the active controller knows to be wrong."""
        return await self.ask_controller(cluster.DescribeFindingsRequest())

    async def describe_candidates_findings(self) -> list[cluster.Finding] | None:
        """What the known addresses that answer say while no controller is active; one round, each finding once.

        None if none of them answers.
        """

        async def ask(address: str) -> Sequence[cluster.Finding] | None:
            try:
                found = await self.rpc.call(address, cluster.DescribeFindingsRequest(), _LAST_WORD_MS)
            except ApiError:
                return ()
            except PeerUnreachableError:
                return None
            return found.findings

        answers = await asyncio.gather(*map(ask, self.bootstrap))
        if all(answer is None for answer in answers):
            return None
        return list(dict.fromkeys(finding for answer in answers for finding in answer or ()))

    async def describe_findings_of(self, broker: cluster.DescribedBroker) -> tuple[cluster.Finding, ...]:
        """What one broker knows to be wrong, without retries; that it does not respond or refuses is a finding, too."""
        try:
            return await self._findings_of(broker)
        except ApiError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                return ()
            kind = "requests_fail"
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                kind = "requests_not_authorized"
            detail = f"broker {broker.id} does not say what is wrong with it, as with its log directories: {error}"
            return (cluster.Finding(kind, detail, broker=broker.id),)
        except ConnectionRefusedByHostError:
            detail = f"broker {broker.id} is registered, but refuses connections: its process has ended, or is starting"
            return (cluster.Finding("unreachable_leader", detail, broker=broker.id),)
        except PeerUnreachableError as error:
            detail = (
                f"broker {broker.id} is registered, but does not respond: {error}; read its log, restart it if it hangs"
            )
            return (cluster.Finding("silent_broker", detail, broker=broker.id),)

    async def _findings_of(self, broker: cluster.DescribedBroker) -> tuple[cluster.Finding, ...]:
        if self.kafka is not None:
            described = await self.describe_log_dirs(broker, with_replicas=False)
            failed = (log_dir for log_dir in described if log_dir.error_code)
            return tuple(_failed_log_dir(broker.id, log_dir) for log_dir in failed)
        response = await self.rpc.call(broker.endpoint.address, cluster.DescribeFindingsRequest(), PROBE_TIMEOUT_MS)
        return response.findings

    async def describe_log_dirs(
        self, broker: cluster.DescribedBroker, *, with_replicas: bool = True
    ) -> Sequence[DescribeLogDirsResult]:
        """Log directories of a broker of Apache Kafka, and the size of each replica in them, without retries."""
        if self.kafka is None:
            why = "only brokers of Apache Kafka describe their log directories; klamm's have metrics of their disks"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, why)
        address, timeout_ms = broker.endpoint.address, self._timeout_ms if with_replicas else PROBE_TIMEOUT_MS
        with self.waiting.named(lambda: f"broker {broker.id} has not answered yet", timeout_ms / 1000):
            return await self.kafka.describe_log_dirs(address, timeout_ms, with_replicas=with_replicas)

    async def plan_cluster_recovery(self, *, accept_loss: bool) -> recovery.PlanClusterRecoveryResponse:
        """What `recover_cluster` would do, and why it would be refused."""
        request = recovery.PlanClusterRecoveryRequest(accept_loss)
        return await self.ask_controller(request)

    async def recover_cluster(self, *, accept_loss: bool) -> recovery.RecoverClusterResponse:
        """Bring ZooKeeper up to what the brokers know; the controller that answers has resigned."""
        return await self.ask_controller(recovery.RecoverClusterRequest(accept_loss))

    async def describe_configs(self, resources: Sequence[configs.ConfigResource]) -> configs.DescribeConfigsResponse:
        return await self.ask_controller(configs.DescribeConfigsRequest(tuple(resources)))

    async def alter_configs(
        self, resources: Sequence[configs.AlterConfigsResource], *, validate_only: bool = False
    ) -> configs.AlterConfigsResponse:
        """Set and delete single keys. One result per resource, which is changed as a whole or not at all."""
        request = configs.AlterConfigsRequest(tuple(resources), validate_only)
        return await self.ask_controller(request)

    async def update_features(self, updates: Sequence[configs.FeatureUpdate]) -> configs.UpdateFeaturesResponse:
        """Raise, lower and remove finalized features. One result per update; the valid ones are written."""
        request = configs.UpdateFeaturesRequest(tuple(updates), self._timeout_ms)
        return await self.ask_controller(request)

    async def plan_feature_updates(
        self, updates: Sequence[configs.FeatureUpdate]
    ) -> configs.PlanFeatureUpdatesResponse:
        """What `update_features` would come to; nothing is changed."""
        return await self.ask_controller(configs.PlanFeatureUpdatesRequest(tuple(updates)))

    async def describe_features(self) -> configs.DescribeFeaturesResponse:
        return await self.ask_controller(configs.DescribeFeaturesRequest())

    async def watch(
        self, topics: Sequence[str] | None = None, *, cursor: str = ""
    ) -> AsyncGenerator[cluster.WatchResponse]:
        """Stream cluster events from now on, or after `cursor`, across failovers, without an end.

        Raises PeerUnreachableError when no controller is found for as long as the client's timeout.
        """
        while True:
            address = await self.find_controller()
            try:
                async for response in self.rpc.stream(address, cluster.WatchRequest(cursor, _all_or(topics))):
                    cursor = response.cursor
                    yield response
            except PeerUnreachableError:
                self._controller = None
            except ApiError as error:
                self._follow(error, address)
            await asyncio.sleep(RETRY_PAUSE_S)

    async def read_state_changes(self, address: str, topic: str, partition: int) -> cluster.ReadStateChangesResponse:
        """One node's state-change records of a partition, without retries."""
        request = cluster.ReadStateChangesRequest(topic, partition)
        with self.waiting.named(lambda: f"{self.name(address)} has not answered yet", self.timeout_s):
            return await self.rpc.call(address, request, self._timeout_ms)

    async def describe_log_heads(self, address: str) -> tuple[cluster.LogHead, ...]:
        """Where one node's state-change log ends, without a second try."""
        with self.waiting.named(lambda: f"{self.name(address)} has not answered yet", self.timeout_s):
            response = await self.rpc.call(address, cluster.DescribeLogHeadsRequest(), self._timeout_ms)
        return response.heads


def _failed_log_dir(broker: BrokerId, described: DescribeLogDirsResult) -> cluster.Finding:
    error = known_code(described.error_code).name
    detail = f"log directory {described.log_dir} of broker {broker} failed: {error}; see server.log of the broker"
    return cluster.Finding("failed_log_directory", detail, broker=broker)


def _all_or(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)
