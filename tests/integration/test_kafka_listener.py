"""What brokers and clients of Kafka ask a controller, over real sockets: answered here or passed on to a broker."""

from typing import Any

import pytest

from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.headers import decode_response, encode_request
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import brokers as wire_brokers
from cluster.kafka_wire.messages import configs as wire_configs
from cluster.kafka_wire.messages import partitions as wire_partitions
from cluster.kafka_wire.messages import topics as wire_topics
from cluster.kafka_wire.messages.acls import DescribeAclsResponse
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.authentication import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from cluster.kafka_wire.messages.brokers import ControlledShutdownRequest, ControlledShutdownResponse
from cluster.kafka_wire.messages.configs import DescribeConfigsResponse, DescribeConfigsResult
from cluster.kafka_wire.messages.connections import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from cluster.kafka_wire.messages.data import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from cluster.model.broker import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests import agents, topics, users
from cluster.requests import configs as own_configs
from controller.adapters.kafka.authorizers import Authorizers
from tests.kafka.listeners import NEWEST_CREATION, as_version, asked, creates, creating, listener_with
from tests.kafka.peers import TIMEOUT_S, KafkaPeer, connected, kafka_broker, kafka_listener
from tests.processes.scripted_servers import Scripted, refuse

T_ID = TopicId("dGhpc2lzMTZieXRlcyEhIQ")


@pytest.mark.rule("D-83")
@pytest.mark.parametrize("version", range(NEWEST_CREATION + 1))
async def test_topics_are_created_in_every_version(version: int) -> None:
    result = topics.CreatableTopicResult("t", ErrorCode.NONE, topic_id=T_ID, num_partitions=2, replication_factor=2)
    handler = Scripted(lambda _: topics.CreateTopicsResponse((result,)))
    async with listener_with(KafkaPeer({}), handler) as servers, connected(servers) as client:
        assignments = (
            wire_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=(1, 2)),
            wire_topics.CreatableReplicaAssignment(partition_index=1, broker_ids=(2, 1)),
        )
        config = wire_topics.CreatableTopicConfig(name="retention.ms", value="5")
        wanted = wire_topics.CreatableTopic(
            name="t", num_partitions=-1, replication_factor=-1, assignments=assignments, configs=(config,)
        )
        answer = await asked(client, creating(wanted), version, wire_topics.CreateTopicsResponse)
        ((context, request),) = handler.asked
        placed = {0: (BrokerId(1), BrokerId(2)), 1: (BrokerId(2), BrokerId(1))}
        new = topics.NewTopic("t", assignments=placed, configs={"retention.ms": "5"})
        assert request == topics.CreateTopicsRequest((new,), 1000)
        assert context.peer.startswith("ipv4:127.0.0.1:")
        (topic,) = answer.topics
        assert (topic.name, topic.error_code) == ("t", 0)
        assert (topic.topic_id == T_ID) is (version == NEWEST_CREATION)


@pytest.mark.rule("D-83")
async def test_a_topic_that_contradicts_itself_is_refused_and_the_others_are_created() -> None:
    handler = Scripted(lambda _: topics.CreateTopicsResponse((topics.CreatableTopicResult("t", ErrorCode.NONE),)))
    twice = (wire_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),) * 2
    empty = (wire_topics.CreatableTopicConfig(name="retention.ms", value=None),)
    async with listener_with(KafkaPeer({}), handler) as servers, connected(servers) as client:
        wanted = creating(
            wire_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1),
            wire_topics.CreatableTopic(name="u", assignments=twice),
            wire_topics.CreatableTopic(name="v", configs=empty),
        )
        answer = await asked(client, wanted, NEWEST_CREATION, wire_topics.CreateTopicsResponse)
        assert [topic.name for topic in handler.asked[0][1].topics] == ["t"]
        found = {topic.name: (topic.error_code, topic.error_message) for topic in answer.topics}
        assert found == {
            "t": (ErrorCode.NONE, None),
            "u": (ErrorCode.INVALID_REQUEST, "assignments.partition_index: 0 is given twice"),
            "v": (
                ErrorCode.INVALID_REQUEST,
                "configs.retention.ms: the value is null; a topic is created without the key instead",
            ),
        }


