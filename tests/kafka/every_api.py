"""Every request that a broker of Apache Kafka in ZooKeeper mode announces, or that tools send it all the same.

Those that klamm itself reads or writes are of its own messages, the rest by the definitions of Kafka.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from cluster.kafka_wire.messages import coordinators, data
from cluster.kafka_wire.messages.brokers import UpdateFeaturesRequest
from cluster.kafka_wire.messages.connections import HeartbeatRequest, ListTransactionsRequest
from tests.kafka.any_messages import AnyMessages
from tests.kafka.attacks import AnyRequest, Attack, attacks

NOBODY: Final = 99
"""No broker has this id: what is sent in its name changes nothing."""
_TOPIC, _BROKER, _LOGGER = 2, 4, 8


class AnyAttack(NamedTuple):
    """A request by Kafka's definitions. `api`: the name of its API; `name`: of the request, in the table."""

    name: str
    version: int
    content: dict[str, Any]
    messages: AnyMessages | None

    @property
    def api(self) -> str:
        return self.name.partition(" ")[0]

    def frame(self) -> bytes:
        """The request with its header."""
        assert self.messages is not None, "nothing is to be sent"
        return self.messages.frame(self.api, self.version, self.content)

    def answer(self, frame: bytes) -> Any:
        """What a frame answers."""
        assert self.messages is not None, "nothing was sent"
        return self.messages.answer(self.api, self.version, frame)


def every_api(
    messages: AnyMessages | None, topic: str, *, new_topic: str, mechanism: str = "SCRAM-SHA-512"
) -> Iterator[AnyRequest]:
    """Ask for all of it, with valid content. The topic is deleted last.

    `messages`: None if nothing is to be sent. `topic`: one that exists; `new_topic`: one that does not yet.
    `mechanism`: by which the client has authenticated, if it has.
    """
    missing = f"missing-{topic}"
    found = attacks(topic, broker=NOBODY, new_topic=new_topic, missing=missing, grantee="User:mallory")
    *rest, deletion = sorted(found, key=lambda attack: attack.name == "DeleteTopics")
    yield from rest
    partition = data.ListOffsetsPartition(partition_index=0, timestamp=-1)
    listed = data.ListOffsetsTopic(name=topic, partitions=(partition,))
    yield Attack("ListOffsets", data.ListOffsetsRequest(replica_id=-1, topics=(listed,)), 1)
    deleted = data.DeleteRecordsTopic(
        name=topic, partitions=(data.DeleteRecordsPartition(partition_index=0, offset=0),)
    )
    yield Attack("DeleteRecords", data.DeleteRecordsRequest(topics=(deleted,), timeout_ms=5000), 1)
    yield Attack("DescribeLogDirs", data.DescribeLogDirsRequest(topics=()), 3)
    yield Attack("UpdateFeatures", UpdateFeaturesRequest(timeout_ms=5000), 0)
    yield Attack("DescribeCluster", coordinators.DescribeClusterRequest(), 0)
    yield Attack("ListTransactions", ListTransactionsRequest(), 0)
    yield Attack("Heartbeat", HeartbeatRequest(group_id="group", generation_id=1, member_id="m"), 1)
    others = {
        **_of_data(topic, missing),
        **_of_groups(topic),
        **_of_transactions(topic),
        **_of_controllers(topic, NOBODY),
        **_of_rights(topic),
        "SaslHandshake": (1, {"Mechanism": mechanism}),
        "SaslAuthenticate": (1, {"AuthBytes": b"n,,n=nobody,r=of-a-test"}),
        "ApiVersions": (2, {}),
    }
    for name, (version, content) in others.items():
        yield AnyAttack(name, version, content, messages)
    yield deletion


_Asked = dict[str, tuple[int, dict[str, Any]]]


def _of_data(topic: str, missing: str) -> _Asked:
    """What leaders of partitions answer, and brokers of their directories."""
    produced = {"Name": topic, "PartitionData": [{"Index": 0, "Records": b""}]}
    fetched = {"Topic": topic, "Partitions": [{"Partition": 0, "PartitionMaxBytes": 1024}]}
    of_epoch = {"Topic": topic, "Partitions": [{"Partition": 0, "LeaderEpoch": 0}]}
    marker = {"ProducerId": 1, "Topics": [{"Name": missing, "PartitionIndexes": (0,)}]}
    moved = {"Path": "/nowhere", "Topics": [{"Name": topic, "Partitions": (0,)}]}
    return {
        "Produce": (7, {"Acks": 1, "TimeoutMs": 1000, "TopicData": [produced]}),
        "Fetch": (11, {"MaxBytes": 1024, "Topics": [fetched]}),
        "Fetch as a broker": (11, {"ReplicaId": 1, "MaxBytes": 1024, "Topics": [fetched]}),
        "OffsetForLeaderEpoch": (3, {"Topics": [of_epoch]}),
        "DescribeProducers": (0, {"Topics": [{"Name": topic, "PartitionIndexes": (0,)}]}),
        "WriteTxnMarkers": (0, {"Markers": [marker]}),
        "AlterReplicaLogDirs": (1, {"Dirs": [moved]}),
    }


