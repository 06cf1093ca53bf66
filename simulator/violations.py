"""What a run may find: a property that did not hold, and when."""

import traceback

from msgspec import Struct

from state_log.invariants import Finding

CONVERGENCE = "convergence"
"""Once the faults have ended, everything that was asked for is done in bounded time."""
UNEXPECTED_ERROR = "unexpected-error"
"""A process ended by an error of its own, or the run did."""


class Violation(Struct, frozen=True):
    """A property that did not hold: the id of its rule, what happened, and the records that show it, if any do."""

    rule: str
    message: str
    records: tuple[str, ...] = ()
    topic: str | None = None
    partition: int | None = None


class ViolationError(Exception):
    """Raised where a checker finds that properties do not hold; it ends the run."""

    def __init__(self, *violations: Violation) -> None:
        super().__init__("; ".join(f"{v.rule}: {v.message}" for v in violations))
        self.violations = violations


def violated(rule: str, message: str) -> ViolationError:
    """What to raise for one violation."""
    return ViolationError(Violation(rule, message))


def from_finding(finding: Finding) -> Violation:
    """A broken rule of the state-change log."""
    return Violation(finding.rule, finding.message, finding.records, finding.topic, finding.partition)


def violations_of(error: Exception) -> tuple[Violation, ...]:
    """What the error that ended a run stands for; one that no checker raised is a violation itself."""
    if isinstance(error, ViolationError):
        return error.violations
    return (Violation(UNEXPECTED_ERROR, "".join(traceback.format_exception(error)).rstrip()),)
