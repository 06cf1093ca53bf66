"""What the controller knows of damaged replicas, in its memory."""

from typing import NamedTuple

from cluster.broker import BrokerEpoch
from cluster.requests.agents import ReportedDamage


class HeldReplica(NamedTuple):
    """A damaged replica that is not to be elected before `until_ms` of the wall clock."""

    damage: ReportedDamage
    until_ms: int


class AwaitedReport(NamedTuple):
    """The incarnation of a broker that has to name its damaged replicas, and since when, in ms of the wall clock."""

    broker_epoch: BrokerEpoch
    since_ms: int
