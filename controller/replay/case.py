"""One decision in a log, with what it was made from."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller.decisions.context_view import ContextView
from controller.decisions.partitions.leader_election import ElectionFailure
from controller.replay.term import ReplayedTerm, leadership_of
from controller.replay.verdicts import Differs, OtherDecision, Verdict, leadership_text
from state_log.record import Kind, LoggedStateChange


class DecisionCase(NamedTuple):
    """A record of a partition, and the state before it.

    `before`: the leadership that was replaced, None if no log has it; `following`: the later records of the event.
    """

    term: ReplayedTerm
    tp: TopicPartition
    record: LoggedStateChange
    following: Sequence[LoggedStateChange] = ()
    before: LeaderAndIsr | None = None

    @property
    def name(self) -> str:
        """Name the decision."""
        record = self.record
        match record.kind:
            case Kind.PARTITION if record.leader is not None:
                return f"election {record.reason}"
            case Kind.PARTITION:
                return f"partition to {record.to_state}"
            case Kind.ISR:
                return f"ISR: {record.reason}"
            case Kind.ASSIGNMENT:
                return f"assignment {record.to_state or 'written'}"
            case _:
                return f"replica {record.broker} to {record.to_state}"

    @property
    def view(self) -> ContextView:
        return self.term.context

    @property
    def assignment(self) -> ReplicaAssignment:
        return self.term.context.topics.assignment(self.tp)

    @property
    def decided(self) -> LeaderAndIsr:
        """The leadership in the record."""
        return leadership_of(self.record, self.term.epoch)

    @property
    def cause(self) -> str:
        return "" if self.record.cause is None else self.record.cause.event

    @property
    def rest_of_partition(self) -> Iterator[LoggedStateChange]:
        """The later records of the event that are about the same partition."""
        return (r for r in self.following if (r.topic, r.partition) == self.tp)

    def differs(self, what: Differs | tuple[Differs, ...], decided: str, instead: str) -> OtherDecision:
        """Make the finding that the code decides otherwise."""
        record, differs = self.record, (what,) if isinstance(what, Differs) else what
        place = record.reference, record.at_ms, record.controller_epoch
        return OtherDecision(*place, *self.tp, self.name, differs, decided, instead)

    def refused(self, decided: str, why: str) -> OtherDecision:
        """Make the finding that the code would not do it, for this reason."""
        return self.differs(Differs.REFUSED, decided, f"nothing: {why}")

    def against(self, made: LeaderAndIsr | ElectionFailure) -> Verdict:
        """Compare the leadership in the record with what the code makes; None if they are equal."""
        decided = self.decided
        if isinstance(made, ElectionFailure):
            return self.refused(leadership_text(decided), made.reason)
        pairs = {
            Differs.LEADER: (decided.leader, made.leader),
            Differs.ISR: (decided.isr, made.isr),
            Differs.LEADER_EPOCH: (decided.leader_epoch, made.leader_epoch),
            Differs.PARTITION_EPOCH: (decided.partition_epoch, made.partition_epoch),
        }
        differs = tuple(what for what, (one, another) in pairs.items() if one != another)
        return self.differs(differs, leadership_text(decided), leadership_text(made)) if differs else None
