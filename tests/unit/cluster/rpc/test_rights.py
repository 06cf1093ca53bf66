"""Every RPC by who calls: each is allowed what the table of rights says, and nothing else."""

from itertools import product
from typing import Any, Final

import pytest

from cluster.metrics.registry import Metrics
from cluster.model.broker import ControllerId, Offset, TopicId
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests import configs, data, topics
from cluster.requests.cluster import WatchRequest
from cluster.requests.context import RequestContext
from cluster.rpc.methods import REPLICA_FETCH
from cluster.rpc.rights import AuthorizedHandler
from cluster.security.acls import (
    CLUSTER_NAME,
    AccessRule,
    Authorizer,
    Operation,
    Pattern,
    PatternType,
    ResourceType,
)
from cluster.security.identities import Identity
from cluster.security.operations import REQUIREMENTS
from controller.adapters.kafka.config_apis import config_apis
from controller.adapters.kafka.session import OF_ACTIVE_CONTROLLER
from tests.rights.matrix import (
    ALICE,
    CONTROLLER,
    HIDDEN,
    ID_OF_HIDDEN,
    IDENTITIES,
    METHODS,
    NONE,
    REQUESTS,
    SHOWN,
    Ask,
    Node,
    Rules,
    allowing,
    authorizer_for,
    expected,
    request_of,
    seen,
)


def test_every_rpc_has_its_row_in_the_table() -> None:
    assert REQUIREMENTS.keys() == {m.name for m in METHODS if m is not REPLICA_FETCH}


def test_the_table_names_fields_that_there_are() -> None:
    for method in METHODS:
        needed = REQUIREMENTS[method.request_type.__name__.removesuffix("Request")]
        of_response = ((needed.shown, method.response_type), (needed.results, method.response_type))
        for where, kind in ((needed.items, method.request_type), *of_response):
            fields: Any = kind
            listed, _, _ = where.partition(".")
            assert not listed or listed in fields.__struct_fields__, method.name
        sent = (needed.sender_id, needed.follower_id)
        fields = method.request_type
        assert all(name in fields.__struct_fields__ for name in sent if name), method.name


NODE: Final = Node()


def asking(identity: Identity, authorizer: Authorizer) -> Ask:
    handler = AuthorizedHandler(NODE, Rules(authorizer), Metrics())

    async def ask(request: Any) -> Any:
        response = await handler.handle(RequestContext(identity=identity), request)
        return [answer async for answer in response] if isinstance(request, WatchRequest) else response

    return ask


CELLS: Final = list(product(METHODS, IDENTITIES))


async def test_every_rpc_by_every_identity() -> None:
    wrong, outcomes = [], {"all": 0, "shown": 0, "nothing": 0}
    for method, who in CELLS:
        authorizer = authorizer_for(who, method.name)
        found = await seen(method.name, request_of(method), NODE, asking(IDENTITIES[who], authorizer))
        outcomes[found] += 1
        if found != (right := expected(who, method.name)):
            wrong.append(f"{method.name} by {who}: {found}, not {right}")
    print(f"\n{len(CELLS)} cells, {len(METHODS)} RPCs by {len(IDENTITIES)} identities: {outcomes}")
    assert wrong == []


async def handled(request: Any, authorizer: Authorizer, **more: Any) -> Any:
    handler = AuthorizedHandler(Node(), Rules(authorizer), Metrics(), **more)
    return await handler.handle(RequestContext(identity=IDENTITIES["client without rights"]), request)


READ_ORDERS = allowing([Operation.READ], ResourceType.TOPIC, SHOWN)


class Session(Node):
    """Answers each fetch with records of both topics, as in a session that began when both might be read."""

    async def handle(self, context: RequestContext, request: Any) -> Any:
        await super().handle(context, request)
        records = (data.FetchPartitionData(topic, 0, ErrorCode.NONE, records=b"r") for topic in (SHOWN, HIDDEN))
        return data.FetchResponse(ErrorCode.NONE, tuple(records), session_id=7)


