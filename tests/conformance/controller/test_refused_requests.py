"""A refused request changes nothing: memory, ZooKeeper, watches and metrics are equal before and after.

Every request that may change the cluster is made in a sound form, and then with each of its values replaced, one at a
time, by those that it must not have; and the sound forms are made where the circumstances refuse them. `-s` prints how
many were refused, and why. A request without a sound form fails a test.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Final

import pytest
from msgspec import Struct
from msgspec.structs import replace

from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from cluster.requests.agents import (
    SCRUB,
    AllocateProducerIdsRequest,
    AlterPartitionItem,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ReportDamagedReplicasRequest,
    ReportedDamage,
)
from cluster.requests.configs import (
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    FeatureUpdate,
    UpdateFeaturesRequest,
)
from cluster.requests.elections import PREFERRED, ElectLeadersRequest, ElectLeadersTopic
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.requests.recovery import RecoverClusterRequest
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewPartitionsAssignment,
    NewTopic,
    TopicToDelete,
)
from cluster.rpc.apis import ApiKind
from cluster.security.acl_znodes import encode_rules, path_of
from cluster.security.acls import AccessRule, Operation, Pattern, ResourceType
from cluster.security.principals import Principal
from cluster.znodes.paths import DELETE_TOPICS
from cluster.zookeeper.access_rules import access_list_paths
from cluster.zookeeper.port import Op, OpResult, ZkError
from controller.apis import APIS
from tests.controllers.all_of_memory import changes, everything
from tests.controllers.contexts import ids
from tests.controllers.refused_writes import Refusal, WriteRefusals, refused_at
from tests.controllers.user_credentials import of, upsertion
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster

Make = Callable[[World], Awaitable[Any]]
INTEGERS: Final = (-(2**31), -2, -1, 0, 1, 2, 3, 4, 9, 2**31 - 1, 2**40, 2**63 - 1)
TEXTS: Final = ("", "none-such", "../x", "t", "moving", "deleted", "n" * 300, "\ud800", "\0")
A_TOPIC_ID: Final = "B" * 21 + "Q"


async def cluster() -> tuple[World, RunningController]:
    """Topics t, one that is being moved, and one whose deletion waits for broker 4, which is dead."""
    world, c = await running_cluster(1, 2, 3, 4, auto_leader_rebalance_enable=False)
    await world.create_topic("t", [1, 2], [2, 1])
    await world.create_topic("moving", [1, 2])
    await world.create_topic("deleted", [1, 4])
    for topic in ("t", "moving", "deleted"):
        await world.leads(topic, leader=1)
    await c.ask(moves("moving", 1, 3))
    await world.stop_broker(4)
    await world.leads("deleted", leader=1, isr=[1])
    await world.create(f"{DELETE_TOPICS}/deleted")
    await quiesce(1)
    return world, c


def moves(topic: str, *target: int) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest((ReassignableTopic(topic, (ReassignablePartition(0, ids(*target)),)),))


def always(request: Any) -> Make:
    async def make(_: World) -> Any:
        return request

    return make


async def an_isr_change(world: World) -> AlterPartitionRequest:
    state = await world.state("t")
    assert state is not None
    item = AlterPartitionItem("t", None, 0, state.leader_epoch, ids(1), state.partition_epoch)
    return AlterPartitionRequest(BrokerId(1), await world.broker_epoch(1), (item,))


async def a_shutdown(world: World) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(BrokerId(1), await world.broker_epoch(1))


async def producer_ids(world: World) -> AllocateProducerIdsRequest:
    return AllocateProducerIdsRequest(BrokerId(1), await world.broker_epoch(1))


async def damage(world: World) -> ReportDamagedReplicasRequest:
    found = ReportedDamage("t", None, 0, Offset(3), Offset(9), 100, SCRUB)
    return ReportDamagedReplicasRequest(BrokerId(1), await world.broker_epoch(1), (found,))


async def a_new_rule(world: World) -> CreateAclsRequest:
    """The znodes above all lists are there, as since the first rule: they stay whatever becomes of a request."""
    for path in access_list_paths():
        if not world.server.tree.exists(path):
            await world.create(path)
    return CreateAclsRequest((AclCreation(2, "t", "User:alice", "*", 3, 3),))


async def a_removal_of_a_rule(world: World) -> DeleteAclsRequest:
    await a_new_rule(world)
    pattern = Pattern(ResourceType.TOPIC, "t")
    rules = encode_rules([AccessRule(Principal("User", "alice"), Operation.READ)])
    await world.create(path_of(pattern), rules)
    return DeleteAclsRequest((DeleteAclsFilter(1, 1, 1, 1),))


SOUND: Final[dict[str, Make]] = {
    "creation": always(CreateTopicsRequest((NewTopic("new", 2, 2),), timeout_ms=1000)),
    "creation with an assignment": always(
        CreateTopicsRequest((NewTopic("new", assignments={0: ids(1, 2), 1: ids(2, 3)}),), timeout_ms=1000)
    ),
    "creation with a config": always(
        CreateTopicsRequest((NewTopic("new", 1, 1, configs={"retention.ms": "7"}),), timeout_ms=1000)
    ),
    "partitions": always(CreatePartitionsRequest((NewPartitions("t", 3),), timeout_ms=1000)),
    "partitions with an assignment": always(
        CreatePartitionsRequest((NewPartitions("t", 3, (NewPartitionsAssignment(ids(1, 2)),)),), timeout_ms=1000)
    ),
    "deletion": always(DeleteTopicsRequest((TopicToDelete("t"),), timeout_ms=1000)),
    "move": always(moves("t", 2, 3)),
    "another move": always(moves("moving", 2, 3)),
    "cancellation": always(
        AlterPartitionReassignmentsRequest((ReassignableTopic("moving", (ReassignablePartition(0, None),)),))
    ),
    "election": always(ElectLeadersRequest(PREFERRED, (ElectLeadersTopic("t", (0,)),), timeout_ms=1000)),
    "configs": always(
        AlterConfigsRequest((AlterConfigsResource(TOPIC_RESOURCE, "t", (AlterableConfig("retention.ms", 0, "7"),)),))
    ),
    "features": always(UpdateFeaturesRequest((FeatureUpdate("metadata.version", 1),))),
    "recovery": always(RecoverClusterRequest()),
    "credentials": always(of(upsertion())),
    "new rule": a_new_rule,
    "removal of a rule": a_removal_of_a_rule,
    "ISR change": an_isr_change,
    "shutdown": a_shutdown,
    "producer ids": producer_ids,
    "damage": damage,
}
NOTIFIED: Final = {"ISR change"}
"""Where brokers are told what is in force, also if all that was asked is refused (IS-15)."""
REMEMBERED: Final = {"damage"}
"""What a broker has found is true, whatever ZooKeeper refuses: the replica is not elected meanwhile (D-41)."""
_ACCEPTED: Final = {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT}
_RECORDED: Final = {"move", "another move", "cancellation"}
"""What is recorded in the topic znode goes on, as in Kafka (RA-4, D-28), although a later write was refused; the error
says so.
"""
COUNTED: Final[Counter[str]] = Counter()


@pytest.fixture(scope="module", autouse=True)
def numbers() -> Iterator[None]:
    yield
    print(f"\n{COUNTED.total()} refused requests changed nothing: {dict(COUNTED.most_common())}")


def test_every_request_that_may_change_the_cluster_takes_part() -> None:
    async def main() -> set[type]:
        world, c = await cluster()
        made = {type(await make(world)) for make in SOUND.values()}
        await c.stop()
        return made

    assert run_virtually(main) == {request for request, api in APIS.items() if api.kind is not ApiKind.QUERY}


def variants(value: Any, name: str = "") -> Iterator[Any]:
    """The value with one part of it replaced, for each part and each of its replacements."""
    match value:
        case bool() | Enum():
            return
        case int():
            yield from (type(value)(n) for n in (*INTEGERS, value + 1, value - 1) if n != value)
        case str():
            yield from (text for text in TEXTS if text != value)
        case bytes():
            yield from (b"", value[:-1], value * 100)
        case Struct():
            for field in value.__struct_fields__:
                for other in variants(getattr(value, field), field):
                    yield replace(value, **{field: other})
        case dict():
            for key, item in value.items():
                yield from ({**value, key: other} for other in variants(item))
                yield from ({**value, other: item} for other in variants(key))
        case tuple():
            yield value * 2
            yield ()
            for at, item in enumerate(value):
                yield from ((*value[:at], other, *value[at + 1 :]) for other in variants(item))
        case None if name == "topic_id":
            yield from (A_TOPIC_ID, "x")


def codes(answer: Any) -> list[ErrorCode]:
    """All the error codes of an answer, from the outside in."""
    match answer:
        case ErrorCode():
            return [answer]
        case Struct():
            return [code for field in answer.__struct_fields__ for code in codes(getattr(answer, field))]
        case tuple():
            return [code for item in answer for code in codes(item)]
    return []


async def refused_with(c: RunningController, request: Any) -> ErrorCode | None:
    """Why the request was refused as a whole; None if any part of it was accepted, or nothing was asked.

    A time-out is no refusal: the request was accepted, and is carried out.
    """
    try:
        found = codes(await c.ask(request))
    except ApiError as error:
        return error.code
    api = APIS[type(request)]
    if api.refuse is not None and found[0] is not ErrorCode.NONE:
        return found[0]
    parts = found[1:] if api.refuse is not None else found
    return parts[0] if parts and _ACCEPTED.isdisjoint(parts) else None


@pytest.mark.rule("BD-1", "BD-2", "D-40", "INV-4")
@pytest.mark.parametrize("name", SOUND)
def test_a_request_with_a_wrong_value_changes_nothing(name: str) -> None:
    async def main() -> None:
        world, c = await cluster()
        for request in variants(await SOUND[name](world)):
            before = everything(world, c)
            code = await refused_with(c, request)
            await quiesce(0.1)
            if code is None:
                # It may have changed anything; the epochs of brokers stay as they were.
                await c.stop()
                world, c = await cluster()
                continue
            assert code is not ErrorCode.UNKNOWN_SERVER_ERROR, request
            if name in NOTIFIED:
                before = before._replace(sent=len(c.brokers.received))
            assert changes(before, everything(world, c)) == [], (request, code)
            COUNTED[code.name] += 1
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("INV-4", "D-28")
@pytest.mark.parametrize("refusal", [Refusal.NO_AUTH, Refusal.SERVER_ERROR], ids=lambda refusal: refusal.name.lower())
@pytest.mark.parametrize("name", SOUND)
def test_a_request_that_zookeeper_refuses_changes_nothing(name: str, refusal: Refusal) -> None:
    async def main() -> None:
        world, c = await cluster()
        request = await SOUND[name](world)
        before = everything(world, c)
        c.zookeeper.refuse_writes(lambda ops: refuse(refusal, ops))
        code = await refused_with(c, request)
        if code is not None and name not in REMEMBERED:
            if name in NOTIFIED:
                before = before._replace(sent=len(c.brokers.received))
            assert changes(before, everything(world, c)) == [], code
            COUNTED[f"{code.name} by ZooKeeper"] += 1
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("INV-4", "D-28", "RA-4")
@pytest.mark.parametrize("refusal", [r for r in Refusal if r is not Refusal.FENCED], ids=lambda r: r.name.lower())
@pytest.mark.parametrize("name", SOUND)
def test_a_request_of_which_zookeeper_refuses_one_write_is_carried_out_or_changes_nothing(
    name: str, refusal: Refusal
) -> None:
    """Each of its writes in turn: what is answered with an error is not carried out later, either."""

    async def main() -> None:
        is_last, number = False, 0
        while not is_last:
            world, c = await cluster()
            request = await SOUND[name](world)
            before = everything(world, c)
            refusals = WriteRefusals(refusal, number)
            c.zookeeper.refuse_writes(refusals)
            code = await refused_with(c, request)
            is_last, number = len(refusals.writes) <= number, number + 1
            goes_on = name in _RECORDED and number > 1
            if code is not None and refusals.refused and name not in REMEMBERED and not goes_on:
                if name in NOTIFIED:
                    before = before._replace(sent=len(c.brokers.received))
                assert changes(before, everything(world, c)) == [], (number, code)
                COUNTED[f"{code.name} by one write"] += 1
            await c.stop()

    run_virtually(main)


def refuse(refusal: Refusal, ops: Sequence[Op]) -> list[OpResult]:
    position, error = refused_at(refusal, ops) or (0, ZkError.NO_AUTH)
    answer = [OpResult(ZkError.RUNTIME_INCONSISTENCY) for _ in ops]
    answer[position] = OpResult(error)
    return answer


@pytest.mark.rule("EL-10")
@pytest.mark.parametrize("name", SOUND)
def test_a_standby_refuses_every_request_and_changes_nothing(name: str) -> None:
    async def main() -> None:
        world, c = await cluster()
        standby = world.start_controller(1002)
        await quiesce(1)
        request = await SOUND[name](world)
        await quiesce(1)
        before = everything(world, standby)
        code = await refused_with(standby, request)
        assert code is not None
        assert changes(before, everything(world, standby)) == []
        COUNTED[f"{code.name} by a standby"] += 1
        await standby.stop()
        await c.stop()

    run_virtually(main)
