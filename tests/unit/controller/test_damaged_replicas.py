"""What is decided about replicas that a broker reports as damaged: replaced, held back, leading on, or passed over."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, Offset, TopicId, ZkVersion
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.state_machines import PartitionState
from cluster.requests.agents import RECOVERY, SCRUB, UNCLEAN_SHUTDOWN, ReportedDamage
from controller.changes import (
    BrokerShuttingDown,
    BrokersJoined,
    BrokersNotAdmitted,
    DamagedReplicasReported,
    DeletionsQueued,
    LeadershipsRead,
    OfflineReplicasReported,
    PartitionsMoved,
    ReassignmentsWritten,
    TopicsListed,
)
from controller.context.controller_context import ControllerContext
from controller.decisions.brokers.damaged_replicas import (
    DamagePlan,
    choose_longest,
    is_decided,
    partition_of,
    plan_damaged_replicas,
)
from controller.decisions.brokers.known_damage import AwaitedReport
from controller.decisions.partitions.leader_election import (
    ControlledShutdown,
    Damaged,
    LeaderChoice,
    Offline,
    Preferred,
    Reassign,
    Strategy,
    choose_sound_leader,
    plan_elections,
    reason_of,
)
from tests.controllers.contexts import EPOCH, assignment, context, ids, leadership, registered, tp

T0 = tp("t-0")
ONE = BrokerId(1)
NOTHING = DamagePlan({}, [], [], [], [])


def damage(
    name: str = "t-0",
    *,
    topic_id: str | None = "id-of-t",
    found_by: str = RECOVERY,
    offsets: tuple[int, int] = (10, 20),
) -> ReportedDamage:
    return ReportedDamage(*_named(name, topic_id), Offset(10), Offset(20), 100, found_by)


def _named(name: str, topic_id: str | None) -> tuple[str, TopicId | None, int]:
    return tp(name).topic, None if topic_id is None else TopicId(topic_id), tp(name).partition


def cluster(
    live: Sequence[int], state: LeaderAndIsr, *, is_online: bool = True, held: Sequence[int] = ()
) -> ControllerContext:
    """t-0 with replicas on 1, 2 and 3; `held`: brokers whose replica is not to be elected."""
    built = context(live, {"t-0": [1, 2, 3]}, {"t-0": state})
    built.apply(PartitionsMoved({T0: PartitionState.ONLINE if is_online else PartitionState.OFFLINE}))
    for broker in held:
        built.apply(DamagedReplicasReported(BrokerId(broker), BrokerEpoch(100 + broker), {T0: damage()}))
    return built


def replaced(found_by: str) -> DamagePlan:
    return DamagePlan({found_by: [T0]}, [], [], [], [])


HELD, LEADING = DamagePlan({}, [T0], [], [], []), DamagePlan({}, [], [T0], [], [])
UNKNOWN, ALONE = DamagePlan({}, [], [], [T0], []), DamagePlan({}, [], [], [], [T0])


def test_a_report_names_its_partition() -> None:
    assert partition_of(damage("a-b-7")) == TopicPartition("a-b", 7)


@pytest.mark.rule("D-40", "D-41")
@pytest.mark.parametrize("found_by", [RECOVERY, SCRUB])
@pytest.mark.parametrize(
    ("what", "view", "decided"),
    [
        ("it led: another member leads", cluster([1, 2, 3], leadership(1, [1, 2])), "replaced"),
        ("it followed in the ISR: it leaves it", cluster([1, 2, 3], leadership(2, [1, 2])), "replaced"),
        ("it is the only member, and nobody leads", cluster([1, 2], leadership(-1, [1]), is_online=False), "held"),
        ("the others are not in the ISR", cluster([1, 2, 3], leadership(-1, [1])), "held"),
        ("the other member is offline", cluster([1, 3], leadership(2, [1, 2])), "held"),
        ("the other member is held back as well", cluster([1, 2], leadership(2, [1, 2]), held=[2]), "held"),
        ("it leads alone: it goes on", cluster([1, 2], leadership(1, [1])), "leading"),
        ("the partition that it led is offline", cluster([1, 2], leadership(1, [1]), is_online=False), "held"),
        ("not in sync, and nobody who is online", cluster([1, 3], leadership(2, [2])), "nothing"),
    ],
)
def test_another_member_replaces_it_or_it_waits_or_leads_on(
    what: str, view: ControllerContext, decided: str, found_by: str
) -> None:
    expected = {"replaced": replaced(found_by), "held": HELD, "leading": LEADING, "nothing": NOTHING}[decided]
    assert plan_damaged_replicas(view, ONE, [damage(found_by=found_by)], set()) == expected, what


@pytest.mark.rule("D-40")
@pytest.mark.parametrize(("found_by", "expected"), [(RECOVERY, NOTHING), (SCRUB, replaced(SCRUB))])
def test_a_follower_outside_the_isr_fetches_anew_after_a_scrub_only(found_by: str, expected: DamagePlan) -> None:
    """The expansion that its leader may have in flight does not name a new broker epoch then."""
    view = cluster([1, 2, 3], leadership(2, [2, 3]))
    assert plan_damaged_replicas(view, ONE, [damage(found_by=found_by)], set()) == expected


@pytest.mark.rule("D-40")
@pytest.mark.parametrize(
    ("what", "reported"),
    [
        ("an earlier topic of the name", damage(topic_id="id-of-another")),
        ("a topic that is not known", damage("gone-0", topic_id=None)),
        ("a partition without leadership", damage("t-1")),
    ],
)
def test_what_is_not_a_replica_of_this_topic_is_passed_over(what: str, reported: ReportedDamage) -> None:
    view = context(
        [1, 2],
        {"t-0": [1, 2], "t-1": [1, 2], "u-0": [1, 2]},
        {"t-0": leadership(1, [1, 2]), "u-0": leadership(1, [1, 2])},
    )
    # What comes after it in the report is decided all the same.
    plan = plan_damaged_replicas(view, ONE, [reported, damage("u-0", topic_id="id-of-u")], set())
    assert plan == DamagePlan({RECOVERY: [tp("u-0")]}, [], [], [], []), what


@pytest.mark.rule("D-40")
def test_a_replica_that_is_not_to_stay_is_passed_over() -> None:
    view = cluster([1, 2, 3], leadership(1, [1, 2]))
    assert plan_damaged_replicas(view, BrokerId(4), [damage()], set()) == NOTHING
    view.apply(DeletionsQueued(("t",)))
    assert plan_damaged_replicas(view, ONE, [damage()], set()) == NOTHING


@pytest.mark.rule("D-40")
def test_a_replica_without_a_topic_id_is_one_of_the_present_topic() -> None:
    view = cluster([1, 2, 3], leadership(1, [1, 2]))
    assert plan_damaged_replicas(view, ONE, [damage(topic_id=None)], set()) == replaced(RECOVERY)


@pytest.mark.rule("D-41")
def test_nobody_knows_who_else_is_in_sync_where_a_znode_is_malformed() -> None:
    view = context([1, 2], {}, {})
    assert plan_damaged_replicas(view, ONE, [damage()], {T0}) == UNKNOWN
    assert UNKNOWN.not_to_be_elected == HELD.not_to_be_elected == replaced(SCRUB).not_to_be_elected == {T0}
    known = cluster([1, 2, 3], leadership(1, [1, 2]))
    assert plan_damaged_replicas(known, ONE, [damage()], {T0}) == replaced(RECOVERY)


@pytest.mark.rule("D-40")
def test_any_id_is_that_of_a_topic_without_one() -> None:
    view = ControllerContext(ControllerEpoch(EPOCH), ZkVersion(3))
    view.apply(BrokersJoined((registered(1), registered(2))))
    view.apply(TopicsListed(("t",)))
    view.apply(ReassignmentsWritten({T0: assignment([1, 2])}))
    view.apply(LeadershipsRead({T0: leadership(1, [1, 2])}))
    assert plan_damaged_replicas(view, ONE, [damage(topic_id="any")], set()) == replaced(RECOVERY)


@pytest.mark.rule("D-40", "D-41")
def test_all_of_a_report_are_sorted_by_what_is_to_be_done() -> None:
    names = [f"t-{number}" for number in range(6)]
    states = [
        leadership(1, [1, 2]),
        leadership(2, [2, 1]),
        leadership(2, [2]),
        leadership(1, [1]),
        leadership(3, [3, 1]),
        leadership(2, [1, 2]),
    ]
    view = context([1, 2], {name: [1, 2, 3] for name in names}, dict(zip(names, states, strict=True)))
    view.apply(PartitionsMoved({tp("t-3"): PartitionState.ONLINE}))
    view.apply(OfflineReplicasReported(BrokerId(2), frozenset([tp("t-5")])))
    found = [RECOVERY, SCRUB, SCRUB, RECOVERY, RECOVERY, SCRUB]
    reports = [damage(name, found_by=by) for name, by in zip(names, found, strict=True)]
    assert plan_damaged_replicas(view, ONE, reports, set()) == DamagePlan(
        {RECOVERY: [tp("t-0")], SCRUB: [tp("t-1"), tp("t-2")]}, [tp("t-4"), tp("t-5")], [tp("t-3")], [], []
    )


@pytest.mark.rule("D-119", "D-120")
@pytest.mark.parametrize(
    ("what", "view", "expected"),
    [
        ("it led: another member leads", cluster([1, 2, 3], leadership(1, [1, 2])), replaced(UNCLEAN_SHUTDOWN)),
        ("it followed in sync: it leaves", cluster([1, 2, 3], leadership(2, [1, 2])), replaced(UNCLEAN_SHUTDOWN)),
        ("the other member is offline", cluster([1, 3], leadership(-1, [1, 2]), is_online=False), HELD),
        ("nobody else can have more", cluster([1, 2], leadership(-1, [1]), is_online=False), ALONE),
        ("it leads alone", cluster([1, 2], leadership(1, [1])), LEADING),
        ("it is not in sync", cluster([1, 2, 3], leadership(2, [2, 3])), NOTHING),
    ],
)
def test_a_replica_in_doubt_leads_at_once_where_it_is_all_there_is(
    what: str, view: ControllerContext, expected: DamagePlan
) -> None:
    assert plan_damaged_replicas(view, ONE, [damage(found_by=UNCLEAN_SHUTDOWN)], set()) == expected, what
    assert T0 not in ALONE.not_to_be_elected


def in_doubt(
    live: Sequence[int], isr: Sequence[int], doubts: dict[int, tuple[int, int]], found_by: str = UNCLEAN_SHUTDOWN
) -> ControllerContext:
    """Nobody leads t-0. `doubts`: broker -> leader epoch and end of its log; that of broker 1 is `found_by`."""
    view = cluster(live, leadership(-1, isr), is_online=False)
    for broker, (epoch, end) in doubts.items():
        by = found_by if broker == 1 else UNCLEAN_SHUTDOWN
        reported = replace(damage(found_by=by), from_offset=Offset(end), to_offset=Offset(end), log_epoch=epoch)
        view.apply(DamagedReplicasReported(BrokerId(broker), BrokerEpoch(100 + broker), {T0: reported}))
    return view


@pytest.mark.rule("D-120")
@pytest.mark.parametrize(
    ("what", "view", "at_once", "at_last"),
    [
        ("the longer log", in_doubt([1, 2], [1, 2], {1: (5, 80), 2: (5, 90)}), 2, 2),
        ("a newer epoch before a longer log", in_doubt([1, 2], [1, 2], {1: (6, 80), 2: (5, 90)}), 1, 1),
        ("of equals the preferred", in_doubt([1, 2], [2, 1], {1: (5, 80), 2: (5, 80)}), 1, 1),
        ("one is missing", in_doubt([1, 2], [1, 2, 3], {1: (5, 80), 2: (5, 90)}), None, 2),
        ("one that went is forgotten", in_doubt([1], [1, 2], {1: (5, 80), 2: (5, 90)}), None, 1),
        ("one that is known to be damaged", in_doubt([1, 2], [1, 2], {1: (5, 95), 2: (5, 90)}, RECOVERY), None, 2),
        ("one is sound", in_doubt([1, 2, 3], [1, 2, 3], {1: (5, 80), 2: (5, 90)}), None, None),
        ("one outside of the ISR has no say", in_doubt([1, 2, 3], [1, 2], {1: (5, 80), 2: (5, 7), 3: (9, 99)}), 1, 1),
        ("nobody is in doubt", in_doubt([1, 2], [1, 2], {}), None, None),
    ],
)
def test_of_replicas_in_doubt_the_longest_leads(
    what: str, view: ControllerContext, at_once: int | None, at_last: int | None
) -> None:
    assert choose_longest(view, T0) == at_once, what
    assert choose_longest(view, T0, of_those_online=True) == at_last, what


@pytest.mark.rule("D-120")
def test_without_a_leadership_nobody_is_the_longest() -> None:
    assert choose_longest(context([1], {"t-0": [1]}, {}), T0) is None


@pytest.mark.rule("D-119")
@pytest.mark.parametrize(
    ("leader", "isr", "decided"), [(1, [1, 2], True), (2, [1, 2], False), (2, [2], True), (-1, [1], False)]
)
def test_the_doubt_about_a_replica_ends_when_it_leads_or_has_to_catch_up(
    leader: int, isr: list[int], decided: bool
) -> None:
    assert is_decided(cluster([1, 2, 3], leadership(leader, isr)), BrokerId(1), T0) == decided


BROKERS = st.integers(1, 3)
ISRS = st.lists(BROKERS, min_size=1, unique=True)


@pytest.mark.rule("D-40", "D-41")
@given(ISRS, st.sets(BROKERS), st.sets(BROKERS), st.sampled_from([RECOVERY, SCRUB]), st.booleans())
def test_what_is_replaced_gets_a_sound_leader_and_what_is_held_none(
    isr: list[int], live: set[int], held: set[int], found_by: str, is_online: bool
) -> None:
    state = leadership(isr[0], isr)
    view = cluster(sorted({*live, 1}), state, is_online=is_online, held=sorted(held - {1}))
    plan = plan_damaged_replicas(view, ONE, [damage(found_by=found_by)], set())
    elections = plan_elections(view, {T0: state}, Damaged(ONE, found_by), {}, mark_recovering=True).elections
    assert len(plan.held) + len(plan.leading) + sum(map(len, plan.replaced.values())) <= 1
    if plan.replaced:
        (election,) = elections
        assert set(election.leadership.isr) == set(isr) & live - {1} - held
        assert election.leadership.leader in election.leadership.isr
    elif plan.held or plan.leading:
        # Nobody but the damaged replica could lead without loss.
        assert elections == ()
        assert 1 in isr
        assert (plan == LEADING) == (is_online and isr[0] == 1)


# The election


@pytest.mark.rule("D-40")
@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "sound", "expected"),
    [
        # The present leader goes on, wherever it stands in the assignment.
        ([1, 2, 3], [1, 2, 3], 3, {2, 3}, LeaderChoice(3, (2, 3))),
        ([1, 2, 3], [3, 1, 2], 2, {3, 2}, LeaderChoice(2, (3, 2))),
        # Else the first assigned one; the ISR keeps its order.
        ([1, 2, 3], [3, 2, 1], 1, {2, 3}, LeaderChoice(2, (3, 2))),
        ([1, 3, 2], [2, 3, 1], 1, {2, 3}, LeaderChoice(3, (2, 3))),
        # A sound replica outside the ISR neither leads nor joins.
        ([1, 2, 3], [1, 3], 1, {2, 3}, LeaderChoice(3, (3,))),
        ([1, 2, 3], [1, 3], 2, {2, 3}, LeaderChoice(3, (3,))),
        ([1, 2, 3], [1], 1, {2, 3}, None),
        ([1, 2, 3], [1, 2], 1, set(), None),
        # An ISR member outside the assignment cannot lead.
        ([1, 2], [1, 9], 1, {9}, None),
    ],
)
def test_the_present_leader_or_the_first_sound_replica_in_sync_leads(
    replicas: Sequence[int], isr: Sequence[int], leader: int, sound: set[int], expected: LeaderChoice | None
) -> None:
    assert choose_sound_leader(ids(*replicas), ids(*isr), BrokerId(leader), set(ids(*sound))) == expected


@pytest.mark.rule("D-40", "PS-15")
@pytest.mark.parametrize(("found_by", "leader", "elected"), [(RECOVERY, 1, 2), (SCRUB, 3, 3)])
def test_the_damaged_replica_leaves_the_isr_and_every_replica_learns_of_the_new_epoch(
    found_by: str, leader: int, elected: int
) -> None:
    state = leadership(leader, [3, 1, 2], leader_epoch=5, partition_epoch=9)
    view = cluster([1, 2, 3], state)
    (election,) = plan_elections(view, {T0: state}, Damaged(ONE, found_by), {}, mark_recovering=True).elections
    assert election.leadership == leadership(
        elected, [3, 2], leader_epoch=6, partition_epoch=10, controller_epoch=EPOCH
    )
    assert (election.recipients, election.unclean) == (ids(1, 2, 3), False)


@pytest.mark.rule("D-41")
def test_a_replica_that_is_held_back_replaces_no_other() -> None:
    state = leadership(1, [1, 2, 3])
    view = cluster([1, 2, 3], state, held=[2])
    (election,) = plan_elections(view, {T0: state}, Damaged(ONE, RECOVERY), {}, mark_recovering=True).elections
    assert (election.leadership.leader, election.leadership.isr) == (3, (3,))


@pytest.mark.rule("D-41", "D-42", "PS-20")
@pytest.mark.parametrize(
    ("awaited", "strategy", "leader"),
    [
        (None, Offline(), 2),
        (3, Offline(), 2),
        (1, Offline(), None),
        (1, Offline(allow_unclean=True), 2),
    ],
)
def test_no_unclean_election_while_a_member_of_the_isr_has_only_to_report(
    awaited: int | None, strategy: Offline, leader: int | None
) -> None:
    """It is configured for the topic; somebody who asks for it does not wait."""
    state = leadership(-1, [1])
    view = cluster([2], state, is_online=False)
    if awaited is not None:
        view.apply(BrokersNotAdmitted({}, {BrokerId(awaited): AwaitedReport(BrokerEpoch(9), 0)}))
    elections = plan_elections(view, {T0: state}, strategy, {"t": True}, mark_recovering=True).elections
    assert [election.leadership.leader for election in elections] == ([] if leader is None else [leader])


@pytest.mark.rule("D-41", "PS-20")
@pytest.mark.parametrize(
    ("strategy", "configured", "leader"),
    [(Offline(), False, None), (Offline(), True, None), (Offline(allow_unclean=True), False, 1)],
)
def test_a_held_replica_leads_only_if_an_unclean_election_is_asked_for(
    strategy: Offline, configured: bool, leader: int | None
) -> None:
    """The request does not wait; a configured unclean election is for ISRs without a member online."""
    state = leadership(-1, [1])
    view = cluster([1, 2], state, is_online=False, held=[1])
    elections = plan_elections(view, {T0: state}, strategy, {"t": configured}, mark_recovering=True).elections
    assert [(e.leadership.leader, e.recipients) for e in elections] == ([] if leader is None else [(leader, ids(1, 2))])


@pytest.mark.rule("D-40", "D-41", "PS-20", "PS-23", "CS-8")
@pytest.mark.parametrize(
    "strategy",
    [
        Offline(),
        Preferred(),
        Reassign(),
        Reassign({T0: ids(1, 3)}),
        ControlledShutdown(),
        Damaged(BrokerId(2), UNCLEAN_SHUTDOWN),
    ],
)
@pytest.mark.parametrize(("held", "leader"), [([], 1), ([1], None)])
def test_a_held_replica_is_not_elected_for_any_reason(
    strategy: Strategy, held: Sequence[int], leader: int | None
) -> None:
    """Whatever it is besides: preferred, a target of a reassignment, or all that is left when the leader shuts down."""
    state = leadership(2, [2, 1])
    view = cluster([1, 2], state, is_online=False, held=held)
    view.apply(BrokerShuttingDown(BrokerId(2), BrokerEpoch(102)))
    elections = plan_elections(view, {T0: state}, strategy, {}, mark_recovering=True).elections
    assert [e.leadership.leader for e in elections] == ([] if leader is None else [leader])


def test_the_reason_of_an_election_is_its_strategy_or_what_found_the_damage() -> None:
    assert reason_of(Offline()) == "Offline"
    assert reason_of(Damaged(ONE, SCRUB)) == "scrub"
