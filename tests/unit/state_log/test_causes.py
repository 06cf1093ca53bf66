"""How a record leads to the call that asked for it, on the controller's own records and on those of agents."""

from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerEpoch, ControllerId, LeaderEpoch, PartitionEpoch
from state_log.causes import ISR_GRANTED, ISR_WRITTEN, ControllerCall, call_of, calls_by_event, origin_text
from state_log.record import Cause, Kind, LoggedStateChange
from state_log.story import leadership_history, story

ELECTED = LoggedStateChange(
    kind=Kind.PARTITION,
    v=2,
    seq=3,
    node="controller-1001",
    incarnation="1700000000000.1",
    at_ms=1_700_000_000_500,
    cause=Cause("ElectLeadersReceived", 17),
    controller_epoch=ControllerEpoch(5),
    topic="t",
    partition=0,
    from_state="OnlinePartition",
    to_state="OnlinePartition",
    leader=BrokerId(2),
    leader_epoch=LeaderEpoch(4),
    partition_epoch=PartitionEpoch(9),
    isr=(BrokerId(1), BrokerId(2)),
    reason="Preferred",
    request_id="r-1",
    principal="ANONYMOUS",
    peer="ipv4:127.0.0.1:5555",
)
FROM_CONTROLLER = Cause("ElectLeadersReceived", 17, ControllerId(1001), ControllerEpoch(5))
LEADS = replace(
    ELECTED,
    kind=Kind.ROLE,
    node="broker-2",
    seq=0,
    at_ms=3,
    broker=2,
    from_state=None,
    to_state="leader",
    controller_epoch=ControllerEpoch(4),
    cause=FROM_CONTROLLER,
    reason=None,
    request_id=None,
    principal=None,
    peer=None,
)
CUT = replace(LEADS, kind=Kind.TRUNCATION, node="broker-1", broker=1, leader=2, partition_epoch=None, reason="9 to 7")
CALL = ControllerCall("ElectLeadersReceived", "r-1", "ANONYMOUS", "ipv4:127.0.0.1:5555", 1_700_000_000_500)
CALL_TEXT = "ElectLeaders, request id r-1, from ipv4:127.0.0.1:5555, at 2023-11-14 22:13:20.500"


def test_the_record_of_an_agent_leads_to_the_call_that_the_controller_had() -> None:
    calls = calls_by_event([LEADS, ELECTED])
    assert [call_of(record, calls) for record in (ELECTED, LEADS, CUT)] == [CALL] * 3
    assert {origin_text(record, CALL) for record in (ELECTED, LEADS, CUT)} == {CALL_TEXT}


def test_events_of_other_epochs_and_numbers_are_others() -> None:
    calls = calls_by_event([ELECTED])
    for cause in (
        Cause("ElectLeadersReceived", 18, ControllerId(1001), ControllerEpoch(5)),
        Cause("ElectLeadersReceived", 17, ControllerId(1002), ControllerEpoch(6)),
        Cause("LogDirectoryFailure", 17),
        None,
    ):
        assert call_of(replace(LEADS, cause=cause), calls) is None


def test_an_agents_own_event_is_not_taken_for_one_of_the_controller() -> None:
    # In version 1 the cause of a role was the agent's own count, beside the epoch of the controller that decided.
    old = replace(LEADS, v=1, cause=Cause("LeaderAndIsr", 17), controller_epoch=ControllerEpoch(5))
    assert call_of(old, calls_by_event([ELECTED])) is None
    assert origin_text(old, None) == "LeaderAndIsr"


def test_where_nobody_asked_the_event_and_its_controller_are_named() -> None:
    watch = replace(LEADS, cause=Cause("BrokerChange", 2, ControllerId(1001), ControllerEpoch(5)))
    assert origin_text(watch, None) == "BrokerChange of controller 1001"


def test_a_principal_is_named_where_there_is_one_and_what_is_missing_is_left_out() -> None:
    call = ControllerCall("CreateTopicsReceived", None, "User:operator", None, 1_700_000_000_500)
    assert origin_text(ELECTED, call) == "CreateTopics, by User:operator, at 2023-11-14 22:13:20.500"


