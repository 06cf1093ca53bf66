"""What `klamm audit rejudge` prints: as text, JSON or YAML."""

from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec

from audit.records.findings import CLEAN, FINDINGS
from audit.report.rejudge import Rejudged
from cluster.cli.documents import Format, write_document, write_line
from cluster.model.exit_codes import ExitCode


def show_rejudged(compared: Rejudged, form: Format, limit: int) -> ExitCode:
    """Write what `klamm audit rejudge` has found, and return the exit code of the verdict by today's rules."""
    with suppress(BrokenPipeError):
        if form is Format.TABLE:
            _show_difference(compared, limit)
        else:
            write_document(_difference(compared, limit), form)
    return {CLEAN: ExitCode.OK, FINDINGS: ExitCode.FINDINGS}.get(compared.verdict, ExitCode.INCOMPLETE)


def _difference(compared: Rejudged, limit: int) -> dict[str, Any]:
    lists = {"appeared": compared.appeared, "gone": compared.gone, "changed": compared.changed}
    return {
        "verdict": compared.verdict,
        "verdict_before": compared.verdict_before,
        "rules": compared.rules,
        "rules_before": list(compared.rules_before),
        "same": compared.is_same,
        **compared.counts(),
        **{f"first_{name}": list(rows[:limit]) for name, rows in lists.items()},
        "newly_incomplete": msgspec.to_builtins(compared.newly_incomplete),
        "no_longer_incomplete": msgspec.to_builtins(compared.no_longer_incomplete),
    }


def _show_difference(compared: Rejudged, limit: int) -> None:
    versions = ", ".join(map(str, compared.rules_before)) or "none"
    write_line(f"verdict      {compared.verdict}, by the rules of version {compared.rules}")
    write_line(f"before       {compared.verdict_before}, by those of version {versions}")
    if compared.is_same:
        write_line("difference   none")
    lists = {"appears": compared.appeared, "goes": compared.gone, "changes": compared.changed}
    for name, rows in lists.items():
        for rule, count in sorted(Counter(row["rule"] for row in rows).items()):
            write_line(f"{name:<12} {count} {rule}")
    for name, rows in lists.items():
        for row in rows[:limit]:
            write_line(f"{name} {row['rule']} {row['subject']}: {row['message']} [{', '.join(row['records'])}]")
    for gap in compared.newly_incomplete:
        write_line(f"incomplete   now: {gap.what}: {gap.why}")
    for gap in compared.no_longer_incomplete:
        write_line(f"incomplete   no longer: {gap.what}: {gap.why}")
