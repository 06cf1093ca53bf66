"""Violations found by a run."""

import traceback

from msgspec import Struct

from state_log.invariants import InvariantViolation

CONVERGENCE = "convergence"
"""Once the faults have ended, all requested operations complete in bounded time."""
UNEXPECTED_ERROR = "unexpected-error"
"""A process, or the run itself, ended with an unexpected error."""


class Violation(Struct, frozen=True):
    """A violated property: rule id, message, and references of the records concerned, if there are any."""

    rule: str
    message: str
    records: tuple[str, ...] = ()
    topic: str | None = None
    partition: int | None = None


class ViolationError(Exception):
    """Raised by a checker when properties are violated; ends the run."""

    def __init__(self, *violations: Violation) -> None:
        super().__init__("; ".join(f"{v.rule}: {v.message}" for v in violations))
        self.violations = violations


def violated(rule: str, message: str) -> ViolationError:
    """The exception for one violation."""
    return ViolationError(Violation(rule, message))


def from_finding(finding: InvariantViolation) -> Violation:
    """Convert a finding of the state-change log's invariants."""
    return Violation(finding.rule, finding.message, finding.records, finding.topic, finding.partition)


def violations_of(error: Exception) -> tuple[Violation, ...]:
    """The violations of the error that ended a run; an error not raised by a checker is one itself."""
    if isinstance(error, ViolationError):
        return error.violations
    return (Violation(UNEXPECTED_ERROR, "".join(traceback.format_exception(error)).rstrip()),)
