"""Prints the corpus: each fault, and what an audit says of it. `python -m tests.audit_corpus [PART OF A NAME]`."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from audit.report.report import AuditResult
from tests.audit_corpus.fault import differences, gaps_of
from tests.audit_corpus.faults import FAULTS
from tests.audit_corpus.in_process import audit_fault
from tests.audit_corpus.logs import SOUND_LOGS


def results(part: str = "") -> Iterator[tuple[str, AuditResult]]:
    """The result of each fault that has this in its name."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, fault) in enumerate(FAULTS.items()):
            if part in name:
                yield name, audit_fault(fault, SOUND_LOGS, Path(folder, str(number)))


def row(name: str, result: AuditResult) -> str:
    found = ", ".join(f"{rule} {count}" for rule, count in result.findings.items())
    gaps = "; ".join(f"{Path(gap.partition(': ')[0]).name}: {gap.partition(': ')[2]}" for gap in gaps_of(result))
    return f"{name:54} {result.verdict:10} {found or '-':38} {gaps or '-'}"


def main(part: str = "") -> int:
    """1 if any result is not the expected one."""
    print(f"{'FAULT':54} {'VERDICT':10} {'FINDINGS':38} INCOMPLETE")
    wrong = {}
    for name, result in results(part):
        print(row(name, result), flush=True)
        if said := differences(FAULTS[name], result):
            wrong[name] = said
    for name, said in wrong.items():
        print(f"{name}: {'; '.join(said)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
