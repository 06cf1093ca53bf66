"""What the active controller reports as wrong: refusals, silence, damaged replicas, and what does not end."""

import pytest
from msgspec.structs import replace

from cluster.model.bounds import LEADER_EPOCH_IN_ZNODE
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, Offset, TopicId
from cluster.model.partition import LeaderAndIsr
from cluster.model.state_machines import ReplicaState
from cluster.requests.agents import RECOVERY, UNCLEAN_SHUTDOWN, ReportedDamage
from cluster.requests.cluster import Finding
from cluster.znodes.left_replicas import LeftReplicas
from controller import changes
from controller.context.controller_context import ControllerContext
from controller.decisions.brokers.known_damage import AwaitedReport
from controller.decisions.brokers.refusals import ChannelState, Epochs, Refusals
from controller.decisions.controller_epochs import DOUBTED_ABOVE, LAST
from controller.decisions.findings import findings
from tests.controllers.contexts import context as context_of
from tests.controllers.contexts import ids, leadership, tp

SILENT = ChannelState(silent_s=31)


@pytest.mark.rule("AG-10")
def test_all_is_well() -> None:
    context = context_of([1, 2], {"t-0": [1, 2]})
    assert list(findings(context, {BrokerId(1): ChannelState(silent_s=30)}, 0)) == []


@pytest.mark.rule("AG-10")
def test_a_broker_that_refuses_and_one_that_is_silent() -> None:
    context = context_of([1, 2], {"t-0": [1, 2]})
    refusals = Refusals(ControllerEpoch(context.epoch + 3), BrokerEpoch(-1), {}, frozenset([tp("gone-0")]))
    found = list(findings(context, {BrokerId(1): ChannelState(refusals), BrokerId(2): SILENT}, 0))
    assert [(f.kind, f.broker, f.detail) for f in found] == [
        (
            "refuses_controller",
            1,
            f"broker 1 refuses the controller's requests: its epoch {context.epoch + 3} is newer than {context.epoch}",
        ),
        ("silent_broker", 2, "broker 2 is registered, but has not responded to a request for 31 s"),
    ]


@pytest.mark.rule("D-80", "AG-10")
def test_a_registered_broker_that_cannot_join() -> None:
    context = context_of([1], {})
    context.apply(changes.BrokersNotAdmitted({BrokerId(2): "has no listener CONTROL"}))
    (found,) = findings(context, {}, 0)
    detail = "broker 2 is registered, but takes no part: it has no listener CONTROL"
    assert (found.kind, found.broker, found.detail) == ("broker_not_admitted", 2, detail)


@pytest.mark.rule("D-42", "AG-10")
def test_a_broker_that_never_names_its_damaged_replicas() -> None:
    context = context_of([1, 2], {"t-0": [1, 2]})
    context.apply(changes.BrokersNotAdmitted({}, {BrokerId(3): AwaitedReport(BrokerEpoch(103), 1_000)}))
    assert list(findings(context, {}, 31_999)) == []
    (found,) = findings(context, {}, 32_000)
    assert (found.kind, found.broker) == ("unreported_damage", 3)
    assert "for 31 s it has not named its damaged replicas" in found.detail


@pytest.mark.rule("D-41")
@pytest.mark.parametrize(
    ("replicas", "isr", "chance"),
    [([1], [1], "there is no other replica"), ([1, 2], [1, 2], "start broker 2 before: its replica is in sync")],
)
def test_what_can_be_done_while_a_damaged_replica_waits(replicas: list[int], isr: list[int], chance: str) -> None:
    context = context_of([1], {"t-0": replicas}, {"t-0": leadership(-1, isr)})
    held = {tp("t-0"): damage("t-0", 0, 7)}
    context.apply(changes.DamagedReplicasReported(BrokerId(1), BrokerEpoch(101), held, 60_000))
    (found,) = (f for f in findings(context, {}, 0) if f.kind == "damaged_replica_waits")
    assert chance in found.detail


@pytest.mark.rule("AG-10")
def test_a_shutdown_that_lasts() -> None:
    context = context_of([1, 2], {"t-0": [1, 2]})
    context.apply(changes.BrokerShuttingDown(BrokerId(2), context.brokers.epochs[BrokerId(2)], 1_000_000))
    (found,) = findings(context, {}, 1_003_000)
    assert (found.kind, found.broker) == ("shutting_down", 2)
    assert found.detail.startswith("broker 2 asked for a controlled shutdown 3 s ago")
    (found,) = findings(context, {}, 1_120_999)
    assert found.kind == "shutting_down"
    (found,) = findings(context, {}, 1_121_000)
    assert (found.kind, found.broker) == ("stuck_shutdown", 2)
    assert found.detail.startswith("broker 2 has been shutting down for 121 s")


