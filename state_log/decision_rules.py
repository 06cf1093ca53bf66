"""Rules on single records about what controllers decide and what brokers do: each function returns the message of a
violation, or None. They are part of `state_log.invariants.RECORD_RULES`.

Source: Kafka PartitionLeaderElectionAlgorithms, ZkPartitionStateMachine, ZkReplicaStateMachine.doRemoveReplicasFromIsr,
ReplicaManager; controller rules PS-20, PS-23, IS-9; agent rule P10.
"""

from collections.abc import Callable, Mapping
from typing import Final

from cluster.model.broker import NO_LEADER
from cluster.model.state_machines import PartitionState
from state_log.record import Kind, LoggedStateChange

PREFERRED_ELECTED: Final = "preferred-replica-elected"
FIRST_IN_SYNC_ELECTED: Final = "first-in-sync-elected"
ELECTION_NAMES_LEADER: Final = "election-names-leader"
BEGINS_AT_ZERO: Final = "partition-begins-at-zero"
GRANTED_TO_LEADER: Final = "isr-granted-to-leader"
REMOVED_LEAVES_ISR: Final = "removed-replica-leaves-isr"
EPOCHS_IN_RANGE: Final = "epochs-in-range"
BROKERS_IN_RANGE: Final = "brokers-in-range"
ROLE_FITS_LEADER: Final = "role-fits-leader"
ROLE_OF_REPLICA: Final = "role-of-replica"
RECORD_OF_OWN_BROKER: Final = "record-of-own-broker"
STATE_NOT_FROM_LATER_EPOCH: Final = "state-not-from-later-epoch"
MIN_ISR_IN_RANGE: Final = "min-isr-in-range"
LEADER_DOES_NOT_TRUNCATE: Final = "leader-does-not-truncate"
TRUNCATION_GOES_BACK: Final = "truncation-goes-back"
OFFSETS_IN_RANGE: Final = "offsets-in-range"

PREFERRED: Final = "Preferred"
FIRST_IN_SYNC: Final = frozenset({"Offline", "initialised"})
"""Reasons of elections that take the first assigned replica of the new ISR."""
ASKED_BY: Final = "asked by "
"""How the reason of an ISR begins that a leader has asked for; `broker` is the one that asked."""
LEAVES_ISR: Final = "replica "
"""How the reason of an ISR begins that a replica leaves: one of `REMOVALS`, or as Kafka's log says it."""
REMOVALS: Final = frozenset({"replica offline", "replica removed"})
TAKEN_ROLES: Final = ("leader", "follower")
OFFSETS: Final = ("from_offset", "to_offset", "high_watermark", "log_start_offset", "log_end_offset", "silent_ms")
"""Numbers that are 0 or more; the last one is a time."""
BROKER_NODE: Final = "broker-"
FIRST_CONTROLLER_EPOCH: Final = 1
_ONLINE: Final = PartitionState.ONLINE.value


def _is_election(record: LoggedStateChange) -> bool:
    """Whether a controller has written who leads, with a transition of the partition."""
    return record.kind is Kind.PARTITION and record.to_state == _ONLINE and record.leader is not None


def _other_than_preferred(record: LoggedStateChange) -> str | None:
    if not _is_election(record) or record.reason != PREFERRED or not record.replicas:
        return None
    if record.leader == record.replicas[0]:
        return None
    return f"leader {record.leader} was elected as the preferred replica, which is {record.replicas[0]}"


def _later_than_first(record: LoggedStateChange) -> str | None:
    if not _is_election(record) or record.reason not in FIRST_IN_SYNC or record.replicas is None or record.isr is None:
        return None
    in_sync = [broker for broker in record.replicas if broker in record.isr]
    if not in_sync or record.leader == in_sync[0] or record.leader not in record.isr:
        return None
    return (
        f"leader {record.leader} was elected; of the replicas {list(record.replicas)} in the ISR {list(record.isr)} "
        f"the first is {in_sync[0]}"
    )


def _nobody_elected(record: LoggedStateChange) -> str | None:
    if not _is_election(record) or record.leader != NO_LEADER:
        return None
    return "the partition went online without a leader"


def _other_than_zero(record: LoggedStateChange) -> str | None:
    if not _is_election(record) or record.from_state != PartitionState.NEW:
        return None
    # A negative epoch is another rule's.
    if (record.leader_epoch or 0) <= 0 and (record.partition_epoch or 0) <= 0:
        return None
    return (
        f"the first state of the partition has leader epoch {record.leader_epoch} and partition epoch "
        f"{record.partition_epoch}"
    )


def _granted_to_another(record: LoggedStateChange) -> str | None:
    if record.kind is not Kind.ISR or record.broker is None or record.leader is None:
        return None
    if not (record.reason or "").startswith(ASKED_BY) or record.broker == record.leader:
        return None
    return f"an ISR was granted to broker {record.broker}, but the leader is {record.leader}"


