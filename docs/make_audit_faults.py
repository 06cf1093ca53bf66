"""Write the kinds of fault of the audit's corpus, and what finds each, into docs/audit-faults.md.

Run it after a change of `tests/audit_corpus`: .venv/bin/python docs/make_audit_faults.py
"""

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.audit_corpus.fault import Fault  # noqa: E402
from tests.audit_corpus.faults import FAULTS  # noqa: E402

DOCUMENT: Final = ROOT / "docs" / "audit-faults.md"
BEGIN, END = "<!-- faults:begin -->", "<!-- faults:end -->"


def row(name: str, fault: Fault) -> str:
    """A row of the table: the fault, the rules that find it, and what of the incomplete audit names it."""
    rules = [f"`{rule}`" + (f" ({count})" if count > 1 else "") for rule, count in fault.findings.items()]
    reasons = [f"{text} …" for text in fault.incomplete]
    return f"| {name} | {', '.join(rules) or '-'} | {'; '.join(reasons).replace('|', '/') or '-'} |"


def with_tables(text: str) -> str:
    """Replace what stands between the two marks in `text`."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    rows = "\n".join(row(name, fault) for name, fault in FAULTS.items())
    table = f"{len(FAULTS)} kinds.\n\n| fault | found by | incomplete |\n|---|---|---|\n{rows}"
    return f"{head}{BEGIN}\n\n{table}\n\n{END}{tail}"


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
