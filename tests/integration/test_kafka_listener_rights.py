"""What a client of Kafka's gets at a controller's listener where there are access control lists.

The controller judges by the principal and the host of the client; a broker would judge the controller.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.headers import decode_response, encode_request
from cluster.kafka_wire.messages import coordinators
from cluster.kafka_wire.messages import topics as wire_topics
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.brokers import ControlledShutdownRequest, ControlledShutdownResponse
from cluster.kafka_wire.messages.configs import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from cluster.kafka_wire.messages.connections import ListGroupsRequest, ListGroupsResponse
from cluster.kafka_wire.messages.data import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from cluster.kafka_wire.messages.passed_on import DescribeDelegationTokenResponse
from cluster.model.broker import TopicId
from cluster.model.errors import ErrorCode, PeerUnreachableError
from cluster.requests import agents
from cluster.security.acls import AccessRule, Authorizer, Operation, Pattern, Permission, ResourceType
from cluster.security.principals import ANONYMOUS, Principal
from tests.kafka.listeners import asked, creating
from tests.kafka.peers import TIMEOUT_S, KafkaPeer, connected, kafka_broker, kafka_listener
from tests.processes.scripted_servers import Scripted

pytestmark = pytest.mark.rule("D-83")
T_ID = TopicId("dGhpc2lzMTZieXRlcyEhIQ")
LOCALHOST, ELSEWHERE = "127.0.0.1", "10.0.0.7"


def allow(operation: Operation, *, host: str = "*", permission: Permission = Permission.ALLOW) -> AccessRule:
    return AccessRule(ANONYMOUS, operation, permission, host)


def by_name(resource_type: ResourceType, name: str, *rules: AccessRule) -> dict[Pattern, frozenset[AccessRule]]:
    return {Pattern(resource_type, name): frozenset(rules)}


def metadata(request: MetadataRequest) -> MetadataResponse:
    """Of a broker with the topics `seen` and `hidden`."""
    known = {"seen": TopicId("c2VlbnNlZW5zZWVuc2VlbgAA"[:22]), "hidden": T_ID}
    named = (
        [(name, known[name]) for name in known]
        if request.topics is None
        else [(t.name or next(n for n, i in known.items() if i == t.topic_id), T_ID) for t in request.topics]
    )
    return MetadataResponse(
        cluster_id="c",
        controller_id=1001,
        topics=tuple(
            MetadataResponseTopic(name=name, topic_id=id_)
            if name in known
            else MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for name, id_ in named
        ),
    )


def described(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=tuple(
            DescribeConfigsResult(resource_type=r.resource_type, resource_name=r.resource_name)
            for r in request.resources
        )
    )


def altered(request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    named = IncrementalAlterConfigsResponseAlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(
        responses=tuple(named(resource_type=r.resource_type, resource_name=r.resource_name) for r in request.resources)
    )


def replaced(request: AlterConfigsRequest) -> AlterConfigsResponse:
    named = AlterConfigsResponseAlterConfigsResourceResponse
    return AlterConfigsResponse(
        responses=tuple(named(resource_type=r.resource_type, resource_name=r.resource_name) for r in request.resources)
    )


def found(request: coordinators.FindCoordinatorRequest) -> coordinators.FindCoordinatorResponse:
    if not request.coordinator_keys:
        return coordinators.FindCoordinatorResponse(node_id=1, host="h", port=9)
    one = coordinators.Coordinator(node_id=1, host="h", port=9)
    return coordinators.FindCoordinatorResponse(
        coordinators=tuple(replace(one, key=key) for key in request.coordinator_keys)
    )


def broker() -> KafkaPeer:
    return KafkaPeer(
        {
            ApiKey.METADATA: metadata,
            ApiKey.DESCRIBE_CONFIGS: described,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: altered,
            ApiKey.ALTER_CONFIGS: replaced,
            ApiKey.DESCRIBE_CLUSTER: lambda _: coordinators.DescribeClusterResponse(cluster_id="c"),
            ApiKey.INIT_PRODUCER_ID: lambda _: coordinators.InitProducerIdResponse(producer_id=7),
            ApiKey.FIND_COORDINATOR: found,
        }
    )


@asynccontextmanager
async def client_of(
    peer: KafkaPeer, rules: Any, *, handler: Scripted | None = None, **options: Any
) -> AsyncIterator[KafkaConnection]:
    authorizer = Authorizer(rules, super_users=options.pop("super_users", frozenset()))
    answered = handler or Scripted(lambda _: None)
    async with (
        kafka_broker(peer) as registered,
        kafka_listener(answered, [registered], authorizer=authorizer, **options) as servers,
        connected(servers) as client,
    ):
        yield client


async def test_metadata_shows_the_topics_that_the_client_may_describe() -> None:
    peer, rules = broker(), by_name(ResourceType.TOPIC, "seen", allow(Operation.READ))
    async with client_of(peer, rules) as client:
        every = await asked(client, MetadataRequest(topics=None), 9, MetadataResponse)
        assert [topic.name for topic in every.topics] == ["seen"]
        oldest = await asked(client, MetadataRequest(topics=()), 0, MetadataResponse)
        assert [topic.name for topic in oldest.topics] == ["seen"]
        names = tuple(MetadataRequestTopic(name=name) for name in ("hidden", "seen", "none"))
        named = await asked(client, MetadataRequest(topics=names), 9, MetadataResponse)
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert [(t.name, t.error_code) for t in named.topics] == [("seen", 0), ("hidden", denied), ("none", denied)]
        by_id = MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=T_ID),))
        (found,) = (await asked(client, by_id, 12, MetadataResponse)).topics
        assert (found.name, found.topic_id, found.error_code) == (None, T_ID, denied)
    # Nobody creates by this what he may not create, whatever the version says.
    assert {request.allow_auto_topic_creation for request in peer.of(ApiKey.METADATA)} == {False}


async def test_metadata_says_what_the_client_itself_may_do_and_creates_what_it_may() -> None:
    rules = by_name(ResourceType.TOPIC, "seen", allow(Operation.READ), allow(Operation.CREATE))
    rules |= by_name(ResourceType.CLUSTER, "kafka-cluster", allow(Operation.ALTER))
    peer = broker()
    async with client_of(peer, rules) as client:
        request = MetadataRequest(
            topics=(MetadataRequestTopic(name="seen"),),
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        answer = await asked(client, request, 9, MetadataResponse)
        assert answer.topics[0].topic_authorized_operations == 1 << 3 | 1 << 5 | 1 << 8
        assert answer.cluster_authorized_operations == 1 << 7 | 1 << 8
        whole = coordinators.DescribeClusterRequest(include_cluster_authorized_operations=True)
        found = await asked(client, whole, 0, coordinators.DescribeClusterResponse)
        assert (found.cluster_id, found.cluster_authorized_operations) == ("c", 1 << 7 | 1 << 8)
    [sent] = peer.of(ApiKey.METADATA)
    assert sent.allow_auto_topic_creation
    assert not sent.include_topic_authorized_operations


async def test_a_rule_counts_by_the_host_of_the_client_and_not_by_that_of_the_controller() -> None:
    """A broker sees the address of the controller that asks it."""
    rules = by_name(
        ResourceType.TOPIC,
        "seen",
        allow(Operation.READ),
        allow(Operation.ALL, host=LOCALHOST, permission=Permission.DENY),
    )
    rules |= by_name(ResourceType.TOPIC, "hidden", allow(Operation.READ, host=ELSEWHERE))
    async with client_of(broker(), rules) as client:
        every = await asked(client, MetadataRequest(topics=None), 9, MetadataResponse)
        assert every.topics == ()


@pytest.mark.parametrize(("kind", "code"), [(0, 30), (1, 53)])
async def test_coordinators_are_found_of_what_the_client_may_describe(kind: int, code: int) -> None:
    resource_type = ResourceType.TRANSACTIONAL_ID if kind else ResourceType.GROUP
    peer, rules = broker(), by_name(resource_type, "own", allow(Operation.READ), allow(Operation.WRITE))
    async with client_of(peer, rules) as client:
        both = coordinators.FindCoordinatorRequest(key_type=kind, coordinator_keys=("other", "own"))
        answer = await asked(client, both, 4, coordinators.FindCoordinatorResponse)
        assert [(c.key, c.error_code, c.node_id) for c in answer.coordinators] == [("own", 0, 1), ("other", code, -1)]
        own = coordinators.FindCoordinatorRequest(key_type=kind, key="own")
        assert (await asked(client, own, 3, coordinators.FindCoordinatorResponse)).node_id == 1
        other = coordinators.FindCoordinatorRequest(key_type=kind, key="other")
        refused = await asked(client, other, 3, coordinators.FindCoordinatorResponse)
        assert (refused.error_code, refused.node_id, refused.host) == (code, -1, "")
    assert [request.coordinator_keys or request.key for request in peer.of(ApiKey.FIND_COORDINATOR)] == [
        ("own",),
        "own",
    ]


async def test_producer_ids_are_for_who_may_write_somewhere() -> None:
    request = coordinators.InitProducerIdRequest(transactional_id=None)
    with_id = coordinators.InitProducerIdRequest(transactional_id="t")
    peer = broker()
    async with client_of(peer, {}) as client:
        refused = await asked(client, request, 4, coordinators.InitProducerIdResponse)
        assert (refused.error_code, refused.producer_id) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1)
        refused = await asked(client, with_id, 4, coordinators.InitProducerIdResponse)
        assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert peer.of(ApiKey.INIT_PRODUCER_ID) == []
    async with client_of(peer, by_name(ResourceType.TOPIC, "seen", allow(Operation.WRITE))) as client:
        assert (await asked(client, request, 4, coordinators.InitProducerIdResponse)).producer_id == 7


async def test_configs_are_described_and_altered_by_right() -> None:
    rules = by_name(ResourceType.TOPIC, "seen", allow(Operation.ALTER_CONFIGS))
    peer = broker()
    async with client_of(peer, rules) as client:
        resources = tuple(
            DescribeConfigsResource(resource_type=kind, resource_name=name)
            for kind, name in ((2, "hidden"), (2, "seen"), (4, "1"))
        )
        answer = await asked(client, DescribeConfigsRequest(resources=resources), 4, DescribeConfigsResponse)
        expected = [("seen", 0), ("hidden", 29), ("1", 31)]
        assert [(r.resource_name, r.error_code) for r in answer.results] == expected
        changed = tuple(
            IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=r.resource_type, resource_name=r.resource_name
            )
            for r in resources
        )
        done = await asked(
            client, IncrementalAlterConfigsRequest(resources=changed), 1, IncrementalAlterConfigsResponse
        )
        assert [(r.resource_name, r.error_code) for r in done.responses] == expected
        # Old clients, as MirrorMaker before 3.5, replace all configs of a topic at once.
        whole = tuple(
            AlterConfigsRequestAlterConfigsResource(resource_type=r.resource_type, resource_name=r.resource_name)
            for r in resources
        )
        old = await asked(client, AlterConfigsRequest(resources=whole, validate_only=True), 1, AlterConfigsResponse)
        assert [(r.resource_name, r.error_code) for r in old.responses] == expected
    assert [r.resource_name for r in peer.of(ApiKey.INCREMENTAL_ALTER_CONFIGS)[0].resources] == ["seen"]
    (sent,) = peer.of(ApiKey.ALTER_CONFIGS)
    assert [r.resource_name for r in sent.resources] == ["seen"]
    assert sent.validate_only


@pytest.mark.parametrize("is_allowed", [False, True])
async def test_quotas_are_altered_by_right_and_a_refusal_names_each_entity(is_allowed: bool) -> None:
    entity = AlterClientQuotasRequestEntityData(entity_type="user", entity_name=None)
    request = AlterClientQuotasRequest(entries=(AlterClientQuotasRequestEntryData(entity=(entity,)),))
    answered = AlterClientQuotasResponseEntityData(entity_type="user", entity_name=None)
    done = AlterClientQuotasResponse(entries=(AlterClientQuotasResponseEntryData(entity=(answered,)),))
    peer = KafkaPeer({ApiKey.ALTER_CLIENT_QUOTAS: lambda _: done})
    operation = Operation.ALTER_CONFIGS if is_allowed else Operation.DESCRIBE_CONFIGS
    async with client_of(peer, by_name(ResourceType.CLUSTER, "kafka-cluster", allow(operation))) as client:
        (entry,) = (await asked(client, request, 1, AlterClientQuotasResponse)).entries
        assert entry.entity == (answered,)
        assert entry.error_code == (ErrorCode.NONE if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert peer.of(ApiKey.ALTER_CLIENT_QUOTAS) == ([request] if is_allowed else [])


async def test_requests_of_the_active_controller_need_the_right_of_the_client() -> None:
    handler = Scripted(lambda _: agents.ControlledShutdownResponse(ErrorCode.NONE))
    leaving = ControlledShutdownRequest(broker_id=1, broker_epoch=1)
    async with client_of(broker(), {}, handler=handler) as client:
        answer = await asked(client, leaving, 2, ControlledShutdownResponse)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        topic = creating(wire_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1))
        (created,) = (await asked(client, topic, 7, wire_topics.CreateTopicsResponse)).topics
        assert created.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert handler.asked == []


async def test_what_is_not_authorised_here_is_refused_and_reaches_no_broker() -> None:
    peer = broker()
    async with client_of(peer, {}, super_users=frozenset({ANONYMOUS})) as client:
        # DescribeDelegationToken 2: header without client id, no owners.
        frame = b"\0\x29\0\2" + b"\0\0\0\5" + b"\xff\xff\0" + b"\0\0"
        answer = await client.call_raw(frame, timeout_s=TIMEOUT_S)
        _, refused = decode_response(DescribeDelegationTokenResponse, 2, answer)
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert peer.asked == []


async def test_a_controller_for_brokers_only_refuses_clients_and_answers_brokers() -> None:
    handler = Scripted(lambda _: agents.ControlledShutdownResponse(ErrorCode.NONE))
    peer, root = broker(), frozenset({ANONYMOUS})
    leaving = ControlledShutdownRequest(broker_id=1, broker_epoch=1)
    async with client_of(peer, {}, handler=handler, super_users=root, refuses_clients=True) as client:
        assert (await asked(client, leaving, 3, ControlledShutdownResponse)).error_code == 0
        topic = creating(wire_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1))
        (created,) = (await asked(client, topic, 7, wire_topics.CreateTopicsResponse)).topics
        assert created.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert "klamm.kafka.controller.only" in created.error_message
        groups = await asked(client, ListGroupsRequest(), 3, ListGroupsResponse)
        assert groups.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        with pytest.raises(PeerUnreachableError):
            await asked(client, MetadataRequest(topics=None), 9, MetadataResponse)
    assert peer.of(ApiKey.METADATA) == []
    assert [type(request) for _, request in handler.asked] == [agents.ControlledShutdownRequest]


async def test_a_stranger_is_no_broker_of_a_controller_for_brokers_only() -> None:
    handler = Scripted(lambda _: agents.ControlledShutdownResponse(ErrorCode.NONE))
    leaving, root = ControlledShutdownRequest(broker_id=1, broker_epoch=1), frozenset({Principal("User", "broker")})
    async with client_of(broker(), {}, handler=handler, super_users=root, refuses_clients=True) as client:
        answer = await asked(client, leaving, 3, ControlledShutdownResponse)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert handler.asked == []


async def test_a_controller_for_brokers_only_passes_on_nothing_not_even_of_its_super_users() -> None:
    """Requests of an API that it answers for itself alone, about anything else."""
    peer, root = broker(), frozenset({ANONYMOUS})
    resources = (DescribeConfigsResource(resource_type=2, resource_name="seen"),)
    changed = (IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=2, resource_name="seen"),)
    async with client_of(peer, {}, super_users=root, refuses_clients=True) as client:
        (shown,) = (
            await asked(client, DescribeConfigsRequest(resources=resources), 4, DescribeConfigsResponse)
        ).results
        assert shown.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        alteration = IncrementalAlterConfigsRequest(resources=changed)
        (done,) = (await asked(client, alteration, 1, IncrementalAlterConfigsResponse)).responses
        assert done.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert peer.of(ApiKey.DESCRIBE_CONFIGS) == peer.of(ApiKey.INCREMENTAL_ALTER_CONFIGS) == []


async def test_a_coordinator_of_an_unknown_kind_is_the_business_of_brokers() -> None:
    """Share groups in newer releases: Kafka demands ClusterAction."""
    peer, request = broker(), coordinators.FindCoordinatorRequest(key_type=2, coordinator_keys=("g:id:0",))
    async with client_of(peer, {}) as client:
        (found_,) = (await asked(client, request, 6, coordinators.FindCoordinatorResponse)).coordinators
        assert (found_.key, found_.error_code) == ("g:id:0", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert peer.of(ApiKey.FIND_COORDINATOR) == []


async def test_a_long_request_of_a_client_without_rights_holds_up_nobody() -> None:
    """Each of its names is judged, beside the event loop and in a time that grows with their number only."""
    keys = tuple(f"{number:06}" for number in range(30_000))
    request = coordinators.FindCoordinatorRequest(key_type=0, coordinator_keys=keys)
    whole, meanwhile = coordinators.DescribeClusterRequest(), 0
    async with kafka_broker(broker()) as registered:
        handler = Scripted(lambda _: None)
        async with (
            kafka_listener(handler, [registered], authorizer=Authorizer({})) as servers,
            connected(servers) as client,
            connected(servers) as other,
        ):
            frame = encode_request(request, 4, 1, "client")
            long = asyncio.ensure_future(client.call_raw(frame, timeout_s=TIMEOUT_S))
            while not long.done():
                await asked(other, whole, 0, coordinators.DescribeClusterResponse)
                meanwhile += 1
    _, refused = decode_response(coordinators.FindCoordinatorResponse, 4, long.result())
    assert {c.error_code for c in refused.coordinators} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    assert [c.key for c in refused.coordinators] == list(keys)
    assert meanwhile > 3
