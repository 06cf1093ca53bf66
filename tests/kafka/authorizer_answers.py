"""What a broker with AclAuthorizer answers to real requests under random access control lists.

    python -m tests.kafka.authorizer_answers

records the answers of Apache Kafka 3.9.1 into `tests/recorded/acl/answers.jsonl.gz`, one set of rules a line. Responses
with `authorized_operations` tell all that a client may do to a topic, a group or the cluster at once; where Describe is
denied they tell nothing, so further requests ask for one operation each.
"""

import asyncio
import gzip
import json
import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiokafka.protocol.admin import DescribeGroupsRequest_v3, DescribeGroupsResponse_v3
from kazoo.client import KazooClient

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.kafka_wire.apis import api_of
from cluster.kafka_wire.client_authentication import authenticate
from cluster.kafka_wire.codec import encode
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import acls, configs, coordinators, data, partitions, topics
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.connections import RequestHeader
from cluster.model.broker import Endpoint
from cluster.model.errors import ErrorCode
from cluster.sasl.clients import ClientCredentials
from cluster.security.acl_numbers import ANY, OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES
from cluster.security.acl_znodes import CHANGE_PREFIX, changes_of, encode_notice, encode_rules, path_of
from cluster.security.acls import ACL_AUTHORIZER, AccessRule, Pattern, RulesByPattern
from cluster.security.principals import ANONYMOUS, Principal, parse_principal
from cluster.tls.secret import Secret
from deploy.local.kafka_broker import STARTED
from deploy.local.processes import choose_free_ports
from tests.controllers.plain_zookeeper import plain_client
from tests.kafka.clusters import KafkaCluster
from tests.kafka.random_rules import HIDDEN, NAMES, OWNER, SUPER_USERS, USERS, Answers, as_json, clients, random_rules
from tests.processes.installations import ROOT
from tests.processes.local_clusters import eventually
from tests.timeouts import TIMEOUT_S

RECORDED: Final = ROOT / "tests/recorded/acl/answers.jsonl.gz"
_SEED, _ROUNDS = 20260801, 30
_GROUP, _TRANSACTIONAL_ID = 0, 1
_TOPIC, _BROKER = 2, 4
_NO_SUCH_PARTITION, _TOO_LONG_MS = 99, 2**31 - 1
_DENIED: Final = frozenset({29, 30, 31, 53})
"""Authorization failed: for a topic, group, the cluster, a transactional id."""
_WITHOUT_TOKENS: Final = 61
"""A broker without a key for delegation tokens says so to those who might make one."""


class Question(NamedTuple):
    """A request, and what its response says: the answers, by what was asked."""

    request: Message
    version: int
    answers: Callable[[Any], Answers]


def _is_allowed(code: int) -> int:
    return int(code not in _DENIED)


def _by_name(about: str, results: Any) -> Answers:
    return {f"{about} {result.name}": _is_allowed(result.error_code) for result in results}


def _metadata(answer: data.MetadataResponse) -> Answers:
    return {
        f"Metadata {topic.name}": topic.topic_authorized_operations if _is_allowed(topic.error_code) else HIDDEN
        for topic in answer.topics
    }


def questions() -> Iterator[Question]:
    """Nothing that is asked changes anything."""
    named = tuple(data.MetadataRequestTopic(name=name) for name in NAMES)
    yield Question(data.MetadataRequest(topics=named, include_topic_authorized_operations=True), 9, _metadata)
    whole = coordinators.DescribeClusterRequest(include_cluster_authorized_operations=True)
    yield Question(whole, 0, lambda answer: {"DescribeCluster": answer.cluster_authorized_operations})
    yield from _about_configs()
    yield from _about_topics()
    yield from _about_coordinators()
    none = partitions.AlterPartitionReassignmentsRequest(topics=(), timeout_ms=5000)
    yield Question(none, 0, lambda answer: {"AlterPartitionReassignments": _is_allowed(answer.error_code)})


