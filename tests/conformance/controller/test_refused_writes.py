"""Whatever write ZooKeeper refuses, memory says what ZooKeeper says, and what was stopped is carried on (INV-4).

Each procedure of the controller is run once to count its writes, and then once for each of them and each way of
refusing it. A handler is covered as soon as its event is in the table; a test tells which are not.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.model.protocol_version import ProtocolVersion
from cluster.model.state_machines import ReplicaState
from cluster.requests.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, ControlledShutdownRequest
from cluster.requests.configs import TOPIC_RESOURCE, AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from cluster.requests.control import LeaderAndIsrRequest
from cluster.requests.elections import PREFERRED, ElectLeadersRequest
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.requests.recovery import (
    DescribedReplica,
    DescribeReplicasResponse,
    KnownLeadership,
    RecoverClusterRequest,
)
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from cluster.znodes.admin_requests import encode_partitions, encode_reassignments
from cluster.znodes.paths import (
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    state_path,
    topic_path,
)
from cluster.znodes.topics import encode_state, encode_topic
from cluster.zookeeper.port import Op, OpResult, SetData, ZkError
from controller import dispatch
from controller.apis import APIS
from controller.events import AutoPreferredReplicaLeaderElection
from controller.request_events import RequestEvent
from tests.controllers.contexts import ids
from tests.controllers.damage_reports import damaged_returns, leader_is_damaged, waited_long_enough
from tests.controllers.procedure_steps import (
    T,
    both_die,
    broker_dies,
    broker_returns,
    disk_fails,
    drop_id,
    find_led_topic,
    unclean_is_allowed,
    unclean_is_allowed_everywhere,
)
from tests.controllers.refused_writes import Outcome, Procedure, Refusal, WriteRefusals, carry_out, refused_at
from tests.controllers.user_credentials import of, upsertion
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

Step = Callable[[World, RunningController], Awaitable[object]]

WRITE_NOTHING = {
    "QueryReceived",
    "ListPartitionReassignments",
    "UpdateMetadataResponseReceived",
    "BrokerModifications",
    "UpdateFeaturesReceived",  # Not fenced: one write, whose refusal is the answer (FT-4).
    "AllocateProducerIdsReceived",  # The same (AX-3).
}
"""Events whose handlers have no fenced write, so that there is nothing between memory and ZooKeeper."""


async def topic(world: World, c: RunningController) -> None:
    await world.create_topic("t", [1, 2], [2, 1], [1, 2])
    for tp, leader in zip(T, (1, 2, 1), strict=True):
        await world.leads("t", tp.partition, leader=leader)


async def topic_led_by_2(world: World, c: RunningController) -> None:
    """The same with broker 1 away."""
    await world.create_topic("t", [1, 2], [2, 1], [1, 2])
    for tp in T:
        await world.leads("t", tp.partition, leader=2)


async def in_sync(world: World, c: RunningController, *isr: int) -> None:
    """The leader of each partition asks for this ISR, again and again as agents do."""
    for tp in T:
        while True:
            state = await world.state("t", tp.partition)
            assert state is not None
            item = AlterPartitionItem("t", None, tp.partition, state.leader_epoch, ids(*isr), state.partition_epoch)
            epoch = await world.broker_epoch(state.leader)
            answer = await c.ask(AlterPartitionRequest(state.leader, epoch, (item,)))
            if answer.error_code is ErrorCode.NONE and answer.partitions[0].error_code is ErrorCode.NONE:
                break
            await quiesce()


def reassign(*target: int) -> Step:
    partitions = tuple(ReassignablePartition(tp.partition, ids(*target) if target else None) for tp in T)

    async def ask(world: World, c: RunningController) -> object:
        return await c.ask(AlterPartitionReassignmentsRequest((ReassignableTopic("t", partitions),)))

    return ask


def after(*steps: Step) -> Step:
    async def all_of_them(world: World, c: RunningController) -> None:
        for step in steps:
            await step(world, c)
            await quiesce()

    return all_of_them


def asking(request: Any) -> Step:
    return lambda _world, c: c.ask(request)


async def catch_up(world: World, c: RunningController) -> None:
    await in_sync(world, c, 1, 2, 3)


async def three_in_sync(world: World, c: RunningController) -> None:
    """Of the two that are on their way in, one."""
    await in_sync(world, c, 1, 2, 3)


async def both_in_sync(world: World, c: RunningController) -> None:
    await in_sync(world, c, 1, 2)


async def last_returns(world: World, c: RunningController) -> None:
    await world.start_broker(2)


async def nothing(world: World, c: RunningController) -> None:
    pass


async def leaders_write_isrs(world: World, c: RunningController) -> None:
    """As leaders do where the protocol has no AlterPartition."""
    for tp in T:
        state = await world.state("t", tp.partition)
        assert state is not None
        written = replace(state, isr=ids(1, 2, 3), partition_epoch=state.partition_epoch + 1)
        await world.write(SetData(state_path(tp), encode_state(written)))
    await world.create(f"{ISR_CHANGE_NOTIFICATION}/isr_change_0000000000", encode_partitions(T))


async def shut_down(world: World, c: RunningController) -> None:
    await c.ask(ControlledShutdownRequest(BrokerId(1), await world.broker_epoch(1)))


async def grow(world: World, c: RunningController) -> None:
    known = await world.topic("t")
    assert known is not None
    grown = known.partitions | {3: ReplicaAssignment(ids(1, 3)), 4: ReplicaAssignment(ids(3, 2))}
    await world.write(SetData(topic_path("t"), encode_topic(TopicAssignment(grown, known.topic_id))))


async def damage_states(world: World, c: RunningController) -> None:
    for tp in T:
        await world.write(SetData(state_path(tp), b"{"))


async def repair_states(world: World, c: RunningController) -> None:
    for tp in T:
        await world.write(SetData(state_path(tp), encode_state(c.context.leaderships.known[tp])))


async def moved_by_tool(world: World, c: RunningController) -> None:
    await world.create(REASSIGN_PARTITIONS, encode_reassignments({tp: ids(1, 3) for tp in T}))


async def balance(world: World, c: RunningController) -> None:
    c.controller.events.put(AutoPreferredReplicaLeaderElection())


async def unclean_wanted(world: World, c: RunningController) -> None:
    """Broker 1 lives, but only broker 2, which does not, was in sync."""
    await after(topic, broker_dies, both_die_after_the_first, broker_returns)(world, c)


async def both_die_after_the_first(world: World, c: RunningController) -> None:
    await world.stop_broker(2)


async def brokers_know_more(world: World, c: RunningController) -> None:
    """ZooKeeper is of before a move of t-0, and of before the creation of u."""
    await topic(world, c)
    found = await world.topic("t")
    assert found is not None
    replicas: dict[int, list[DescribedReplica]] = {1: [], 2: [], 3: []}
    known: list[KnownLeadership] = []
    t_id = None if found.topic_id is None else TopicId(found.topic_id)
    for name, topic_id, partition, members in [
        ("t", t_id, 0, (3, 2)),
        *[("u", U, p, (1, 3)) for p in (0, 1)],
    ]:
        for broker in members:
            epochs = LeaderEpoch(5), LeaderEpoch(5)
            replicas[broker].append(DescribedReplica(name, topic_id, partition, *epochs, Offset(9)))
        epochs_of_state = LeaderEpoch(5), PartitionEpoch(7)
        known.append(
            KnownLeadership(name, topic_id, partition, BrokerId(3), *epochs_of_state, ids(*members), ids(*members))
        )
    for broker, logs in replicas.items():
        c.brokers.descriptions[BrokerId(broker)] = DescribeReplicasResponse(
            BrokerId(broker), ControllerEpoch(12), 5000, tuple(logs), tuple(known)
        )


U = TopicId("B" * 21 + "Q")
CREATION = CreateTopicsRequest((NewTopic("a", 3, 2), NewTopic("b", 2, 2)), timeout_ms=1000)
EXPANSION = CreatePartitionsRequest((NewPartitions("t", 5),), timeout_ms=1000)
DELETION = DeleteTopicsRequest((TopicToDelete("t"),), timeout_ms=1000)
SETTINGS = AlterConfigsRequest((AlterConfigsResource(TOPIC_RESOURCE, "t", (AlterableConfig("retention.ms", 0, "7"),)),))
RULE = CreateAclsRequest((AclCreation(2, "t", "User:alice", "*", 3, 3),))
EVERY_RULE = DeleteAclsRequest((DeleteAclsFilter(1, 1, 1, 1),))
leader_2 = after(topic, both_in_sync, broker_dies, broker_returns, both_in_sync)
"""Broker 1 is back in the ISRs that broker 2 leads now."""
only_damaged = after(topic, both_die, damaged_returns)


PROCEDURES = [
    Procedure("create topics", ("CreateTopicsReceived", "TopicChange"), nothing, asking(CREATION), always_ends=False),
    Procedure("topics written by a tool", ("TopicChange",), nothing, topic),
    Procedure("add partitions", ("CreatePartitionsReceived",), topic, asking(EXPANSION), always_ends=False),
    Procedure("partitions written by a tool", ("PartitionModifications",), topic, grow),
    Procedure("an id dropped by a tool", ("PartitionModifications",), topic, drop_id),
    Procedure("an id lost before", ("TopicIdsLost", "TopicIdsAnswered"), nothing, find_led_topic),
    Procedure("delete topics", ("DeleteTopicsReceived",), topic, asking(DELETION), always_ends=False),
    Procedure(
        "deletion asked for by a tool",
        ("TopicDeletion", "TopicDeletionStopReplicaResponseReceived"),
        topic,
        lambda world, _: world.create(f"{DELETE_TOPICS}/t"),
    ),
    Procedure(
        "deletion without a broker that is away",
        ("AbsentBrokersDue",),
        after(topic, broker_dies, lambda world, _: world.create(f"{DELETE_TOPICS}/t")),
        lambda _world, _c: quiesce(20),
        settings={"delete_topic_absent_broker_grace_ms": 15_000},
    ),
    Procedure(
        "deletion of what a broker has left",
        ("LeftReplicasResponseReceived",),
        after(topic, broker_dies, lambda world, _: world.create(f"{DELETE_TOPICS}/t"), topic_led_by_2),
        broker_returns,
        settings={"delete_topic_absent_broker_grace_ms": 0},
    ),
    Procedure("a broker dies", ("BrokerChange",), topic, broker_dies),
    # Where the first one was refused to leave the ISR, both are gone at once, and stay in it (D-120).
    Procedure("the last broker dies", ("BrokerChange",), topic, both_die, other_ends=((False, 2),)),
    Procedure("a broker returns", ("BrokerChange",), after(topic, both_die), last_returns),
    Procedure("a disk fails", ("LogDirEventNotification", "LeaderAndIsrResponseReceived"), topic, disk_fails),
    Procedure("controlled shutdown", ("ControlledShutdownReceived",), topic, shut_down, always_ends=False),
    Procedure("an ISR grows", ("AlterPartitionReceived",), after(topic, reassign(1, 2, 3)), catch_up),
    Procedure(
        "elect leaders",
        ("ElectLeadersReceived",),
        leader_2,
        asking(ElectLeadersRequest(PREFERRED, timeout_ms=1000)),
        always_ends=False,
    ),
    Procedure(
        "elections asked for by a tool",
        ("ReplicaLeaderElection",),
        leader_2,
        lambda world, _: world.create(PREFERRED_REPLICA_ELECTION, encode_partitions(T)),
        always_ends=False,
    ),
    Procedure("elections by timer", ("AutoPreferredReplicaLeaderElection",), leader_2, balance, always_ends=False),
    Procedure("unclean elections", ("TopicUncleanLeaderElectionEnable",), unclean_wanted, unclean_is_allowed),
    Procedure("unclean everywhere", ("UncleanLeaderElectionEnable",), unclean_wanted, unclean_is_allowed_everywhere),
    Procedure("start a move", ("ApiPartitionReassignment",), topic, reassign(1, 3), always_ends=False),
    Procedure("complete a move", ("AlterPartitionReceived",), after(topic, reassign(1, 3)), catch_up),
    Procedure("complete a move of leaders", ("AlterPartitionReceived",), after(topic, reassign(3, 2)), catch_up),
    Procedure(
        "cancel a move", ("ApiPartitionReassignment",), after(topic, reassign(3, 4)), reassign(), always_ends=False
    ),
    Procedure(
        "cancel a move that was nearly over",
        ("ApiPartitionReassignment",),
        after(topic, reassign(3, 4), three_in_sync),
        reassign(),
        always_ends=False,
    ),
    Procedure(
        "replace a move", ("ApiPartitionReassignment",), after(topic, reassign(3, 2)), reassign(1, 3), always_ends=False
    ),
    Procedure(
        "a move asked for by a tool",
        ("ZkPartitionReassignment",),
        topic,
        lambda world, _: world.create(REASSIGN_PARTITIONS, encode_reassignments({tp: ids(1, 3) for tp in T})),
        always_ends=False,
    ),
    Procedure("complete what a tool asked for", ("AlterPartitionReceived",), after(topic, moved_by_tool), catch_up),
    Procedure(
        "leaders write ISRs themselves",
        ("IsrChangeNotification", "PartitionReassignmentIsrChange"),
        after(topic, reassign(1, 3)),
        leaders_write_isrs,
        settings={"protocol_version": ProtocolVersion((2, 6))},
    ),
    Procedure(
        "repair partition states",
        ("PartitionStateChange",),
        after(topic, damage_states, broker_dies),
        repair_states,
    ),
    Procedure(
        "recover", ("RecoverClusterReceived",), brokers_know_more, asking(RecoverClusterRequest()), always_ends=False
    ),
    Procedure("leader damaged", ("ReportDamagedReplicasReceived",), topic, leader_is_damaged, always_ends=False),
    Procedure("damaged elected", ("DamagedReplicaElection",), only_damaged, waited_long_enough, always_ends=False),
    Procedure("credentials", ("AlterUserScramCredentialsReceived",), topic, asking(of(upsertion())), always_ends=False),
    Procedure("alter settings", ("AlterConfigsReceived",), topic, asking(SETTINGS), always_ends=False),
    Procedure("add rules", ("CreateAclsReceived",), topic, asking(RULE), always_ends=False),
    Procedure(
        "delete rules", ("DeleteAclsReceived",), after(topic, asking(RULE)), asking(EVERY_RULE), always_ends=False
    ),
]


def run(procedure: Procedure, refusals: WriteRefusals) -> Outcome:
    async def main() -> Outcome:
        world, c = await running_cluster(1, 2, 3, 4, auto_leader_rebalance_enable=False, **procedure.settings)
        outcome = await carry_out(procedure, world, c, refusals)
        await c.stop()
        return outcome

    return run_virtually(main)


_UNDISTURBED: dict[str, Outcome] = {}


def run_undisturbed(procedure: Procedure) -> Outcome:
    """Once for all ways of refusing."""
    if procedure.name not in _UNDISTURBED:
        _UNDISTURBED[procedure.name] = run(procedure, WriteRefusals())
    return _UNDISTURBED[procedure.name]


def test_every_handler_takes_part() -> None:
    covered = {event for procedure in PROCEDURES for event in procedure.events}
    names = {kind.__name__ for kind in dispatch.REACTIONS.keys() - {RequestEvent}} | {
        api.event for api in APIS.values()
    }
    assert names - WRITE_NOTHING - {"ProcedureResumption"} == covered


@pytest.mark.rule("INV-4", "PS-3", "RM-2", "RA-3", "FN-2", "D-27", "D-28")
@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda procedure: procedure.name)
@pytest.mark.parametrize("refusal", Refusal, ids=lambda refusal: refusal.name.lower())
def test_memory_says_what_zookeeper_says_after_a_refused_write(procedure: Procedure, refusal: Refusal) -> None:
    undisturbed = run_undisturbed(procedure)
    assert undisturbed.writes
    for number, ops in enumerate(undisturbed.writes):
        if refused_at(refusal, ops) is None:
            continue  # It would run as it does undisturbed.
        refusals = WriteRefusals(refusal, number)
        try:
            outcome = run(procedure, refusals)
            check(procedure, undisturbed, outcome)
        except AssertionError as error:
            raise AssertionError(f"write {number} of {len(undisturbed.writes)}: {refusals.refused}") from error


def check(procedure: Procedure, undisturbed: Outcome, outcome: Outcome) -> None:
    for item in undisturbed.before.keys() | undisturbed.after.keys() | outcome.after.keys():
        ends = undisturbed.after.get(item)
        possible = [ends, *procedure.other_ends]
        if not procedure.always_ends:
            possible.append(undisturbed.before.get(item))
        assert outcome.after.get(item) in possible, item


@pytest.mark.rule("RA-60")
def test_a_move_is_cancelled_whose_end_was_refused_after_its_replica_was_deleted() -> None:
    """The replica that stays after all was deleted, so it begins as a new one and can be taken offline again."""

    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, auto_leader_rebalance_enable=False)
        await after(topic, reassign(1, 3))(world, c)
        c.zookeeper.refuse_writes(lambda ops: refuse_topic_znode(ops, "t"))
        await catch_up(world, c)
        await quiesce()
        assert c.context.replicas.state(BrokerId(2), T[0]) is ReplicaState.NON_EXISTENT
        assert c.context.topics.assignment(T[0]).removing == (2,)
        c.zookeeper.refuse_writes(None)
        c.brokers.received.clear()
        await reassign()(world, c)
        await quiesce()
        assert c.context.topics.assignment(T[0]) == ReplicaAssignment(ids(1, 2))
        assert c.context.replicas.state(BrokerId(2), T[0]) is ReplicaState.ONLINE
        requested = [r.topic_states[0].partition_states[0] for r in c.brokers.of(2, LeaderAndIsrRequest)]
        assert any(state.is_new for state in requested)
        await in_sync(world, c, 1, 2)
        await world.stop_broker(2)
        await world.leads("t", leader=1, isr=[1])
        await quiesce()
        assert c.context.replicas.state(BrokerId(2), T[0]) is ReplicaState.OFFLINE
        await c.stop()

    run_virtually(main)


def refuse_topic_znode(ops: Sequence[Op], name: str) -> list[OpResult] | None:
    refused = [isinstance(op, SetData) and op.path == topic_path(name) for op in ops]
    if not any(refused):
        return None
    return [OpResult(ZkError.NO_AUTH if r else ZkError.RUNTIME_INCONSISTENCY) for r in refused]


def refuse_requests(ops: Sequence[Op]) -> list[OpResult] | None:
    """The znode of the tool's request cannot be changed."""
    refused = [op.path == REASSIGN_PARTITIONS for op in ops]
    if not any(refused):
        return None
    return [OpResult(ZkError.NO_AUTH if r else ZkError.RUNTIME_INCONSISTENCY) for r in refused]


