"""A log of sound decisions has no finding, and each wrong one is found, as what it is."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster.requests.agents import SCRUB
from controller.replay.report import CLEAN, FINDINGS, INCOMPLETE, document_of, verdict_of
from controller.replay.verdicts import NO_LIVENESS, NO_MOVES_BEFORE, NO_PERMISSION, NO_STATE_BEFORE
from state_log.causes import ISR_WRITTEN
from state_log.record import Cause, DecisionInputs, Kind, LoggedStateChange
from tests.controllers.decision_logs import ABSENT, NEW, OFFLINE, ONLINE, DecisionLog
from tests.examples import examples

Make = Callable[..., DecisionLog]


def created() -> DecisionLog:
    log = DecisionLog().event("TopicChange").topic("created")
    return log.partition(f"{ABSENT}>{NEW}").elected("initialised", (1, 0, 0, (1, 2, 3)), NEW)


def loaded(**more: Any) -> DecisionLog:
    return DecisionLog(**more).loaded((0, 1, 4, 7, (1, 2, 3), (1, 2, 3)))


def failed() -> DecisionLog:
    """Broker 1 dies: another one leads, and it leaves the ISR."""
    log = loaded().event("BrokerChange").broker(1, "dead").partition(f"{ONLINE}>{OFFLINE}")
    log.elected("Offline", (2, 5, 8, (2, 3)), OFFLINE)
    return log.replica(1, "OnlineReplica>OfflineReplica")


def follower_failed() -> DecisionLog:
    log = loaded().event("BrokerChange").broker(2, "dead")
    log.isr("replica offline", (1, 5, 8, (1, 3)), 2)
    return log.replica(2, "OnlineReplica>OfflineReplica")


def failed_over() -> DecisionLog:
    """Broker 1 is away when the controller becomes active: it leaves the ISR, then another one leads."""
    log = DecisionLog((2, 3)).loaded((0, 1, 4, 7, (1, 2, 3), (1, 2, 3)))
    log.isr("replica offline", (-1, 5, 8, (2, 3)), 1).replica(1, "ReplicaDeletionIneligible>OfflineReplica")
    return log.elected("Offline", (2, 6, 9, (2, 3)), OFFLINE)


def granted() -> DecisionLog:
    log = DecisionLog().loaded((0, 1, 4, 7, (1, 2), (1, 2, 3)))
    return log.event("AlterPartitionReceived").isr("asked by broker 1", (1, 4, 8, (1, 2, 3)))


def preferred() -> DecisionLog:
    log = DecisionLog().loaded((0, 2, 4, 7, (1, 2), (1, 2, 3)))
    return log.event("AutoPreferredReplicaLeaderElection").elected("Preferred", (1, 5, 8, (1, 2)))


def shut_down() -> DecisionLog:
    log = loaded().event("ControlledShutdownReceived").broker(1, "shutting_down", 412)
    return log.elected("ControlledShutdown", (2, 5, 8, (2, 3)))


def unclean() -> DecisionLog:
    log = DecisionLog((2, 3)).loaded((0, 1, 4, 7, (1,), (1, 2, 3)))
    log.isr("replica offline", (-1, 5, 8, (1,)), 1)
    return log.elected("Offline", (2, 6, 9, (2,)), OFFLINE, inputs=DecisionInputs(unclean="config"))


def asked_unclean() -> DecisionLog:
    log = DecisionLog((2, 3)).loaded((0, -1, 4, 7, (1,), (1, 2, 3)))
    return log.event("ElectLeadersReceived").elected(
        "Offline", (2, 5, 8, (2,)), OFFLINE, inputs=DecisionInputs(unclean="request")
    )


def disk_failed() -> DecisionLog:
    """The directory of broker 1 fails: it is live, but its replica is not online."""
    log = loaded().event("LeaderAndIsrResponseReceived")
    offline = DecisionInputs(offline=(1,))  # type: ignore[arg-type]
    log.partition(f"{ONLINE}>{OFFLINE}")
    log.elected("Offline", (2, 5, 8, (2, 3)), OFFLINE, inputs=offline)
    return log.replica(1, "OnlineReplica>OfflineReplica")


def damaged() -> DecisionLog:
    held = DecisionInputs(held=(1,))  # type: ignore[arg-type]
    log = loaded().event("ReportDamagedReplicasReceived")
    return log.elected(SCRUB, (2, 5, 8, (2, 3)), inputs=held)


def moved() -> DecisionLog:
    """Replica 1 is replaced by 4, which catches up; 4 is the preferred one then, and 1 led."""
    log = DecisionLog((1, 2, 3, 4)).loaded((0, 1, 4, 7, (1, 2, 3), (1, 2, 3)))
    log.event("ApiPartitionReassignment").assignment("started", (4, 2, 3, 1), (4,), (1,))
    log.isr("another list of replicas", (1, 5, 8, (1, 2, 3)), replicas=(4, 2, 3, 1))
    log.replica(4, "NonExistentReplica>NewReplica")
    log.event("AlterPartitionReceived").isr("asked by broker 1", (1, 5, 9, (1, 2, 3, 4)), replicas=(4, 2, 3, 1))
    log.replica(4, "NewReplica>OnlineReplica")
    log.elected("Reassign", (4, 6, 10, (1, 2, 3, 4)), replicas=(4, 2, 3, 1))
    log.isr("replica removed", (4, 7, 11, (2, 3, 4)), 1, replicas=(4, 2, 3, 1))
    log.replica(1, "OnlineReplica>OfflineReplica").replica(1, "OfflineReplica>ReplicaDeletionStarted")
    log.replica(1, "ReplicaDeletionStarted>ReplicaDeletionSuccessful")
    log.replica(1, "ReplicaDeletionSuccessful>NonExistentReplica")
    return log.assignment("completed", (4, 2, 3))


def cancelled() -> DecisionLog:
    """The added replica leads when the move is cancelled: one that stays leads first."""
    log = DecisionLog((1, 2, 4)).loaded((0, 4, 4, 7, (1, 2, 4), (4, 1, 2)), moves=[(0, (4,), (1,))])
    log.event("ApiPartitionReassignment").elected("Reassign", (1, 5, 8, (1, 2, 4)), replicas=(4, 1, 2))
    return log.assignment("cancelled", (1, 2))


def bounced() -> DecisionLog:
    log = loaded().event("BrokerChange").broker(1, "bounced", 500).partition(f"{ONLINE}>{OFFLINE}")
    log.elected("Offline", (2, 5, 8, (2, 3)), OFFLINE).replica(1, "OnlineReplica>OfflineReplica")
    log.replica(1, "OfflineReplica>OnlineReplica")
    return log.event("AlterPartitionReceived").isr("asked by broker 2", (2, 5, 9, (2, 3, 1)))


def deleted() -> DecisionLog:
    log = loaded().event("TopicDeletion").topic("queued for deletion").partition(f"{ONLINE}>{OFFLINE}")
    log.partition(f"{OFFLINE}>{ABSENT}").topic("started", Kind.DELETION)
    log.replica(1, "OnlineReplica>OfflineReplica").replica(1, "OfflineReplica>ReplicaDeletionStarted")
    log.event("TopicDeletionStopReplicaResponseReceived").topic("deleted").topic("completed", Kind.DELETION)
    log.event("TopicChange").topic("created").partition(f"{ABSENT}>{NEW}")
    return log.elected("initialised", (1, 0, 0, (1, 2, 3)), NEW)


SOUND: tuple[Make, ...] = (
    *(created, failed, follower_failed, failed_over, granted, preferred, shut_down, unclean, asked_unclean),
    *(disk_failed, damaged, moved, cancelled, bounced, deleted),
)


@pytest.mark.parametrize("make", SOUND)
def test_decisions_of_the_code_are_no_findings(make: Make) -> None:
    log = make()
    replayed = log.replayed()
    assert replayed.others == []
    assert replayed.undecided == {}
    assert replayed.decisions.total() >= 1
    assert verdict_of(replayed) == CLEAN


def last(log: DecisionLog, kind: Kind, reason: str = "") -> int:
    return max(r.seq for r in log.records if r.kind is kind and (r.reason or "").startswith(reason))


WRONG: list[tuple[Make, Kind, str, dict[str, Any], tuple[str, ...]]] = [
    # Leaders.
    (failed, Kind.PARTITION, "Offline", {"leader": 3}, ("leader",)),
    (failed, Kind.PARTITION, "Offline", {"leader": 1}, ("leader",)),
    (failed_over, Kind.PARTITION, "Offline", {"leader": 3}, ("leader",)),
    (created, Kind.PARTITION, "initialised", {"leader": 2}, ("leader",)),
    (preferred, Kind.PARTITION, "Preferred", {"leader": 2}, ("leader",)),
    (shut_down, Kind.PARTITION, "ControlledShutdown", {"leader": 3}, ("leader",)),
    (moved, Kind.PARTITION, "Reassign", {"leader": 1}, ("leader",)),
    (damaged, Kind.PARTITION, SCRUB, {"leader": 3}, ("leader",)),
    (disk_failed, Kind.PARTITION, "Offline", {"inputs": None}, ("leader", "isr")),
    (follower_failed, Kind.ISR, "replica offline", {"leader": 3}, ("leader",)),
    # ISRs, and their order.
    (failed, Kind.PARTITION, "Offline", {"isr": (2, 3, 1)}, ("isr",)),
    (failed, Kind.PARTITION, "Offline", {"isr": (3, 2)}, ("isr",)),
    (created, Kind.PARTITION, "initialised", {"isr": (1, 3)}, ("isr",)),
    (created, Kind.PARTITION, "initialised", {"isr": (1, 3, 2)}, ("isr",)),
    (shut_down, Kind.PARTITION, "ControlledShutdown", {"isr": (1, 2, 3)}, ("isr",)),
    (follower_failed, Kind.ISR, "replica offline", {"isr": (1,)}, ("isr",)),
    (moved, Kind.ISR, "replica removed", {"isr": (1, 2, 3, 4)}, ("isr",)),
    (granted, Kind.ISR, "asked by", {"isr": (1, 2, 4)}, ("refused",)),
    (granted, Kind.ISR, "asked by", {"isr": ()}, ("refused",)),
    (granted, Kind.ISR, "asked by", {"reason": "asked by broker 2"}, ("refused",)),
    (granted, Kind.ISR, "asked by", {"reason": "asked by broker 9"}, ("refused",)),
    (granted, Kind.ISR, "asked by", {"isr": (1, 2), "partition_epoch": 8}, ("refused",)),
    (follower_failed, Kind.ISR, "replica offline", {"broker": 4}, ("refused",)),
    # Epochs.
    (failed, Kind.PARTITION, "Offline", {"leader_epoch": 6}, ("leader-epoch",)),
    (failed, Kind.PARTITION, "Offline", {"leader_epoch": 4}, ("leader-epoch",)),
    (granted, Kind.ISR, "asked by", {"leader_epoch": 5}, ("refused",)),
    (created, Kind.PARTITION, "initialised", {"leader_epoch": 1}, ("leader-epoch",)),
    (created, Kind.PARTITION, "initialised", {"partition_epoch": 1}, ("partition-epoch",)),
    (moved, Kind.ISR, "another list", {"leader_epoch": 4}, ("leader-epoch",)),
    # What is not done.
    (unclean, Kind.PARTITION, "Offline", {"inputs": None}, ("refused",)),
    (asked_unclean, Kind.PARTITION, "Offline", {"leader": 1}, ("leader",)),
    (preferred, Kind.PARTITION, "Preferred", {"leader": 2, "replicas": (2, 1, 3)}, ("leader",)),
    # Steps of a move.
    (moved, Kind.ASSIGNMENT, "", {"replicas": (2, 3)}, ("assignment",)),
    (moved, Kind.ASSIGNMENT, "", {"to_state": "cancelled"}, ("assignment",)),
]


@pytest.mark.parametrize(("make", "kind", "reason", "fields", "differs"), WRONG)
def test_a_wrong_decision_is_found_as_what_it_is(
    make: Make, kind: Kind, reason: str, fields: dict[str, Any], differs: tuple[str, ...]
) -> None:
    log = make()
    seq = last(log, kind, reason)
    replayed = log.changed(seq, **fields).replayed()
    assert replayed.others[0].record.endswith(f"/{seq}"), replayed.others
    assert replayed.others[0].differs == differs
    assert verdict_of(replayed) == FINDINGS


def test_a_leader_that_is_elected_though_it_leads_is_found() -> None:
    log = loaded().event("ElectLeadersReceived").elected("Preferred", (1, 5, 8, (1, 2, 3)))
    (found,) = log.replayed().others
    assert found.instead == "nothing: the preferred replica leads already"


def test_an_unclean_election_over_a_live_leader_is_found() -> None:
    log = loaded().event("ElectLeadersReceived").elected("Offline", (1, 5, 8, (1, 2, 3)))
    (found,) = log.replayed().others
    assert found.instead == "nothing: the partition has a live leader"


def test_a_leader_that_leaves_the_isr_before_another_one_is_elected_is_a_wrong_order() -> None:
    log = loaded().event("BrokerChange").broker(1, "dead").isr("replica offline", (-1, 5, 8, (2, 3)), 1)
    (found,) = log.replayed().others
    assert found.differs == ("order",)
    assert found.instead == "first an election: leader 2, ISR [2,3], leader epoch 5, partition epoch 8"


def test_a_move_that_is_completed_before_the_removed_replicas_left_is_a_wrong_order() -> None:
    log = DecisionLog((1, 2, 3)).loaded((0, 2, 4, 7, (1, 2, 3), (2, 3, 1)), moves=[(0, (3,), (1,))])
    (found,) = log.event("Startup").assignment("completed", (2, 3)).replayed().others
    assert found.differs == ("order",)


def test_a_move_that_is_completed_while_replicas_are_not_in_sync_is_found() -> None:
    log = DecisionLog((1, 2, 3)).loaded((0, 2, 4, 7, (1, 2), (2, 3, 1)), moves=[(0, (3,), (1,))])
    (found,) = log.event("Startup").assignment("completed", (2, 3)).replayed().others
    assert found.differs == ("refused",)


@pytest.mark.parametrize(
    ("target", "instead"),
    [
        ((2, 3, 9), "nothing: Brokers to be added are not alive: 9."),
        ((3, 2, 1), None),
    ],
)
def test_a_move_that_begins_is_one_that_the_code_accepts(target: tuple[int, ...], instead: str | None) -> None:
    log = loaded().event("ApiPartitionReassignment")
    adding = [b for b in target if b > 3]
    removing = [b for b in (1, 2, 3) if b not in target]
    log.assignment("started" if adding or removing else None, (*target, *removing), adding, removing)
    assert [found.instead for found in log.replayed().others] == ([] if instead is None else [instead])


def test_a_partition_that_goes_offline_under_a_live_leader_is_found() -> None:
    log = loaded().event("BrokerChange").broker(2, "dead").partition(f"{ONLINE}>{OFFLINE}")
    (found,) = log.replayed().others
    assert found.instead == "nothing: its leader is live"


@pytest.mark.parametrize(
    ("states", "differs"),
    [
        ("OnlineReplica>NonExistentReplica", ("refused",)),
        ("OfflineReplica>ReplicaDeletionStarted", ("state",)),
        ("OnlineReplica>Elsewhere", ("refused",)),
    ],
)
def test_a_transition_that_the_state_machine_does_not_make_is_found(states: str, differs: tuple[str, ...]) -> None:
    log = failed().event("BrokerChange").broker(1, "live", 9).replica(1, "OfflineReplica>OnlineReplica")
    (found,) = log.replica(1, states).replayed().others
    assert found.differs == differs


def test_a_removed_member_stays_in_the_isr_where_nobody_else_can_lead() -> None:
    """With brokers of klamm all members stay, and the leader steps down; with Kafka's the last one remains."""
    for governs, isr in (("klamm", (1, 2)), ("kafka", (2,))):
        log = DecisionLog((), governs).loaded((0, 1, 4, 7, (1, 2), (1, 2)))
        log.isr("replica offline", (-1, 5, 8, isr), 1, replicas=(1, 2))
        assert log.replayed().others == []
        wrong = DecisionLog((), "kafka" if governs == "klamm" else "klamm").loaded((0, 1, 4, 7, (1, 2), (1, 2)))
        (found,) = wrong.isr("replica offline", (-1, 5, 8, isr), 1, replicas=(1, 2)).replayed().others
        assert found.differs == ("isr",)


