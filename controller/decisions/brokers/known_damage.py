"""What the controller knows of damaged replicas, in its memory."""

from typing import Final, NamedTuple

from cluster.model.broker import BrokerEpoch
from cluster.requests.agents import ReportedDamage

NOT_SCHEDULED: Final = 0


class HeldReplica(NamedTuple):
    """A damaged replica that is not to be elected before `until_ms` of the wall clock.

    NOT_SCHEDULED: not before the broker reports it again, as it is not known yet who else is in sync.
    """

    damage: ReportedDamage
    until_ms: int

    @property
    def is_scheduled(self) -> bool:
        return self.until_ms != NOT_SCHEDULED


class AwaitedReport(NamedTuple):
    """The incarnation of a broker that has to name its damaged replicas, and since when, in ms of the wall clock."""

    broker_epoch: BrokerEpoch
    since_ms: int
