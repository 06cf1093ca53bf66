"""The ends of logs: what other nodes, ZooKeeper or the nodes themselves have seen of a log, against the log as it is.

A chain of digests commits to all lines before, so the last line that each witness has seen of a log confirms what is
before it. That is not so of a log with two histories: earlier lines that differ from what a witness has seen count too.
Pure, and without Arrow or Spark: `klamm audit verify` uses it as well.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import Struct

from audit.records.findings import CLEAN, AuditFinding
from state_log.heads_file import GivenHead

LOG_CUT: Final = "log-cut"
LOG_REWRITTEN: Final = "log-rewritten"
LOG_CONTINUED: Final = "log-ends-with-its-run"
LAG_MS: Final = 60_000
"""How far a log that is being followed may be behind what others have seen of it, in ms."""
SEALED_LAG_MS: Final = 3_660_000
"""The same for a log of which only closed files are there, in ms: files are closed after an hour."""
DIGEST_KEPT: Final = 16
"""Hexadecimal digits of a line's digest that are compared."""
UNCONFIRMED_MAX: Final = 200
"""Witnesses of one log that are kept because no line confirms them."""
LOGS_MAX: Final = 1000
"""Logs that are kept for one witness; a sound one has seen one for each start of a node."""
_NAMED_MAX: Final = 20
_SHOWN_MAX: Final = 4
_GIVEN: Final = "a head that was given"

Digests = Callable[[str, int], Collection[str]]
"""(log, number) -> the first DIGEST_KEPT digits of the digest of each line that was read under this number."""


class Witnessed(Struct, frozen=True):
    """A line that the log of this node and incarnation had reached.

    `by`: the record that says so, "" for a head that was given; `at_ms`: when that was, by the witness's clock, -1
    where it is unknown.
    """

    node: str
    incarnation: str
    seq: int
    digest: str
    boot_id: str = ""
    by: str = ""
    at_ms: int = -1

    @property
    def log(self) -> str:
        return f"{self.node}/{self.incarnation}"

    @property
    def witness(self) -> str:
        """The log that has the record; "" for a head that was given."""
        return self.by.rpartition("/")[0]

    @property
    def digits(self) -> str:
        return self.digest[:DIGEST_KEPT].lower()

    @property
    def is_own(self) -> bool:
        """Whether a later run of the same node says so: it has read the line from the file."""
        return self.by.startswith(f"{self.node}/")


class ReadLog(Struct, frozen=True):
    """Holds what was read of the log of one incarnation: the number after its last line, and ranges that are missing.

    `boot_id`: that of its first record. `is_malformed`: it has lines that are no records. `is_broken`: its chain is
    broken.
    """

    next_seq: int
    missing: tuple[tuple[int, int], ...] = ()
    boot_id: str = ""
    is_malformed: bool = False
    is_broken: bool = False

    def lacks(self, seq: int) -> bool:
        """Whether a number is in a gap, which has a finding of its own, or before the beginning of the log."""
        return any(first <= seq <= last for first, last in self.missing)


class UndecidedWitness(NamedTuple):
    """Holds what cannot be compared with a witness: `what` names it, `why` says more."""

    what: str
    why: str


class Ends(NamedTuple):
    """Holds what the witnesses show."""

    findings: list[AuditFinding]
    undecided: list[UndecidedWitness]


Latest = dict[str, dict[str, Witnessed]]
"""Keyed by log and witness: the last line that the witness has seen of the log; and every head that was given."""


def add_witnessed(latest: Latest, seen: Iterable[Witnessed]) -> None:
    """Add what witnesses have seen; the outcome does not depend on the order."""
    counts = _logs_of(latest)
    for each in sorted(seen, key=lambda each: (each.log, each.witness, -each.seq, each.by, each.digest)):
        by_witness = latest.get(each.log, {})
        # Heads that were given are few, and may contradict one another.
        key = each.witness or f"{each.seq} {each.digest}"
        known = by_witness.get(key)
        if known is None and each.witness:
            if counts.get(each.witness, 0) >= LOGS_MAX:
                continue
            counts[each.witness] = counts.get(each.witness, 0) + 1
        if known is None or (each.seq, known.by, known.digest) > (known.seq, each.by, each.digest):
            latest[each.log] = {**by_witness, key: each}


