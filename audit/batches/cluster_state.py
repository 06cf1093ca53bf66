"""Checks what concerns no partition: chains of lines, controllers, and which nodes there should be."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec
import pyarrow
from msgspec import Struct, field

from audit.batches.bucket import BucketPlace, controllers_followed, controllers_named, greatest_events, write_findings
from audit.batches.cluster_tables import Read, TablesState, write_cluster_tables
from audit.batches.kept_tables import KeptTables
from audit.batches.subject_findings import subject_findings
from audit.chains.incarnations import Span, findings_of_span, joined
from audit.chains.line_digests import DIGESTS, SEALING, digests_of, find_digests, reduce_digests
from audit.chains.witnesses import Latest, Witnessed, add_witnessed, unconfirmed
from audit.reading.changed_files import FileFault
from audit.reading.file_faults import converted_found, faults_found
from audit.reading.kafka.log_state import KafkaLog, KafkaState, add_lines
from audit.reading.lines_read import QuarantinedLine, ReadRange
from audit.reading.unclear_records import Unclear, joined_unclear
from audit.records.findings import AuditFinding, changes
from audit.records.sorted_runs import Runs
from audit.records.vectors import is_one_of
from audit.rules.limits import Limits
from audit.rules.subjects import reference
from audit.rules.unfinished_work import DeletionStep, add_deletions, stalled_deletions
from audit.storage.commits import BucketResult, Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import QUARANTINE, QUARANTINE_TABLE, RECORDS_TABLE
from state_log.chain import OUT_OF_ORDER, IncarnationLog, join, named_too_late, out_of_order
from state_log.invariants import ONE_CONTROLLER_PER_EPOCH
from state_log.record import Kind

_NAMED_MAX: Final = 20


class ChainFaults(Struct):
    """Faults of one kind in the lines of one incarnation: the first, their number, and the first records."""

    first: str
    count: int = 0
    records: tuple[str, ...] = ()


class ClusterState(Struct):
    """Holds what is known of the whole cluster; serialisable."""

    incarnations: dict[str, IncarnationLog] = field(default_factory=dict)
    """Keyed by node/incarnation."""
    faults: dict[str, dict[str, ChainFaults]] = field(default_factory=dict)
    """Keyed by node/incarnation, then by rule."""
    active: dict[int, list[str]] = field(default_factory=dict)
    """Controller epoch -> the records of controllers that became active in it."""
    spans: dict[str, Span] = field(default_factory=dict)
    """Keyed by node/incarnation."""
    malformed: set[str] = field(default_factory=set)
    """Logs with lines that are no records."""
    brokers: dict[int, str] = field(default_factory=dict)
    """Brokers that controllers have seen live, and the first record that says so."""
    tables: TablesState = field(default_factory=TablesState)
    deletions: dict[str, list[DeletionStep]] = field(default_factory=dict)
    """Keyed by topic and id."""
    kafka: KafkaState = field(default_factory=KafkaState)
    unread: dict[str, FileFault] = field(default_factory=dict)
    """Files without anything to read, by log."""
    unclear: dict[str, Unclear] = field(default_factory=dict)
    """Records that no rule can check, by node/incarnation."""
    witnessed: Latest = field(default_factory=dict)
    """What nodes have seen last of the logs of others."""
    unconfirmed: list[Witnessed] = field(default_factory=list)
    """What nodes have seen of the logs of others that no line which was read confirms."""

    @property
    def last_at_ms(self) -> dict[str, int]:
        """The time of the last record of each node."""
        found: dict[str, int] = {}
        for span in self.spans.values():
            found[span.node] = max(span.last_at_ms, found.get(span.node, span.last_at_ms))
        return found


class Reported(NamedTuple):
    """Holds what the source says of the lines it has read, and of files."""

    read: Sequence[ReadRange]
    faults: Sequence[FileFault]


def check_cluster(
    output: OutputFolder,
    place: BucketPlace,
    before: Commit,
    rows: pyarrow.Table,
    reported: Reported,
) -> BucketResult:
    """Check the records that are of no partition, the chains of all lines, and the files; return the new state."""
    (read, faults), state = reported, before.cluster
    known = ClusterState() if state.file is None else decode_state(output.read_state(state.file))
    kept = KeptTables(output, place, state, before.open_rows)
    events = write_cluster_tables(output, place, known.tables, Read(rows, read), kept)
    findings = [*_chains(known, read), *_spans(known, read), *_controllers(known, rows), *_kafka_logs(known, read)]
    findings += _deletions(known, rows, before.limits)
    findings += subject_findings(rows, read, kept)
    findings += [*faults_found(known.unread, faults), *converted_found(read)]
    for part in read:
        known.unread.pop(part.log, None)
        known.unread.pop(part.file, None)
    known.unclear = joined_unclear((known.unclear, *(part.unclear for part in read)))
    witnessed = list(_witnessed(rows))
    add_witnessed(known.witnessed, witnessed)
    write_findings(output, place, findings)
    output.write_rows(RECORDS_TABLE, rows.drop_columns(["key"]), place.batch, place.bucket)
    lines = [line for part in read for line in part.lines]
    known.malformed |= {part.log for part in read if part.quarantined}
    if lines:
        output.write_rows(QUARANTINE_TABLE, _quarantined(lines), place.batch, place.bucket)
    known.unconfirmed = _unconfirmed([*known.unconfirmed, *witnessed], _digests(read, kept))
    return BucketResult(
        place.bucket,
        kept.write(kept.file.add_bytes(msgspec.msgpack.encode(known))),
        records=sum(part.records for part in read),
        quarantined=sum(part.quarantined for part in read),
        controllers=controllers_named(rows),
        followed=controllers_followed(rows),
        greatest_events=greatest_events(rows),
        events=events,
        modified_ns=max((part.modified_ns for part in read), default=0),
        taken={part.log: (part.file, part.end) for part in sorted(read, key=lambda part: part.file)},
    )


def decode_state(data: bytes) -> ClusterState:
    """Decode a state that `check_cluster` wrote."""
    return msgspec.msgpack.decode(data, type=ClusterState)


def ends_read(output: OutputFolder) -> dict[str, tuple[int, str]]:
    """Find the last line that was read of each log: its number and its digest. Raises OutputError."""
    commit = output.last_commit()
    if commit is None or commit.cluster.file is None:
        return {}
    logs = decode_state(output.read_state(commit.cluster.file)).incarnations
    return {name.replace("/", "-", 1): (log.next_seq - 1, log.digest) for name, log in logs.items() if log.next_seq}


def _witnessed(rows: pyarrow.Table) -> Iterator[Witnessed]:
    for row in rows.filter(pyarrow.array(is_one_of(rows["kind"], [Kind.WITNESS.value]))).to_pylist():
        by = reference(row)
        if row["witness_node"] is not None:
            node, incarnation, seq, digest = (row[f"witness_{n}"] for n in ("node", "incarnation", "seq", "digest"))
            yield Witnessed(node, incarnation, seq, digest, row["witness_boot_id"] or "", by, row["at_ms"])


def _digests(read: Sequence[ReadRange], kept: KeptTables) -> Runs:
    """Keep the digests of these lines beside those of earlier ones, and return all."""
    known, added = kept.known(DIGESTS), digests_of((part.segments, part.digests) for part in read)
    kept.add(DIGESTS, known, added, reduce_digests, SEALING)
    return known.with_open(added)


def _unconfirmed(seen: Sequence[Witnessed], runs: Runs) -> list[Witnessed]:
    digests = find_digests(runs, {(each.log, each.seq) for each in seen})
    return unconfirmed(seen, lambda log, seq: digests[log, seq])


def _chains(known: ClusterState, read: Sequence[ReadRange]) -> list[AuditFinding]:
    """The findings about chains: one for each incarnation and rule, with the first records that it is about."""
    changed: set[tuple[str, str]] = set()

    def add(name: str, rule: str, seq: int, message: str) -> None:
        faults = known.faults.setdefault(name, {}).setdefault(rule, ChainFaults(message))
        faults.count += 1
        faults.records = (*faults.records, f"{name}/{seq}")[:_NAMED_MAX]
        changed.add((name, rule))

    for part in sorted(read, key=lambda part: part.file):
        for segment, message in out_of_order(part.segments):
            add(f"{segment.node}/{segment.incarnation}", OUT_OF_ORDER, segment.first_seq, message)
    segments = [(segment, part.retained_from, part.starts_early) for part in read for segment in part.segments]
    segments.sort(key=lambda s: (s[0].node, s[0].incarnation, s[0].first_seq, s[2]))
    for name, group in groupby(segments, key=lambda s: f"{s[0].node}/{s[0].incarnation}"):
        of_log = list(group)
        log = known.incarnations.get(name, IncarnationLog())
        known.incarnations[name], wrong = join(log, [(segment, named) for segment, named, _ in of_log])
        for fault in wrong:
            add(name, fault.rule, fault.seq, fault.message)
        faulty = {fault.seq for fault in wrong}
        for segment, named, starts_early in of_log:
            if starts_early and segment.first_seq not in faulty:
                add(name, OUT_OF_ORDER, segment.first_seq, named_too_late(segment, named or 0))
    return [_chain_finding(known.faults[name][rule], name, rule) for name, rule in sorted(changed)]


def _chain_finding(faults: ChainFaults, name: str, rule: str) -> AuditFinding:
    more = "" if faults.count == 1 else f"; {faults.count} times in all"
    return AuditFinding(rule, f"log {name}", f"{name}: {faults.first}{more}", faults.records)


def _spans(known: ClusterState, read: Sequence[ReadRange]) -> list[AuditFinding]:
    found = []
    for part in sorted(read, key=lambda part: part.file):
        for span in part.spans:
            name = f"{span.node}/{span.incarnation}"
            before = known.spans.get(name)
            known.spans[name] = now = joined(before, span)
            known_before = [] if before is None else findings_of_span(before)
            found += [finding for finding in findings_of_span(now) if finding not in known_before]
    return found


def _controllers(known: ClusterState, rows: pyarrow.Table) -> list[AuditFinding]:
    found = []
    columns = ["node", "incarnation", "seq", "kind", "controller_epoch", "to_state", "broker", "at_ms"]
    for row in rows.select(columns).to_pylist():
        record = reference(row)
        if row["kind"] == Kind.BROKER and row["to_state"] == "live" and row["broker"] is not None:
            known.brokers.setdefault(row["broker"], record)
        epoch = row["controller_epoch"]
        if row["kind"] != Kind.CONTROLLER or row["to_state"] != "active" or epoch is None:
            continue
        active = known.active.setdefault(epoch, [])
        if record not in active:
            active.append(record)
            active.sort()
            if len(active) > 1:
                message = f"{len(active)} controllers became active in controller epoch {epoch}"
                subject = f"controller-epoch {epoch}"
                found.append(
                    AuditFinding(ONE_CONTROLLER_PER_EPOCH, subject, message, tuple(active), at_ms=row["at_ms"])
                )
    return found


def _deletions(known: ClusterState, rows: pyarrow.Table, limits: Limits) -> list[AuditFinding]:
    before = {name: list(steps) for name, steps in known.deletions.items()}
    found = []
    for name in sorted(add_deletions(known.deletions, rows)):
        old, now = (stalled_deletions(name, of.get(name, ()), limits.deletion_ms) for of in (before, known.deletions))
        found += changes(old, now)
    return found


def _kafka_logs(known: ClusterState, read: Sequence[ReadRange]) -> list[AuditFinding]:
    """The findings about Kafka's logs. Ranges of one file come in their order: a batch has one range of a file."""
    found = []
    for part in sorted(read, key=lambda part: part.file):
        if part.kafka is not None:
            log = KafkaLog(part.file, part.records, part.quarantined, part.kafka)
            found += add_lines(known.kafka, part.log, log)
    return found


def _quarantined(lines: Sequence[QuarantinedLine]) -> pyarrow.Table:
    return pyarrow.Table.from_pylist([{**msgspec.to_builtins(line), "at_ms": None} for line in lines], QUARANTINE)
