"""Rules about controller epochs and the events of controllers: those that there were, and the time between them.

They hold over all records of a run, so they are judged at the end of what was read.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from audit.reading.node_work import Work
from audit.records.findings import AuditFinding
from audit.rules.rule import Explanation
from state_log.causes import utc_text
from state_log.decision_rules import FIRST_CONTROLLER_EPOCH, RECORD_OF_OWN_BROKER

EPOCH_NEVER_BEGAN: Final = "controller-epoch-never-began"
EVENT_NEVER_WAS: Final = "event-never-was"
EVENTS_RISE: Final = "events-rise"
EVENT_OF_ONE_NAME: Final = "event-of-one-name"
CONTROLLER_EPOCHS_RISE: Final = "controller-epochs-rise"
NO_CONTROLLER: Final = "no-controller-too-long"
_CONTROLLER: Final = "controller-"
_LOGS: Final = "the controller's log of that epoch: whether a line was taken out, or somebody else sent the request"
_NO_EVENTS: Final = "the lines do not number the controller's events"
EXPLAINS: Final = {
    EPOCH_NEVER_BEGAN: Explanation(
        "critical",
        "Brokers carry out requests only of controller epochs in which a controller became active.",
        "who sent the request: another program with the controller's id, or a controller that ZooKeeper never elected",
        kafka="a Kafka log does not say when a controller becomes active",
    ),
    EVENT_NEVER_WAS: Explanation(
        "critical", "Brokers carry out requests of events that the controller had.", _LOGS, kafka=_NO_EVENTS
    ),
    EVENTS_RISE: Explanation(
        "error",
        "A controller handles its events in the order of their numbers.",
        "the controller's log near the record: two processes may have written into it",
        kafka=_NO_EVENTS,
    ),
    EVENT_OF_ONE_NAME: Explanation(
        "error",
        "All records that follow from one event of a controller give it the same name.",
        "the controller's log near the record: somebody changed it, or two processes wrote into it",
        kafka=_NO_EVENTS,
    ),
    CONTROLLER_EPOCHS_RISE: Explanation(
        "critical",
        "Controller epochs begin at 1, and each that a controller becomes active in is above its earlier ones.",
        "`/controller_epoch` in ZooKeeper: it was deleted, set by hand, or ZooKeeper was restored",
        kafka="a Kafka log does not say when a controller becomes active",
    ),
    NO_CONTROLLER: Explanation(
        "error",
        "Another controller becomes active within the limit after one resigned, or after others saw it gone.",
        "whether other controllers ran, and whether they reached ZooKeeper; nothing is elected in the meantime",
        kafka="a Kafka log does not say when a controller resigns",
    ),
}


class TermOfController(NamedTuple):
    """Says when a controller became active in a controller epoch, and when it resigned, and in which records.

    Times in ms since 1970; None: it did not, or no record says so. `silent_ms`: for how long it had seen before that
    no controller was active.
    """

    controller_epoch: int
    controller: int
    active_ms: int | None
    resigned_ms: int | None
    active_record: str | None
    resigned_record: str | None
    silent_ms: int | None = None


class Followed(NamedTuple):
    """The greatest event of a controller in a controller epoch whose requests brokers carried out."""

    controller_epoch: int
    controller: int
    event: int


def unknown_requests(
    followed: Iterable[Followed], active: Collection[int], work: Iterable[Work], unread: Collection[str]
) -> Iterator[tuple[str, Followed, str]]:
    """Find the requests of epochs that never began, and of events that never were.

    Yields the rule, whose request it was, and the log that should have it, or "" where none has a record of the
    controller. `active`: the epochs in which somebody became active. `unread`: logs (node/incarnation) that lack lines.
    """
    parts = [each for each in work if each.node.startswith(_CONTROLLER)]
    incomplete = {log.partition("/")[0] for log in unread}
    present = {each.node for each in parts}
    for each in sorted(followed):
        node = f"{_CONTROLLER}{each.controller}"
        own = [part for part in parts if (part.node, part.controller_epoch) == (node, each.controller_epoch)]
        if node not in present or node in incomplete:
            continue
        if own:
            greatest = max(own, key=lambda part: (part.max_event, part.incarnation))
            if each.event > greatest.max_event >= 0:
                yield EVENT_NEVER_WAS, each, f"{greatest.node}/{greatest.incarnation}"
        elif each.controller_epoch not in active:
            yield EPOCH_NEVER_BEGAN, each, ""


def falling_events(work: Iterable[Work]) -> Iterator[AuditFinding]:
    """Find the logs of controllers in which the number of an event is below that of the one before it."""
    for each in sorted(work, key=lambda each: each.name):
        if each.event_fall is None or not each.node.startswith(_CONTROLLER):
            continue
        seq, before, event = each.event_fall
        log = f"{each.node}/{each.incarnation}"
        message = f"{each.node} recorded event {event} in controller epoch {each.controller_epoch} after event {before}"
        subject = f"controller-epoch {each.controller_epoch} of {log}"
        yield AuditFinding(EVENTS_RISE, subject, message, (f"{log}/{seq}",))


def renamed_events(work: Iterable[Work]) -> Iterator[AuditFinding]:
    """Find the logs of controllers in which an event has two names."""
    for each in sorted(work, key=lambda each: each.name):
        if each.event_renamed is None or not each.node.startswith(_CONTROLLER):
            continue
        seq, before, name = each.event_renamed
        log = f"{each.node}/{each.incarnation}"
        message = f"{each.node} recorded an event as {before or 'none'} and as {name or 'none'}"
        subject = f"controller-epoch {each.controller_epoch} of {log}"
        yield AuditFinding(EVENT_OF_ONE_NAME, subject, message, (f"{log}/{seq}",))


def falling_epochs(active: Mapping[int, Sequence[str]]) -> Iterator[AuditFinding]:
    """Find the controller epochs that are impossible, or not above those before them in the same log.

    `active`: by controller epoch, the records (node/incarnation/number) with which terms began.
    """
    by_log: dict[str, list[tuple[int, int]]] = {}
    for epoch, records in active.items():
        for record in records:
            log, _, number = record.rpartition("/")
            by_log.setdefault(log, []).append((int(number), epoch))
    for log, begun in sorted(by_log.items()):
        in_order = sorted(begun)
        for seq, epoch in in_order:
            if epoch < FIRST_CONTROLLER_EPOCH:
                message = f"{log.partition('/')[0]} became active in controller epoch {epoch}"
                yield _of_epoch(epoch, log, seq, message)
        for (_, before), (seq, epoch) in pairwise(in_order):
            if FIRST_CONTROLLER_EPOCH <= epoch <= before:
                message = f"{log.partition('/')[0]} became active in controller epoch {epoch} after {before}"
                yield _of_epoch(epoch, log, seq, message)


def _of_epoch(epoch: int, log: str, seq: int, message: str) -> AuditFinding:
    return AuditFinding(CONTROLLER_EPOCHS_RISE, f"controller-epoch {epoch} of {log}", message, (f"{log}/{seq}",))


def of_other_controllers(terms: Iterable[TermOfController]) -> Iterator[AuditFinding]:
    """Find the terms that a controller's log records of another controller."""
    for term in sorted(terms):
        for record, what in ((term.active_record, "became active"), (term.resigned_record, "resigned")):
            node = (record or "").partition("/")[0]
            if record is not None and node.startswith(_CONTROLLER) and node != f"{_CONTROLLER}{term.controller}":
                message = f"{node} recorded that controller {term.controller} {what}"
                yield AuditFinding(RECORD_OF_OWN_BROKER, f"record {record}", message, (record,))