# What is not in the log.


def test_a_state_that_a_leader_wrote_itself_is_read_from_its_log() -> None:
    """Before protocol version 2.7."""
    log = DecisionLog((2, 3)).loaded((0, 1, 4, 7, (1, 2, 3), (1, 2, 3)))
    log.event("BrokerChange").broker(3, "dead").isr("replica offline", (1, 5, 9, (1,)), 3)
    replayed = log.replayed()
    assert list(replayed.undecided) == [f"{NO_STATE_BEFORE}, of partition epoch 8"]
    assert verdict_of(replayed) == INCOMPLETE
    cause = Cause(ISR_WRITTEN)
    written = replace(log.records[-1], node="broker-1", kind=Kind.ROLE, cause=cause, partition_epoch=8, leader_epoch=4)
    role = replace(written, isr=(1, 3), to_state="leader", seq=0)
    assert log.replayed(role).undecided == {}


def test_without_the_brokers_at_its_beginning_what_was_elected_counts_as_live() -> None:
    log = loaded(live=None).event("BrokerChange").broker(1, "dead").elected("Offline", (2, 5, 8, (2, 3)), OFFLINE)
    replayed = log.replayed()
    assert replayed.others == []
    assert list(replayed.assumed) == [f"{NO_LIVENESS}: 2, 3 taken for live"]
    assert verdict_of(replayed) == INCOMPLETE
    wrong = loaded(live=None).event("BrokerChange").broker(1, "dead").elected("Offline", (3, 5, 8, (2, 3)), OFFLINE)
    (found,) = wrong.replayed().others
    assert found.differs == ("leader",)