@pytest.mark.rule("D-83")
@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (ApiError(ErrorCode.NOT_CONTROLLER, "ask 1002"), ErrorCode.NOT_CONTROLLER),
        (KeyError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_what_is_refused_as_a_whole_is_refused_for_each_item(raised: Exception, code: ErrorCode) -> None:
    async with listener_with(KafkaPeer({}), Scripted(refuse(raised))) as servers, connected(servers) as client:
        named = wire_topics.DeleteTopicsRequest(topic_names=("t", "u"))
        answer = await asked(client, named, 5, wire_topics.DeleteTopicsResponse)
        assert [(topic.name, topic.error_code) for topic in answer.responses] == [("t", code), ("u", code)]
        by_id = wire_topics.DeleteTopicsRequest(topics=(wire_topics.DeleteTopicState(topic_id=T_ID),))
        answer = await asked(client, by_id, 6, wire_topics.DeleteTopicsResponse)
        assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.responses] == [(None, T_ID, code)]
        more = wire_topics.CreatePartitionsRequest(topics=(wire_topics.CreatePartitionsTopic(name="t", count=2),))
        answer = await asked(client, more, 3, wire_topics.CreatePartitionsResponse)
        assert [(result.name, result.error_code) for result in answer.results] == [("t", code)]
        wanted = wire_partitions.ElectLeadersRequestTopicPartitions(topic="t", partitions=(0, 1))
        for version in range(3):
            asked_for = wire_partitions.ElectLeadersRequest(topic_partitions=(wanted,))
            answer = await asked(client, asked_for, version, wire_partitions.ElectLeadersResponse)
            (result,) = answer.replica_election_results
            assert answer.error_code == (code if version else ErrorCode.NONE)
            assert [(p.partition_id, p.error_code) for p in result.partition_result] == [(0, code), (1, code)]
        own = wire_configs.DescribeConfigsResource(resource_type=4, resource_name="1001")
        described = wire_configs.DescribeConfigsRequest(resources=(own,))
        answer = await asked(client, described, 4, DescribeConfigsResponse)
        assert [(r.resource_name, r.error_code) for r in answer.results] == [("1001", code)]


@pytest.mark.rule("D-83")
async def test_credentials_of_users_are_altered_and_refused_for_each_user() -> None:
    upsertion = wire_configs.ScramCredentialUpsertion(
        name="ann", mechanism=1, iterations=4096, salt=b"s", salted_password=bytes(32)
    )
    deletion_of_bob = wire_configs.ScramCredentialDeletion(name="bob", mechanism=2)
    request = wire_configs.AlterUserScramCredentialsRequest(deletions=(deletion_of_bob,), upsertions=(upsertion,))
    results = (users.AlterUserScramCredentialsResult("ann", ErrorCode.NONE),)
    handler = Scripted(lambda _: users.AlterUserScramCredentialsResponse(results))
    async with listener_with(KafkaPeer({}), handler) as servers, connected(servers) as client:
        answer = await asked(client, request, 0, wire_configs.AlterUserScramCredentialsResponse)
    assert handler.asked[0][1] == users.AlterUserScramCredentialsRequest(
        (users.ScramCredentialDeletion("bob", 2),), (users.ScramCredentialUpsertion("ann", 1, 4096, b"s", bytes(32)),)
    )
    assert [(r.user, r.error_code, r.error_message) for r in answer.results] == [("ann", ErrorCode.NONE, None)]
    moved = Scripted(refuse(ApiError(ErrorCode.NOT_CONTROLLER, "ask 1002")))
    async with listener_with(KafkaPeer({}), moved) as servers, connected(servers) as client:
        answer = await asked(client, request, 0, wire_configs.AlterUserScramCredentialsResponse)
    assert {r.user: r.error_code for r in answer.results} == dict.fromkeys(("ann", "bob"), ErrorCode.NOT_CONTROLLER)