def _about_configs() -> Iterator[Question]:
    described = [configs.DescribeConfigsResource(resource_type=_TOPIC, resource_name=name) for name in NAMES]
    described.append(configs.DescribeConfigsResource(resource_type=_BROKER, resource_name=""))

    def of(about: str, results: Any) -> Answers:
        return {
            f"{about} {result.resource_name or 'of a broker'}": _is_allowed(result.error_code) for result in results
        }

    asked = configs.DescribeConfigsRequest(resources=tuple(described))
    yield Question(asked, 1, lambda answer: of("DescribeConfigs", answer.results))
    altered = tuple(
        configs.IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=(configs.IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=0, value="1"),),
        )
        for kind, name, key in [
            *((_TOPIC, name, "retention.ms") for name in NAMES),
            (_BROKER, "", "background.threads"),
        ]
    )
    checked = configs.IncrementalAlterConfigsRequest(resources=altered, validate_only=True)
    yield Question(checked, 0, lambda answer: of("AlterConfigs", answer.responses))


def _about_topics() -> Iterator[Question]:
    new = tuple(topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in NAMES)
    creation = topics.CreateTopicsRequest(topics=new, timeout_ms=5000, validate_only=True)
    yield Question(creation, 4, lambda answer: _by_name("CreateTopics", answer.topics))
    more = tuple(topics.CreatePartitionsTopic(name=name, count=2, assignments=None) for name in NAMES)
    grown = topics.CreatePartitionsRequest(topics=more, timeout_ms=5000, validate_only=True)
    yield Question(grown, 1, lambda answer: _by_name("CreatePartitions", answer.results))
    nothing = (data.DeleteRecordsPartition(partition_index=_NO_SUCH_PARTITION),)
    deletion = data.DeleteRecordsRequest(
        topics=tuple(data.DeleteRecordsTopic(name=name, partitions=nothing) for name in NAMES), timeout_ms=5000
    )

    def of_partition(answer: data.DeleteRecordsResponse) -> Answers:
        return {f"DeleteRecords {t.name}": _is_allowed(t.partitions[0].error_code) for t in answer.topics}

    yield Question(deletion, 1, of_partition)


def _about_coordinators() -> Iterator[Question]:
    for kind, about in ((_GROUP, "of group"), (_TRANSACTIONAL_ID, "of id")):
        found = coordinators.FindCoordinatorRequest(key_type=kind, coordinator_keys=NAMES)
        yield Question(
            found,
            4,
            lambda answer, about=about: {
                f"FindCoordinator {about} {c.key}": _is_allowed(c.error_code) for c in answer.coordinators
            },
        )
    for name in (None, *NAMES):
        # The timeout is too long: the id is not kept.
        about = "InitProducerId" if name is None else f"InitProducerId {name}"
        producer = coordinators.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=_TOO_LONG_MS)
        yield Question(producer, 1, lambda answer, about=about: {about: _is_allowed(answer.error_code)})


def _frame(key: ApiKey, version: int, header_version: int, body: bytes) -> bytes:
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=-1, client_id="authorizer")
    return encode(header, header_version) + body


async def _asked_in_bytes(connection: KafkaConnection) -> Answers:
    """Ask what klamm has no messages for."""
    body = DescribeGroupsRequest_v3(list(NAMES), True).encode()
    answer = await connection.call_raw(_frame(ApiKey.DESCRIBE_GROUPS, 3, 1, body), timeout_s=TIMEOUT_S)
    found: Answers = {}
    for code, name, *_, operations in DescribeGroupsResponse_v3.decode(answer[4:]).groups:
        assert code == ErrorCode.NONE or not _is_allowed(code), (code, name)
        found[f"DescribeGroups {name}"] = operations if _is_allowed(code) else HIDDEN
    kind, _, owner = OWNER.partition(":")
    texts = b"".join(bytes([len(text) + 1]) + text.encode() for text in (kind, owner))
    body = texts + b"\x01" + (-1).to_bytes(8, "big", signed=True) + b"\x00"
    answer = await connection.call_raw(_frame(ApiKey.CREATE_DELEGATION_TOKEN, 3, 2, body), timeout_s=TIMEOUT_S)
    code = int.from_bytes(answer[5:7], "big", signed=True)
    return found | {f"CreateDelegationToken {OWNER}": int(code == _WITHOUT_TOKENS)}