def test_an_unclean_election_of_an_earlier_log_may_have_been_allowed() -> None:
    log = DecisionLog(None).loaded((0, 1, 4, 7, (1,), (1, 2, 3))).event("BrokerChange").broker(1, "dead")
    log.isr("replica offline", (-1, 5, 8, (1,)), 1).elected("Offline", (2, 6, 9, (2,)), OFFLINE)
    assert NO_PERMISSION in log.replayed().undecided


def test_a_move_that_was_under_way_is_unknown_in_an_earlier_log() -> None:
    log = DecisionLog(None).loaded((0, 2, 4, 7, (2, 3), (2, 3, 1))).event("Startup").assignment("completed", (2, 3))
    assert list(log.replayed().undecided) == [NO_MOVES_BEFORE]


def test_a_log_is_replayed_from_where_the_controller_becomes_active_and_up_to_a_gap() -> None:
    log = failed()
    beginning = log.records.pop(0)
    assert list(log.replayed().undecided.values()) == [(3, log.records[2].reference)]
    log.records = [beginning, log.records[0], *log.records[2:]]
    assert [count for count, _ in log.replayed().undecided.values()] == [3]


def test_a_line_that_was_read_twice_counts_once() -> None:
    log = failed()
    once = log.replayed()
    log.records += log.records[2:]
    assert log.replayed() == once


