from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch, TopicId
from cluster.model.state_machines import (
    PREVIOUS_PARTITION_STATES,
    PREVIOUS_REPLICA_STATES,
    PartitionState,
    ReplicaState,
)
from state_log.decision_rules import DECISION_RULES
from state_log.histories import HISTORY_LIMIT, INCARNATIONS_LIMIT, PartitionHistory
from state_log.invariants import RECORD_RULES, Checker, InvariantViolation, check_all, check_partition
from state_log.record import Cause, Kind, LoggedStateChange, StateChange, by_partition
from tests.audits.state_change_histories import Cluster, draw, shuffled, stamped
from tests.examples import examples

SEEDS = st.integers(0, 2**32)


def record(kind: Kind, seq: int = 0, node: str = "controller-1001", **fields: object) -> LoggedStateChange:
    given = {"topic": "t", "partition": 0, "controller_epoch": 1, **fields}
    return LoggedStateChange(
        kind=kind,
        v=1,
        seq=seq,
        node=node,
        incarnation="1700000000000.1",
        at_ms=1,
        **given,  # type: ignore[arg-type]
    )


def written(
    partition_epoch: int, leader_epoch: int, leader: int, isr: tuple[int, ...], **fields: object
) -> LoggedStateChange:
    return record(
        Kind.ISR,
        partition_epoch=partition_epoch,
        leader_epoch=leader_epoch,
        leader=leader,
        isr=isr,
        seq=partition_epoch,
        **fields,
    )


def rules(findings: list[InvariantViolation]) -> set[str]:
    return {finding.rule for finding in findings}


@pytest.mark.rule("INV-1", "INV-2", "INV-3", "INV-4", "INV-5", "P7", "P17")
@examples(60, deep=150)
@given(seed=SEEDS, order=SEEDS)
def test_what_a_correct_cluster_logs_gives_no_findings_in_whatever_order_it_is_read(seed: int, order: int) -> None:
    records = shuffled(stamped(draw(seed, steps=40, partitions=2).logs), Random(order))
    assert check_all(records) == []


def second_leader_by_an_agent(cluster: Cluster) -> str:
    state = cluster.partitions[0].state
    assert state is not None
    other = BrokerId(9)
    cluster.logs["broker-9", "1800000000000.1"] = [
        StateChange(
            kind=Kind.ROLE,
            cause=Cause("Injected"),
            topic="orders",
            partition=0,
            broker=other,
            to_state="leader",
            leader=other,
            leader_epoch=state.leader_epoch,
        )
    ]
    return "one-leader-per-epoch"


def altered_last_write(cluster: Cluster, rule: str, **fields: object) -> str:
    """Another write is logged by the active controller, different in what `fields` say."""
    partition = cluster.partitions[0]
    cluster._elect(partition)
    log = cluster.logs[cluster.controller]
    log[-1] = replace(log[-1], **fields)
    return rule


def empty_isr(cluster: Cluster) -> str:
    return altered_last_write(cluster, "isr-not-empty", isr=(), leader=BrokerId(-1))


def leader_outside_isr(cluster: Cluster) -> str:
    return altered_last_write(cluster, "leader-in-isr", leader=BrokerId(1), isr=(BrokerId(2), BrokerId(3)))


def isr_outside_replicas(cluster: Cluster) -> str:
    return altered_last_write(cluster, "isr-within-replicas", replicas=(BrokerId(8),))


def isr_with_repetition(cluster: Cluster) -> str:
    return altered_last_write(cluster, "isr-without-repetition", leader=BrokerId(1), isr=(BrokerId(1), BrokerId(1)))


def illegal_partition_move(cluster: Cluster) -> str:
    return altered_last_write(cluster, "legal-partition-transition", from_state="NonExistentPartition")


def illegal_replica_move(cluster: Cluster) -> str:
    cluster._send_again(cluster.partitions[0])
    log = cluster.logs[cluster.controller]
    log[-1] = replace(log[-1], from_state="ReplicaDeletionStarted")
    return "legal-replica-transition"


def truncation_below_high_watermark(cluster: Cluster) -> str:
    cut = StateChange(kind=Kind.TRUNCATION, topic="orders", partition=0, broker=1, from_offset=Offset(9))
    log = cluster.logs[cluster.agents[BrokerId(1)]]
    log.append(replace(cut, cause=Cause("LogScrub"), to_offset=Offset(4), high_watermark=Offset(5)))
    log.append(replace(cut, to_offset=Offset(5), high_watermark=Offset(5)))
    log.append(replace(cut, to_offset=Offset(4), high_watermark=Offset(5)))
    return "no-truncation-below-high-watermark"


def leader_epoch_back(cluster: Cluster) -> str:
    for _ in range(3):
        cluster._elect(cluster.partitions[0])
    return altered_last_write(cluster, "leader-epoch-never-back", leader_epoch=LeaderEpoch(1))


def leader_epoch_leap(cluster: Cluster) -> str:
    return altered_last_write(cluster, "leader-epoch-by-one", leader_epoch=LeaderEpoch(1000))


