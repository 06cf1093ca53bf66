"""The cases of `klamm bench control-plane`, in the order in which they run on one cluster.

Each brings the cluster into the state that it needs, so that any of them can run alone; what that takes is not counted.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from benchmarks.control_plane_round import Round, last_acknowledged, last_written
from benchmarks.processes import failover_phases
from benchmarks.report import CaseRun
from benchmarks.stub_agents import Received
from cluster.model.broker import BrokerEpoch, BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import ControlledShutdownRequest
from cluster.requests.elections import PREFERRED, ElectLeadersRequest
from cluster.requests.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from cluster.requests.topics import DeleteTopicsRequest, TopicToDelete
from cluster.znodes.paths import CONTROLLER, topic_path
from cluster.znodes.topics import encode_topic
from cluster.zookeeper.port import Create

REASSIGNED: Final = 10_000
DELETED: Final = 2_000

Found = dict[str, CaseRun]
Replicas = Mapping[TopicPartition, tuple[BrokerId, ...]]


class RefusedError(Exception):
    """The controller refused what a case asked for."""


async def failover(r: Round) -> Found:
    """A controller process that has just started is elected."""
    if r.is_started:
        return {}
    return {"failover": await _failover(r, r.start_controller)}


async def failover_standby(r: Round) -> Found:
    """The active controller is killed, and a process that stood by is elected."""
    await r.need_controller()
    standby = await r.warm_standby()
    found = await _failover(r, r.kill_controller)
    return {"failover-standby": replace(found, phases=found.phases | standby)}


async def failover_warm(r: Round) -> Found:
    """The controller is elected again."""
    await r.need_controller()
    await r.begin()
    return {"failover-warm": await _failover(r, r.resign_controller)}


async def failover_one_dead(r: Round) -> Found:
    """The controller is elected again, while one agent is dead."""
    await r.need_victim(alive=False)
    await r.begin()
    return {"failover-one-dead": await _failover(r, r.resign_controller)}


async def _failover(r: Round, provoke: Callable[[], Awaitable[None]]) -> CaseRun:
    """Measure from the creation of /controller until every agent has acknowledged all of its partitions."""
    before = await r.zookeeper.get(CONTROLLER)
    await provoke()
    elected = await r.elected_after(0 if before is None else before.stat.czxid)
    received = await r.until_idle(r.everyone_received)
    phases = failover_phases(await r.controller.metrics())
    return await r.case(last_acknowledged(received) - elected.ctime, phases, received)


async def agent_death(r: Round) -> Found:
    """Kill one agent: until every partition that it led has another leader; until no ISR of more than one has it."""
    await r.need_victim(alive=True)
    before = await r.partitions()
    led = {tp for tp, p in before.items() if p.leadership is not None and p.leadership.leader == r.victim}
    await r.begin()
    since_ms = await r.drop_victim()
    received = await r.until_idle(r.nothing_names_the_victim)
    after = await r.partitions()
    acknowledged_at_ms = await r.stubs.new_leaders_at_ms()
    moved = {
        "elections written": last_written(after[tp] for tp in led) - since_ms,
        "new leaders acknowledged": max((acknowledged_at_ms[str(tp)] for tp in led), default=since_ms) - since_ms,
    }
    shrunk = {
        "shrinks written": last_written(after[tp] for tp in after if after[tp] != before[tp]) - since_ms,
        "shrinks acknowledged": last_acknowledged(received) - since_ms,
    }
    # Both figures have one cause, so both include all of its costs.
    second = await r.case(max(shrunk.values()), shrunk, received)
    return {
        "agent-death-leaders-moved": replace(second, ms=max(moved.values()), phases=moved),
        "agent-death-isr-shrunk": second,
    }


async def agent_return(r: Round) -> Found:
    """It registers again: until all brokers have its metadata and it has all of its partitions."""
    await r.need_victim(alive=False)
    await r.begin()
    registered = await r.register_victim()
    received = await r.until_idle(r.it_was_received)
    return {"agent-return": await r.case(last_acknowledged(received) - registered.ctime, {}, received)}


async def alter_partition(r: Round) -> Found:
    """The agents propose the ISRs with the one that is back, as if it had caught up with all of them at once."""
    await r.need_victim(alive=False)
    await r.need_victim(alive=True)
    await r.begin()

    async def is_in_every_isr(_: Sequence[Received]) -> bool:
        states = await r.partitions()
        return all(
            r.victim not in p.replicas or (p.leadership and r.victim in p.leadership.isr) for p in states.values()
        )

    await r.stubs.join([r.victim])
    received = await r.until_idle(is_in_every_isr)
    await r.stubs.join(())
    proposed = await r.stubs.proposed()
    if proposed.refused:
        raise RefusedError(f"{proposed.refused} of {proposed.partitions} proposed ISRs were refused")
    answered = proposed.last_answered_at_ms - proposed.first_sent_at_ms
    figures = {
        "AlterPartition requests": proposed.requests,
        "ISRs proposed": proposed.partitions,
        "ISRs a second": proposed.partitions / max(answered, 1) * 1000,
    }
    run = await r.case(
        last_acknowledged(received) - proposed.first_sent_at_ms, {"answered": answered}, received, figures
    )
    return {"alter-partition": run}


async def controlled_shutdown(r: Round) -> Found:
    """An agent asks to be shut down: until it is in no ISR, and all others know."""
    await _need_preferred_leaders(r)
    before = await r.partitions()
    led = [tp for tp, p in before.items() if p.leadership is not None and p.leadership.leader == r.victim]
    epoch = BrokerEpoch((await r.registration_of_victim()).czxid)
    since_ms = await r.begin()
    response = await r.ask(ControlledShutdownRequest(r.victim, epoch), as_broker=True)
    answered_at_ms = r.now_ms()
    _require(response.error_code)
    # It has been told to stop its replicas, which are still assigned.
    received = await r.until_idle(r.nothing_names_the_victim, without=r.victim)
    acknowledged_at_ms = await r.stubs.new_leaders_at_ms()
    after = await r.partitions()
    phases = {
        "answered": answered_at_ms - since_ms,
        "states written": last_written(after[tp] for tp in after if after[tp] != before[tp]) - since_ms,
        "new leaders acknowledged": max((acknowledged_at_ms[str(tp)] for tp in led), default=since_ms) - since_ms,
    }
    found = await r.case(last_acknowledged(received) - since_ms, phases, received, {"partitions led": len(led)})
    # Nothing else is asked of one that is shutting down.
    await r.drop_victim()
    await r.until_idle(r.nothing_names_the_victim)
    return {"controlled-shutdown": found}


async def preferred_election(r: Round) -> Found:
    """ElectLeaders for all partitions, of which none is led as preferred."""
    await _need_preferred_leaders(r)
    before = {tp: p.replicas for tp, p in (await r.partitions()).items()}
    others_preferred = {tp: (*replicas[1:], replicas[0]) for tp, replicas in before.items()}
    await _reassign(r, others_preferred)
    await r.until_idle(_assigned(r, others_preferred))
    since_ms = await r.begin()
    elected = await _elect_preferred(r)
    answered_at_ms = r.now_ms()
    received = await r.until_idle(_all_lead_as_preferred(r))
    phases = {
        "elections written": last_written((await r.partitions()).values()) - since_ms,
        "answered": answered_at_ms - since_ms,
    }
    figures = {"leaders elected": elected}
    return {"preferred-election": await r.case(last_acknowledged(received) - since_ms, phases, received, figures)}


async def _need_preferred_leaders(r: Round) -> None:
    """See to it that every replica is in its ISR, and the first one of each partition leads."""
    await r.need_whole_isrs()
    if not await _all_lead_as_preferred(r)(()):
        await _elect_preferred(r)
        await r.until_idle(_all_lead_as_preferred(r))


async def _elect_preferred(r: Round) -> int:
    """Elect the preferred leaders of all partitions; returns how many were elected."""
    response = await r.ask(ElectLeadersRequest(PREFERRED, timeout_ms=600_000))
    results = [result for topic in response.results for result in topic.partition_result]
    for result in results:
        _require(result.error_code)
    return len(results)


def _all_lead_as_preferred(r: Round) -> Callable[[Sequence[Received]], Awaitable[bool]]:
    async def all_lead(_: Sequence[Received]) -> bool:
        states = await r.partitions()
        return all(p.leadership and p.leadership.leader == p.replicas[0] for p in states.values())

    return all_lead


async def reassignment(r: Round) -> Found:
    """Another broker gets the last replica of up to 10,000 partitions, and has it at once."""
    await r.need_whole_isrs()
    targets: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for tp, partition in list((await r.partitions()).items())[:REASSIGNED]:
        free = [broker for broker in r.live if broker not in partition.replicas]
        if not free:
            return {}
        targets[tp] = (*partition.replicas[:-1], free[tp.partition % len(free)])
    await r.stubs.join(r.live)
    since_ms = await r.begin()
    await _reassign(r, targets)
    answered_at_ms = r.now_ms()
    received = await r.until_idle(_assigned(r, targets))
    await r.stubs.join(())
    proposed = await r.stubs.proposed()
    figures = {"partitions moved": len(targets), "AlterPartition requests": proposed.requests}
    phases = {
        "recorded, answered": answered_at_ms - since_ms,
        "states written": last_written((await r.partitions()).values()) - since_ms,
    }
    return {"reassignment": await r.case(last_acknowledged(received) - since_ms, phases, received, figures)}


async def _reassign(r: Round, targets: Replicas) -> None:
    """Reassign partitions, in as many calls as the bound on the replicas of one call needs."""
    left = iter(targets.items())
    while some := list(islice(left, REASSIGNED)):
        of_topics: dict[str, list[ReassignablePartition]] = {}
        for tp, replicas in some:
            of_topics.setdefault(tp.topic, []).append(ReassignablePartition(tp.partition, replicas))
        topics = tuple(ReassignableTopic(topic, tuple(moves)) for topic, moves in of_topics.items())
        response = await r.ask(AlterPartitionReassignmentsRequest(topics, timeout_ms=600_000))
        for result in (result for topic in response.responses for result in topic.partitions):
            _require(result.error_code)


def _assigned(r: Round, targets: Replicas) -> Callable[[Sequence[Received]], Awaitable[bool]]:
    async def are_assigned(_: Sequence[Received]) -> bool:
        found = await r.partitions()
        return all(found[tp].replicas == replicas and not found[tp].is_moving for tp, replicas in targets.items())

    return are_assigned


async def topic_creation(r: Round) -> Found:
    """Create one topic with as many partitions as all others together."""
    await r.need_controller()
    shape = replace(r.shape, topics=1, partitions_per_topic=r.shape.partitions, prefix="created")
    topic, assignment = shape.topic(0), shape.assignment(0)
    await r.begin()
    await r.zookeeper.multi([Create(topic_path(topic), encode_topic(assignment))])
    created = await r.zookeeper.exists(topic_path(topic))
    assert created is not None, "it was just created"

    async def every_partition_has_a_leader(_: Sequence[Received]) -> bool:
        return all(p.leadership is not None for p in (await r.partitions()).values())

    received = await r.until_idle(every_partition_has_a_leader)
    written = last_written(p for tp, p in (await r.partitions()).items() if tp.topic == topic)
    phases = {"states written": written - created.ctime}
    return {"topic-creation": await r.case(last_acknowledged(received) - created.ctime, phases, received)}


async def topic_deletion(r: Round) -> Found:
    """DeleteTopics for up to 2,000 topics: until their znodes are gone, and all agents know."""
    await r.need_victim(alive=True)
    topics = [r.shape.topic(index) for index in range(min(DELETED, r.shape.topics))]
    since_ms = await r.begin()
    response = await r.ask(DeleteTopicsRequest(tuple(TopicToDelete(topic) for topic in topics), timeout_ms=600_000))
    answered_at_ms = r.now_ms()
    for result in response.responses:
        _require(result.error_code)

    async def they_are_gone(_: Sequence[Received]) -> bool:
        return not any(await r.zookeeper.get_many([topic_path(topic) for topic in topics]))

    received = await r.until_idle(they_are_gone)
    phases = {"znodes deleted, answered": answered_at_ms - since_ms}
    figures = {"topics": len(topics)}
    ms = max(last_acknowledged(received), answered_at_ms) - since_ms
    return {"topic-deletion": await r.case(ms, phases, received, figures)}


def _require(code: ErrorCode) -> None:
    if code is not ErrorCode.NONE:
        raise RefusedError(f"the controller answered {code.name}")


CASES: Final[Mapping[str, Callable[[Round], Awaitable[Found]]]] = {
    "failover": failover,
    "failover-standby": failover_standby,
    "failover-warm": failover_warm,
    "agent-death": agent_death,
    "failover-one-dead": failover_one_dead,
    "agent-return": agent_return,
    "alter-partition": alter_partition,
    "controlled-shutdown": controlled_shutdown,
    "preferred-election": preferred_election,
    "reassignment": reassignment,
    "topic-creation": topic_creation,
    "topic-deletion": topic_deletion,
}
"""The name that selects a case -> what runs it; it may have several figures."""