@pytest.mark.rule("D-83", "IS-10")
@pytest.mark.parametrize("version", range(4))
async def test_isr_changes_in_every_version(version: int) -> None:
    name, topic_id = ("t", None) if version < 2 else ("", T_ID)
    result = agents.AlterPartitionResult(
        name, topic_id, 3, ErrorCode.NONE, BrokerId(1), LeaderEpoch(5), (BrokerId(1), BrokerId(2)), 0, PartitionEpoch(8)
    )
    handler = Scripted(lambda _: agents.AlterPartitionResponse(ErrorCode.NONE, (result,)))
    members = tuple(wire_brokers.BrokerState(broker_id=b, broker_epoch=100 + b) for b in (1, 2))
    proposed = wire_brokers.AlterPartitionRequestPartitionData(
        partition_index=3,
        leader_epoch=5,
        new_isr=(1, 2) if version < 3 else (),
        new_isr_with_epochs=members if version == 3 else (),
        partition_epoch=7,
    )
    topic = wire_brokers.AlterPartitionRequestTopicData(
        topic_name=name, partitions=(proposed,), **({"topic_id": T_ID} if topic_id else {})
    )
    request = wire_brokers.AlterPartitionRequest(broker_id=1, broker_epoch=44, topics=(topic,))
    async with listener_with(KafkaPeer({}), handler) as servers, connected(servers) as client:
        answer = await asked(client, request, version, wire_brokers.AlterPartitionResponse)
    ((_, received),) = handler.asked
    epochs = (BrokerEpoch(101), BrokerEpoch(102)) if version == 3 else ()
    item = agents.AlterPartitionItem(
        name, topic_id, 3, LeaderEpoch(5), (BrokerId(1), BrokerId(2)), PartitionEpoch(7), 0, epochs
    )
    assert received == agents.AlterPartitionRequest(BrokerId(1), BrokerEpoch(44), (item,))
    ((partition,),) = (t.partitions for t in answer.topics)
    assert (partition.partition_index, partition.leader_epoch, partition.isr, partition.partition_epoch) == (
        3,
        5,
        (1, 2),
        8,
    )


@pytest.mark.rule("D-83", "CS-1")
@pytest.mark.parametrize("version", range(4))
async def test_controlled_shutdown_in_every_version(version: int) -> None:
    left = agents.RemainingPartition("t", 3)
    handler = Scripted(lambda _: agents.ControlledShutdownResponse(ErrorCode.NONE, (left,)))
    request = ControlledShutdownRequest(broker_id=2, broker_epoch=44 if version >= 2 else -1)
    async with listener_with(KafkaPeer({}), handler) as servers, connected(servers) as client:
        answer = await asked(client, request, version, ControlledShutdownResponse)
    assert handler.asked[0][1] == agents.ControlledShutdownRequest(BrokerId(2), BrokerEpoch(request.broker_epoch))
    assert [(p.topic_name, p.partition_index) for p in answer.remaining_partitions] == [("t", 3)]


@pytest.mark.rule("D-84")
async def test_the_rest_goes_to_a_broker_and_back_byte_for_byte_over_one_connection() -> None:
    peer = KafkaPeer({ApiKey.METADATA: lambda _: MetadataResponse(cluster_id="c", controller_id=1001)})
    async with listener_with(peer) as servers, connected(servers) as client:
        for correlation_id in (7, 2**31 - 1):
            frame = encode_request(MetadataRequest(topics=None), 12, correlation_id, "a client")
            response = await client.call_raw(frame, timeout_s=TIMEOUT_S)
            assert peer.frames[-1] == (frame, response)
            assert decode_response(MetadataResponse, 12, response)[0] == correlation_id
        assert peer.connections == 1
        async with connected(servers) as other:
            await asked(other, MetadataRequest(), 9, MetadataResponse)
        assert peer.connections == 2


