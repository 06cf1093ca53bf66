"""What `klamm audit run`, `report` and `verify` print: as text, JSON or YAML."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec
import typer

from audit.chains.witnesses import qualified
from cluster.cli.documents import Format, write_document, write_line
from cluster.model.exit_codes import ExitCode
from cluster.model.printable import counted

if TYPE_CHECKING:
    from audit.report.lasting_conditions import LastingCondition
    from audit.report.report import AuditResult
    from audit.tables.summaries import Summary
    from audit.verification import Verification

_NOTHING_MOVED: Final = "no partition lost its leader, as after a clean stop"


def show_result(result: "AuditResult", output: str, form: Format, limit: int) -> NoReturn:
    """Print the result in this form, and exit with the code of its verdict."""
    from audit.records.findings import CLEAN, FINDINGS  # noqa: PLC0415
    from audit.report.report import read_findings, read_lasting_conditions, read_quarantine  # noqa: PLC0415
    from audit.storage.output_folder import OutputFolder  # noqa: PLC0415
    from audit.tables.summaries import summarize  # noqa: PLC0415

    findings, malformed = read_findings(output, limit), read_quarantine(output, limit)
    lasting, summary = read_lasting_conditions(output, limit), summarize(OutputFolder(output), limit)
    # A reader that has enough of it does not change the verdict.
    with suppress(BrokenPipeError):
        if form is not Format.TABLE:
            document = {**msgspec.to_builtins(result), "output": str(output)}
            document["open_conditions"] = msgspec.to_builtins(lasting)
            document |= msgspec.to_builtins(summary)
            write_document({**document, "first_findings": findings, "first_quarantined": malformed}, form)
        else:
            _show_table(result, findings, malformed)
            _show_lasting(lasting)
            _show_summary(summary)
    codes = {CLEAN: ExitCode.OK, FINDINGS: ExitCode.FINDINGS}
    raise typer.Exit(codes.get(result.verdict, ExitCode.INCOMPLETE))


def show_verification(result: "Verification") -> None:
    """Print what `klamm audit verify` has found, for people."""
    write_line(f"verdict      {qualified(result.verdict, result.open_ends)}")
    write_line(f"records      {result.records}")
    if result.ends:
        write_line(f"ends         {result.ends}")
    for gap in result.incomplete:
        write_line(f"incomplete   {gap.what}: {gap.why}")
    for found in result.breaks:
        write_line(f"{found.rule}  {found.node}/{found.incarnation}: {found.message}")


def _show_table(
    result: "AuditResult", findings: Sequence[Mapping[str, Any]], malformed: Sequence[Mapping[str, Any]]
) -> None:
    write_line(f"verdict      {qualified(result.verdict, result.open_ends)}")
    write_line(f"records      {result.records} of {result.expected}, {counted(result.incarnations, 'incarnation')}")
    write_line(f"quarantined  {result.quarantined}")
    if result.ends:
        write_line(f"ends         {result.ends}")
    if result.decisions is not None:
        write_line(f"decisions    {result.decisions} replayed")
    if result.rules:
        write_line(f"rules        {result.rules}")
    for log in result.kafka_logs:
        counts = f"{counted(log.lines, 'line')}, {counted(log.records, 'record')}, {log.without_facts} without facts"
        write_line(f"Kafka's log  {log.log} is {log.file}: {log.level}, {counts}, {log.first} to {log.last}")
    if result.kafka_logs:
        write_line(f"timezone     {result.timezone}")
    for gap in result.incomplete:
        write_line(f"incomplete   {gap.what}: {gap.why}")
    _show_findings(result, findings)
    for rule, why in result.not_applicable.items():
        write_line(f"not applicable: {rule}: {why}")
    for line in malformed:
        write_line(f"malformed: {line['file']} at byte {line['offset']}, {line['size']} bytes: {line['why']}")


def _show_findings(result: "AuditResult", findings: Sequence[Mapping[str, Any]]) -> None:
    """Counts by rule, and the first findings with what led to them, for people."""
    if result.provisional:
        what = f"{result.provisional} of {counted(sum(result.findings.values()), 'finding')}"
        write_line(f"provisional  {what}: lines that were not read yet may withdraw them")
    for rule, count in result.findings.items():
        write_line(f"  {count:>6}  {rule}")
    for found in findings:
        where = "" if found["topic"] is None else f" {found['topic']}-{found['partition']}"
        named = f"{'provisional ' if found['provisional'] else ''}{found['severity']} {found['rule']}{where}"
        write_line(f"{named}: {found['message']} [{', '.join(found['records'])}]")
        for cause in found["causes"]:
            write_line(f"    {cause}")


def _show_lasting(lasting: "Sequence[LastingCondition]") -> None:
    for condition in lasting:
        by_records, by_clock = (ms / 1000 for ms in (condition.by_records_ms, condition.until_now_ms))
        since = f"{by_records:.0f} s at the last record, {by_clock:.0f} s by this machine's clock"
        write_line(f"open: {condition.rule} {condition.subject}: for {since} [{condition.record}]")


def _show_summary(summary: "Summary") -> None:
    """Failovers and what was read of each node, for people."""
    for row in summary.failovers:
        failed = f"{_failed(row)}{_since_last_sign(row)}"
        if not row["partitions"]:
            write_line(f"failover     {row['detected_time']} {failed}: {_NOTHING_MOVED}")
            continue
        partitions = counted(row["partitions"], "partition")
        leaderless = " ".join(f"{name} {_ms(row[f'leaderless_{name}_ms'])}" for name in ("p50", "p95", "p99", "max"))
        write_line(
            f"failover     {row['detected_time']} {failed}: {partitions}, leaders written "
            f"after {_ms(row['until_last_written_ms'])}, leaderless for {leaderless}{_waited(row)}"
        )
    for row in summary.controller_failovers:
        write_line(
            f"controller   {row['from_time']} {row['controller']} in epoch {row['controller_epoch']}: "
            f"{_since_previous(row)}{_since_vacant(row['since_vacant_ms'])}, loaded after "
            f"{_ms(row['until_loaded_ms'])}, first write after {_ms(row['until_first_write_ms'])}"
        )
    for row in summary.ledgers:
        write_line(
            f"log          {row['node']}/{row['incarnation']}: {row['records']} records, {row['bytes']} bytes, "
            f"{_or_dash(row['missing'])} missing, {row['quarantined']} malformed"
        )


def _failed(failover: Mapping[str, Any]) -> str:
    """Name the brokers that failed, or the controller whose successor found partitions without a leader."""
    brokers = failover["brokers"]
    if brokers:
        return f"of broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"
    controller, previous = failover["controller"], failover["previous_controller"]
    if controller is None:
        return "found by a new controller"
    before = "" if previous is None else f", after controller-{previous}"
    return f"found by controller-{controller} when it became active{before}"


def _since_last_sign(failover: Mapping[str, Any]) -> str:
    """Say how long before the detection a broker answered a follower, or wrote a record: it died in between."""
    answered, recorded = failover["since_last_answer_ms"], failover["since_last_record_ms"]
    if answered is not None:
        return f", detected {_ms(answered)} after its last answer to a follower (session time-out)"
    if recorded is None:
        return ""
    return f", gone for {_ms(recorded)} at most: the time since its last record, and an idle broker writes none"


def _waited(failover: Mapping[str, Any]) -> str:
    """Say how long clients waited, from the last answer of the former leader until the new one led."""
    ms = failover["waited_max_ms"]
    return "" if ms is None else f"; clients waited up to {_ms(ms)}"


def _since_vacant(ms: int | None) -> str:
    """Say how long after it had seen that none was active a controller became it."""
    return "" if ms is None else f", {_ms(ms)} after it saw that one gone"


def _or_dash(count: int | None) -> str:
    return "-" if count is None else str(count)


def _since_previous(term: Mapping[str, Any]) -> str:
    """Say how long after the term before a term began. A controller that hung records later that it resigned."""
    ms, previous = term["since_previous_ms"], term["previous_controller"]
    if ms is None:
        return "the first that is known" if previous is None else f"after controller-{previous}"
    return f"{_ms(abs(ms))} {'after' if ms >= 0 else 'before'} the last record of controller-{previous}"


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value:,} ms"