def _of_groups(topic: str) -> _Asked:
    """What coordinators of groups answer."""
    committed = {"Name": topic, "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 0, "CommittedMetadata": ""}]}
    protocol = {"Name": "range", "Metadata": b""}
    group = {"GroupId": "group"}
    joined = {**group, "SessionTimeoutMs": 6000, "ProtocolType": "consumer", "Protocols": [protocol]}
    return {
        "OffsetCommit": (5, {**group, "Topics": [committed]}),
        "OffsetFetch": (5, {**group, "Topics": [{"Name": topic, "PartitionIndexes": (0,)}]}),
        "OffsetFetch of all": (5, {**group, "Topics": None}),
        "JoinGroup": (5, joined),
        "SyncGroup": (3, {**group, "GenerationId": 1, "MemberId": "m"}),
        "LeaveGroup": (2, {**group, "MemberId": "m"}),
        "DescribeGroups": (3, {"Groups": ("group",), "IncludeAuthorizedOperations": True}),
        "DeleteGroups": (1, {"GroupsNames": ("group",)}),
        "OffsetDelete": (0, {**group, "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": 0}]}]}),
        "ConsumerGroupHeartbeat": (0, {**group, "MemberId": "", "SubscribedTopicNames": (topic,)}),
        "ConsumerGroupDescribe": (0, {"GroupIds": ("group",)}),
    }


def _of_transactions(topic: str) -> _Asked:
    """What coordinators of transactions answer."""
    own = {"TransactionalId": "t", "ProducerId": 1, "ProducerEpoch": 0}
    committed = {"Name": topic, "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 0, "CommittedMetadata": ""}]}
    oldest = {"V3AndBelowTransactionalId": "t", "V3AndBelowTopics": [{"Name": topic, "Partitions": (0,)}]}
    return {
        "InitProducerId of it": (1, {"TransactionalId": "t", "TransactionTimeoutMs": 1000}),
        "AddPartitionsToTxn": (1, oldest),
        "AddPartitionsToTxn of brokers": (4, {"Transactions": [{**own, "VerifyOnly": True}]}),
        "AddOffsetsToTxn": (1, {**own, "GroupId": "group"}),
        "EndTxn": (1, {**own, "Committed": False}),
        "TxnOffsetCommit": (2, {**own, "GroupId": "group", "Topics": [committed]}),
        "DescribeTransactions": (0, {"TransactionalIds": ("t",)}),
    }


def _of_controllers(topic: str, nobody: int) -> _Asked:
    """What controllers send to brokers, with a controller epoch of long ago, and what controllers of KRaft answer."""
    sent = {"ControllerId": nobody, "ControllerEpoch": 0}
    deleted = {"TopicName": topic, "PartitionStates": [{"PartitionIndex": 0, "DeletePartition": True}]}
    return {
        "LeaderAndIsr": (4, sent),
        "StopReplica": (3, {**sent, "TopicStates": [deleted]}),
        "UpdateMetadata": (6, sent),
        "Envelope": (0, {"RequestData": b"", "RequestPrincipal": None, "ClientHostAddress": b"\x7f\0\0\1"}),
        "DescribeQuorum": (0, {"Topics": [{"TopicName": "__cluster_metadata"}]}),
        "UnregisterBroker": (0, {"BrokerId": nobody}),
        "DescribeTopicPartitions": (0, {"Topics": [{"Name": topic}]}),
    }


def _of_rights(topic: str) -> _Asked:
    """Tokens, quotas, passwords, and configs by the request that KIP-339 has replaced."""
    quota = {"Key": "producer_byte_rate", "Value": 1e9}
    entry = {"Entity": [{"EntityType": "user", "EntityName": "somebody"}], "Ops": [quota]}
    altered = {
        name: {"ResourceType": kind, "ResourceName": resource, "Configs": [{"Name": key, "Value": value}]}
        for name, kind, resource, key, value in (
            ("AlterConfigs", _TOPIC, topic, "retention.ms", "86400000"),
            ("AlterConfigs of brokers", _BROKER, "", "log.cleaner.threads", "1"),
            ("AlterConfigs of loggers", _LOGGER, "1", "kafka.authorizer.logger", "INFO"),
        )
    }
    return {
        **{name: (1, {"Resources": [resource]}) for name, resource in altered.items()},
        "CreateDelegationToken": (1, {"MaxLifetimeMs": -1}),
        "RenewDelegationToken": (1, {"Hmac": b"token", "RenewPeriodMs": 1}),
        "ExpireDelegationToken": (1, {"Hmac": b"token", "ExpiryTimePeriodMs": 1}),
        "DescribeDelegationToken": (1, {"Owners": None}),
        "DescribeClientQuotas": (0, {"Components": [{"EntityType": "user", "MatchType": 2, "Match": None}]}),
        "AlterClientQuotas": (0, {"Entries": [entry]}),
        "DescribeUserScramCredentials": (0, {"Users": None}),
        "DescribeUserScramCredentials of one": (0, {"Users": [{"Name": "bob"}]}),
    }


NOT_ANSWERED: Final = frozenset(
    {
        "ListOffsets",
        "DeleteRecords",
        "Heartbeat",
        *_of_data("", ""),
        *_of_groups(""),
        *_of_transactions(""),
        *_of_controllers("", NOBODY),
        *(name for name in _of_rights("") if "DelegationToken" in name),
    }
) - {"InitProducerId of it"}
"""What leaders, coordinators and brokers answer for themselves, or controllers of KRaft, and tokens: where there are
rights, a controller of klamm answers none of it.
"""
