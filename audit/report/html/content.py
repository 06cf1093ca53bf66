"""What the HTML report shows: plain rows, bounded in number, the worst first."""

from typing import Any, Final

from msgspec import Struct

FINDINGS_MAX: Final = 2_000
PARTITIONS_MAX: Final = 400
"""The number of partitions whose timelines are in the file; all partitions are in its sums."""
STATES_MAX: Final = 300
"""The number of states of one partition: the last ones."""
FAILOVERS_MAX: Final = 200
POINTS_MAX: Final = 1_000
"""The number of points of a curve over time."""


class PartitionTimeline(Struct, frozen=True):
    """One partition: how often its state changed, how long it had no leader, and its last states.

    A state: from and until (ms), leader (-1: none), leader epoch, ISR, number of replicas, whether its election was
    unclean.
    """

    name: str
    findings: int
    leaderless_ms: int
    changes: int
    states: list[tuple[int, int, int, int, list[int], int, bool]]


class Curve(Struct, frozen=True):
    """Says how many partitions had no leader, and how many an ISR smaller than their replicas, from each time on."""

    at_ms: list[int]
    leaderless: list[int]
    under_replicated: list[int]


class ReportContent(Struct, frozen=True):
    """All of a report. Rows are those of the tables of the same names; `*_total` counts also what is not shown."""

    verdict: str
    ends: str
    """What of the ends of logs was not checked; "" if all was."""
    output: str
    made_at_ms: int
    records: int
    expected: int
    quarantined: int
    incarnations: int
    from_ms: int | None
    until_ms: int | None
    incomplete: list[dict[str, Any]]
    notes: list[str]
    open_conditions: list[dict[str, Any]]
    rules: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    findings_total: int
    provisional: int
    """Findings that lines which were not read yet may withdraw, of all."""
    terms: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    failovers: list[dict[str, Any]]
    failovers_total: int
    ledgers: list[dict[str, Any]]
    partitions: list[PartitionTimeline]
    partitions_total: int
    curve: Curve
