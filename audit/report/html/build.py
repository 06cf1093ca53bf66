"""Collects what the HTML report shows from the output folder of an audit."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from audit.report.html.content import FAILOVERS_MAX, FINDINGS_MAX, ReportContent
from audit.report.html.partitions import Timelines, TopicName
from audit.report.html.stories import stories
from audit.report.report import AuditResult, read_findings, read_lasting_conditions, read_result
from audit.report.rule_catalogue import EXPLANATIONS, SEVERITIES, severity_of
from audit.storage.file_store import Location
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import (
    FAILOVERS_TABLE,
    LEDGERS_TABLE,
    SESSIONS_TABLE,
    TERMS_TABLE,
    TIMELINES_TABLE,
    TOPICS_TABLE,
)
from audit.tables.summaries import since_last_record_ms


def content(output: Location, made_at_ms: int, expected_nodes: Sequence[str] = ()) -> ReportContent:
    """Collect the report on an output folder. Raises OutputError."""
    folder = OutputFolder(output)
    result = read_result(output, expected_nodes)
    found = sorted(read_findings(output, FINDINGS_MAX), key=_worst_first)
    ledgers = folder.current_rows(LEDGERS_TABLE)
    times = [row[name] for row in ledgers for name in ("first_ms", "last_ms") if row[name] is not None]
    until_ms = max(times, default=made_at_ms)
    timelines = Timelines(folder.current_table(TIMELINES_TABLE), until_ms, _gone(folder.current_rows(TOPICS_TABLE)))
    partitions, total = timelines.worst(_by_partition(found))
    failovers = sorted(folder.current_rows(FAILOVERS_TABLE), key=lambda row: -(row["leaderless_max_ms"] or 0))
    terms = folder.current_rows(TERMS_TABLE)
    return ReportContent(
        verdict=result.verdict,
        ends=result.ends,
        output=str(output),
        made_at_ms=made_at_ms,
        records=result.records,
        expected=result.expected,
        quarantined=result.quarantined,
        incarnations=result.incarnations,
        from_ms=min(times, default=None),
        until_ms=until_ms,
        incomplete=[msgspec.to_builtins(gap) for gap in result.incomplete],
        notes=_notes(result),
        open_conditions=[msgspec.to_builtins(each) for each in read_lasting_conditions(output, FINDINGS_MAX)],
        rules=_rules(result.findings),
        findings=[_with_rule(*pair) for pair in zip(found, stories(folder, found), strict=True)],
        findings_total=sum(result.findings.values()),
        provisional=result.provisional,
        terms=terms,
        sessions=folder.current_rows(SESSIONS_TABLE),
        failovers=[
            {**row, **_controllers_of(row, terms), "since_last_record_ms": since_last_record_ms(row, ledgers)}
            for row in failovers[:FAILOVERS_MAX]
        ],
        failovers_total=len(failovers),
        ledgers=ledgers,
        partitions=partitions,
        partitions_total=total,
        curve=timelines.curve(),
    )


def _controllers_of(failover: Mapping[str, Any], terms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Find the controller that saw a failover, and the one before it."""
    epoch = failover["controller_epoch"]
    own = min((term for term in terms if term["controller_epoch"] == epoch), key=lambda t: t["controller"], default={})
    return {name: own.get(name) for name in ("controller", "previous_controller")}


def _notes(result: AuditResult) -> list[str]:
    """Say to what the rules were not applied without an effect on the verdict."""
    notes = [f"{rule}: {why}" for rule, why in sorted(result.not_applicable.items())]
    if result.timezone is not None:
        notes.append(f"local times in the logs of Apache Kafka are taken as those of {result.timezone}")
    if result.rules:
        notes = [f"rules: {result.rules}", *notes]
    return notes


def _by_partition(findings: Sequence[Mapping[str, Any]]) -> Counter[tuple[str, str | None, int]]:
    return Counter((f["topic"], f["topic_id"], f["partition"]) for f in findings if f["partition"] is not None)


def _gone(topics: Sequence[Mapping[str, Any]]) -> dict[TopicName, int]:
    """Find when the deletion of each topic began; for several topics of one name without ids, when the last one's
    did.
    """
    last: dict[TopicName, Mapping[str, Any]] = {}
    for row in topics:
        known = last.get((row["topic"], row["topic_id"]))
        if known is None or known["number"] < row["number"]:
            last[row["topic"], row["topic_id"]] = row
    began = {name: row["deletion_started_ms"] or row["until_ms"] for name, row in last.items()}
    return {name: at_ms for name, at_ms in began.items() if at_ms is not None}


def _worst_first(finding: Mapping[str, Any]) -> tuple[int, int]:
    at_ms = finding["at_ms"]
    return SEVERITIES.index(finding["severity"]), 0 if at_ms is None else -at_ms


def _rules(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    rows = [{"rule": rule, "severity": severity_of(rule), "count": count} for rule, count in counts.items()]
    return sorted(rows, key=lambda row: (SEVERITIES.index(row["severity"]), row["rule"]))


def _with_rule(finding: Mapping[str, Any], story: Sequence[str]) -> dict[str, Any]:
    rule = EXPLANATIONS.get(finding["rule"])
    says, check_next = ("", "docs/audit.md") if rule is None else (rule.says, rule.check_next)
    return {**finding, "says": says, "check_next": check_next, "story": story}
