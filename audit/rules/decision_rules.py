"""Rules on single records about what controllers decide and what brokers do, over columns.

Where columns show a violation, `state_log.decision_rules` has the words for it: the two always agree.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy
import pyarrow

from audit.records.columns import RECORDS
from audit.records.findings import AuditFinding
from audit.records.vectors import ABSENT, BrokerLists, Flags, begins_with, is_one_of, longs, ranked
from audit.rules.record_rules import findings_of, of_partitions
from audit.rules.rule import BucketBatch, Explanation, Rule
from cluster.model.broker import NO_LEADER
from cluster.model.state_machines import PartitionState
from state_log.decision_rules import (
    ASKED_BY,
    BEGINS_AT_ZERO,
    BROKER_NODE,
    BROKERS_IN_RANGE,
    ELECTION_NAMES_LEADER,
    EPOCHS_IN_RANGE,
    FIRST_CONTROLLER_EPOCH,
    FIRST_IN_SYNC,
    FIRST_IN_SYNC_ELECTED,
    GRANTED_TO_LEADER,
    LEADER_DOES_NOT_TRUNCATE,
    LEAVES_ISR,
    MIN_ISR_IN_RANGE,
    OFFSETS,
    OFFSETS_IN_RANGE,
    PREFERRED,
    PREFERRED_ELECTED,
    RECORD_OF_OWN_BROKER,
    REMOVED_LEAVES_ISR,
    ROLE_FITS_LEADER,
    ROLE_OF_REPLICA,
    STATE_NOT_FROM_LATER_EPOCH,
    TAKEN_ROLES,
    TRUNCATION_GOES_BACK,
)
from state_log.record import Kind


def _check(batch: BucketBatch) -> list[AuditFinding]:
    rows = of_partitions(batch)
    found: dict[str, Flags] = {}
    for kinds, names, violations in _CHECKS:
        places = numpy.flatnonzero(is_one_of(rows["kind"], [kind.value for kind in kinds]))
        for rule, violated in violations(rows.select(names).take(pyarrow.array(places))).items():
            if violated.any():
                found[rule] = numpy.zeros(rows.num_rows, bool)
                found[rule][places[violated]] = True
    return findings_of(batch, found)


def _of_elections(rows: pyarrow.Table) -> dict[str, Flags]:
    """`rows`: transitions of partitions."""
    leader, isr, replicas = longs(rows["leader"]), BrokerLists(rows["isr"]), BrokerLists(rows["replicas"])
    elects = is_one_of(rows["to_state"], [PartitionState.ONLINE.value]) & (leader != ABSENT)
    preferred, first = replicas.first(), replicas.first_within(isr)
    initial = elects & is_one_of(rows["from_state"], [PartitionState.NEW.value])
    begins = (longs(rows["leader_epoch"]) <= 0) & (longs(rows["partition_epoch"]) <= 0)
    asked = elects & is_one_of(rows["reason"], [PREFERRED])
    by_order = elects & is_one_of(rows["reason"], sorted(FIRST_IN_SYNC)) & isr.contain(leader)
    return {
        PREFERRED_ELECTED: asked & (preferred != ABSENT) & (leader != preferred),
        FIRST_IN_SYNC_ELECTED: by_order & (first != ABSENT) & (leader != first),
        ELECTION_NAMES_LEADER: elects & (leader == NO_LEADER),
        BEGINS_AT_ZERO: initial & ~begins,
    }


def _of_isrs(rows: pyarrow.Table) -> dict[str, Flags]:
    """`rows`: ISRs that were written without a transition."""
    leader, broker, isr = longs(rows["leader"]), longs(rows["broker"]), BrokerLists(rows["isr"])
    asked = (broker != ABSENT) & (leader != ABSENT) & begins_with(rows["reason"], ASKED_BY)
    leaves = (broker != ABSENT) & isr.present & begins_with(rows["reason"], LEAVES_ISR)
    return {
        GRANTED_TO_LEADER: asked & (broker != leader),
        REMOVED_LEAVES_ISR: leaves & ((leader == broker) | isr.contain(broker) & (leader >= 0)),
    }


def _of_numbers(rows: pyarrow.Table) -> dict[str, Flags]:
    """`rows`: those of both sorts."""
    least = {"controller_epoch": FIRST_CONTROLLER_EPOCH, "leader_epoch": 0, "partition_epoch": 0}
    return {
        EPOCHS_IN_RANGE: numpy.logical_or.reduce([_below(rows, name, number) for name, number in least.items()]),
        BROKERS_IN_RANGE: _below(rows, "leader", NO_LEADER) | BrokerLists(rows["isr"]).have_below(0),
    }


def _of_roles(rows: pyarrow.Table) -> dict[str, Flags]:
    leader, broker, replicas = longs(rows["leader"]), longs(rows["broker"]), BrokerLists(rows["replicas"])
    taken = is_one_of(rows["to_state"], TAKEN_ROLES) & (broker != ABSENT)
    leads = is_one_of(rows["to_state"], [TAKEN_ROLES[0]])
    wrote, sent = longs(rows["controller_epoch"]), longs(rows["cause_controller_epoch"])
    return {
        ROLE_FITS_LEADER: taken & (leader >= 0) & (leads != (leader == broker)),
        ROLE_OF_REPLICA: taken & replicas.present & ~replicas.contain(broker),
        STATE_NOT_FROM_LATER_EPOCH: (sent != ABSENT) & (wrote > sent),
        MIN_ISR_IN_RANGE: _below(rows, "min_insync_replicas", 1),
    }


def _of_agents(rows: pyarrow.Table) -> dict[str, Flags]:
    """`rows`: roles and truncations."""
    broker = longs(rows["broker"])
    rank, nodes = ranked(rows["node"])
    # The last one is for rows without a node, whose rank is -1.
    own = numpy.array([*map(_broker_of, nodes), ABSENT], numpy.int64)[rank]
    return {RECORD_OF_OWN_BROKER: (broker != ABSENT) & (own != ABSENT) & (own != broker)}


def _of_truncations(rows: pyarrow.Table) -> dict[str, Flags]:
    begin, end, broker = (longs(rows[name]) for name in ("from_offset", "to_offset", "broker"))
    return {
        LEADER_DOES_NOT_TRUNCATE: (broker != ABSENT) & (broker == longs(rows["leader"])),
        TRUNCATION_GOES_BACK: (begin != ABSENT) & (end > begin),
    }


def _of_offsets(rows: pyarrow.Table) -> dict[str, Flags]:
    return {OFFSETS_IN_RANGE: numpy.logical_or.reduce([_below(rows, name, 0) for name in OFFSETS])}


_CHECKS: Final[tuple[tuple[tuple[Kind, ...], tuple[str, ...], Callable[[pyarrow.Table], dict[str, Flags]]], ...]] = (
    (
        (Kind.PARTITION,),
        ("leader", "isr", "replicas", "from_state", "to_state", "leader_epoch", "partition_epoch", "reason"),
        _of_elections,
    ),
    ((Kind.ISR,), ("leader", "broker", "isr", "reason"), _of_isrs),
    (
        (Kind.PARTITION, Kind.ISR),
        ("controller_epoch", "leader_epoch", "partition_epoch", "leader", "isr"),
        _of_numbers,
    ),
    (
        (Kind.ROLE,),
        (
            "leader",
            "broker",
            "replicas",
            "to_state",
            "controller_epoch",
            "cause_controller_epoch",
            "min_insync_replicas",
        ),
        _of_roles,
    ),
    ((Kind.ROLE, Kind.TRUNCATION), ("broker", "node"), _of_agents),
    ((Kind.TRUNCATION,), ("from_offset", "to_offset", "broker", "leader"), _of_truncations),
    (tuple(Kind), OFFSETS, _of_offsets),
)
"""Kinds of records, the columns of these that are needed, and what finds the violations: by rule, aligned with them."""


def _broker_of(node: str) -> int:
    """The broker that a node is; ABSENT if it is none, and an impossible id if its name has no number."""
    _, found, own = node.rpartition(BROKER_NODE)
    if not found:
        return ABSENT
    return int(own) if _NUMBER.fullmatch(own) and str(int(own)) == own else _NO_BROKER


def _below(rows: pyarrow.Table, name: str, least: int) -> Flags:
    """Whether a record has a number below this one in a column; aligned with the rows."""
    if rows[name].null_count == rows.num_rows:
        return numpy.zeros(rows.num_rows, bool)
    values = longs(rows[name])
    return numpy.asarray((values != ABSENT) & (values < least), bool)


_NUMBER: Final = re.compile(r"-?[0-9]{1,11}")
_NO_BROKER: Final = -(1 << 39)
"""Another number than any broker id, and than ABSENT."""
_CONTROLLER: Final = "the controller's log near the record, and the version of klamm that it ran"
_BROKER: Final = "the broker's log near the record, and which process wrote it"
_NO_REASON: Final = "the log does not say why a leader was elected"
_NO_OFFSETS: Final = "truncations are in server.log"
_error = partial(Explanation, "error")
_critical = partial(Explanation, "critical")
RULE: Final = Rule(
    explains={
        PREFERRED_ELECTED: _error(
            "An election of the preferred replica elects the first one of the assignment.",
            "who asked for the election, and the assignment at that time",
            _NO_REASON,
        ),
        FIRST_IN_SYNC_ELECTED: _error(
            "A new partition, and one without a leader, is led by the first assigned replica of its new ISR.",
            "whether the replicas before it were live: the controller had another view of them, or a defect",
            _NO_REASON,
        ),
        ELECTION_NAMES_LEADER: _error("A partition that goes online has a leader.", _CONTROLLER, "INFO"),
        BEGINS_AT_ZERO: _error(
            "The first state of a partition has leader epoch 0 and partition epoch 0.",
            "whether a state znode was there before the topic was created: left by a deletion, or restored",
            "INFO",
        ),
        GRANTED_TO_LEADER: _critical(
            "The controller grants a change of the ISR to the leader alone.",
            "both brokers' logs: each may take itself for the leader",
            "the log does not say who asked for an ISR",
        ),
        REMOVED_LEAVES_ISR: _error(
            "A replica that leaves the ISR does not lead, and is in the new ISR only if nobody leads.",
            _CONTROLLER,
            "INFO",
        ),
        EPOCHS_IN_RANGE: _error(
            "Controller epochs that are written begin at 1, leader epochs and partition epochs at 0.",
            "the state znode of the partition, and who wrote it",
            "INFO",
        ),
        BROKERS_IN_RANGE: _error(
            "Leaders and members of an ISR have ids of 0 or more; -1 is no leader.",
            "the state znode of the partition, and who wrote it",
            "INFO",
        ),
        ROLE_FITS_LEADER: _critical(
            "A broker becomes leader exactly where the state names it as the leader.",
            "the broker's log: a follower of itself never catches up, and a leader that is none takes records",
            "INFO",
        ),
        ROLE_OF_REPLICA: _error(
            "A broker takes a role only in partitions that are assigned to it.",
            "the assignment, and the reassignments of the partition",
            "the lines of roles do not name the replicas",
        ),
        RECORD_OF_OWN_BROKER: _error(
            "The log of a broker records what this broker did.",
            "`broker.id` of the process, and whether a data folder was copied to another host",
            "INFO",
        ),
        STATE_NOT_FROM_LATER_EPOCH: _critical(
            "No request has a state that a later controller than its sender wrote.",
            "the logs of both controllers: the earlier one was not fenced, or ZooKeeper was restored",
            "the lines of roles do not name the controller that wrote the state",
        ),
        MIN_ISR_IN_RANGE: _error(
            "The `min.insync.replicas` that a leader goes by is 1 or more.",
            "the topic's config znode, and the broker's default",
            "the log does not say what `min.insync.replicas` is",
        ),
        LEADER_DOES_NOT_TRUNCATE: _critical(
            "A broker does not truncate its log to its own as the leader's.",
            "the broker's log: which records were between the offsets, and whether its followers have them",
            _NO_OFFSETS,
        ),
        TRUNCATION_GOES_BACK: _critical(
            "A truncation does not make a log longer.",
            _BROKER,
            _NO_OFFSETS,
        ),
        OFFSETS_IN_RANGE: _error("Offsets and durations in records are 0 or more.", _BROKER, "INFO"),
    },
    reads=tuple(RECORDS.names),
    check=_check,
)