@pytest.mark.rule("RA-2", "D-28")
def test_a_move_is_not_replaced_while_the_older_request_cannot_be_removed() -> None:
    """Else the older one would come back at the next retry, and undo what was answered NONE."""

    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, 4, auto_leader_rebalance_enable=False)
        await after(topic, moved_by_tool)(world, c)
        c.zookeeper.refuse_writes(refuse_requests)
        answer = await reassign(1, 4)(world, c)
        errors = [p.error_code for response in answer.responses for p in response.partitions]  # type: ignore[attr-defined]
        assert errors == [ErrorCode.UNKNOWN_SERVER_ERROR] * len(T)
        await quiesce(100)
        assert c.context.topics.assignment(T[0]) == ReplicaAssignment(ids(1, 3, 2), ids(3), ids(2))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-28")
@pytest.mark.parametrize("complete", [False, True])
def test_retries_leave_alone_what_did_not_stop(complete: bool) -> None:
    """A tool's move waits, or is complete while its request cannot be removed: an hour costs no leader epoch."""

    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, 4, auto_leader_rebalance_enable=False)
        await world.create_topic("u", [1, 2])
        await after(topic, moved_by_tool)(world, c)
        c.zookeeper.refuse_writes(refuse_requests if complete else lambda ops: refuse_topic_znode(ops, "u"))
        if complete:
            await catch_up(world, c)
        else:
            partitions = (ReassignablePartition(0, ids(1, 3)),)
            await c.ask(AlterPartitionReassignmentsRequest((ReassignableTopic("u", partitions),)))
        await quiesce()
        before = [await world.state("t", tp.partition) for tp in T]
        await quiesce(3600)
        assert [await world.state("t", tp.partition) for tp in T] == before
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-28")
def test_retries_of_what_is_refused_again_and_again_become_rare() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, 4, auto_leader_rebalance_enable=False)
        await after(topic, reassign(1, 3))(world, c)
        c.zookeeper.refuse_writes(lambda ops: refuse_topic_znode(ops, "t"))
        await catch_up(world, c)
        before = await world.leads("t", leader=1)
        await quiesce(3600)
        after_an_hour = await world.leads("t", leader=1)
        assert after_an_hour.leader_epoch - before.leader_epoch < 12
        c.zookeeper.refuse_writes(None)
        await until(lambda: not c.context.topics.being_reassigned, "the moves are complete", deadline_s=1000)
        await c.stop()

    run_virtually(main)