def test_what_recovery_wrote_rests_on_answers_that_no_log_has() -> None:
    log = loaded().event("RecoverClusterReceived").isr("recovered from the brokers", (2, 9, 9, (2,)))
    assert verdict_of(log.replayed()) == INCOMPLETE
    assert document_of(log.replayed(), 20)["incomplete"][0]["first"] == log.records[-1].reference


def test_an_unknown_reason_is_not_decided() -> None:
    log = loaded().event("BrokerChange").isr("a reason of tomorrow", (2, 5, 8, (2,)))
    assert log.replayed().undecided


# Whatever a log has, it is replayed to its end.

NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 8, 9])
LISTS = st.lists(NUMBERS, max_size=4).map(tuple)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("leader", "leader_epoch", "partition_epoch", "broker", "broker_epoch", "partition"), NUMBERS),
    **dict.fromkeys(("isr", "replicas", "adding_replicas", "removing_replicas"), LISTS),
    **dict.fromkeys(("from_state", "to_state", "reason", "topic", "topic_id"), st.sampled_from(["", "dead", ONLINE])),
    "kind": st.sampled_from(list(Kind)),
    "cause": st.builds(Cause, st.sampled_from(["Startup", "BrokerChange", "ElectLeadersReceived"]), NUMBERS),
    "inputs": st.builds(DecisionInputs, live=LISTS, offline=LISTS, held=LISTS, awaited=LISTS),
}


