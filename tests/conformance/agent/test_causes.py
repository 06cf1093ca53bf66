"""What an agent's records name as their cause: the controller's event behind the request, or an event of its own."""

import asyncio

from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerEpoch, ControllerId
from cluster.requests.control import RequestCause
from state_log.record import Cause, Kind, StateChange
from tests.brokers.agents import AgentProcess, AgentWorld, until, virtually

ELECTED = RequestCause(ControllerId(1001), ControllerEpoch(5), "ElectLeadersReceived", 17)
MOVED = RequestCause(ControllerId(1001), ControllerEpoch(5), "BrokerChange", 18)


def as_recorded(cause: RequestCause) -> Cause:
    return Cause(cause.event, cause.id, cause.controller_id, cause.controller_epoch)


def records(process: AgentProcess, kind: Kind) -> list[StateChange]:
    return [change for change in process.records.all if change.kind is kind]


@virtually
async def test_roles_and_ends_of_replicas_carry_the_controllers_event() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    world.causes = (ELECTED,)
    await world.create(2, [1, 2])
    world.causes = (MOVED,)
    await world.stop_replica(1)
    await world.stop_replica(1, delete=True)
    written = [(change.to_state, change.cause) for change in records(world.agents[1], Kind.ROLE)]
    assert written == [
        ("follower", as_recorded(ELECTED)),
        ("stopped", as_recorded(MOVED)),
        ("deleted", as_recorded(MOVED)),
    ]
    assert [change.cause for change in records(world.agents[2], Kind.ROLE)] == [as_recorded(ELECTED)]
    await world.stop()


@virtually
async def test_of_several_events_in_one_request_the_newest_is_the_cause() -> None:
    world = AgentWorld()
    await world.start(1)
    world.causes = (ELECTED, MOVED)
    await world.create(1, [1])
    [role] = records(world.agents[1], Kind.ROLE)
    assert role.cause == as_recorded(MOVED)
    await world.stop()


@virtually
async def test_the_name_of_an_event_is_cut_before_it_stands_in_every_record() -> None:
    world = AgentWorld()
    await world.start(1)
    world.causes = (replace(ELECTED, event="x" * 30_000),)
    await world.create(1, [1])
    [role] = records(world.agents[1], Kind.ROLE)
    assert role.cause is not None
    assert role.cause.event == "x" * 64
    await world.stop()


@virtually
async def test_a_request_without_events_is_a_cause_by_itself() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    await world.stop_replica(1)
    own = [change.cause for change in records(world.agents[1], Kind.ROLE)]
    assert [(cause.event, cause.controller, cause.controller_epoch) for cause in own if cause is not None] == [
        ("LeaderAndIsr", None, None),
        ("StopReplica", None, None),
    ]
    await world.stop()


@virtually
async def test_a_truncation_names_the_event_that_made_the_replica_follow_and_its_offsets() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    follower = world.agents[1]
    await world.create(1, [1, 2])
    # Nobody else has these records when broker 2 is elected.
    await world.agents[2].crash()
    await follower.produce(9)
    await asyncio.sleep(10)
    await world.agents[2].start()
    world.causes = (ELECTED,)
    world.decide(2, [1, 2])
    await world.update_metadata()
    await world.tell(2, 1)
    await until(lambda: bool(records(follower, Kind.TRUNCATION)))
    [cut] = records(follower, Kind.TRUNCATION)
    assert cut.cause == as_recorded(ELECTED)
    assert (cut.from_offset, cut.to_offset, cut.high_watermark) == (9, 0, 0)
    await world.stop()


@virtually
async def test_a_log_begun_anew_beyond_its_end_names_what_the_leader_said() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(2, [1, 2])
    leader, follower = world.agents[2], world.agents[1]
    log = leader.partition().log
    assert log is not None
    await asyncio.sleep(1)
    log.truncate_fully_and_start_at(40)  # type: ignore[arg-type]
    await until(lambda: bool(records(follower, Kind.TRUNCATION)))
    cut = records(follower, Kind.TRUNCATION)[0]
    assert (cut.cause, cut.from_offset, cut.to_offset) == (Cause("OffsetOutOfRange"), 0, 40)
    await world.stop()


@virtually
async def test_a_registration_names_what_made_it_necessary() -> None:
    world = AgentWorld()
    await world.start(1)
    world.agents[1].zookeeper.expire()
    await until(lambda: len(records(world.agents[1], Kind.REGISTRATION)) == 3, within_s=60)
    assert [(change.to_state, change.cause) for change in records(world.agents[1], Kind.REGISTRATION)] == [
        ("registered", Cause("Startup")),
        ("expired", Cause("SessionExpired")),
        ("registered", Cause("SessionExpired")),
    ]
    assert {change.broker for change in records(world.agents[1], Kind.REGISTRATION)} == {BrokerId(1)}
    await world.stop()