@pytest.mark.rule("D-84")
async def test_who_authenticates_at_a_listener_without_sasl_learns_it() -> None:
    """As by Kafka; a client with security.protocol=SASL_SSL at a listener with SSL says then what is wrong."""
    peer = KafkaPeer({})
    async with listener_with(peer, Scripted(lambda _: None)) as servers, connected(servers) as client:
        offered = await asked(client, SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
        assert offered.error_code == ErrorCode.ILLEGAL_SASL_STATE
        proof = SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")
        answer = await asked(client, proof, 2, SaslAuthenticateResponse)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.asked == []


async def test_without_a_live_broker_the_connection_is_closed() -> None:
    async with kafka_listener(Scripted(lambda _: None)) as servers, connected(servers) as client:
        with pytest.raises(PeerUnreachableError):
            await asked(client, MetadataRequest(), 9, MetadataResponse)


@pytest.mark.rule("D-84")
@pytest.mark.parametrize(("message", "version"), [(ProduceRequest(acks=0), 3), (creating(), NEWEST_CREATION + 1)])
async def test_what_is_not_for_a_controller_closes_the_connection(message: Message, version: int) -> None:
    """So does a version that is not known, where the response has no place for the error."""
    peer = KafkaPeer({ApiKey.METADATA: lambda _: MetadataResponse()})
    async with listener_with(peer) as servers, connected(servers) as client:
        with pytest.raises(PeerUnreachableError):
            await client.call_raw(as_version(message, version), timeout_s=TIMEOUT_S)
        assert peer.asked == []


@pytest.mark.rule("D-85")
async def test_versions_are_its_own_and_those_of_a_broker() -> None:
    peer = KafkaPeer({}, {ApiKey.METADATA: 8, ApiKey.CREATE_TOPICS: 4})
    async with listener_with(peer) as servers, connected(servers) as client:
        for version in range(5):
            answer = await asked(client, ApiVersionsRequest(), version, ApiVersionsResponse)
            highest = {v.api_key: v.max_version for v in answer.api_keys}
            assert highest[ApiKey.METADATA] == 8
            assert highest[ApiKey.CREATE_TOPICS] == NEWEST_CREATION
            assert highest[ApiKey.ALTER_PARTITION] == 3
            assert ApiKey.LEADER_AND_ISR not in highest


@pytest.mark.rule("D-85")
async def test_versions_without_a_broker_and_of_a_later_client() -> None:
    async with kafka_listener(Scripted(lambda _: None)) as servers, connected(servers) as client:
        answer = await asked(client, ApiVersionsRequest(), 3, ApiVersionsResponse)
        assert {ApiKey.METADATA, ApiKey.CREATE_TOPICS} <= {v.api_key for v in answer.api_keys}
        frame = encode_request(ApiVersionsRequest(), 4, 5, "later")
        response = await client.call_raw(frame[:2] + b"\0\x63" + frame[4:], timeout_s=TIMEOUT_S)
        refused = decode_response(ApiVersionsResponse, 0, response)[1]
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(v.api_key, v.min_version, v.max_version) for v in refused.api_keys] == [(ApiKey.API_VERSIONS, 0, 4)]


@pytest.mark.rule("D-87")
async def test_where_brokers_have_an_authorizer_clients_are_refused_and_brokers_are_not() -> None:
    peer = KafkaPeer({ApiKey.DESCRIBE_ACLS: lambda _: DescribeAclsResponse()})
    handler = Scripted(lambda _: agents.ControlledShutdownResponse(ErrorCode.NONE))
    async with listener_with(peer, handler) as servers, connected(servers) as client:
        new = wire_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        (topic,) = (await asked(client, creating(new), NEWEST_CREATION, wire_topics.CreateTopicsResponse)).topics
        assert topic.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert "has an authorizer" in topic.error_message
        assert handler.asked == []
        answer = await asked(client, ControlledShutdownRequest(broker_id=2), 3, ControlledShutdownResponse)
        assert answer.error_code == ErrorCode.NONE


