"""`klamm audit verify`: numbers, chains and ends of logs, compared with one another, without Spark and Arrow."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from audit.chains.witnesses import (
    DIGEST_KEPT,
    Latest,
    ReadLog,
    Witnessed,
    add_witnessed,
    check_ends,
    open_ends,
    unconfirmed,
    with_unconfirmed,
    witnessed_by_heads,
)
from audit.reading.changed_files import complete_lines_present, ignored_faults
from audit.reading.file_faults import LOG_CHANGED, converted_message, why_unread, without_lines
from audit.reading.log_files import LogFiles
from audit.records.findings import CLEAN, FINDINGS, INCOMPLETE
from cluster.model.printable import path_text
from state_log.chain import CHAIN_BREAK, OUT_OF_ORDER, ChainSegment, extend_many, named_too_late, out_of_order
from state_log.heads_file import GivenHead
from state_log.reader import Break, complete_lines, find_segments, join_all
from state_log.record import Kind, LoggedStateChange, MalformedLine, decode_line
from state_log.writer import parse_segment_name

_BLOCK_LINES: Final = 10_000
_BYTES: Final = DIGEST_KEPT // 2


class VerificationGap(Struct, frozen=True):
    """Something that was not read or could not be compared: `what` names it, `why` says more."""

    what: str
    why: str


class Verification(Struct, frozen=True):
    """`breaks`: what is wrong, by rule; `incomplete`: what could not be checked. For the others see AuditResult."""

    verdict: str
    records: int
    breaks: tuple[Break, ...]
    incomplete: tuple[VerificationGap, ...]
    ends: str
    open_ends: dict[str, int]


def verify_logs(
    directories: Iterable[Path], heads: Sequence[GivenHead] = (), *, require_heads: bool = False
) -> Verification:
    """Check the logs in these folders, and compare them with the heads.

    With `require_heads` the result is incomplete where the newest log of a node has no head.
    """
    logs = _Logs()
    folders = list(directories)
    for path in find_segments(folders):
        logs.read(path)
    files = LogFiles(folders)
    files.logs()
    logs.gaps += [VerificationGap(fault.file, why_unread(fault)) for fault in ignored_faults(files.ignored)]
    joined, faults = join_all(logs.segments)
    faulty = {(fault.node, fault.incarnation) for fault in faults}
    early = [each for each in logs.early if (each.node, each.incarnation) not in faulty]
    breaks = _summed([*faults, *logs.misplaced, *early, *logs.converted])
    add_witnessed(logs.latest, witnessed_by_heads(heads))
    broken = {f"{b.node}/{b.incarnation}" for b in breaks if b.rule == CHAIN_BREAK}
    read = {
        name: ReadLog(log.next_seq, log.missing, logs.boots.get(name, ""), name in logs.malformed, name in broken)
        for name, log in joined.items()
    }
    digests = logs.digests()
    latest = with_unconfirmed(logs.latest, unconfirmed(logs.witnessed, digests), read)
    ends = check_ends(latest, read, digests, lambda _: False)
    for finding in ends.findings:
        node, _, incarnation = finding.subject.removeprefix("log ").partition("/")
        breaks.append(Break(finding.rule, node, incarnation, finding.message))
    unread = (
        VerificationGap(path_text(path), why) for name, (path, why) in sorted(logs.unread.items()) if name not in joined
    )
    gaps = [*logs.gaps, *unread, *(VerificationGap(*undecided) for undecided in ends.undecided)]
    for name, log in joined.items():
        if log.missing and log.missing[0][0] == 0:
            gaps.append(VerificationGap(name, f"records 0 to {log.missing[0][1]} were not there: the log begins later"))
    if not joined:
        gaps.append(VerificationGap("records", "no record was read: is this the folder of the state-change logs?"))
    last, why = open_ends(heads, {name: log.next_seq for name, log in joined.items()})
    if require_heads and last:
        gaps.append(VerificationGap("ends of logs", why))
    verdict = FINDINGS if breaks else INCOMPLETE if gaps else CLEAN
    records = sum(log.records for log in joined.values())
    return Verification(verdict, records, tuple(breaks), tuple(gaps), why, last)


def _summed(breaks: Sequence[Break]) -> list[Break]:
    """Sum up breaks, one for each log and rule, as the audit has it: the first, and how many there are."""
    by_log: dict[tuple[str, str, str], list[Break]] = {}
    for each in breaks:
        by_log.setdefault((each.rule, each.node, each.incarnation), []).append(each)
    return [
        group[0] if len(group) == 1 else replace(group[0], message=f"{group[0].message}; {len(group)} times in all")
        for group in by_log.values()
    ]


class _Logs:
    """Holds what the files have: segments of chained lines with their digests, witnesses, boots, malformed lines.

    `misplaced`: segments that stand behind later ones; `early`: those before the number in the name of their file.
    `converted`: files with CR LF line ends, which are checked as if they had none. `unread`: files without a line, by
    log.
    """

    def __init__(self) -> None:
        self.segments: list[tuple[ChainSegment, int | None]] = []
        self.latest: Latest = {}
        self.witnessed: list[Witnessed] = []
        self.boots: dict[str, str] = {}
        self.malformed: set[str] = set()
        self.gaps: list[VerificationGap] = []
        self.misplaced: list[Break] = []
        self.early: list[Break] = []
        self.converted: list[Break] = []
        self.unread: dict[str, tuple[Path, str]] = {}
        self._digests: list[tuple[ChainSegment, bytes]] = []

    def read(self, path: Path) -> None:
        name = parse_segment_name(path.name)
        segments: list[ChainSegment] = []
        digests = bytearray()
        malformed = converted = 0
        try:
            remaining = complete_lines(path)
            while block := list(islice(remaining, _BLOCK_LINES)):
                converted += sum(line.endswith(b"\r") for line in block)
                lines = [line.removesuffix(b"\r") for line in block] if converted else block
                decoded = [(line, decode_line(line)) for line in lines]
                good = [(line, record) for line, record in decoded if not isinstance(record, MalformedLine)]
                malformed += len(decoded) - len(good)
                records = [record for _, record in good]
                found = extend_many(segments, records, [line for line, _ in good])
                digests += bytes.fromhex("".join([digest[:DIGEST_KEPT] for digest in found]))
                self._read_boots_and_witnesses(records)
        except OSError as error:
            self.gaps.append(VerificationGap(path_text(path), f"cannot be read: {error.strerror}"))
        self._add_file_faults(path, segments, converted)
        self._add_order(segments, None if name is None else name.first_seq)
        if malformed:
            self.gaps.append(VerificationGap(path_text(path), f"{malformed} malformed lines"))
            self.malformed |= {f"{s.node}/{s.incarnation}" for s in segments}
            self.malformed |= set() if name is None else {f"{name.node}/{name.incarnation}"}
        position = 0
        for segment in segments:
            self.segments.append((segment, None if name is None else name.first_seq))
            size = segment.count * _BYTES
            self._digests.append((segment, bytes(digests[position : position + size])))
            position += size

    def _add_file_faults(self, path: Path, segments: Sequence[ChainSegment], converted: int) -> None:
        if segments and converted:
            first = segments[0]
            self.converted.append(Break(LOG_CHANGED, first.node, first.incarnation, converted_message(path)))
        elif not segments and not complete_lines_present(path):
            name = parse_segment_name(path.name)
            log = path.name if name is None else f"{name.node}/{name.incarnation}"
            self.unread.setdefault(log, (path, without_lines(_size(path))))

    def _add_order(self, segments: Sequence[ChainSegment], named: int | None) -> None:
        for segment, message in out_of_order(segments):
            self.misplaced.append(Break(OUT_OF_ORDER, segment.node, segment.incarnation, message))
        if segments and named is not None and segments[0].first_seq < named:
            first = segments[0]
            self.early.append(Break(OUT_OF_ORDER, first.node, first.incarnation, named_too_late(first, named)))

    def _read_boots_and_witnesses(self, records: Sequence[LoggedStateChange]) -> None:
        seen = []
        for record in records:
            if record.boot_id is not None:
                self.boots.setdefault(f"{record.node}/{record.incarnation}", record.boot_id)
            if record.kind is Kind.WITNESS and record.witness is not None:
                w = record.witness
                seen.append(
                    Witnessed(w.node, w.incarnation, w.seq, w.digest, w.boot_id, record.reference, record.at_ms)
                )
        if seen:
            add_witnessed(self.latest, seen)
            self.witnessed += seen

    def digests(self) -> "_Digests":
        return _Digests(self._digests)


def _size(path: Path) -> int:
    """The size of a file; 0 if it is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class _Digests:
    """Finds the digests of a line; by log and number."""

    def __init__(self, digests: Iterable[tuple[ChainSegment, bytes]]) -> None:
        in_order = sorted(digests, key=lambda d: (d[0].node, d[0].incarnation, d[0].first_seq))
        groups = groupby(in_order, key=lambda d: f"{d[0].node}/{d[0].incarnation}")
        self._by_log = {name: list(group) for name, group in groups}

    def __call__(self, log: str, seq: int) -> set[str]:
        of_log = self._by_log.get(log, [])
        found = set()
        # Segments that begin later cannot have the line; an earlier one may, where lines are there twice.
        for segment, digests in of_log[: bisect_right(of_log, seq, key=lambda d: d[0].first_seq)]:
            if segment.last_seq >= seq:
                at = (seq - segment.first_seq) * _BYTES
                found.add(digests[at : at + _BYTES].hex())
        return found
