"""What an audit has found so far, read from its output folder without Spark."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow.dataset
from msgspec import Struct

from audit.batches.cluster_state import ClusterState, decode_state
from audit.batches.decisions import summed
from audit.chains.incarnations import boots, overlaps
from audit.reading.file_faults import why_unread
from audit.reading.kafka.log_state import describe_time
from audit.reading.kafka.log_state import gaps as kafka_gaps
from audit.reading.lines_read import QUARANTINED_MAX
from audit.records.findings import CLEAN, FINDINGS, FOUND, INCOMPLETE, NOT_COMPARED, AuditFinding
from audit.report.controller_epochs import epoch_findings
from audit.report.controller_terms import logs_that_lack_lines, term_findings
from audit.report.dead_leaders import dead_leader_findings
from audit.report.governed_brokers import check_governed, governed_nodes, governing
from audit.report.lasting_conditions import LastingCondition, lasting_conditions, lasting_findings
from audit.report.log_ends import CheckedEnds, check_log_ends
from audit.report.machine_restarts import restarts_behind
from audit.report.open_conditions import open_conditions
from audit.report.provisional import horizon_of
from audit.report.rule_catalogue import SEVERITIES, not_applicable, severity_of
from audit.report.whole_logs import is_explained_by, lacking_lines
from audit.rules.clock_differences import clock_findings, is_measured_by, node_of
from audit.storage.commits import Commit
from audit.storage.file_store import Location
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import RULES_VERSION
from audit.storage.table_schemas import FINDINGS_TABLE, QUARANTINE_TABLE, RECORDS_TABLE
from state_log.causes import call_of, calls_by_event, origin_text
from state_log.kafka.lines import NODE
from state_log.record import LoggedStateChange

_NAMED_MAX: Final = 20
_OF_CAUSES: Final = (
    *("v", "node", "incarnation", "seq", "at_ms", "kind", "controller_epoch", "request_id", "principal", "peer"),
    *("cause_event", "cause_id", "cause_controller", "cause_controller_epoch"),
)
"""The columns that it takes to find out what led to a record."""


class Gap(Struct, frozen=True):
    """Something that was not read or not understood: `what` names it, `why` says more."""

    what: str
    why: str


class ReadKafkaLog(Struct, frozen=True):
    """A state-change.log of Apache Kafka. `log` names it in the records: its file may have been renamed since.
    `first` and `last`: times, as ISO 8601 in UTC.
    """

    log: str
    file: str
    level: str
    lines: int
    records: int
    without_facts: int
    first: str | None
    last: str | None


class AuditResult(Struct, frozen=True):
    """The sum over every run on the same output. `findings` counts by rule id.

    `verdict`: `findings` if there are any; else `incomplete` if something was missing or malformed; else `clean`.
    `incomplete` names what was, whatever the verdict. `expected`: by the numbers of the records that were read. `ends`:
    of which nodes no head was given to check the end of the newest log against; "" if of none; `open_ends`: by these
    nodes, the number of the last record that was read. `timezone`: of the times in `kafka_logs`. `decisions`: how many
    of controllers were replayed; None without `--replay`.
    `provisional`: findings that lines which were not read yet may withdraw.
    `not_applicable`: rules that do not hold for these logs, and why. `rules`: by which versions of the rules the
    records were judged; "" if by those of this klamm alone.
    """

    verdict: str
    records: int
    expected: int
    quarantined: int
    findings: dict[str, int]
    incomplete: tuple[Gap, ...]
    incarnations: int
    kafka_logs: tuple[ReadKafkaLog, ...] = ()
    timezone: str | None = None
    not_applicable: dict[str, str] = {}
    ends: str = ""
    open_ends: dict[str, int] = {}
    rules: str = ""
    decisions: int | None = None
    provisional: int = 0


def read_result(
    output: Location, expected_nodes: Sequence[str] = (), *, require_trace: bool = False, require_heads: bool = False
) -> AuditResult:
    """The verdict on everything that was read so far.

    It is incomplete where `require_trace` and a Kafka log has no TRACE, or `require_heads` and the newest log of a
    node has no head. Raises OutputError.
    """
    folder = OutputFolder(output)
    commit = folder.last_commit()
    state = cluster_state(folder, commit)
    at_end = _end_of_logs(folder, commit, state)
    found = _findings(folder, at_end)
    findings, horizon = Counter(finding["rule"] for finding in found), horizon_of(folder, commit, state)
    log_ends, taken = at_end.log_ends, () if commit is None else commit.taken
    gaps = (
        *_gaps(folder, commit, state, expected_nodes),
        *(Gap(node_of(f), "its clock is wrong: durations are not judged by its records") for f in at_end.clocks),
        *(Gap(f.subject, f"not decided: {f.message}") for f in at_end.unknown),
        *(Gap(what, why) for what, why in kafka_gaps(state.kafka, require_trace, governing(state))),
        *_not_replayed(commit),
        *((Gap("ends of logs", log_ends.open.why),) if require_heads and log_ends.open.last else ()),
        *(Gap(fault.file, why_unread(fault)) for log, fault in sorted(state.unread.items()) if log not in taken),
    )
    kafka_logs = _kafka_logs(state)
    named = {gap.what for gap in gaps}
    gaps = (*gaps, *(Gap(*undecided) for undecided in log_ends.ends.undecided if undecided.what not in named))
    return AuditResult(
        verdict=FINDINGS if findings else INCOMPLETE if gaps else CLEAN,
        records=0 if commit is None else commit.records,
        expected=sum(log.next_seq for log in state.incarnations.values()) + sum(log.records for log in kafka_logs),
        quarantined=0 if commit is None else commit.quarantined,
        findings=dict(sorted(findings.items())),
        incomplete=gaps,
        incarnations=len(state.incarnations) + len(kafka_logs),
        kafka_logs=kafka_logs,
        timezone=min((log.content.zone for log in state.kafka.logs.values()), default=None),
        not_applicable=_not_applicable(kafka_logs, state),
        ends=log_ends.open.why,
        open_ends=log_ends.open.last,
        rules=_rules(commit),
        decisions=None if commit is None or commit.decisions is None else commit.decisions.all_decisions,
        provisional=sum(map(horizon.is_provisional, found)),
    )


def _rules(commit: Commit | None) -> str:
    if commit is None or {*commit.rules} <= {RULES_VERSION}:
        return ""
    versions = ", ".join(map(str, commit.rules))
    return f"judged by version {versions} of the rules; 'klamm audit rebuild' judges all by version {RULES_VERSION}"


def _not_applicable(kafka_logs: Sequence[ReadKafkaLog], state: ClusterState) -> dict[str, str]:
    return not_applicable({log.level for log in kafka_logs}, governed=bool(governing(state))) if kafka_logs else {}


def _kafka_logs(state: ClusterState) -> tuple[ReadKafkaLog, ...]:
    logs = sorted(state.kafka.logs.items(), key=lambda item: item[1].file)
    return tuple(
        ReadKafkaLog(
            name,
            log.file,
            log.level,
            log.content.lines,
            log.records,
            log.content.without_facts,
            describe_time(log.content.first_ms),
            describe_time(log.content.last_ms),
        )
        for name, log in logs
    )


def cluster_state(folder: OutputFolder, commit: Commit | None) -> ClusterState:
    """The state of nodes and controllers that the last batch left."""
    stored = None if commit is None else commit.cluster.file
    return ClusterState() if stored is None else decode_state(folder.read_state(stored))


def findings_of(folder: OutputFolder) -> list[dict[str, Any]]:
    """The last version of each finding that was not withdrawn, by rule and subject."""
    return [row for row in folder.current_rows(FINDINGS_TABLE) if row["status"] == FOUND]


def all_findings(folder: OutputFolder) -> list[dict[str, Any]]:
    """The findings of the table, and those that hold at the end of what was read, without durations by wrong clocks."""
    commit = folder.last_commit()
    return _findings(folder, _end_of_logs(folder, commit, cluster_state(folder, commit)))


def without_doubles(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out findings that another one says already.

    An epoch that falls is a fault of the states of a partition, and of what one process shows in the order of its
    records. Where both say it of the same records it is one fault, and the first of them stays.
    """
    said: dict[tuple[Any, ...], list[set[str]]] = {}
    for finding in found:
        if not _is_of_record(finding):
            said.setdefault(_partition_of(finding), []).append(set(finding["records"]))
    return [
        finding
        for finding in found
        if not _is_of_record(finding)
        or not any(set(finding["records"]) <= records for records in said.get(_partition_of(finding), ()))
    ]


