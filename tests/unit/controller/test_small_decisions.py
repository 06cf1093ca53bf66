"""Small decisions, case by case: failed disks, producer ids, elections that somebody asks for, expansions, events."""

import pytest

from cluster.model.broker import (
    BrokerEpoch,
    BrokerId,
    ControllerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.requests.control import LeaderAndIsrPartitionError
from cluster.requests.elections import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersTopic,
    PartitionElectionResult,
    ReplicaElectionResult,
)
from cluster.requests.topics import NewPartitions, NewPartitionsAssignment
from cluster.znodes.cluster_wide import ProducerIdBlock
from controller.changes import BrokersJoined, DeletionsQueued, LeadershipsRead
from controller.decisions.brokers.log_directories import DirectoryNews, classify_directories
from controller.decisions.brokers.producer_ids import next_block, refuse_allocation
from controller.decisions.cluster_events import REASSIGNMENT_CANCELLED, REASSIGNMENT_COMPLETED, cluster_events
from controller.decisions.partitions.isr_change import plan_isr_changes
from controller.decisions.partitions.leader_balance import BalanceRound, LeaderBalance, plan_leader_balance
from controller.decisions.partitions.leader_election import ElectionFailure, Offline, Preferred
from controller.decisions.partitions.requested_elections import (
    RefusedElection,
    answer_elections,
    classify_elections,
    election_result,
    is_election_type,
    requested_partitions,
)
from controller.decisions.reassignment.phases import is_complete, plan_epoch_raises
from controller.decisions.topics.expansion import plan_expansion
from state_log.record import Kind, StateChange
from tests.controllers.contexts import EPOCH, broker, context, ids, leadership, registered, tp

E = ErrorCode
ONE = BrokerId(1)


def answer(partition: int, code: ErrorCode, topic_id: str | None = "id-of-t") -> LeaderAndIsrPartitionError:
    return LeaderAndIsrPartitionError("t", None if topic_id is None else TopicId(topic_id), partition, code)


@pytest.mark.rule("BK-51", "BK-52")
@pytest.mark.parametrize(
    ("known", "answers", "offline", "lost"),
    [
        ([], [answer(0, E.NONE), answer(1, E.STALE_CONTROLLER_EPOCH)], [], []),
        ([], [answer(0, E.NONE), answer(1, E.KAFKA_STORAGE_ERROR), answer(0, E.KAFKA_STORAGE_ERROR)], [0, 1], [1, 0]),
        ([0], [answer(0, E.NONE)], [], []),
        ([0], [answer(0, E.KAFKA_STORAGE_ERROR)], [0], []),
        ([0], [answer(0, E.STALE_CONTROLLER_EPOCH), answer(1, E.KAFKA_STORAGE_ERROR)], [0, 1], [1]),
        ([0], [answer(1, E.KAFKA_STORAGE_ERROR, "nobody's"), answer(0, E.NONE, "nobody's")], [0], []),
        ([0], [answer(0, E.NONE, None), answer(1, E.KAFKA_STORAGE_ERROR, None)], [1], [1]),
        ([0], [answer(5, E.NONE, "nobody's"), answer(0, E.UNKNOWN_SERVER_ERROR), answer(0, E.NONE)], [], []),
    ],
)
def test_only_storage_errors_and_successes_tell_of_disks(
    known: list[int], answers: list[LeaderAndIsrPartitionError], offline: list[int], lost: list[int]
) -> None:
    view = context([1], {"t-0": [1], "t-1": [1]})
    news = classify_directories(view, {tp(f"t-{p}") for p in known}, answers)
    back = tuple(tp(f"t-{p}") for p in known if p not in offline)
    assert news == DirectoryNews(frozenset(tp(f"t-{p}") for p in offline), tuple(tp(f"t-{p}") for p in lost), back)


@pytest.mark.rule("AX-1", "FN-10")
@pytest.mark.parametrize(
    ("broker", "epoch", "expected"),
    [
        (9, 101, E.BROKER_ID_NOT_REGISTERED),
        (9, -1, E.BROKER_ID_NOT_REGISTERED),
        (1, 100, E.STALE_BROKER_EPOCH),
        (1, 102, E.STALE_BROKER_EPOCH),
        (1, -1, E.STALE_BROKER_EPOCH),
        (1, 101, E.NONE),
    ],
)
def test_producer_ids_are_for_registered_incarnations(broker: int, epoch: int, expected: ErrorCode) -> None:
    assert refuse_allocation(context([1]), BrokerId(broker), BrokerEpoch(epoch)) is expected


