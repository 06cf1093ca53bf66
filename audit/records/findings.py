"""What the rules find: one finding for each rule and subject, which later records may change or take back."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

CLEAN, FINDINGS, INCOMPLETE = "clean", "findings", "incomplete"
"""The verdicts."""
FOUND, WITHDRAWN, NOT_COMPARED = "found", "withdrawn", "not compared"
HOLDS = "holds"
"""The status of rows of tables other than the findings that were not withdrawn."""


class RuleViolation(Struct, frozen=True):
    """Holds what a rule says of a partition. `subject`: the part that it is about, such as an epoch. `records`: the
    earlier first.
    """

    rule: str
    key: int
    subject: str
    message: str
    records: tuple[str, ...]
    at_ms: int | None


class AuditFinding(Struct, frozen=True):
    """A violated rule.

    `subject` and `rule` together name the finding: a later one of the same name replaces it, so that a repeated batch
    changes nothing. `records`: references (node/incarnation/seq), the earlier first. Withdrawn: records that arrived
    late have shown that it is none. Not compared: it says what the rules cannot judge.
    """

    rule: str
    subject: str
    message: str
    records: tuple[str, ...]
    status: str = FOUND
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    at_ms: int | None = None

    @property
    def name(self) -> tuple[str, str]:
        return self.rule, self.subject


def changes(before: Iterable[AuditFinding], now: Iterable[AuditFinding]) -> list[AuditFinding]:
    """The findings of `now` that are new or differ, and as withdrawn those of `before` that are not there any more.

    Of several with one name the last counts.
    """
    was, found = ({finding.name: finding for finding in findings} for findings in (before, now))
    gone = [replace(finding, status=WITHDRAWN) for name, finding in was.items() if name not in found]
    return [finding for name, finding in found.items() if was.get(name) != finding] + gone