def _is_of_record(finding: Mapping[str, Any]) -> bool:
    return finding["partition"] is not None and " record " in finding["subject"]


def _partition_of(finding: Mapping[str, Any]) -> tuple[Any, ...]:
    return finding["rule"], finding["topic"], finding["topic_id"], finding["partition"]


class _End(NamedTuple):
    """Keeps the conditions at the end of what was read. `unknown`: what only logs that were not read could decide.
    `lacking`: logs in which lines are missing or unclear.
    """

    findings: list[AuditFinding]
    clocks: list[AuditFinding]
    unknown: list[AuditFinding]
    log_ends: CheckedEnds
    lacking: frozenset[str]


def _end_of_logs(folder: OutputFolder, commit: Commit | None, state: ClusterState) -> _End:
    jumping = {name for name, span in state.spans.items() if span.clock_falls}
    clocks = list(clock_findings(() if commit is None else commit.clocks, jumping))
    log_ends, waiting = check_log_ends(folder, commit, state), open_conditions(folder, commit, state)
    governed = check_governed(folder, commit, state)
    # What overlaps in Kafka's logs is not decided: see `audit.reading.kafka.log_state.gaps`.
    own = [span for span in state.spans.values() if not span.node.startswith(NODE)]
    doubled = overlaps(own)
    found = [*waiting.findings, *governed.findings, *doubled, *boots(own), *log_ends.ends.findings]
    found += [*lasting_findings(folder, commit, state), *term_findings(folder, commit, state)]
    found += dead_leader_findings(folder, commit, state)
    found += epoch_findings(folder, commit, state, logs_that_lack_lines(state))
    return _End(
        [*found, *clocks], clocks, [*waiting.unknown, *governed.unknown], log_ends, lacking_lines(state, doubled)
    )