@pytest.mark.rule("D-87", "D-112")
async def test_one_broker_with_an_authorizer_is_enough_to_refuse_what_changes_the_cluster() -> None:
    """The broker that requests are passed on to has none; the controller has heard of another that has one."""
    without, guarded = KafkaPeer({}), KafkaPeer({ApiKey.DESCRIBE_ACLS: lambda _: DescribeAclsResponse()})
    answer = creates()
    authorizers = Authorizers()
    async with (
        kafka_broker(without) as broker,
        kafka_broker(guarded, 3) as other,
        kafka_listener(answer, [broker], authorizers=authorizers) as servers,
        connected(servers) as client,
    ):
        to_other = await KafkaConnection.open(other.endpoints[0], client_id="klamm-1001", timeout_s=TIMEOUT_S)
        await authorizers.ask(other.id, to_other)
        to_other.close()
        new = creating(wire_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1))
        (topic,) = (await asked(client, new, NEWEST_CREATION, wire_topics.CreateTopicsResponse)).topics
        assert topic.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert topic.error_message.startswith("broker 3 has an authorizer")
        assert answer.asked == []
        # It has restarted without, or has gone.
        authorizers.forget(other.id)
        for _ in range(2):
            (topic,) = (await asked(client, new, NEWEST_CREATION, wire_topics.CreateTopicsResponse)).topics
            assert topic.error_code == ErrorCode.NONE
        # What a broker says holds as long as its connection: it gets an authorizer only by a restart.
        assert len(without.of(ApiKey.DESCRIBE_ACLS)) == 1


@pytest.mark.rule("D-87")
async def test_without_a_broker_nobody_knows_whether_there_is_an_authorizer() -> None:
    handler = Scripted(lambda _: None)
    async with kafka_listener(handler) as servers, connected(servers) as client:
        named = wire_topics.DeleteTopicsRequest(topic_names=("t",))
        (topic,) = (await asked(client, named, 5, wire_topics.DeleteTopicsResponse)).responses
        assert topic.error_code == ErrorCode.BROKER_NOT_AVAILABLE
        assert handler.asked == []


@pytest.mark.rule("D-86")
async def test_what_every_node_is_asked_is_answered_for_the_controller() -> None:
    async with kafka_listener(Scripted(lambda _: None)) as servers, connected(servers) as client:
        directories = await asked(client, DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
        assert [(d.error_code, d.log_dir, d.topics) for d in directories.results] == [(0, "/data", ())]
        assert (await asked(client, ListGroupsRequest(), 4, ListGroupsResponse)).groups == ()


@pytest.mark.rule("D-86")
async def test_configs_of_its_own_id_are_its_own_and_others_the_brokers() -> None:
    described = own_configs.DescribeConfigsResult(
        ErrorCode.NONE, None, 4, "1001", (own_configs.DescribedConfig("log.level", "info", False, 5),)
    )
    handler = Scripted(lambda _: own_configs.DescribeConfigsResponse((described,)))
    of_topic = DescribeConfigsResponse(results=(DescribeConfigsResult(resource_type=2, resource_name="t"),))
    peer = KafkaPeer({ApiKey.DESCRIBE_CONFIGS: lambda _: of_topic})
    async with kafka_broker(peer) as broker, kafka_listener(handler, [broker]) as servers, connected(servers) as client:

        async def results(kind: int, name: str) -> Any:
            resource = wire_configs.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            request = wire_configs.DescribeConfigsRequest(resources=(resource,))
            return (await asked(client, request, 4, DescribeConfigsResponse)).results

        (own,) = await results(4, "1001")
        assert [(c.name, c.value, c.config_source) for c in own.configs] == [("log.level", "info", 5)]
        assert handler.asked[0][1].resources == (own_configs.ConfigResource(4, "1001"),)
        assert await results(2, "t") == of_topic.results
        assert await results(4, "1") == of_topic.results
        assert len(handler.asked) == 1
