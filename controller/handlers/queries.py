"""Answers requests that only read the controller context."""

import asyncio

from cluster.aio.slices import in_slices
from cluster.model.errors import ErrorCode, MalformedZnodeError
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedBroker,
    DescribeFindingsRequest,
    DescribeFindingsResponse,
)
from cluster.requests.topics import (
    DescribedTopic,
    DescribeTopicDeletionsRequest,
    DescribeTopicDeletionsResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    ListedTopic,
    ListTopicsRequest,
    ListTopicsResponse,
)
from cluster.znodes.cluster_wide import readable_cluster_id
from cluster.znodes.paths import CLUSTER_ID
from controller.active_controller import ActiveController
from controller.decisions.bundled_findings import bundled
from controller.decisions.configs.topic_configs import min_insync_replicas
from controller.decisions.findings import LEFT_REPLICAS_FOUND, findings
from controller.decisions.missing_controllers import missing_controllers
from controller.decisions.partition_descriptions import described_partition
from controller.decisions.topics.deletion_progress import describe_deletion
from controller.handlers.contradictory_znodes import contradictory_znodes
from controller.handlers.malformed_znode_findings import malformed_znodes
from controller.handlers.open_znode_findings import open_znodes
from controller.handlers.topics.absent_brokers import absences_end_at


async def describe_cluster(active: ActiveController, _request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the brokers and this controller."""
    context, config = active.context, active.config
    data = await active.store.read_znode(CLUSTER_ID)
    brokers: list[DescribedBroker] = []
    for broker_id in sorted(context.brokers.registered_ids):
        broker = context.brokers.registered[broker_id]
        endpoint = config.listeners.client_endpoint(broker.endpoints)
        if endpoint is not None:
            state = "shutting_down" if broker_id in context.brokers.shutting_down else "running"
            brokers.append(DescribedBroker(broker_id, endpoint, context.brokers.epochs[broker_id], broker.rack, state))
    return DescribeClusterResponse(
        cluster_id="" if data is None else readable_cluster_id(data),
        controller_id=config.id,
        controller_address=config.endpoints[0].address,
        controller_epoch=context.epoch,
        brokers=tuple(brokers),
        node_id=config.id,
        node_role="controller",
        broker_protocol=config.broker_protocol,
        dead_brokers=tuple(b for b in context.topics.hosting_brokers() if b not in context.brokers.registered_ids),
    )


async def describe_findings(active: ActiveController, _request: DescribeFindingsRequest) -> DescribeFindingsResponse:
    """Report what this controller knows to be wrong: brokers, topics, missing controllers and malformed znodes."""
    now_ms, guarded = active.clock.now_ms(), active.brokers.brokers_with_authorizer()
    standing = await active.left_replicas.standing(sorted(active.context.deletions.left_replicas))
    found = (
        finding
        for finding in findings(active.context, active.channels.states(), now_ms, guarded)
        if finding.kind != LEFT_REPLICAS_FOUND or finding.broker in standing
    )
    expected = active.config.settings.klamm_controllers_expected
    missing = missing_controllers(*await active.store.read_controllers(), expected)
    unsound = (*await contradictory_znodes(active), *await malformed_znodes(active))
    of_znodes = bundled((*unsound, *await open_znodes(active)))
    return DescribeFindingsResponse((*missing, *found, *of_znodes))


async def list_topics(active: ActiveController, _request: ListTopicsRequest) -> ListTopicsResponse:
    """List all topics with id, number of partitions and replication factor."""
    context = active.context
    listed: list[ListedTopic] = []
    async for topic in in_slices(sorted(context.topics.names)):
        partitions = context.topics.assignments.get(topic, {})
        factor = max((len(a.replicas) for a in partitions.values()), default=0)
        listed.append(ListedTopic(topic, context.topics.ids.get(topic), len(partitions), factor))
    return ListTopicsResponse(tuple(listed))


async def describe_topics(active: ActiveController, request: DescribeTopicsRequest) -> DescribeTopicsResponse:
    """Describe the requested topics; unknown ones get UNKNOWN_TOPIC_OR_PARTITION each."""
    context = active.context
    names = sorted(context.topics.names) if request.topics is None else list(dict.fromkeys(request.topics))
    configs = await active.store.read_topic_configs([name for name in names if name in context.topics.names])
    described: list[DescribedTopic] = []
    async for name in in_slices(names):
        overrides = configs.get(name)
        if overrides is None:
            described.append(DescribedTopic(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        readable = {} if isinstance(overrides, MalformedZnodeError) else overrides
        numbers = sorted(context.topics.assignments.get(name, {}))
        described.append(
            DescribedTopic(
                name,
                ErrorCode.NONE,
                context.topics.ids.get(name),
                readable,
                tuple(described_partition(context, TopicPartition(name, p)) for p in numbers),
                queued_for_deletion=name in context.deletions.queued,
                min_insync_replicas=min_insync_replicas(readable, active.config.settings.min_insync_replicas),
            )
        )
    return DescribeTopicsResponse(tuple(described))


async def describe_topic_deletions(
    active: ActiveController, request: DescribeTopicDeletionsRequest
) -> DescribeTopicDeletionsResponse:
    """Describe the progress of deletions, and what each waits for."""
    context = active.context
    queued = context.deletions.queued
    wanted = queued if request.topics is None else queued.intersection(request.topics)
    now, now_ms = asyncio.get_running_loop().time(), active.clock.now_ms()
    ends = {broker: now_ms + round((end - now) * 1000) for broker, end in absences_end_at(active).items()}
    return DescribeTopicDeletionsResponse(tuple(describe_deletion(context, topic, ends) for topic in sorted(wanted)))