def _findings(folder: OutputFolder, at_end: _End) -> list[dict[str, Any]]:
    found = [*without_doubles(findings_of(folder)), *(msgspec.structs.asdict(finding) for finding in at_end.findings)]
    found = [finding for finding in found if not is_explained_by(finding, at_end.lacking)]
    wrong = {node_of(finding) for finding in at_end.clocks}
    return [finding for finding in found if not is_measured_by(finding, wrong)]


def read_findings(output: Location, limit: int) -> list[dict[str, Any]]:
    """The first findings, the most severe ones first.

    `causes` says what led to each of their records; `provisional`: lines that were not read yet may withdraw it.
    """
    folder = OutputFolder(output)
    commit = folder.last_commit()
    state = cluster_state(folder, commit)
    all_found = _findings(folder, _end_of_logs(folder, commit, state))
    horizon = horizon_of(folder, commit, state)
    found = [
        {**each, "severity": severity_of(each["rule"]), "provisional": horizon.is_provisional(each)}
        for each in all_found
    ]
    findings = sorted(found, key=lambda finding: SEVERITIES.index(finding["severity"]))[:limit]
    origins = _origins(folder, findings)
    for finding, restarts in zip(findings, restarts_behind(folder, state, findings), strict=True):
        finding["causes"] = [f"{name}: {origins[name]}" for name in finding["records"] if name in origins] + restarts
    return findings


def read_lasting_conditions(output: Location, limit: int) -> list[LastingCondition]:
    """Find what still holds and has lasted too long, by the records or by the clock of this machine; the longest
    first.
    """
    folder = OutputFolder(output)
    commit = folder.last_commit()
    now_ms = time.time_ns() // 1_000_000
    return lasting_conditions(folder, commit, cluster_state(folder, commit), now_ms)[:limit]


def read_quarantine(output: Location, limit: int) -> list[dict[str, Any]]:
    """The first malformed lines: file, offset, size, beginning and reason of each."""
    rows = OutputFolder(output).rows(QUARANTINE_TABLE)
    return [row for row, _ in zip(rows, range(limit), strict=False)]


