"""A fault of the corpus, what is said of it, and whether a result says exactly that."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from audit.records.findings import CLEAN, FINDINGS, INCOMPLETE
from audit.report.report import AuditResult
from state_log.heads_file import GivenHead
from tests.audit_corpus.logs import Logs


class Fault(NamedTuple):
    """`findings`: how many of each rule, and no others. `incomplete`: of each gap, and of no other, some of its text.

    `later`: a second change, after an audit of what the first has made; a second run of the audit follows. `heads`:
    those that the audit is given, of the logs before the change.
    """

    apply: Callable[[Logs], object]
    findings: Mapping[str, int] = {}
    incomplete: tuple[str, ...] = ()
    later: Callable[[Logs], object] | None = None
    heads: Callable[[Logs], Sequence[GivenHead]] = lambda _: ()

    @property
    def verdict(self) -> str:
        if self.findings:
            return FINDINGS
        return INCOMPLETE if self.incomplete else CLEAN


def differences(fault: Fault, result: AuditResult) -> list[str]:
    """Where a result is not what was expected; empty if it is."""
    found = []
    if (result.verdict, dict(result.findings)) != (fault.verdict, dict(fault.findings)):
        found.append(f"{result.verdict} {dict(result.findings)}, not {fault.verdict} {dict(fault.findings)}")
    gaps = gaps_of(result)
    found += [f"unexpected: {gap}" for gap in gaps if not any(text in gap for text in fault.incomplete)]
    found += [f"not incomplete: {text}" for text in fault.incomplete if not any(text in gap for gap in gaps)]
    return found


def gaps_of(result: AuditResult) -> list[str]:
    return [f"{gap.what}: {gap.why}" for gap in result.incomplete]