@pytest.mark.rule("AG-10", "CS-14")
@pytest.mark.parametrize("now_ms", [1_003_000, 1_200_000])
@pytest.mark.parametrize(
    ("led", "what"),
    [
        ({}, "leads nothing"),
        ({"t-0": leadership(1, [1, 2])}, "leads nothing"),
        ({"t-0": leadership(2, [2])}, "still leads 1 partition, as no other replica in sync can"),
        (
            {"t-0": leadership(2, [2]), "single-0": leadership(2, [2])},
            "still leads 2 partitions, as no other replica in sync can",
        ),
    ],
)
def test_a_broker_that_shuts_down_says_what_it_still_leads(
    now_ms: int, led: dict[str, LeaderAndIsr], what: str
) -> None:
    context = context_of([1, 2], {"t-0": [1, 2], "single-0": [2]}, led)
    context.apply(changes.BrokerShuttingDown(BrokerId(2), context.brokers.epochs[BrokerId(2)], 1_000_000))
    (found,) = findings(context, {}, now_ms)
    assert what in found.detail


@pytest.mark.rule("AG-10")
def test_a_deletion_that_waits_for_a_silent_broker() -> None:
    context = context_of([1, 2], {"t-0": [1, 2]})
    context.apply(changes.DeletionsQueued(("t",)))
    for broker in (1, 2):
        states = {tp("t-0"): ReplicaState.OFFLINE}
        context.apply(changes.ReplicasMoved(BrokerId(broker), states, ReplicaState.DELETION_STARTED))
    found = list(findings(context, {BrokerId(2): SILENT}, 0))
    assert [(f.kind, f.topic, f.broker) for f in found] == [("silent_broker", "", 2), ("stuck_deletion", "t", -1)]
    assert found[1].detail == "the deletion waits for brokers 2, which do not respond"


@pytest.mark.rule("AG-10")
def test_only_a_deletion_that_started_and_waits_for_a_silent_broker_is_stuck() -> None:
    context = context_of([1, 2, 3], {"t-0": [1, 2], "u-0": [1, 2], "v-0": [1, 2, 3]})
    context.apply(changes.DeletionsQueued(("t", "u", "v")))
    started = {tp("t-0"): ReplicaState.OFFLINE, tp("v-0"): ReplicaState.OFFLINE}
    context.apply(changes.ReplicasMoved(BrokerId(1), started, ReplicaState.DELETION_STARTED))
    third = {tp("v-0"): ReplicaState.OFFLINE}
    context.apply(changes.ReplicasMoved(BrokerId(3), third, ReplicaState.DELETION_STARTED))
    responsive = ChannelState(silent_s=30)

    def stuck(*silent: int) -> list[Finding]:
        channels = {BrokerId(b): SILENT if b in silent else responsive for b in (1, 2, 3)}
        return [f for f in findings(context, channels, 0) if f.kind == "stuck_deletion"]

    # Nothing of u was started, and nothing on broker 2.
    assert stuck(2) == []
    assert stuck(3) == [Finding("stuck_deletion", "the deletion waits for brokers 3, which do not respond", "v")]
    assert [(f.topic, f.detail.split(",")[:-1]) for f in stuck(1, 3)] == [
        ("t", ["the deletion waits for brokers 1"]),
        ("v", ["the deletion waits for brokers 1", " 3"]),
    ]
    # Without a channel nothing is known of a broker.
    assert list(findings(context, {}, 0)) == []
    context.apply(changes.DeletionsIneligible(frozenset(["v"])))
    assert [f.topic for f in stuck(1, 3)] == ["t"]


@pytest.mark.rule("AG-10")
def test_refusals_of_deleted_topics_are_left_out() -> None:
    context = context_of([1], {"t-0": [1]})
    epochs = Epochs(LeaderEpoch(3), LeaderEpoch(5))
    refusals = Refusals(
        leader_epochs={tp("gone-0"): epochs, tp("t-0"): epochs}, topic_ids=frozenset([tp("gone-1"), tp("t-1")])
    )
    found = list(findings(context, {BrokerId(1): ChannelState(refusals)}, 0))
    assert [f.kind for f in found] == ["refuses_controller", "refuses_controller"]
    assert [("t-" in f.detail, "gone" in f.detail) for f in found] == [(True, False), (True, False)]


