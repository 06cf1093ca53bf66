"""Drawn histories in which controllers record brokers and replicas that come and go, and what these mean by rows."""

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from msgspec.structs import replace

from audit.rules.elected_brokers import ELECTED_IS_LIVE, IN_SYNC_IS_LIVE, SHUTDOWN_LEAVES_ISR, UNCLEAN_PASSES_OVER
from audit.rules.unclean_elections import RECORDS_LOST, UNCLEAN_ELECTION
from cluster.model.broker import ControllerEpoch
from state_log.record import Cause, DecisionInputs, Kind, LoggedStateChange, StateChange, by_partition
from tests.audits.state_change_histories import REPLICAS, draw, stamped

Status = dict[tuple[object, ...], str]
"""By controller epoch and broker, and for replicas by topic and partition, too."""
Streams = list[list[LoggedStateChange]]
BROKER_RULES = {ELECTED_IS_LIVE, IN_SYNC_IS_LIVE, SHUTDOWN_LEAVES_ISR, UNCLEAN_PASSES_OVER}
_LIVE = {"live", "changed", "bounced"}


def with_brokers(seed: int) -> tuple[Streams, Random]:
    """The records of each incarnation: controllers' ones with what happens to brokers between them."""
    random = Random(seed)
    cluster = draw(seed, random.randrange(5, 80), random.randrange(1, 4))
    for (node, incarnation), changes in cluster.logs.items():
        if node.startswith("controller-"):
            cluster.logs[node, incarnation] = [each for change in changes for each in _surrounded(change, random)]
    return [stream for stream in stamped(cluster.logs) if stream], random


def _surrounded(change: StateChange, random: Random) -> Iterator[StateChange]:
    if change.kind is Kind.CONTROLLER and random.random() < 0.7:
        yield replace(change, inputs=DecisionInputs(live=tuple(random.sample(REPLICAS, random.randrange(4)))))
    elif change.kind is Kind.PARTITION and change.reason == "Reassign" and random.random() < 0.3:
        yield replace(change, reason="ControlledShutdown")
    else:
        yield change
    if random.random() < 0.3:
        yield _status(random, change.controller_epoch, change if change.partition is not None else None)


def _status(random: Random, epoch: ControllerEpoch | None, of: StateChange | None) -> StateChange:
    common = {"cause": Cause("BrokerChange", 1), "controller_epoch": epoch, "broker": random.choice(REPLICAS)}
    if of is not None and random.random() < 0.4:
        state = random.choice(["OfflineReplica", "OnlineReplica", "NonExistentReplica"])
        return StateChange(kind=Kind.REPLICA, topic=of.topic, partition=of.partition, to_state=state, **common)  # type: ignore[arg-type]
    state = random.choice(["live", "changed", "bounced", "shutting_down", "dead"])
    return StateChange(kind=Kind.BROKER, to_state=state, **common)  # type: ignore[arg-type]


def found_by_rows(streams: Streams, unclean: Iterable[Sequence[str]]) -> set[tuple[str, str]]:
    """(rule, record) of what each controller did against what it had recorded, row by row.

    `unclean`: the records of the state before each unclean election, and of the election.
    """
    found, known, records = set(), dict[str, Status](), dict[str, LoggedStateChange]()
    for stream in streams:
        status: Status = {}
        for record in stream:
            records |= {part.reference: part for _, part in by_partition(record)}
            known[record.reference] = dict(status)
            found |= {(rule, record.reference) for rule in _violated(record, status)}
            _remember(record, status)
    for before, election in unclean:
        own, status, isr = records[election], known[election], records[before].isr or ()
        if any(_is_live(own, broker, status) for broker in isr if broker != records[before].leader):
            found.add((UNCLEAN_PASSES_OVER, election))
    return found


def _violated(record: LoggedStateChange, status: Status) -> Iterator[str]:
    isr = [status.get((record.controller_epoch, broker)) for broker in record.isr or ()]
    if record.kind is Kind.PARTITION and record.to_state == "OnlinePartition" and (record.leader or 0) >= 0:
        leader = status.get((record.controller_epoch, record.leader))
        replica = status.get((record.controller_epoch, record.leader, record.topic, record.partition))
        if leader in {"dead", "shutting_down"} or replica == "OfflineReplica":
            yield ELECTED_IS_LIVE
        if record.reason == "ControlledShutdown" and "shutting_down" in isr:
            yield SHUTDOWN_LEAVES_ISR
    if record.kind is Kind.ISR and (record.reason or "").startswith("asked by ") and {"dead", "shutting_down"} & {*isr}:
        yield IN_SYNC_IS_LIVE


def _is_live(record: LoggedStateChange, broker: int, status: Status) -> bool:
    replica = status.get((record.controller_epoch, broker, record.topic, record.partition))
    return status.get((record.controller_epoch, broker)) in _LIVE and replica != "OfflineReplica"


def _remember(record: LoggedStateChange, status: Status) -> None:
    epoch, broker, state = record.controller_epoch, record.broker, record.to_state or ""
    if record.kind is Kind.BROKER:
        status[epoch, broker] = state
    elif record.kind is Kind.REPLICA and state in {"OfflineReplica", "OnlineReplica", "NonExistentReplica"}:
        status[epoch, broker, record.topic, record.partition] = state
    for live in (record.inputs and record.inputs.live) or ():
        status[epoch, live] = "live"


def unclean_pairs(findings: Iterable[tuple[str, tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """The records of the states before and at each unclean election. `findings`: rule and records."""
    return [records[:2] for rule, records in findings if rule in {UNCLEAN_ELECTION, RECORDS_LOST}]