def unconfirmed(seen: Iterable[Witnessed], digests: Digests) -> list[Witnessed]:
    """Return what no line that was read confirms, sorted; at most UNCONFIRMED_MAX of each log, the first ones.

    The line was not read yet, or differs; another one with its number may still come, as where a log was copied twice.
    """
    found: dict[str, list[Witnessed]] = {}
    for each in sorted(set(seen), key=lambda each: (each.log, each.seq, each.by, each.digest)):
        of_log = found.setdefault(each.log, [])
        if len(of_log) < UNCONFIRMED_MAX and each.digits not in digests(each.log, each.seq):
            of_log.append(each)
    return [each for of_log in found.values() for each in of_log]


def with_unconfirmed(latest: Latest, seen: Iterable[Witnessed], logs: Mapping[str, ReadLog]) -> Latest:
    """Return `latest` with those of `seen` whose number was read, to be compared again with all lines that were."""
    found = dict(latest)
    for each in seen:
        if each.log in logs and each.seq < logs[each.log].next_seq:
            found[each.log] = {**found.get(each.log, {}), each.by: each}
    return found


def witnessed_by_heads(heads: Iterable[GivenHead]) -> Iterator[Witnessed]:
    """The heads of nodes as witnesses of their logs."""
    for head in heads:
        yield Witnessed(head.node, head.incarnation, head.seq, head.digest, head.boot_id, "", head.at_ms)


class OpenEnds(NamedTuple):
    """The newest logs of nodes for which no head was given: their last lines may have been cut off unnoticed.

    `last`: by node, the number of the last line that was read, -1 where none was. `why`: "" if there are none.
    """

    last: dict[str, int]
    why: str


def open_ends(heads: Collection[GivenHead], logs: Mapping[str, int]) -> OpenEnds:
    """Find the newest log of each node that has no head. `logs`: by node/incarnation, the number after the last line.

    A node's earlier logs need none: its next run names their last line.
    """
    newest = {log.partition("/")[0]: log for log in sorted(logs)}
    known = {f"{head.node}/{head.incarnation}" for head in heads}
    without = {node: logs[log] - 1 for node, log in newest.items() if log not in known}
    if not without:
        return OpenEnds({}, "")
    if not heads:
        return OpenEnds(without, "not checked: give --heads, --zookeeper or --bootstrap")
    named = ", ".join(list(without)[:_NAMED_MAX])
    return OpenEnds(without, f"not checked of {named}: there is no head of the newest log")


def qualified(verdict: str, ends: Mapping[str, int]) -> str:
    """The verdict as a line for people: what is clean is so up to the lines whose ends nobody has confirmed."""
    if verdict != CLEAN or not ends:
        return verdict
    named = [f"record {last} of {node}" for node, last in sorted(ends.items())]
    more = [] if len(named) <= _SHOWN_MAX else [f"{len(named) - _SHOWN_MAX} more"]
    return f"{verdict} up to {', '.join([*named[:_SHOWN_MAX], *more])}: what followed may have been cut"


def check_ends(
    latest: Latest, logs: Mapping[str, ReadLog], digests: Digests, may_lag: Callable[[Witnessed], bool]
) -> Ends:
    """Compare logs (by node/incarnation) with what was seen of them; at most one finding for each log.

    `may_lag`: whether a log may have the line though it was not read yet.
    """
    ends = Ends([], [])
    nodes, boots = {name.partition("/")[0] for name in logs}, _boots_after(logs)
    for name in sorted(latest):
        seen = sorted(latest[name].values(), key=lambda each: (-each.seq, each.by))
        if name not in logs:
            ends.undecided.append(_without_log(seen[0], nodes))
        elif not _differs(ends, name, logs[name], seen, digests):
            beyond = [each for each in seen if each.seq >= logs[name].next_seq]
            cut = [each for each in beyond if not may_lag(each)]
            if beyond:
                _check_end(ends, logs[name], boots[name], beyond, cut)
            elif ended := [each for each in seen if each.is_own and each.seq < logs[name].next_seq - 1]:
                message = f"{name} continues to record {logs[name].next_seq - 1}, but {_seen(ended[0])} as its last one"
                ends.findings.append(_finding(LOG_CONTINUED, name, message, ended))
    for witness, count in sorted(_logs_of(latest).items()):
        if count >= LOGS_MAX:
            ends.undecided.append(
                UndecidedWitness(witness, f"names {count} logs or more, and only these were compared")
            )
    return ends