@pytest.mark.rule("AG-10")
@pytest.mark.parametrize(
    ("broker", "known", "refuses"), [(1, 101, False), (1, 102, True), (9, -1, False), (9, 5, True)]
)
def test_a_newer_broker_epoch_is_one_above_that_of_the_registration(broker: int, known: int, refuses: bool) -> None:
    context = context_of([1], {"t-0": [1]})
    refusals = Refusals(broker_epoch=BrokerEpoch(known))
    found = list(findings(context, {BrokerId(broker): ChannelState(refusals)}, 0))
    assert [(f.kind, f.broker) for f in found] == ([("refuses_controller", broker)] if refuses else [])


def damage(name: str, first: int, end: int) -> ReportedDamage:
    topic, partition = tp(name)
    return ReportedDamage(topic, TopicId(f"id-of-{topic}"), partition, Offset(first), Offset(end), 9, RECOVERY)


@pytest.mark.rule("D-41", "AG-10")
def test_damaged_replicas_that_wait_are_named_by_broker_and_partition() -> None:
    names = ["t-0", "t-1", "u-0"]
    context = context_of(
        [1, 2], {name: [1, 2] for name in names}, {n: leadership(-1, [2 if n == "u-0" else 1]) for n in names}
    )
    of_two = {tp("u-0"): damage("u-0", 5, 6)}
    of_one = {tp("t-1"): damage("t-1", 10, 20), tp("t-0"): damage("t-0", 0, 7)}
    context.apply(changes.DamagedReplicasReported(BrokerId(2), BrokerEpoch(102), of_two, 60_000))
    context.apply(changes.DamagedReplicasReported(BrokerId(1), BrokerEpoch(101), of_one, 60_000))
    found = list(findings(context, {}, 0))
    assert [(f.kind, f.topic, f.partition, f.broker) for f in found] == [
        ("damaged_replica_waits", "t", 0, 1),
        ("damaged_replica_waits", "t", 1, 1),
        ("damaged_replica_waits", "u", 0, 2),
    ]
    assert [f.detail.partition(" are damaged")[0].partition("its ")[2] for f in found] == [
        "offsets 0..6",
        "offsets 10..19",
        "offsets 5..5",
    ]
    assert found[0].detail == (
        "broker 1 has the only replica in sync that is online, and its offsets 0..6 are damaged; it is elected at "
        "00:01:00 UTC, and from then on they are lost; no other replica is in sync; if broker 2 may have the records, "
        "start it before and see `klamm elect unclean --topic t --partition 0 --dry-run`"
    )


@pytest.mark.rule("D-41", "AG-10")
def test_a_damaged_replica_that_no_longer_waits_is_no_finding() -> None:
    context = context_of([1, 2], {"t-0": [1, 2]}, {"t-0": leadership(-1, [1])})
    held = {tp("t-0"): damage("t-0", 0, 7)}
    context.apply(changes.DamagedReplicasReported(BrokerId(1), BrokerEpoch(101), held, 60_000))
    context.apply(changes.DamagedReplicasReleased(BrokerId(1), (tp("t-0"),)))
    assert list(findings(context, {}, 0)) == []
    # Nor is one on a broker that is not there: it may come back undamaged, or never.
    context.apply(changes.DamagedReplicasReported(BrokerId(9), BrokerEpoch(109), held, 60_000))
    assert list(findings(context, {}, 0)) == []


@pytest.mark.rule("D-43")
def test_a_partition_whose_leader_epoch_none_can_follow() -> None:
    context = context_of([1, 2], {"t-0": [1, 2], "t-1": [1, 2]})
    last = LEADER_EPOCH_IN_ZNODE.maximum
    at_end = {tp(f"t-{n}"): leadership(1, [1, 2], leader_epoch=last - n) for n in (0, 1)}
    context.apply(changes.LeadershipsWritten(at_end, "loaded"))
    (found,) = findings(context, {}, 0)
    assert (found.kind, found.topic, found.partition) == ("no_leader_epoch_left", "t", 0)
    assert found.detail.startswith("leader epoch 2147483646 is the highest there can be")


@pytest.mark.rule("D-93")
def test_a_controller_epoch_that_few_can_follow() -> None:
    brokers = context_of([1])
    context = ControllerContext(ControllerEpoch(LAST - 4), brokers.epoch_zk_version)
    (found,) = findings(context, {}, 0)
    assert found.kind == "few_controller_epochs_left"
    assert found.detail.startswith("the controller epoch is 2147483642, and 4 more elections are possible")
    assert not list(findings(ControllerContext(ControllerEpoch(DOUBTED_ABOVE), brokers.epoch_zk_version), {}, 0))


