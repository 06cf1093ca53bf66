"""Rules about the terms of controllers: who wrote in a controller epoch, when, and whom the agents took for it.

They hold over all records of a run, so they are judged at the end of what was read.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from audit.reading.node_work import Work
from audit.records.findings import AuditFinding
from audit.rules.rule import Explanation

WRITTEN_OUTSIDE_TERM: Final = "written-outside-term"
OTHER_CONTROLLER_FOLLOWED: Final = "other-controller-followed"
_CONTROLLER: Final = "controller-"
_BOTH_LOGS: Final = (
    "the logs of both controllers: one was not fenced, as when ZooKeeper was restored, or somebody wrote into a log"
)
EXPLAINS: Final = {
    WRITTEN_OUTSIDE_TERM: Explanation(
        "critical",
        "A controller records changes of a controller epoch only between becoming active in it and resigning.",
        _BOTH_LOGS,
        kafka="a Kafka log does not say when a controller resigns",
    ),
    OTHER_CONTROLLER_FOLLOWED: Explanation(
        "critical",
        "Brokers carry out requests of a controller epoch from the controller that became active in it.",
        _BOTH_LOGS,
        kafka="TRACE",
    ),
}


def written_outside_terms(
    work: Iterable[Work],
    active: Mapping[int, Sequence[str]],
    resigned: Iterable[str],
    unread: Collection[str],
) -> Iterator[AuditFinding]:
    """Find what controllers recorded in a controller epoch without being active in it.

    `active`: by controller epoch, and `resigned`: the records (node/incarnation/number) with which terms began and
    ended. `unread`: logs (node/incarnation) that lack lines, and may have had these records.
    """
    began = _numbers(record for records in active.values() for record in records)
    ended = _numbers(resigned)
    for each in sorted(work, key=lambda each: (each.controller_epoch, each.node, each.incarnation)):
        log = f"{each.node}/{each.incarnation}"
        if each.controller_epoch < 0 or not each.node.startswith(_CONTROLLER) or log in unread:
            continue
        of_term = range(each.first_seq, each.last_seq + 1)
        begin = min((seq for seq in began.get(log, ()) if seq in of_term), default=None)
        end = min((seq for seq in ended.get(log, ()) if seq in of_term), default=None)
        if begin is None and each.records == 1 and end == each.first_seq:
            # It was elected and failed before it became active: it recorded nothing but that it resigned.
            continue
        if begin is None:
            yield _finding(each, each.first_seq, each.first_ms, f"in which {_active_in(each, active)}")
        elif begin > each.first_seq:
            yield _finding(each, each.first_seq, each.first_ms, f"before it became active by record {begin}")
        elif end is not None and end < each.last_seq:
            yield _finding(each, each.last_seq, each.last_ms, f"after it had resigned by record {end}")


def _active_in(work: Work, active: Mapping[int, Sequence[str]]) -> str:
    names = sorted({record.partition("/")[0] for record in active.get(work.controller_epoch, ())})
    return f"{', '.join(names) or 'nobody'} became active"


def others_followed(
    followed: Iterable[tuple[int, int]], active: Mapping[int, Sequence[str]]
) -> Iterator[tuple[int, int, str]]:
    """Find the (controller epoch, controller) that agents followed though another one became active in the epoch.

    Yields these, and the names of the active ones.
    """
    for epoch, controller in sorted(followed):
        known = {record.partition("/")[0] for record in active.get(epoch, ())}
        if known and f"{_CONTROLLER}{controller}" not in known:
            yield epoch, controller, ", ".join(sorted(known))


def _numbers(records: Iterable[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for record in records:
        log, _, seq = record.rpartition("/")
        found.setdefault(log, []).append(int(seq))
    return found


def _finding(work: Work, seq: int, at_ms: int, why: str) -> AuditFinding:
    log = f"{work.node}/{work.incarnation}"
    message = f"{work.node} wrote in controller epoch {work.controller_epoch}, {why}"
    subject = f"controller-epoch {work.controller_epoch} of {log}"
    return AuditFinding(WRITTEN_OUTSIDE_TERM, subject, message, (f"{log}/{seq}",), at_ms=at_ms)
