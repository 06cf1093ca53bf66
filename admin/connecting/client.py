"""Holds the administrative client, which has a method for each request."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence

from admin.connecting.connection import RETRY_PAUSE_S, ClusterConnection
from admin.describing import record_deletion
from admin.describing.topology import Topology
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import (
    ApiError,
    ConnectionRefusedByHostError,
    ErrorCode,
    PeerUnreachableError,
)
from cluster.model.partition import TopicPartition
from cluster.requests import acls, cluster, configs, elections, log_dirs, quotas, reassignments, recovery, topics, users
from cluster.requests.request import RequestFor, Response

_LAST_WORD_MS = 1_000
"""The time that a command without an answer until its timeout may take to ask why."""


class AdminClient(ClusterConnection):
    """Sends requests to the controller and to single nodes over a `ClusterConnection`, which says what they raise."""

    async def create_topics(
        self, new: Sequence[topics.NewTopic], *, validate_only: bool = False
    ) -> topics.CreateTopicsResponse:
        """Create topics and wait until their partitions have leaders; the result has an item for each topic.

        An attempt whose answer was lost is sent again under its request id, as every mutation is. Only after a failover
        in between can TOPIC_ALREADY_EXISTS be about the topic that the first attempt created.
        """
        request = topics.CreateTopicsRequest(tuple(new), self.limits.left_ms, validate_only)
        return await self.ask_controller(request)

    async def create_partitions(
        self, new: Sequence[topics.NewPartitions], *, validate_only: bool = False
    ) -> topics.CreatePartitionsResponse:
        """Add partitions to topics and wait until they have leaders; the result has an item for each topic."""
        request = topics.CreatePartitionsRequest(tuple(new), self.limits.left_ms, validate_only)
        return await self.ask_controller(request)

    async def delete_topics(
        self, names: Sequence[str], *, wait_ms: int | None = None, validate_only: bool = False
    ) -> topics.DeleteTopicsResponse:
        """Mark topics for deletion and wait until they are gone, at most `wait_ms`; default: the client's timeout.

        REQUEST_TIMED_OUT means that the deletion continues: `describe_topic_deletions` shows its progress.
        """
        limit_ms = self.limits.left_ms if wait_ms is None else wait_ms
        request = topics.DeleteTopicsRequest(tuple(map(topics.TopicToDelete, names)), limit_ms, validate_only)
        return await self.ask_controller(request)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, Offset], *, wait_ms: int | None = None, validate_only: bool = False
    ) -> record_deletion.Results:
        """Delete the records below these offsets (-1: the high watermark); the result has an item for each partition.

        REQUEST_TIMED_OUT means that the leader has or may have deleted them, but not every live follower has.
        """
        limit_ms = self.limits.left_ms if wait_ms is None else wait_ms
        return await record_deletion.delete_records(
            Topology(self), offsets, wait_ms=limit_ms, validate_only=validate_only
        )

    async def list_topics(self) -> topics.ListTopicsResponse:
        return await self.ask_controller(topics.ListTopicsRequest())

    async def describe_topics(self, names: Sequence[str] | None = None) -> topics.DescribeTopicsResponse:
        """Describe partitions and configs of these topics (None: of all); an unknown topic has an error code."""
        return await self.ask_controller(topics.DescribeTopicsRequest(_all_or(names)))

    async def describe_topic_deletions(
        self, names: Sequence[str] | None = None
    ) -> topics.DescribeTopicDeletionsResponse:
        """Describe the progress of the deletions of these topics (None: of all), and what they wait for."""
        request = topics.DescribeTopicDeletionsRequest(_all_or(names))
        return await self.ask_controller(request)

    async def alter_partition_reassignments(
        self, topics: Sequence[reassignments.ReassignableTopic], *, validate_only: bool = False
    ) -> reassignments.AlterPartitionReassignmentsResponse:
        """Begin, replace or cancel reassignments. Success means accepted and recorded, not completed."""
        request = reassignments.AlterPartitionReassignmentsRequest(tuple(topics), self.limits.left_ms, validate_only)
        return await self.ask_controller(request)

    async def list_partition_reassignments(
        self, topics: Sequence[reassignments.ListPartitionReassignmentsTopics] | None = None
    ) -> reassignments.ListPartitionReassignmentsResponse:
        """List the ongoing reassignments of these partitions (None: of all)."""
        request = reassignments.ListPartitionReassignmentsRequest(
            None if topics is None else tuple(topics), self.limits.left_ms
        )
        return await self.ask_controller(request)

    async def describe_reassignments(
        self, names: Sequence[str] | None = None
    ) -> reassignments.DescribeReassignmentsResponse:
        """Describe the progress of the reassignments of these topics (None: of all), and what they wait for."""
        return await self.ask_controller(reassignments.DescribeReassignmentsRequest(_all_or(names)))

    async def elect_leaders(
        self,
        election_type: int,
        partitions: Sequence[elections.ElectLeadersTopic] | None,
        *,
        validate_only: bool = False,
        awaits_leaders: bool = True,
    ) -> elections.ElectLeadersResponse:
        """Elect leaders of these partitions (None: of all): PREFERRED ones, or UNCLEAN ones where there is none.

        Returns when the new leaders acknowledged, or, if they are not awaited, when they are elected.
        """
        chosen = None if partitions is None else tuple(partitions)
        request = elections.ElectLeadersRequest(
            election_type, chosen, self.limits.left_ms, validate_only, awaits_leaders
        )
        return await self.ask_controller(request)

    async def plan_controlled_shutdown(self, broker: BrokerId) -> elections.PlanControlledShutdownResponse:
        """Plan a controlled shutdown of this broker, without changing anything."""
        return await self.ask_controller(elections.PlanControlledShutdownRequest(broker))

    async def shut_down_broker(self, broker: cluster.DescribedBroker) -> elections.ShutdownResponse:
        """Request a controlled shutdown of this incarnation of a broker. Returns when it has begun."""
        request = elections.ShutdownRequest(broker.id, broker.epoch)
        try:
            response = await self._ask_registered(broker, request)
        except PeerUnreachableError as error:
            unsure = "it is not shutting down, unless the request reaches it later; if it hangs, kill its process"
            raise PeerUnreachableError(f"broker {broker.id} at {error.address}", f"{error.why}; {unsure}") from error
        return response

    async def registered_broker(self, broker_id: int) -> cluster.DescribedBroker:
        """Find a broker by id. Raises ApiError(BROKER_NOT_AVAILABLE) if it is not registered."""
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
        return await self._ask_registered(broker, request)

    async def _ask_registered(self, broker: cluster.DescribedBroker, request: RequestFor[Response]) -> Response:
        """Ask one broker, once; while it is silent, the wait names it."""
        question = (f"broker {broker.id}", self.ask_broker(broker.endpoint.address, request, self.limits.probe_ms))
        (answer,) = await self.waiting.answers([question], self.limits.probe_ms / 1000, is_fixed=True)
        return answer

    async def describe_findings(self) -> cluster.DescribeFindingsResponse:
        """Ask the active controller what it knows to be wrong."""
        return await self.ask_controller(cluster.DescribeFindingsRequest())

    async def describe_candidates_findings(self) -> list[cluster.Finding] | None:
        """Ask all known addresses once what they find while no controller is active; equal findings are joined.

        The result is None if no address answers.
        """

        async def ask(address: str) -> Sequence[cluster.Finding] | None:
            try:
                limit_ms = min(_LAST_WORD_MS, self.limits.left_ms)
                found = await self.rpc.call(address, cluster.DescribeFindingsRequest(), limit_ms)
            except ApiError:
                return ()
            except PeerUnreachableError:
                return None
            return found.findings

        questions = [(self.name(address), ask(address)) for address in self.bootstrap]
        answers = await self.waiting.answers(questions, _LAST_WORD_MS / 1000, is_fixed=True)
        if all(answer is None for answer in answers):
            return None
        return list(dict.fromkeys(finding for answer in answers for finding in answer or ()))

    async def describe_findings_of(
        self, brokers: Sequence[cluster.DescribedBroker]
    ) -> list[tuple[cluster.Finding, ...]]:
        """Ask each of these brokers once what it knows to be wrong, all at once.

        That a broker does not respond or refuses is a finding, too.
        """
        questions = [(f"broker {broker.id}", self._findings_or_failure_of(broker)) for broker in brokers]
        return await self.waiting.answers(questions, self.limits.probe_ms / 1000, is_fixed=True)

    async def _findings_or_failure_of(self, broker: cluster.DescribedBroker) -> tuple[cluster.Finding, ...]:
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
        response = await self.rpc.call(broker.endpoint.address, cluster.DescribeFindingsRequest(), self.limits.probe_ms)
        return response.findings

    async def describe_log_dirs(
        self, broker: cluster.DescribedBroker, *, with_replicas: bool = True
    ) -> Sequence[log_dirs.DescribedLogDir]:
        """Ask a broker once for its log directories and the size of each replica in them."""
        address, timeout_ms = broker.endpoint.address, self.limits.left_ms if with_replicas else self.limits.probe_ms
        if self.kafka is not None:
            return await self.kafka.describe_log_dirs(address, timeout_ms, with_replicas=with_replicas)
        request = log_dirs.DescribeLogDirsRequest(None if with_replicas else ())
        response = await self.rpc.call(address, request, timeout_ms)
        assert isinstance(response, log_dirs.DescribeLogDirsResponse)
        return response.results

    async def alter_replica_log_dirs(
        self,
        broker: cluster.DescribedBroker,
        wanted: Mapping[TopicPartition, str],
        *,
        validate_only: bool = False,
    ) -> dict[TopicPartition, log_dirs.AlteredReplicaLogDir]:
        """Begin to move replicas of a broker to other log directories of it. REPLICA_NOT_AVAILABLE: it has none, and
        one that it gets later will be there. Only klamm's own brokers can be asked.
        """
        by_path: dict[str, dict[str, list[int]]] = {}
        for tp, path in wanted.items():
            by_path.setdefault(path, {}).setdefault(tp.topic, []).append(tp.partition)
        dirs = tuple(
            log_dirs.AlterReplicaLogDir(
                path, tuple(log_dirs.AlterReplicaLogDirTopic(name, tuple(numbers)) for name, numbers in topics.items())
            )
            for path, topics in by_path.items()
        )
        request = log_dirs.AlterReplicaLogDirsRequest(dirs, validate_only)
        question = (f"broker {broker.id}", self.ask_broker(broker.endpoint.address, request, self.limits.left_ms))
        (response,) = await self.waiting.answers([question], self.limits.left_s)
        assert isinstance(response, log_dirs.AlterReplicaLogDirsResponse)
        return {
            TopicPartition(topic.topic_name, altered.partition_index): altered
            for topic in response.results
            for altered in topic.partitions
        }

    async def online_log_dir(
        self, broker: cluster.DescribedBroker, path: str, *, validate_only: bool = False
    ) -> log_dirs.OnlineLogDirResponse:
        """Bring a failed log directory of a broker back into service. Raises ApiError if it cannot be used yet; only
        klamm's own brokers can be asked.
        """
        request = log_dirs.OnlineLogDirRequest(broker.id, path, validate_only)
        question = (f"broker {broker.id}", self.ask_broker(broker.endpoint.address, request, self.limits.left_ms))
        (response,) = await self.waiting.answers([question], self.limits.left_s)
        return response

    async def plan_cluster_recovery(self, *, accept_loss: bool) -> recovery.PlanClusterRecoveryResponse:
        """Plan what `recover_cluster` would do, and why it would be refused."""
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
        """Set and delete single keys. Each resource has a result and is changed as a whole or not at all."""
        request = configs.AlterConfigsRequest(tuple(resources), validate_only)
        return await self.ask_controller(request)

    async def create_acls(self, creations: Sequence[acls.AclCreation]) -> acls.CreateAclsResponse:
        """Add access rules; the result has an item for each. Rules that are there already are no error."""
        return await self.ask_controller(acls.CreateAclsRequest(tuple(creations)))

    async def describe_acls(self, wanted: acls.DescribeAclsRequest) -> acls.DescribeAclsResponse:
        return await self.ask_controller(wanted)

    async def delete_acls(self, filters: Sequence[acls.DeleteAclsFilter]) -> acls.DeleteAclsResponse:
        """Delete the access rules that these filters match; the result has an item for each filter."""
        return await self.ask_controller(acls.DeleteAclsRequest(tuple(filters)))

    async def update_features(self, updates: Sequence[configs.FeatureUpdate]) -> configs.UpdateFeaturesResponse:
        """Raise, lower and remove finalized features. Each update has a result; the valid ones are written."""
        request = configs.UpdateFeaturesRequest(tuple(updates), self.limits.left_ms)
        return await self.ask_controller(request)

    async def plan_feature_updates(
        self, updates: Sequence[configs.FeatureUpdate]
    ) -> configs.PlanFeatureUpdatesResponse:
        """Plan what `update_features` would do; nothing is changed."""
        return await self.ask_controller(configs.PlanFeatureUpdatesRequest(tuple(updates)))

    async def describe_user_scram_credentials(
        self, names: Sequence[str] = ()
    ) -> users.DescribeUserScramCredentialsResponse:
        """Describe which SCRAM credentials these users have, or all that have any; the result has an item for each."""
        return await self.ask_controller(users.DescribeUserScramCredentialsRequest(tuple(names)))

    async def alter_user_scram_credentials(
        self,
        upsertions: Sequence[users.ScramCredentialUpsertion] = (),
        deletions: Sequence[users.ScramCredentialDeletion] = (),
    ) -> users.AlterUserScramCredentialsResponse:
        """Create, replace and delete SCRAM credentials; the result has an item for each user."""
        request = users.AlterUserScramCredentialsRequest(tuple(deletions), tuple(upsertions))
        return await self.ask_controller(request)

    async def describe_client_quotas(self) -> quotas.DescribeClientQuotasResponse:
        """List the quotas of all users and client ids."""
        return await self.ask_controller(quotas.DescribeClientQuotasRequest())

    async def describe_features(self) -> configs.DescribeFeaturesResponse:
        return await self.ask_controller(configs.DescribeFeaturesRequest())

    async def watch(
        self, topics: Sequence[str] | None = None, *, cursor: str = ""
    ) -> AsyncGenerator[cluster.WatchResponse]:
        """Stream cluster events from now on, or after `cursor`, across failovers, without an end.

        Raises PeerUnreachableError if no controller is found within the client's timeout.
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
        """Read one node's state-change records of a partition, without retries."""
        return await self.rpc.call(address, cluster.ReadStateChangesRequest(topic, partition), self.limits.left_ms)

    async def describe_log_heads(self, address: str) -> tuple[cluster.LogHead, ...]:
        """Ask one node where its state-change log ends, without retries."""
        response = await self.rpc.call(address, cluster.DescribeLogHeadsRequest(), self.limits.left_ms)
        return response.heads


def _failed_log_dir(broker: BrokerId, described: log_dirs.DescribedLogDir) -> cluster.Finding:
    error = described.error_code.name
    detail = f"log directory {described.log_dir} of broker {broker} failed: {error}; see server.log of the broker"
    return cluster.Finding("failed_log_directory", detail, broker=broker)


def _all_or(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)
