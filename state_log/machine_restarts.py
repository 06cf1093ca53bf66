"""Where a machine was restarted: two runs of a node under different boots.

What its disk had not flushed by then is lost there: records of partitions, though replicas elsewhere have them, and
though they were acknowledged. A replica that then leads has the others truncate their logs, below their high watermarks
if need be. Kafka has no remedy but flushing (`flush.messages=1`) or replicas that do not lose power together.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from state_log.invariants import ELECTED_HAS_COMMITTED, TRUNCATED_BELOW_HIGH_WATERMARK, InvariantViolation
from state_log.record import LoggedStateChange, by_partition

_DIGITS_MAX: Final = 15


class MachineRestart(Struct, frozen=True):
    """`incarnation`: the first run of the node under the boot `boot`; `before`: the boot of the run before it."""

    node: str
    incarnation: str
    before: str
    boot: str

    @property
    def by_ms(self) -> int:
        """The machine was restarted before this time, by the node's clock: that is when the run began.

        The end of all time for a run that is not named as klamm names runs: nothing is known to come after it.
        """
        began = self.incarnation.partition(".")[0]
        return int(began) if began.isdecimal() and len(began) <= _DIGITS_MAX else sys.maxsize

    def __str__(self) -> str:
        return (
            f"{self.node}/{self.incarnation}: its machine was restarted before (boot {self.boot}, earlier "
            f"{self.before}): what was not flushed to its disk is lost"
        )


def boots_of(records: Iterable[LoggedStateChange]) -> dict[tuple[str, str], str]:
    """(node, incarnation) -> boot, of those whose first record names one."""
    return {(r.node, r.incarnation): r.boot_id for r in records if r.boot_id}


def machine_restarts(boots: Mapping[tuple[str, str], str]) -> list[MachineRestart]:
    """Find the restarts between the runs of each node, by time; `boots` as `boots_of` has them."""
    return [
        MachineRestart(node, incarnation, boots[before], boots[node, incarnation])
        for before, (node, incarnation) in pairwise(sorted(boots))
        if before[0] == node and boots[before] != boots[node, incarnation]
    ]


OF_LOST_RECORDS: Final = frozenset({TRUNCATED_BELOW_HIGH_WATERMARK, ELECTED_HAS_COMMITTED})
"""The rules that find what a machine may have lost."""


def restarts_before(
    rule: str, restarts: Iterable[MachineRestart], node: str, at_ms: int, replicas: Collection[int]
) -> list[MachineRestart]:
    """The restarts that may be why a rule of OF_LOST_RECORDS found something in the last of its records, that of `node`
    at that time: of machines of the partition's replicas, before that.

    What a node truncates, its own machine has not lost.
    """
    suspects = {f"broker-{broker}" for broker in replicas}
    if rule == TRUNCATED_BELOW_HIGH_WATERMARK:
        suspects -= {node}
    return [restart for restart in restarts if restart.node in suspects and restart.by_ms <= at_ms]


def is_explained(finding: InvariantViolation, records: Sequence[LoggedStateChange]) -> bool:
    """Whether what it found may be what a machine had not flushed when it was restarted."""
    if finding.rule not in OF_LOST_RECORDS:
        return False
    replicas = {
        broker
        for record in records
        for tp, part in by_partition(record)
        if tp == (finding.topic, finding.partition)
        for broker in part.replicas or ()
    }
    restarts = machine_restarts(boots_of(records))
    at = next(record for record in records if record.reference == finding.records[-1])
    return bool(restarts_before(finding.rule, restarts, at.node, at.at_ms, replicas))