def _differs(ends: Ends, name: str, log: ReadLog, seen: Sequence[Witnessed], digests: Digests) -> bool:
    """Whether a line differs from the one that was seen."""
    present = [each for each in seen if each.seq < log.next_seq and not log.lacks(each.seq)]
    kept = [(each, digests(name, each.seq)) for each in present]
    differing = [each for each, known in kept if known and each.digits not in known]
    if differing and not log.is_broken:
        message = f"{_seen(differing[-1])} of {name} with another digest than it has now{_more(differing)}"
        ends.findings.append(_finding(LOG_REWRITTEN, name, message, differing))
    elif any(not known for _, known in kept):
        ends.undecided.append(
            UndecidedWitness(name, "its lines were read by an earlier version, without their digests")
        )
    return bool(differing)


def _check_end(
    ends: Ends, log: ReadLog, boot_after: str, beyond: Sequence[Witnessed], cut: Sequence[Witnessed]
) -> None:
    """Add that the log ends before lines that were seen. `cut`: those that a lag cannot explain."""
    name = beyond[0].log
    ended, last = f"{name} ends with record {log.next_seq - 1}", _seen((cut or beyond)[0])
    boot = log.boot_id or next((each.boot_id for each in beyond if each.boot_id), "")
    why = ""
    if log.is_malformed:
        why = f"{ended} and has malformed lines; {last} of it"
    elif boot and boot_after and boot != boot_after and not any(each.is_own for each in cut):
        why = f"{ended}; {last} of it. The rest may have been lost: the machine was restarted after it"
    elif not cut:
        why = f"{ended} so far; {last} of it shortly before. Read it to its end: 'klamm audit run --once'"
    if why:
        ends.undecided.append(UndecidedWitness(name, why))
    else:
        ends.findings.append(_finding(LOG_CUT, name, f"{ended}, but {last} of it{_more(cut)}", cut))


def _without_log(seen: Witnessed, nodes: Collection[str]) -> UndecidedWitness:
    if seen.node in nodes:
        why = f"there is no log of this incarnation, though {_seen(seen)} of it; retention may have deleted it"
        return UndecidedWitness(seen.log, why)
    return UndecidedWitness(seen.node, f"there is no log of this node, though {_seen(seen)} of it")


def _boots_after(logs: Mapping[str, ReadLog]) -> dict[str, str]:
    """The boot of the machine at each node's next start, by log; "" if there was none, or it is unknown."""
    found = dict.fromkeys(logs, "")
    for name, later in pairwise(sorted(logs)):
        if name.partition("/")[0] == later.partition("/")[0]:
            found[name] = logs[later].boot_id
    return found


def _logs_of(latest: Latest) -> dict[str, int]:
    counts: dict[str, int] = {}
    for by_witness in latest.values():
        for each in by_witness.values():
            if each.witness:
                counts[each.witness] = counts.get(each.witness, 0) + 1
    return counts


def _seen(each: Witnessed) -> str:
    return f"{each.witness or _GIVEN} has seen record {each.seq}"


def _more(seen: Sequence[Witnessed]) -> str:
    return "" if len(seen) == 1 else f"; {len(seen)} witnesses in all"


def _finding(rule: str, name: str, message: str, seen: Sequence[Witnessed]) -> AuditFinding:
    records = tuple(each.by for each in seen if each.by)[:_NAMED_MAX]
    return AuditFinding(rule, f"log {name}", message, records)