class Stand:
    """A broker of Apache Kafka with an authorizer, and a connection of each user from each of two addresses."""

    def __init__(self, zookeeper: KazooClient, clients_: dict[str, KafkaConnection], owner: KafkaConnection) -> None:
        self._zookeeper, self._clients, self._owner = zookeeper, clients_, owner
        self._rules: RulesByPattern = {}

    async def answers(self, rules: RulesByPattern) -> dict[str, Answers]:
        """Write these rules and no others, wait until the broker has them, and ask everything as everybody."""
        self._write(rules)
        await self._until_known(rules)
        found = await asyncio.gather(*map(_asked, self._clients.values()))
        return dict(zip(self._clients, found, strict=True))

    def _write(self, rules: RulesByPattern) -> None:
        transaction = self._zookeeper.transaction()
        for pattern in self._rules.keys() | rules.keys():
            before, now = self._rules.get(pattern), rules.get(pattern)
            if before == now:
                continue
            if now is None:
                transaction.delete(path_of(pattern))
            elif before is None:
                transaction.create(path_of(pattern), encode_rules(now))
            else:
                transaction.set_data(path_of(pattern), encode_rules(now))
            notice = f"{changes_of(pattern.type)}/{CHANGE_PREFIX}"
            transaction.create(notice, encode_notice(pattern), sequence=True)
        for result in transaction.commit():
            assert not isinstance(result, Exception), result
        self._rules = rules

    async def _until_known(self, rules: RulesByPattern) -> None:
        every: dict[str, Any] = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY}
        every |= {"resource_name_filter": None, "principal_filter": None, "host_filter": None, "permission_type": ANY}
        async with asyncio.timeout(TIMEOUT_S):
            while await self._known(acls.DescribeAclsRequest(**every)) != rules:  # noqa: ASYNC110 (the broker's)
                await asyncio.sleep(0.002)

    async def _known(self, request: acls.DescribeAclsRequest) -> RulesByPattern:
        answer = await self._owner.call(request, 2, acls.DescribeAclsResponse, timeout_s=TIMEOUT_S)
        return {
            Pattern(RESOURCE_TYPES[r.resource_type], r.resource_name, PATTERN_TYPES[r.pattern_type]): frozenset(
                AccessRule(
                    parse_principal(acl.principal),
                    OPERATIONS[acl.operation],
                    PERMISSIONS[acl.permission_type],
                    acl.host,
                )
                for acl in r.acls
            )
            for r in answer.resources
        }


async def _asked(connection: KafkaConnection) -> Answers:
    found: Answers = {}
    for question in questions():
        kind = api_of(type(question.request)).response_type
        answer = await connection.call(question.request, question.version, kind, timeout_s=TIMEOUT_S)
        found |= question.answers(answer)
    return found | await _asked_in_bytes(connection)


async def _connected(endpoint: Endpoint, principal: Principal, host: str) -> KafkaConnection:
    """A connection from this address of this machine."""
    connection = KafkaConnection(endpoint.address, "authorizer")
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: connection, endpoint.host, endpoint.port, local_addr=(host, 0))
    if principal != ANONYMOUS:
        own = ClientCredentials("PLAIN", principal.name, Secret(f"{principal.name}'s"))
        await authenticate(connection.call, endpoint, own, timeout_s=TIMEOUT_S)
    return connection