@pytest.mark.rule("D-41")
def test_a_damaged_replica_that_is_not_replaced_yet_says_why() -> None:
    context = context_of([1, 2], {"t-0": [1, 2], "gone-0": [1]}, {"t-0": leadership(2, [2, 1])})
    held = {tp("t-0"): damage("t-0", 0, 7)}
    context.apply(changes.DamagedReplicasReported(BrokerId(1), BrokerEpoch(101), held, 60_000))
    unknown = {tp("gone-0"): damage("gone-0", 0, 7)}
    context.apply(changes.DamagedReplicasReported(BrokerId(1), BrokerEpoch(101), unknown))
    of_gone, of_t = (f.detail for f in findings(context, {}, 0) if f.kind == "damaged_replica_waits")
    assert "it is not known who else is in sync: repair the malformed znodes" in of_gone
    assert "is to leave the ISR and to be fetched again, but ZooKeeper refused that" in of_t


@pytest.mark.rule("D-120")
@pytest.mark.parametrize(
    ("live", "leader", "until_ms", "end_of_detail"),
    [
        (
            [1],
            -1,
            60_000,
            " and no replica in sync that surely has them is online; at 00:01:00 UTC the longest log that is there "
            "leads, and from then on what it lacks is lost; start broker 2 before: in sync, too, it may have them",
        ),
        ([1, 2], 2, 60_000, " and is to leave the ISR and to catch up, but ZooKeeper refused that; it is tried again"),
        (
            [1],
            -1,
            0,
            " and is not elected, as it is not known who else is in sync: repair the malformed znodes of the partition",
        ),
    ],
)
def test_a_replica_in_doubt_that_waits_is_not_called_damaged(
    live: list[int], leader: int, until_ms: int, end_of_detail: str
) -> None:
    context = context_of(live, {"t-0": [1, 2]}, {"t-0": leadership(leader, [1, 2])})
    held = {tp("t-0"): replace(damage("t-0", 80, 80), found_by=UNCLEAN_SHUTDOWN)}
    context.apply(changes.DamagedReplicasReported(BrokerId(1), BrokerEpoch(101), held, until_ms))
    (found,) = (f for f in findings(context, {}, 0) if f.kind == "damaged_replica_waits")
    assert found.detail == (
        "broker 1 may lack records from offset 80 on, because its machine was restarted without a clean shutdown,"
        f"{end_of_detail}"
    )


@pytest.mark.rule("D-120")
def test_where_all_in_sync_are_there_a_replica_in_doubt_waits_for_nobody_else() -> None:
    context = context_of([1, 2], {"t-0": [1, 2]}, {"t-0": leadership(-1, [1, 2])})
    in_doubt = {tp("t-0"): replace(damage("t-0", 80, 80), found_by=UNCLEAN_SHUTDOWN)}
    context.apply(changes.DamagedReplicasReported(BrokerId(1), BrokerEpoch(101), in_doubt, 60_000))
    damaged = {tp("t-0"): damage("t-0", 70, 90)}
    context.apply(changes.DamagedReplicasReported(BrokerId(2), BrokerEpoch(102), damaged, 60_000))
    (found, _) = (f for f in findings(context, {}, 0) if f.kind == "damaged_replica_waits")
    assert found.detail.endswith("from then on what it lacks is lost")


@pytest.mark.rule("D-98", "D-99")
def test_what_brokers_still_have_of_deleted_topics_says_what_happens_to_it() -> None:
    context = context_of([1], {"t-0": [1]})
    some = {topic: LeftReplicas(None, (0,)) for topic in ("d", "c", "b", "a")}
    context.apply(changes.LeftReplicasRecorded({BrokerId(1): {"a": some["a"]}, BrokerId(3): some}))
    of_live, of_away = (f for f in findings(context, {}, 0) if f.kind == "left_replicas")
    assert (of_live.broker, of_away.broker) == (1, 3)
    assert "it has not answered that it has deleted them" in of_live.detail
    assert "4 topics that were deleted while it was away (a, b, c, …)" in of_away.detail
    assert "delete the znode /klamm/left_replicas/3 and everything below it" in of_away.detail


@pytest.mark.rule("D-112")
def test_a_broker_with_an_authorizer_is_named() -> None:
    found = [f for f in findings(context_of([1], {}), {}, 0, ids(2)) if f.kind == "authorizer_on_broker"]
    assert [f.broker for f in found] == [2]
