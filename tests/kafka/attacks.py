"""Everything that a client could ask a controller of Kafka's brokers for, and the errors that it gets.

By them a controller of klamm is compared with a broker of the same cluster that is the controller.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from cluster.kafka_wire.apis import api_of
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.headers import decode_response, encode_request
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import acls, brokers, configs, coordinators, data, partitions, topics
from cluster.kafka_wire.messages.connections import ListGroupsRequest
from cluster.model.broker import Endpoint
from cluster.model.errors import PeerUnreachableError
from cluster.sasl.clients import ReadCredentials
from cluster.tls.contexts import client_context
from cluster.tls.settings import TlsSettings

TIMEOUT_S: Final = 20.0
CLOSED: Final = "closed"
SHOWS_NOTHING: Final = frozenset({"Metadata", "ListGroups"})
"""The attacks that are not refused, and show nothing."""
_TOPIC_RESOURCE, _CLUSTER_RESOURCE, _BROKER, _LOGGER = 2, 4, 4, 8
_ALTER, _ALLOW, _LITERAL, _ANY = 7, 3, 3, 1
_CODES: Final = ("error_code", "partition_error_code")
_BY_SERVER: Final = frozenset({41})
"""Which broker is the controller is nobody's secret."""


class Attack(NamedTuple):
    """A request, and the version that brokers from 2.4 to 3.9 have; newer ones where nothing older does."""

    name: str
    request: Message
    version: int

    @property
    def api(self) -> str:
        """The name of its API."""
        return api_of(type(self.request)).name

    def frame(self) -> bytes:
        """The request with its header."""
        return encode_request(self.request, self.version, 0, "attacker")

    def answer(self, frame: bytes) -> Message:
        """What a frame answers."""
        return decode_response(api_of(type(self.request)).response_type, self.version, frame)[1]


class AnyRequest(Protocol):
    """A request of any kind, with the name that it has in a table."""

    @property
    def name(self) -> str: ...

    @property
    def api(self) -> str:
        """The name of its API."""

    def frame(self) -> bytes:
        """The request with its header."""

    def answer(self, frame: bytes) -> Any:
        """What a frame answers."""


def attacks(
    topic: str, *, broker: int = 1, new_topic: str = "stolen", missing: str = "none", grantee: str = "User:*"
) -> Iterator[Attack]:
    """Ask for everything, with a topic that exists and is nobody's business. `broker`: in whose name. `missing`: a
    topic that does not exist. `grantee`: who is to get a right.
    """
    new = topics.CreatableTopic(name=new_topic, num_partitions=1, replication_factor=1)
    yield Attack("CreateTopics", topics.CreateTopicsRequest(topics=(new,), timeout_ms=5000), 4)
    only_checked = topics.CreateTopicsRequest(topics=(new,), timeout_ms=5000, validate_only=True)
    yield Attack("CreateTopics to be checked", only_checked, 4)
    yield Attack("DeleteTopics", topics.DeleteTopicsRequest(topic_names=(topic, missing), timeout_ms=5000), 3)
    more = topics.CreatePartitionsTopic(name=topic, count=30)
    yield Attack("CreatePartitions", topics.CreatePartitionsRequest(topics=(more,), timeout_ms=5000), 1)
    elected = partitions.ElectLeadersRequestTopicPartitions(topic=topic, partitions=(0,))
    yield Attack("ElectLeaders", partitions.ElectLeadersRequest(topic_partitions=(elected,), timeout_ms=5000), 1)
    yield Attack("ElectLeaders of all", partitions.ElectLeadersRequest(topic_partitions=None, timeout_ms=5000), 1)
    moved = partitions.ReassignableTopic(
        name=topic, partitions=(partitions.ReassignablePartition(partition_index=0, replicas=(1,)),)
    )
    yield Attack("AlterReassignments", partitions.AlterPartitionReassignmentsRequest(topics=(moved,)), 0)
    yield Attack("ListReassignments", partitions.ListPartitionReassignmentsRequest(topics=None), 0)
    creation = acls.AclCreation(
        resource_type=_CLUSTER_RESOURCE,
        resource_name="kafka-cluster",
        resource_pattern_type=_LITERAL,
        principal=grantee,
        host="*",
        operation=_ALTER,
        permission_type=_ALLOW,
    )
    yield Attack("CreateAcls", acls.CreateAclsRequest(creations=(creation,)), 1)
    every: dict[str, Any] = {"resource_type_filter": _ANY, "pattern_type_filter": _ANY, "operation": _ANY}
    yield Attack("DescribeAcls", acls.DescribeAclsRequest(**every, permission_type=_ANY), 1)
    filtered = acls.DeleteAclsFilter(**every, permission_type=_ANY)
    yield Attack("DeleteAcls", acls.DeleteAclsRequest(filters=(filtered,)), 1)
    for kind, name, key in (
        (_TOPIC_RESOURCE, topic, "retention.ms"),
        (_BROKER, "", "log.cleaner.threads"),
        (_LOGGER, "1", "kafka.authorizer.logger"),
    ):
        described = configs.DescribeConfigsResource(resource_type=kind, resource_name=name)
        yield Attack(f"DescribeConfigs {kind}", configs.DescribeConfigsRequest(resources=(described,)), 1)
        changed = configs.IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=(configs.IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=0, value="1"),),
        )
        yield Attack(f"AlterConfigs {kind}", configs.IncrementalAlterConfigsRequest(resources=(changed,)), 0)
    password = configs.ScramCredentialUpsertion(
        name="admin", mechanism=1, iterations=4096, salt=b"0123456789ab", salted_password=b"x" * 32
    )
    users = configs.AlterUserScramCredentialsRequest(deletions=(), upsertions=(password,))
    yield Attack("AlterUserScramCredentials", users, 0)
    yield Attack("Metadata", data.MetadataRequest(topics=None), 7)
    named = data.MetadataRequestTopic(name=topic)
    yield Attack("Metadata of it", data.MetadataRequest(topics=(named, data.MetadataRequestTopic(name=missing))), 8)
    yield Attack("FindCoordinator", coordinators.FindCoordinatorRequest(key="group"), 2)
    yield Attack("FindCoordinator of it", coordinators.FindCoordinatorRequest(key="t", key_type=1), 2)
    yield Attack("InitProducerId", coordinators.InitProducerIdRequest(transactional_id=None), 1)
    yield Attack("ListGroups", ListGroupsRequest(), 2)
    yield Attack("ControlledShutdown", brokers.ControlledShutdownRequest(broker_id=broker, broker_epoch=-1), 3)
    item = brokers.AlterPartitionRequestPartitionData(partition_index=0, leader_epoch=0, new_isr=(1,))
    isr = brokers.AlterPartitionRequestTopicData(topic_name=topic, partitions=(item,))
    yield Attack("AlterPartition", brokers.AlterPartitionRequest(broker_id=broker, broker_epoch=-1, topics=(isr,)), 0)
    yield Attack("AllocateProducerIds", brokers.AllocateProducerIdsRequest(broker_id=broker, broker_epoch=-1), 0)