def leader_from_nowhere(cluster: Cluster) -> str:
    cluster._elect_uncleanly(cluster.partitions[0])
    state = cluster.partitions[0].state
    assert state is not None
    stranger = BrokerId(state.leader % 3 + 1)
    return altered_last_write(cluster, "leader-from-isr", leader=stranger, isr=(stranger, state.leader))


def write_of_a_deposed_controller(cluster: Cluster) -> str:
    deposed, epoch = cluster.controller, cluster.epoch
    cluster.fail_over()
    cluster._change_isr(cluster.partitions[0])
    cluster._elect(cluster.partitions[0])
    moved = cluster.logs[cluster.controller].pop()
    cluster.logs.setdefault((deposed[0], "1800000000000.1"), []).append(replace(moved, controller_epoch=epoch))
    return "controller-epoch-never-back"


def two_states_of_one_version(cluster: Cluster) -> str:
    cluster._elect(cluster.partitions[0])
    log = cluster.logs[cluster.controller]
    other = BrokerId(7)
    log.append(replace(log[-1], kind=Kind.ISR, from_state=None, to_state=None, leader=other, isr=(other,)))
    return "one-state-per-partition-epoch"


def partition_epoch_back(cluster: Cluster) -> str:
    cluster._elect(cluster.partitions[0])
    log = cluster.logs[cluster.controller]
    log.append(replace(log[-1], partition_epoch=PartitionEpoch(0)))
    return "partition-epoch-never-back"


def two_controllers_in_one_epoch(cluster: Cluster) -> str:
    took = StateChange(kind=Kind.CONTROLLER, controller_epoch=cluster.epoch, broker=1009, to_state="active")
    cluster.logs["controller-1009", "1800000000000.1"] = [took]
    return "one-controller-per-epoch"


@pytest.mark.rule("INV-1", "INV-2", "INV-3", "INV-4", "INV-5", "P4", "P5", "P7", "P17")
@pytest.mark.parametrize(
    "break_it",
    [
        second_leader_by_an_agent,
        empty_isr,
        leader_outside_isr,
        isr_outside_replicas,
        isr_with_repetition,
        illegal_partition_move,
        illegal_replica_move,
        truncation_below_high_watermark,
        leader_epoch_back,
        leader_epoch_leap,
        leader_from_nowhere,
        write_of_a_deposed_controller,
        two_states_of_one_version,
        partition_epoch_back,
        two_controllers_in_one_epoch,
    ],
)
@examples(10, deep=25)
@given(seed=SEEDS, order=SEEDS)
def test_each_kind_of_fault_is_found_in_whatever_order_it_is_read(
    break_it: Callable[[Cluster], str], seed: int, order: int
) -> None:
    cluster = Cluster(Random(seed))
    cluster.step()
    for _ in range(20):
        cluster.step()
    rule = break_it(cluster)
    assert rule in rules(check_all(shuffled(stamped(cluster.logs), Random(order))))


def test_every_rule_of_a_record_has_a_fault_that_breaks_it() -> None:
    assert set(RECORD_RULES) - set(DECISION_RULES) == {
        "legal-partition-transition",
        "legal-replica-transition",
        "leader-in-isr",
        "isr-not-empty",
        "isr-without-repetition",
        "isr-within-replicas",
        "no-truncation-below-high-watermark",
    }


@pytest.mark.parametrize("source", PartitionState)
@pytest.mark.parametrize("target", PartitionState)
def test_partition_moves_are_checked_by_the_table(source: PartitionState, target: PartitionState) -> None:
    found = check_all([record(Kind.PARTITION, from_state=source.value, to_state=target.value)])
    assert (rules(found) == set()) == (source in PREVIOUS_PARTITION_STATES[target])


@pytest.mark.parametrize("source", ReplicaState)
@pytest.mark.parametrize("target", ReplicaState)
def test_replica_moves_are_checked_by_the_table(source: ReplicaState, target: ReplicaState) -> None:
    found = check_all([record(Kind.REPLICA, from_state=source.value, to_state=target.value)])
    assert (rules(found) == set()) == (source in PREVIOUS_REPLICA_STATES[target])


def test_a_finding_names_the_records_that_show_it() -> None:
    role = record(Kind.ROLE, seq=4, node="broker-2", broker=2, to_state="leader", leader=2, leader_epoch=0)
    found = check_all([written(0, 0, 1, (1, 2)), role])
    assert found == [
        InvariantViolation(
            "one-leader-per-epoch",
            "leader epoch 0 has leader 1 and leader 2",
            ("controller-1001/1700000000000.1/0", "broker-2/1700000000000.1/4"),
            "t",
            0,
        )
    ]


def test_a_leaderless_state_and_a_leader_cannot_share_a_leader_epoch() -> None:
    assert rules(check_all([written(0, 3, -1, (1,)), written(1, 3, 1, (1,))])) == {"one-leader-per-epoch"}