def _gaps(
    folder: OutputFolder, commit: Commit | None, state: ClusterState, expected_nodes: Sequence[str]
) -> Iterator[Gap]:
    if commit is None or not commit.records:
        yield Gap("records", "no record was read: is this the folder of the state-change logs?")
    if commit is not None and commit.quarantined:
        yield from _malformed(folder, commit)
    yield from _not_compared(folder)
    for name, unclear in sorted(state.unclear.items()):
        yield Gap(name, f"{unclear.count} records could not be judged, such as {unclear.example}")
    for name, log in sorted(state.incarnations.items()):
        if log.missing and log.missing[0][0] == 0:
            yield Gap(name, f"records 0 to {log.missing[0][1]} were not there: the log begins later")
    present = {name.partition("/")[0] for name in state.incarnations} | governed_nodes(state)
    wanted = {f"broker-{broker}": f"{record} names it as live" for broker, record in state.brokers.items()}
    for controller in () if commit is None else commit.controllers:
        wanted[f"controller-{controller}"] = "agents carried out its requests"
    wanted |= dict.fromkeys(expected_nodes, "it was expected")
    for node in sorted(set(wanted) - present):
        yield Gap(node, f"there is no log of this node, though {wanted[node]}")


def _malformed(folder: OutputFolder, commit: Commit) -> Iterator[Gap]:
    """The files with the most malformed lines. For a file with very many the table has the first of them."""
    files = Counter(row["file"] for row in folder.rows(QUARANTINE_TABLE, ["file"]))
    is_full = files.total() < commit.quarantined
    for file, count in files.most_common(_NAMED_MAX):
        more = " and more" if is_full and count >= QUARANTINED_MAX else ""
        yield Gap(file, f"{count} malformed lines{more}; see the table 'quarantine'")
    if len(files) > _NAMED_MAX:
        yield Gap("files", f"{len(files) - _NAMED_MAX} more have malformed lines; see the table 'quarantine'")


def _not_compared(folder: OutputFolder) -> Iterator[Gap]:
    """The first findings that say what the rules could not compare."""
    rows = folder.current_rows(FINDINGS_TABLE)
    said = {row["subject"]: row["message"] for row in rows if row["status"] == NOT_COMPARED}
    for subject in sorted(said)[:_NAMED_MAX]:
        yield Gap(subject, said[subject])
    if len(said) > _NAMED_MAX:
        yield Gap("partitions", f"{len(said) - _NAMED_MAX} more like this; see the table 'findings'")


def _origins(folder: OutputFolder, findings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The request or event that led to each record that these findings name, as a text."""
    wanted = {name for finding in findings for name in finding["records"]}
    topics = sorted({finding["topic"] for finding in findings if finding["topic"] is not None})
    if not topics:
        return {}
    rows = folder.rows(RECORDS_TABLE, _OF_CAUSES, pyarrow.dataset.field("topic").isin(topics))
    named: list[LoggedStateChange] = []
    asked: list[LoggedStateChange] = []
    for row in rows:
        record = msgspec.convert(nested(row), LoggedStateChange)
        if record.reference in wanted:
            named.append(record)
        if record.principal is not None:
            asked.append(record)
    calls = calls_by_event(asked)
    texts = ((record.reference, origin_text(record, call_of(record, calls))) for record in named)
    return {reference: text for reference, text in texts if text is not None}


def _not_replayed(commit: Commit | None) -> Iterator[Gap]:
    """Say what decisions could not be replayed for want of."""
    if commit is None or commit.decisions is None:
        return
    for missing, (count, first) in sorted(summed(commit.decisions.missing, commit.decisions.pending).items()):
        where = f" (first {first})" if first else ""
        yield Gap("decisions", f"{count} were not replayed, as no log says {missing}{where}")


def nested(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a record has it: without nulls, and the fields of its cause together."""
    found = {name: value for name, value in row.items() if value is not None and not name.startswith("cause_")}
    cause = {name[6:]: v for name, v in row.items() if v is not None and name.startswith("cause_")}
    return {**found, "cause": cause} if "event" in cause else found