@pytest.mark.rule("R5.12")
@pytest.mark.parametrize("named", [(), (HIDDEN,), (SHOWN,)])
async def test_what_may_be_read_no_longer_is_an_error_in_its_fetch_session(named: tuple[str, ...]) -> None:
    session, metrics = Session(), Metrics()
    items = tuple(data.FetchPartition(topic, None, 0, Offset(0), 1) for topic in named)
    request = data.FetchRequest(data.CONSUMER, items, 0, 0, 0, session_id=7, session_epoch=1)
    handler = AuthorizedHandler(session, Rules(READ_ORDERS), metrics)
    response = await handler.handle(RequestContext(identity=IDENTITIES["client without rights"]), request)
    assert [r.session_epoch for r in session.handled] == [1]
    shown, *hidden = response.partitions
    assert (response.session_id, shown.records) == (7, b"r")
    assert {(r.topic, r.error_code, r.records) for r in hidden} == {(HIDDEN, ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")}


@pytest.mark.parametrize("request_for_all", [data.MetadataRequest(), topics.DescribeTopicsRequest()])
async def test_a_request_for_all_topics_shows_those_that_may_be_seen(request_for_all: Any) -> None:
    response = await handled(request_for_all, READ_ORDERS)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [(SHOWN, ErrorCode.NONE)]


async def test_a_topic_that_is_named_by_id_is_authorised_by_its_name_and_keeps_it_hidden() -> None:
    unknown = TopicId("C" * 21 + "Q")
    request = topics.DeleteTopicsRequest(tuple(topics.TopicToDelete(topic_id=id_) for id_ in (ID_OF_HIDDEN, unknown)))
    response = await handled(request, READ_ORDERS, topic_of={ID_OF_HIDDEN: HIDDEN}.get)
    denied, passed_on = response.responses
    assert (denied.name, denied.topic_id, denied.error_code) == (
        None,
        ID_OF_HIDDEN,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
    assert HIDDEN not in repr(denied)
    assert (passed_on.topic_id, passed_on.error_code) == (unknown, ErrorCode.NONE)


async def test_who_may_create_on_the_cluster_may_create_every_topic() -> None:
    create = allowing([Operation.CREATE], ResourceType.CLUSTER, CLUSTER_NAME)
    response = await handled(REQUESTS["CreateTopics"], create)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.NONE, ErrorCode.NONE]


async def test_configs_of_brokers_and_clients_are_those_of_the_cluster() -> None:
    resources = tuple(configs.ConfigResource(kind, name) for kind, name in ((4, "1"), (64, "app"), (2, SHOWN)))
    response = await handled(configs.DescribeConfigsRequest(resources), NONE)
    cluster, topic = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [result.error_code for result in response.results] == [cluster, cluster, topic]


async def test_who_may_write_to_any_topic_gets_a_producer_id() -> None:
    assert await handled(
        data.InitProducerIdRequest(), allowing([Operation.WRITE], ResourceType.TOPIC, "t")
    ) == data.InitProducerIdResponse(ErrorCode.NONE)


async def test_the_error_says_what_an_administrator_can_do() -> None:
    response = await handled(REQUESTS["CreatePartitions"], NONE)
    assert response.results[0].error_message == (
        "User:CN=alice at 10.0.0.9 may not Alter Topic orders; an administrator allows it with: "
        "klamm acls add --allow-principal User:CN=alice --operation Alter --topic orders"
    )
    with pytest.raises(ApiError, match=r"klamm acls add --allow-principal User:CN=alice --operation Alter --cluster"):
        await handled(REQUESTS["Shutdown"], NONE)


async def test_a_long_request_is_authorised_completely() -> None:
    names = tuple(SHOWN if number % 3 else f"{HIDDEN}{number}" for number in range(5_000))
    response = await handled(data.MetadataRequest(names), READ_ORDERS)
    assert [topic.name for topic in response.topics] == list(names)
    assert {topic.error_code for topic in response.topics if topic.name != SHOWN} == {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
    }
    assert {topic.error_code for topic in response.topics if topic.name == SHOWN} == {ErrorCode.NONE}


@pytest.mark.rule("BD-1")
@pytest.mark.parametrize("request_kind", [data.MetadataRequest, data.ProduceRequest])
async def test_more_names_than_a_request_may_have_are_not_even_looked_at(request_kind: Any) -> None:
    node, names = Node(), tuple(f"{HIDDEN}{number}" for number in range(50_001))
    parts = tuple(data.ProducePartition(name, 0, b"") for name in names)
    request = data.ProduceRequest(1, 0, parts) if request_kind is data.ProduceRequest else data.MetadataRequest(names)
    handler = AuthorizedHandler(node, Rules(NONE), Metrics())
    identity = IDENTITIES["client without rights"]
    with pytest.raises(ApiError, match="must have at most 50000 items") as refused:
        await handler.handle(RequestContext(identity=identity), request)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.field in {"topics", "partitions"}
    assert node.handled == []


async def test_a_name_of_30_000_characters_is_looked_up_by_the_prefixes_that_there_are() -> None:
    rules = frozenset({AccessRule(ALICE, Operation.READ)})
    prefixed = Authorizer({Pattern(ResourceType.TOPIC, "or", PatternType.PREFIXED): rules})
    names = ("or" + "x" * 30_000, "no" + "x" * 30_000, "o")
    response = await handled(data.MetadataRequest(names), prefixed)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [topic.error_code for topic in response.topics] == [ErrorCode.NONE, denied, denied]


def test_every_api_that_kafkas_clients_ask_is_one_of_the_table() -> None:
    answered = {api.key: api.asks for api in (*OF_ACTIVE_CONTROLLER, *config_apis(ControllerId(CONTROLLER)))}
    assert {kind.__name__.removesuffix("Request") for kind in answered.values()} <= REQUIREMENTS.keys()