def test_a_late_record_is_checked_by_its_place_and_not_by_its_arrival() -> None:
    old = written(4, 2, 1, (1, 2), node="controller-1002", controller_epoch=1)
    new = written(5, 3, 2, (2,), controller_epoch=2)
    assert check_all([new, old]) == []
    zombie = written(6, 4, 2, (2,), node="controller-1003", controller_epoch=1)
    assert rules(check_all([zombie, new, old])) == {"controller-epoch-never-back"}


def test_a_state_that_a_later_controller_sends_again_is_not_its_own_write() -> None:
    by_first = written(5, 3, 2, (2,), controller_epoch=1)
    again = written(5, 3, 2, (2,), node="controller-1002", controller_epoch=4)
    between = written(4, 2, 2, (2,), node="controller-1003", controller_epoch=1)
    assert check_all([again, by_first, between]) == []


def test_topics_of_the_same_name_are_distinguished_by_their_id() -> None:
    first = [written(n, n, 1, (1,), topic_id=TopicId("a")) for n in range(3)]
    second = [written(n, n, 2, (2,), topic_id=TopicId("b"), node="controller-1002") for n in range(3)]
    assert check_all([*first, *second]) == []
    late = record(Kind.ROLE, node="broker-3", to_state="leader", broker=3, leader=3, leader_epoch=1)
    assert check_all([*first, *second, late]) == []


def test_records_without_an_id_belong_to_the_only_topic_there_is() -> None:
    role = record(Kind.ROLE, node="broker-3", to_state="leader", broker=3, leader=3, leader_epoch=1)
    identified = written(1, 1, 1, (1,), topic_id=TopicId("a"))
    assert rules(check_all([role, identified])) == {"one-leader-per-epoch"}
    assert rules(check_all([identified, role])) == {"one-leader-per-epoch"}


def test_a_deleted_partition_without_topic_ids_begins_anew() -> None:
    gone = record(Kind.PARTITION, seq=9, from_state="OfflinePartition", to_state="NonExistentPartition")
    again = replace(written(0, 0, 2, (2,)), seq=10)
    assert check_all([written(0, 0, 1, (1,)), written(1, 1, 1, (1,)), gone, again]) == []


def test_topics_that_share_a_name_are_forgotten_oldest_first() -> None:
    history = PartitionHistory()
    for number in range(INCARNATIONS_LIMIT + 3):
        check_partition(history, written(0, 0, 1, (1,), topic_id=TopicId(f"id-{number}")))
    assert list(history.incarnations) == [f"id-{number}" for number in range(3, INCARNATIONS_LIMIT + 3)]


def test_what_one_run_of_an_agent_shows_never_goes_back() -> None:
    def role(seq: int, leader_epoch: int, to_state: str = "follower") -> LoggedStateChange:
        return record(Kind.ROLE, seq, node="broker-2", broker=2, to_state=to_state, leader_epoch=leader_epoch)

    assert rules(check_all([role(0, 4), role(1, 3)])) == {"leader-epoch-never-back"}
    restarted = replace(role(0, 3), incarnation="1700000000009.1")
    assert check_all([role(0, 4), restarted, role(1, 5)]) == []
    assert check_all([role(0, 4), role(1, 4, "deleted"), role(2, 0)]) == []
    late_truncation = replace(role(1, 3), kind=Kind.TRUNCATION)
    assert check_all([role(0, 4), late_truncation]) == []


def test_memory_is_bounded_and_what_is_too_old_to_be_placed_passes() -> None:
    history = PartitionHistory()
    for epoch in range(3 * HISTORY_LIMIT):
        assert check_partition(history, written(epoch, epoch, 1, (1,))) == []
    topic_incarnation = history.incarnations[""]
    assert len(topic_incarnation.states) == len(topic_incarnation.claims) == HISTORY_LIMIT
    ancient = written(3, 3, 2, (2,), node="controller-1002", controller_epoch=1)
    assert check_partition(history, ancient) == []


@examples(12, deep=30)
@given(seed=SEEDS, order=SEEDS)
def test_a_history_goes_through_its_serialised_form_between_any_two_records(seed: int, order: int) -> None:
    cluster = draw(seed)
    second_leader_by_an_agent(cluster)
    records = [part for r in shuffled(stamped(cluster.logs), Random(order)) for _, part in by_partition(r)]
    kept, stored = PartitionHistory(), msgpack.encode(PartitionHistory())
    for item in records:
        restored = msgpack.decode(stored, type=PartitionHistory)
        assert check_partition(restored, item) == check_partition(kept, item)
        stored = msgpack.encode(restored)


def test_the_same_controller_may_win_again_but_each_time_in_an_epoch_of_its_own() -> None:
    def active(seq: int, epoch: int) -> LoggedStateChange:
        return record(
            Kind.CONTROLLER, seq, topic=None, partition=None, to_state="active", controller_epoch=ControllerEpoch(epoch)
        )

    checker = Checker()
    assert checker.check(active(0, 1)) == []
    assert checker.check(active(5, 2)) == []
    assert rules(checker.check(active(9, 2))) == {"one-controller-per-epoch"}
