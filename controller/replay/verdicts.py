"""What a replay says of the decisions in a log."""

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from cluster.model.partition import LeaderAndIsr, ReplicaAssignment


class Differs(StrEnum):
    """In what a decision differs from that of the code."""

    LEADER = "leader"
    ISR = "isr"
    LEADER_EPOCH = "leader-epoch"
    PARTITION_EPOCH = "partition-epoch"
    ASSIGNMENT = "assignment"
    ORDER = "order"
    """Another step comes first."""
    STATE = "state"
    """The state machine is not where the record says, or does not make the transition."""
    REFUSED = "refused"
    """The code would not do it at all."""


class OtherDecision(Struct, frozen=True):
    """A decision that the code would not have made. `decided`: as it is in the log; `instead`: what the code does.

    `deviation`: the rule by which klamm deliberately differs from Kafka, where the log is Kafka's and that explains it.
    """

    record: str
    at_ms: int
    controller_epoch: int | None
    topic: str
    partition: int
    decision: str
    differs: tuple[Differs, ...]
    decided: str
    instead: str
    deviation: str = ""


class Undecided(Struct, frozen=True):
    """A decision that could not be replayed, and the input that no log has."""

    record: str
    decision: str
    missing: str


Verdict = OtherDecision | Undecided | None
"""Of one decision; None: the code makes the same."""

NO_STATE_BEFORE: Final = "the state before it"
NO_LIVENESS: Final = "which brokers were live when the controller became active"
NO_PERMISSION: Final = "whether the settings of the topic allowed an unclean leader"
NO_MOVE: Final = "which replicas were to stay, as the move that it was for was not written"
NO_MOVES_BEFORE: Final = "the reassignments under way when the controller became active"
NO_ANSWERS: Final = "what brokers answered when the cluster was recovered"
NO_DAMAGE: Final = "which replica was damaged"
NO_BEGINNING: Final = "the record in which the controller became active, or records after it"


def with_deviation(found: OtherDecision, rule: str) -> OtherDecision:
    """The same decision, as one in which klamm deviates from Kafka by this rule."""
    return replace(found, deviation=rule)


def leadership_text(leadership: LeaderAndIsr) -> str:
    """Say who leads under which epochs with which ISR."""
    isr = ",".join(map(str, leadership.isr))
    epochs = f"leader epoch {leadership.leader_epoch}, partition epoch {leadership.partition_epoch}"
    return f"leader {leadership.leader}, ISR [{isr}], {epochs}"


def assignment_text(assignment: ReplicaAssignment) -> str:
    """Say which replicas there are, and which of them come and go."""
    lists = {"replicas": assignment.replicas, "adding": assignment.adding, "removing": assignment.removing}
    return ", ".join(f"{name} [{','.join(map(str, brokers))}]" for name, brokers in lists.items() if brokers)