@contextmanager
def guarded_broker(folder: Path, zookeeper: str, *, allows_unlisted: bool) -> Iterator[dict[str, Endpoint]]:
    """Run a broker with the topics of the questions; yields its listeners, for users and for anybody."""
    cluster = KafkaCluster(folder, zookeeper)
    users, anybody = choose_free_ports(2)
    own = "".join(f' user_{user}="{user}\'s"' for user in (*USERS, "broker"))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listeners": f"USERS://127.0.0.1:{users},ANYBODY://127.0.0.1:{anybody}",
        "listener.security.protocol.map": "USERS:SASL_PLAINTEXT,ANYBODY:PLAINTEXT",
        "inter.broker.listener.name": "USERS",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": f'{module} username="broker" password="broker\'s"{own};',
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": SUPER_USERS,
        "allow.everyone.if.no.acl.found": allows_unlisted,
        "auto.create.topics.enable": False,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
    }
    folder.mkdir(parents=True)
    try:
        cluster.brokers[1] = f"127.0.0.1:{users}"
        cluster.start_broker(1, settings)
        eventually(lambda: STARTED in cluster.log("kafka-1"), "the broker serves")
        yield {
            "users": Endpoint("127.0.0.1", users, "USERS", "SASL_PLAINTEXT"),
            "anybody": Endpoint("127.0.0.1", anybody, "ANYBODY", "PLAINTEXT"),
        }
    finally:
        cluster.end()


@asynccontextmanager
async def stand(folder: Path, zookeeper: str, *, allows_unlisted: bool) -> AsyncIterator[Stand]:
    """Everything for questions: the broker, its topics, coordinators that know their groups, and its clients."""
    async with AsyncExitStack() as stack:
        broker = stack.enter_context(guarded_broker(folder, zookeeper, allows_unlisted=allows_unlisted))
        client = stack.enter_context(plain_client(zookeeper))
        found: dict[str, KafkaConnection] = {}
        for principal, host in clients():
            endpoint = broker["anybody" if principal == ANONYMOUS else "users"]
            found[f"{principal} {host}"] = await _connected(endpoint, principal, host)
            stack.callback(found[f"{principal} {host}"].close)
        owner = await _connected(broker["users"], parse_principal("User:broker"), "127.0.0.1")
        stack.callback(owner.close)
        await _prepare(owner)
        yield Stand(client, found, owner)


async def _prepare(owner: KafkaConnection) -> None:
    new = tuple(topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in NAMES)
    made = topics.CreateTopicsRequest(topics=new, timeout_ms=TIMEOUT_S * 1000)
    await owner.call(made, 4, topics.CreateTopicsResponse, timeout_s=TIMEOUT_S)
    # It creates the internal topics; their coordinators take a moment to load them.
    for kind in (_GROUP, _TRANSACTIONAL_ID):
        await _until(lambda kind=kind: _has_coordinators(owner, kind))
    await _until(lambda: _knows_groups(owner))


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not await condition():  # noqa: ASYNC110 (the broker's)
            await asyncio.sleep(0.1)


async def _has_coordinators(owner: KafkaConnection, kind: int) -> bool:
    request = coordinators.FindCoordinatorRequest(key_type=kind, coordinator_keys=NAMES)
    answer = await owner.call(request, 4, coordinators.FindCoordinatorResponse, timeout_s=TIMEOUT_S)
    return not any(one.error_code for one in answer.coordinators)


async def _knows_groups(owner: KafkaConnection) -> bool:
    body = DescribeGroupsRequest_v3(list(NAMES), False).encode()
    answer = await owner.call_raw(_frame(ApiKey.DESCRIBE_GROUPS, 3, 1, body), timeout_s=TIMEOUT_S)
    return not any(code for code, *_ in DescribeGroupsResponse_v3.decode(answer[4:]).groups)


async def _record(folder: Path, zookeeper: str) -> list[Any]:
    randomness, found = random.Random(_SEED), []
    for allows_unlisted in (False, True):
        name = f"unlisted-{allows_unlisted}"
        async with stand(folder / name, f"{zookeeper}/{name}", allows_unlisted=allows_unlisted) as asked:
            for _ in range(_ROUNDS):
                rules = random_rules(randomness)
                answers = await asked.answers(rules)
                found.append({"allows_unlisted": allows_unlisted, "rules": as_json(rules), "answers": answers})
    return found


def main() -> None:
    """Record."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedZooKeeper(Path(folder) / "zookeeper") as server,
    ):
        lines = asyncio.run(_record(Path(folder), server.address))
    text = "".join(json.dumps(line, separators=(",", ":"), sort_keys=True) + "\n" for line in lines)
    RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