@examples(60, deep=150)
@given(data=st.data(), make=st.sampled_from(SOUND))
def test_whatever_fields_a_record_has_the_log_is_replayed(data: st.DataObject, make: Make) -> None:
    log = make()
    for _ in range(data.draw(st.integers(1, 4))):
        seq = data.draw(st.integers(0, len(log.records) - 1))
        name = data.draw(st.sampled_from(sorted(FIELDS)))
        log.changed(seq, **{name: data.draw(st.none() | FIELDS[name] if name != "kind" else FIELDS[name])})
    replayed = log.replayed()
    assert verdict_of(replayed) in {CLEAN, FINDINGS, INCOMPLETE}


@examples(20, deep=50)
@given(data=st.data(), make=st.sampled_from(SOUND))
def test_a_replay_of_the_same_log_says_the_same(data: st.DataObject, make: Make) -> None:
    seq = data.draw(st.integers(0, len(make().records) - 1))
    isr = data.draw(LISTS)

    def replayed() -> object:
        return make().changed(seq, isr=isr).replayed()

    assert replayed() == replayed()


def test_only_records_of_controllers_are_decisions() -> None:
    log = failed()
    roles = [replace(r, node="broker-1") for r in log.records]
    assert isinstance(roles[0], LoggedStateChange)
    assert log.replayed(*roles).decisions == log.replayed().decisions


def test_a_partition_that_was_never_led_completes_at_once() -> None:
    """As seed 82 of the simulator has it: the replicas are in place, and there is no state to wait for."""
    log = DecisionLog().loaded((0, -1, -1, -1, (), (3,)))
    assert log.event("ApiPartitionReassignment").assignment("completed", (3,)).replayed().others == []


def test_the_move_of_a_leader_that_wrote_its_isr_itself_may_be_seen_complete_later() -> None:
    """As seed 10 has it, with protocol version 2.5: the ISR grew after it was read to see whether the move is over."""
    log = DecisionLog((1, 2, 3)).loaded((0, 1, 4, 7, (1, 3), (3, 2, 1)), moves=[(0, (3,), (1,))])
    log.event("BrokerChange").isr("another list of replicas", (1, 5, 9, (1, 3, 2)), replicas=(3, 2, 1))
    written = replace(log.records[-1], node="broker-1", kind=Kind.ROLE, cause=Cause(ISR_WRITTEN), partition_epoch=8)
    replayed = log.replayed(replace(written, leader_epoch=4, to_state="leader", seq=0))
    assert (replayed.others, replayed.undecided) == ([], {})