def _removed_and_there(record: LoggedStateChange) -> str | None:
    if record.kind is not Kind.ISR or record.broker is None or record.isr is None:
        return None
    if not (record.reason or "").startswith(LEAVES_ISR):
        return None
    if record.leader == record.broker:
        return f"replica {record.broker} left the ISR and leads"
    # Where nobody is left to lead, the ISR stays for whoever returns first.
    if record.broker not in record.isr or record.leader is None or record.leader < 0:
        return None
    return f"replica {record.broker} left the ISR, and the ISR {list(record.isr)} has it"


def _impossible_epoch(record: LoggedStateChange) -> str | None:
    if record.kind not in {Kind.PARTITION, Kind.ISR}:
        return None
    shown = {
        name: value
        for name, value, least in (
            ("controller epoch", record.controller_epoch, FIRST_CONTROLLER_EPOCH),
            ("leader epoch", record.leader_epoch, 0),
            ("partition epoch", record.partition_epoch, 0),
        )
        if value is not None and value < least
    }
    return None if not shown else " and ".join(f"{name} {value}" for name, value in shown.items()) + " was written"


def _impossible_broker(record: LoggedStateChange) -> str | None:
    if record.kind not in {Kind.PARTITION, Kind.ISR}:
        return None
    members = [broker for broker in record.isr or () if broker < 0]
    if not members and (record.leader is None or record.leader >= NO_LEADER):
        return None
    return f"leader {record.leader} and ISR {list(record.isr or ())} name a broker that there cannot be"


def _other_role(record: LoggedStateChange) -> str | None:
    if record.kind is not Kind.ROLE or record.to_state not in TAKEN_ROLES:
        return None
    if record.leader is None or record.broker is None or record.leader < 0:
        return None
    if (record.to_state == TAKEN_ROLES[0]) == (record.leader == record.broker):
        return None
    return f"broker {record.broker} became {record.to_state} where the leader is {record.leader}"


def _role_of_another(record: LoggedStateChange) -> str | None:
    if record.kind is not Kind.ROLE or record.to_state not in TAKEN_ROLES or record.broker is None:
        return None
    if record.replicas is None or record.broker in record.replicas:
        return None
    return f"broker {record.broker} became {record.to_state}, but the replicas are {list(record.replicas)}"


def _of_another_broker(record: LoggedStateChange) -> str | None:
    if record.kind not in {Kind.ROLE, Kind.TRUNCATION} or record.broker is None:
        return None
    _, found, own = record.node.rpartition(BROKER_NODE)
    if not found or own == str(record.broker):
        return None
    return f"{record.node} recorded what broker {record.broker} did"


def _from_later_epoch(record: LoggedStateChange) -> str | None:
    if record.kind is not Kind.ROLE or record.cause is None:
        return None
    wrote, sent = record.controller_epoch, record.cause.controller_epoch
    if wrote is None or sent is None or wrote <= sent:
        return None
    return f"a request of controller epoch {sent} had a state that controller epoch {wrote} wrote"


def _impossible_minimum(record: LoggedStateChange) -> str | None:
    if record.kind is not Kind.ROLE or record.min_insync_replicas is None or record.min_insync_replicas > 0:
        return None
    return f"the leader took min.insync.replicas for {record.min_insync_replicas}"


def _leader_truncated(record: LoggedStateChange) -> str | None:
    if record.kind is not Kind.TRUNCATION or record.broker is None or record.leader != record.broker:
        return None
    return f"broker {record.broker} truncated its log in leader epoch {record.leader_epoch}, in which it leads"


def _truncated_forward(record: LoggedStateChange) -> str | None:
    if record.kind is not Kind.TRUNCATION or record.from_offset is None or record.to_offset is None:
        return None
    if record.to_offset <= record.from_offset:
        return None
    return f"the log was truncated from {record.from_offset} forward to {record.to_offset}"


def _negative_offset(record: LoggedStateChange) -> str | None:
    shown = [(name, value) for name in OFFSETS if (value := getattr(record, name)) is not None and value < 0]
    return ", ".join(f"{name} is {value}" for name, value in shown) or None


DECISION_RULES: Final[Mapping[str, Callable[[LoggedStateChange], str | None]]] = {
    PREFERRED_ELECTED: _other_than_preferred,
    FIRST_IN_SYNC_ELECTED: _later_than_first,
    ELECTION_NAMES_LEADER: _nobody_elected,
    BEGINS_AT_ZERO: _other_than_zero,
    GRANTED_TO_LEADER: _granted_to_another,
    REMOVED_LEAVES_ISR: _removed_and_there,
    EPOCHS_IN_RANGE: _impossible_epoch,
    BROKERS_IN_RANGE: _impossible_broker,
    ROLE_FITS_LEADER: _other_role,
    ROLE_OF_REPLICA: _role_of_another,
    RECORD_OF_OWN_BROKER: _of_another_broker,
    STATE_NOT_FROM_LATER_EPOCH: _from_later_epoch,
    MIN_ISR_IN_RANGE: _impossible_minimum,
    LEADER_DOES_NOT_TRUNCATE: _leader_truncated,
    TRUNCATION_GOES_BACK: _truncated_forward,
    OFFSETS_IN_RANGE: _negative_offset,
}
"""Rule id -> function that returns the message of a violation, or None."""