def test_every_line_of_the_story_names_the_request() -> None:
    lines = story([CUT, LEADS, ELECTED])
    assert [(line.node, line.message) for line in lines] == [
        ("controller-1001", f"leader 2 in epoch 4, in sync [1, 2]: {CALL_TEXT}, Preferred"),
        ("broker-1", f"broker 1 cut its log: {CALL_TEXT}, 9 to 7"),
        ("broker-2", f"broker 2 leads in epoch 4: {CALL_TEXT}"),
    ]
    assert {line.call for line in lines} == {CALL}
    assert leadership_history([LEADS, ELECTED])[0].why == CALL_TEXT.replace("ElectLeaders", "ElectLeaders, Preferred")


def test_an_agents_record_stands_after_the_event_that_caused_it() -> None:
    first = replace(ELECTED, seq=0, partition_epoch=PartitionEpoch(0), leader_epoch=LeaderEpoch(0), cause=Cause("X", 1))
    role = replace(
        LEADS, partition_epoch=PartitionEpoch(0), cause=Cause("X", 1, ControllerId(1001), ControllerEpoch(5))
    )
    stopped = replace(LEADS, seq=1, to_state="stopped", partition_epoch=None, leader=None, controller_epoch=None)
    # The stop has no partition epoch: without its cause it would stand beside the role of long ago.
    assert [line.record for line in story([stopped, role, ELECTED, first])] == [first, role, ELECTED, stopped]


def test_a_role_taken_again_for_the_next_controller_stands_after_that_controller_began() -> None:
    loaded = replace(ELECTED, kind=Kind.LOADED, node="controller-1002", seq=0, controller_epoch=ControllerEpoch(6))
    again = replace(LEADS, cause=Cause("Reelect", 1, ControllerId(1002), ControllerEpoch(6)))
    assert [line.record for line in story([again, loaded, ELECTED])] == [ELECTED, loaded, again]


def test_a_granted_isr_stands_after_the_event_that_granted_it_though_partition_epochs_come_again() -> None:
    asked = replace(ELECTED, kind=Kind.ISR, from_state=None, to_state=None, cause=Cause("AlterPartitionReceived", 21))
    # A topic without an id was deleted and created anew: both have had this partition epoch.
    before = replace(asked, seq=4, cause=Cause("AlterPartitionReceived", 19))
    after = replace(asked, seq=5)
    granted = replace(
        LEADS, cause=Cause(ISR_GRANTED, 21, ControllerId(1001), ControllerEpoch(5)), controller_epoch=None
    )
    lines = story([granted, after, before])
    assert [line.record for line in lines] == [before, after, granted]
    call = CALL_TEXT.replace("ElectLeaders", "AlterPartition")
    assert lines[-1].message == f"broker 2 leads on in epoch 4, in sync [1, 2]: {call}"


def test_an_isr_that_a_leader_wrote_stands_before_the_controllers_record_of_it() -> None:
    """By its clock it was written later, and the topic's predecessor of the name has had that partition epoch, too."""
    took = replace(LEADS, seq=0, cause=Cause("ElectLeadersReceived", 17, ControllerId(1001), ControllerEpoch(5)))
    epoch = PartitionEpoch(10)
    written = replace(took, seq=1, partition_epoch=epoch, cause=Cause(ISR_WRITTEN), controller_epoch=None, at_ms=9_000)
    cause = Cause("IsrChangeNotification", 22)
    before = replace(ELECTED, seq=1, partition_epoch=epoch)
    read = replace(ELECTED, seq=9, kind=Kind.ISR, from_state=None, to_state=None, partition_epoch=epoch, cause=cause)
    lines = story([read, written, took, before, ELECTED])
    assert [line.record for line in lines] == [before, ELECTED, took, written, read]
    assert lines[3].message == "broker 2 leads on in epoch 4, in sync [1, 2]: IsrWritten"


def test_a_granted_isr_of_an_earlier_release_stands_after_the_partition_epoch_that_it_has() -> None:
    asked = replace(ELECTED, kind=Kind.ISR, from_state=None, to_state=None, cause=Cause("AlterPartitionReceived", 21))
    again = replace(asked, seq=4, partition_epoch=PartitionEpoch(10), cause=Cause("AlterPartitionReceived", 22))
    granted = replace(LEADS, cause=Cause(ISR_GRANTED), controller_epoch=None)
    lines = story([again, granted, asked])
    assert [line.record for line in lines] == [asked, granted, again]
    assert lines[1].message == "broker 2 leads on in epoch 4, in sync [1, 2]: AlterPartition"