def times_without_controller(
    terms: Iterable[TermOfController], newest_ms: int, limit_ms: int
) -> Iterator[AuditFinding]:
    """Find the times after a resignation in which no controller became active, up to the newest record."""
    known = sorted(terms)
    for term in known:
        if term.resigned_ms is None:
            continue
        later = [(t.active_ms, t.active_record) for t in known if t.controller_epoch > term.controller_epoch]
        begun = [(at_ms, record) for at_ms, record in later if at_ms is not None]
        end_ms, record = min(begun, default=(newest_ms, None))
        lasted = end_ms - term.resigned_ms
        if lasted > limit_ms:
            until = "another one became active" if record is not None else "the end of the logs"
            message = (
                f"no controller was active for {lasted / 1000:.0f} s, from {utc_text(term.resigned_ms)} until {until}: "
                f"more than {limit_ms // 1000} s"
            )
            records = tuple(each for each in (term.resigned_record, record) if each is not None)
            subject = f"controller-epoch {term.controller_epoch}"
            yield AuditFinding(NO_CONTROLLER, subject, message, records, at_ms=term.resigned_ms)


def late_controllers(terms: Iterable[TermOfController], limit_ms: int) -> Iterator[AuditFinding]:
    """Find the controllers that became active long after they had seen that none was, as one was killed.

    Where the one before resigned, `times_without_controller` finds it. A time in which no other controller ran is in no
    log: nobody saw it.
    """
    known = sorted(terms)
    for term in known:
        before = max((t for t in known if t.controller_epoch < term.controller_epoch), default=None)
        has_resigned = before is not None and before.resigned_ms is not None
        if has_resigned or term.active_ms is None or (term.silent_ms or 0) <= limit_ms:
            continue
        seen_ms = term.active_ms - (term.silent_ms or 0)
        message = (
            f"no controller was active for {(term.silent_ms or 0) / 1000:.0f} s, from {utc_text(seen_ms)}, when "
            f"controller {term.controller} saw it, until it became active: more than {limit_ms // 1000} s"
        )
        subject = f"controller-epoch {term.controller_epoch} of controller {term.controller}"
        records = (term.active_record,) if term.active_record is not None else ()
        yield AuditFinding(NO_CONTROLLER, subject, message, records, at_ms=seen_ms)