class Attacker:
    """A client that trusts the cluster's authority, with a certificate of it or without, or with a password."""

    def __init__(self, keystore: Path | None, truststore: Path, login: ReadCredentials | None = None) -> None:
        own = TlsSettings(
            keystore_location=None if keystore is None else str(keystore), truststore_location=str(truststore)
        )
        self._tls, self._login = client_context(own), login

    async def errors(self, address: str, topic: str) -> Mapping[str, str]:
        """What each attack at this address is answered with."""
        return await self.answers(address, attacks(topic))

    async def answers(self, address: str, asked: Iterable[AnyRequest]) -> dict[str, str]:
        """What each of these is answered with."""
        return {attack.name: await self._errors(address, attack) for attack in asked}

    async def _errors(self, address: str, attack: AnyRequest) -> str:
        host, _, port = address.rpartition(":")
        protocol = "SSL" if self._login is None else "SASL_SSL"
        endpoint = Endpoint(host, int(port), protocol, protocol)
        try:
            # One for each: a broker closes the connection of a request that it does not understand.
            connection = await KafkaConnection.open(
                endpoint, client_id="attacker", timeout_s=TIMEOUT_S, tls=self._tls, login=self._login
            )
            try:
                answer = attack.answer(await connection.call_raw(attack.frame(), timeout_s=TIMEOUT_S))
            finally:
                connection.close()
        except PeerUnreachableError:
            return CLOSED
        if isinstance(answer, data.MetadataResponse) and (shown := shown_topics(answer)):
            return f"shows {', '.join(shown)}"
        return " ".join(map(str, sorted(_codes(answer)))) or "none"


def _codes(value: Any) -> set[int]:
    """All errors in an answer, and nothing else of it, but how many topics it shows."""
    if isinstance(value, tuple):
        return set().union(*map(_codes, value))
    if not isinstance(value, Struct | SimpleNamespace):
        return set()
    own = {code for name in _CODES if (code := getattr(value, name, 0))}
    fields = vars(value) if isinstance(value, SimpleNamespace) else value.__struct_fields__
    return own.union(*(_codes(getattr(value, name)) for name in fields))


def shown_topics(answer: data.MetadataResponse) -> list[str]:
    return [topic.name or "" for topic in answer.topics if not topic.error_code]