@pytest.mark.rule("AX-2", "AX-3")
def test_blocks_follow_one_another_to_the_last_id() -> None:
    assert next_block(None, ONE) == ProducerIdBlock(ONE, 0, 999)
    assert next_block(ProducerIdBlock(BrokerId(7), 1000, 1999), ONE) == ProducerIdBlock(ONE, 2000, 2999)
    last = 2**63 - 1
    assert next_block(ProducerIdBlock(ONE, 0, last - 1000), ONE) == ProducerIdBlock(ONE, last - 999, last)
    with pytest.raises(ApiError, match="exhausted") as refused:
        next_block(ProducerIdBlock(ONE, 0, last - 999), ONE)
    assert refused.value.code is E.UNKNOWN_SERVER_ERROR
    assert refused.value.message == "the producer ids are exhausted"


@pytest.mark.rule("EP-2", "EP-3", "D-3")
def test_elections_are_refused_in_order_and_the_rest_held_under_the_strategy_asked_for() -> None:
    view = context(
        [1, 2],
        {"doomed-0": [1], "t-0": [1, 2], "t-1": [2, 1], "t-2": [9, 1], "t-3": [1, 2]},
        {
            "doomed-0": leadership(2, [2]),
            "t-0": leadership(1, [1]),
            "t-1": leadership(1, [1]),
            "t-2": leadership(9, [9]),
        },
    )
    view.apply(DeletionsQueued(("doomed",)))
    partitions = [tp("x-0"), tp("doomed-0"), tp("t-0"), tp("t-1"), tp("t-2"), tp("t-3")]
    gone = RefusedElection(E.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    doomed = RefusedElection(E.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    preferred = classify_elections(view, PREFERRED, partitions)
    assert (preferred.strategy, preferred.partitions) == (Preferred(), (tp("t-1"),))
    leads = RefusedElection(E.ELECTION_NOT_NEEDED, "The preferred replica leads already")
    assert preferred.refusals == {
        tp("x-0"): gone,
        tp("doomed-0"): doomed,
        tp("t-0"): leads,
        tp("t-2"): leads,
        tp("t-3"): RefusedElection(E.PREFERRED_LEADER_NOT_AVAILABLE, "The partition never had a leader"),
    }
    unclean = classify_elections(view, UNCLEAN, partitions)
    assert (unclean.strategy, unclean.partitions) == (Offline(allow_unclean=True), (tp("t-2"),))
    has_leader = RefusedElection(E.ELECTION_NOT_NEEDED, "The partition has a live leader")
    assert unclean.refusals == {
        tp("x-0"): gone,
        tp("doomed-0"): doomed,
        tp("t-0"): has_leader,
        tp("t-1"): has_leader,
        tp("t-3"): RefusedElection(E.ELIGIBLE_LEADERS_NOT_AVAILABLE, "The partition never had a leader"),
    }
    assert [is_election_type(number) for number in (-1, 0, 1, 2)] == [False, True, True, False]


@pytest.mark.rule("EP-5")
@pytest.mark.parametrize(
    ("kind", "outcome", "expected"),
    [
        (PREFERRED, leadership(1, [1]), leadership(1, [1])),
        (PREFERRED, ElectionFailure("why"), RefusedElection(E.PREFERRED_LEADER_NOT_AVAILABLE, "why")),
        (UNCLEAN, ElectionFailure("why"), RefusedElection(E.ELIGIBLE_LEADERS_NOT_AVAILABLE, "why")),
        (UNCLEAN, ElectionFailure("why", E.UNKNOWN_SERVER_ERROR), RefusedElection(E.UNKNOWN_SERVER_ERROR, "why")),
        (
            PREFERRED,
            None,
            RefusedElection(
                E.PREFERRED_LEADER_NOT_AVAILABLE, "The partition cannot hold an election in its present state"
            ),
        ),
    ],
)
def test_what_an_election_came_to_means_for_who_asked(
    kind: int, outcome: LeaderAndIsr | ElectionFailure | None, expected: LeaderAndIsr | RefusedElection
) -> None:
    assert election_result(kind, outcome) == expected


@pytest.mark.rule("EP-6")
def test_who_asks_for_all_hears_nothing_of_elections_that_were_not_needed() -> None:
    view = context([1], {"b-0": [1], "a-1": [1], "a-0": [1]})
    everything = ElectLeadersRequest()
    partitions = requested_partitions(view, everything)
    assert partitions == [tp("a-0"), tp("a-1"), tp("b-0")]
    named = ElectLeadersRequest(
        topic_partitions=(ElectLeadersTopic("b", (0, 0)), ElectLeadersTopic("a", (1,)), ElectLeadersTopic("b", (0, 7)))
    )
    assert requested_partitions(view, named) == [tp("b-0"), tp("a-1"), tp("b-7")]
    refusals: dict[TopicPartition, RefusedElection] = {
        tp("a-0"): RefusedElection(E.ELECTION_NOT_NEEDED, "needless"),
        tp("b-0"): RefusedElection(E.PREFERRED_LEADER_NOT_AVAILABLE, "nobody"),
    }
    done = PartitionElectionResult(1, E.NONE)
    failed = ReplicaElectionResult("b", (PartitionElectionResult(0, E.PREFERRED_LEADER_NOT_AVAILABLE, "nobody"),))
    assert answer_elections(everything, partitions, refusals) == (ReplicaElectionResult("a", (done,)), failed)
    needless = PartitionElectionResult(0, E.ELECTION_NOT_NEEDED, "needless")
    assert answer_elections(named, partitions, refusals) == (ReplicaElectionResult("a", (needless, done)), failed)


@pytest.mark.rule("EP-21", "EP-22", "EP-24")
def test_a_broker_with_nothing_to_give_back_does_not_end_the_round_of_the_others() -> None:
    moved = {f"t-{p}": leadership(3, [3, 2]) for p in range(4)}
    view = context(
        [2, 3],
        {"dead-0": [1, 3], "few-0": [2, 3], "few-1": [2, 3], "few-2": [2, 3]} | {name: [4, 3] for name in moved},
        {"dead-0": leadership(3, [3]), "few-0": leadership(3, [3, 2])} | moved,
    )
    for partition in (1, 2):
        view.apply(LeadershipsRead({tp(f"few-{partition}"): leadership(2, [2])}))
    view.apply(BrokersJoined((registered(4),)))
    # Broker 1 is dead; broker 2 misses one of three; broker 4 is missed by all of its, but in sync with none.
    assert plan_leader_balance(view, 34, elections_max=9) == LeaderBalance({}, frozenset({4}), False)
    assert plan_leader_balance(view, 33, elections_max=9).moves == {2: (tp("few-0"),)}
    view.apply(LeadershipsRead({tp("t-2"): leadership(3, [3, 4])}))
    assert plan_leader_balance(view, 50, elections_max=9).moves == {4: (tp("t-2"),)}


@pytest.mark.rule("D-104", "EP-21", "EP-22")
@pytest.mark.parametrize(
    ("begun", "limit", "moves", "has_more"),
    [
        (BalanceRound(), 1, {2: ["b-0"]}, True),
        (BalanceRound(), 2, {2: ["b-0", "b-1"]}, True),
        (BalanceRound(), 3, {2: ["b-0", "b-1"], 4: ["d-0"]}, False),
        (BalanceRound(frozenset({3})), 9, {2: ["b-0", "b-1"], 3: ["c-0"], 4: ["d-0"]}, False),
        (BalanceRound(frozenset({3}), frozenset({tp("b-0"), tp("d-0")})), 9, {2: ["b-1"], 3: ["c-0"]}, False),
        (BalanceRound(failed=frozenset({tp("b-0"), tp("b-1"), tp("d-0")})), 1, {}, False),
        (BalanceRound(frozenset({1, 7})), 9, {2: ["b-0", "b-1"], 4: ["d-0"]}, False),  # type: ignore[arg-type]
    ],
)
def test_a_run_has_a_limit_and_goes_on_for_brokers_that_were_above_theirs(
    begun: BalanceRound, limit: int, moves: dict[BrokerId, list[str]], has_more: bool
) -> None:
    lost = {"a-0": [1, 9], "b-0": [2, 9], "b-1": [2, 9], "c-0": [3, 9], "d-0": [4, 9]}
    kept = {f"c-{p}": [3, 9] for p in range(1, 10)}
    states = {name: leadership(9, [9, replicas[0]]) for name, replicas in lost.items()}
    view = context([2, 3, 4, 9], lost | kept, states | {name: leadership(3, [3]) for name in kept})
    # Broker 1 is gone; 3 misses one of ten; 2 and 4 lead nothing.
    plan = plan_leader_balance(view, 10, begun, elections_max=limit)
    assert plan.moves == {broker: tuple(map(tp, names)) for broker, names in moves.items()}
    assert plan.has_more is has_more
    assert plan.brokers == {2, 4} | (begun.brokers & {3})


TWO = TopicAssignment({0: ReplicaAssignment(ids(1, 2))})


@pytest.mark.rule("TP-2")
@pytest.mark.parametrize(
    ("count", "assignments", "message", "value"),
    [
        (3, [(1, 2)], "2 partitions added, but 1 assignment given: 1", "1"),
        (2, [(8, 9)], "some brokers are not registered: 8:9", "8:9"),
        (2, [(1, 1)], "an assignment names a broker twice: 1:1", "1:1"),
        (2, [(1,)], "an assignment has not as many replicas as partition 0, which has 2: 1", "1"),
        (
            2,
            [(9,)],
            "some brokers are not registered: 9; an assignment has not as many replicas as partition 0, which has 2: 9",
            "9",
        ),
    ],
)
def test_a_refused_expansion_gets_a_code_and_a_reason(
    count: int, assignments: list[tuple[int, ...]], message: str, value: object
) -> None:
    given = tuple(NewPartitionsAssignment(ids(*each)) for each in assignments)
    with pytest.raises(ApiError) as refused:
        plan_expansion(NewPartitions("t", count, given), TWO, [broker(1), broker(2)])
    assert refused.value.code is E.INVALID_REPLICA_ASSIGNMENT
    assert (refused.value.message, refused.value.field, refused.value.value) == (message, "assignments", value)


def test_an_event_of_a_broker_or_a_topic_says_when_and_whose_it_is() -> None:
    view = context([1], {"t-0": [1]}, {"t-0": leadership(1, [1])})
    changes = [
        StateChange(kind=Kind.ASSIGNMENT, topic="t", partition=0, to_state=REASSIGNMENT_CANCELLED),
        StateChange(kind=Kind.ASSIGNMENT, topic="t", partition=0, to_state=REASSIGNMENT_COMPLETED),
        StateChange(kind=Kind.BROKER, broker=ONE, to_state="created"),
        StateChange(kind=Kind.BROKER, broker=ONE, to_state="live"),
        StateChange(kind=Kind.PARTITION, topic="t", partition=0, to_state="NewPartition"),
        StateChange(kind=Kind.PARTITION, topic="t", partition=1, to_state="NewPartition"),
    ]
    events = cluster_events(view, changes, ControllerId(1001), 1234)
    # A partition's event and a broker's of the same number are two; nothing after the cancellation is lost.
    assert [(e.kind, e.topic) for e in events] == [
        ("reassignment_cancelled", "t"),
        ("broker_joined", ""),
        ("partitions_added", "t"),
    ]
    for event in events:
        assert (event.at_ms, event.controller_epoch, event.controller) == (1234, EPOCH, 1001)


@pytest.mark.rule("RA-51")
def test_targets_in_sync_complete_a_move_also_when_nobody_else_is() -> None:
    moving = ReplicaAssignment(ids(2, 3, 1), ids(3), ids(1))
    assert is_complete(moving, leadership(1, [1, 2, 3]))
    assert is_complete(moving, leadership(2, [3, 2]))
    assert not is_complete(moving, leadership(1, [1, 2]))
    assert not is_complete(moving, None)


@pytest.mark.rule("RA-14")
def test_an_epoch_is_raised_also_where_this_controller_decided_last() -> None:
    view = context([1], {"t-0": [1]})
    for decided_by, raised in ((EPOCH, True), (EPOCH + 1, False)):
        plan = plan_epoch_raises(view, {tp("t-0"): leadership(1, [1], controller_epoch=decided_by)})
        assert (tp("t-0") in plan.writes) is raised


@pytest.mark.rule("IS-13")
def test_a_proposal_knows_its_place_in_the_request() -> None:
    view = context([1, 2], {"t-0": [1, 2]}, {"t-0": leadership(1, [1, 2])})
    items = tuple(
        AlterPartitionItem("t", TopicId("id-of-t"), partition, LeaderEpoch(0), ids(1), PartitionEpoch(0))
        for partition in (9, 0)
    )
    plan = plan_isr_changes(view, AlterPartitionRequest(ONE, BrokerEpoch(101), items))
    assert [(proposal.position, proposal.topic_partition) for proposal in plan.accepted] == [(1, tp("t-0"))]
