"""The life of a topic: created once, deleted as a whole, gone afterwards; its id stays.

Compared is what one controller recorded in one controller epoch, for one that dies may have done what it did not
record. Only an id tells a topic from a later one of its name: what holds over epochs needs it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from audit.reading.topic_steps import GOING, GONE, LOADED, NEW
from audit.records.findings import AuditFinding
from audit.rules.record_assignments import PLAN_BY_REQUEST
from audit.rules.rule import Explanation
from audit.rules.subject_steps import Step, in_log_order, last_of_term, term_of
from audit.rules.subjects import reference

CREATED_ONCE: Final = "topic-created-once"
GONE_AFTER_DELETION: Final = "topic-gone-after-deletion"
DELETION_IN_ORDER: Final = "deletion-in-order"
DELETED_AS_A_WHOLE: Final = "deleted-with-all-replicas"
ID_STAYS: Final = "topic-id-stays"
ID_OF_ONE_TOPIC: Final = "topic-id-of-one-topic"
NEVER_CREATED: Final = "partition-never-created"
PARTITIONS_STAY: Final = "partitions-stay"
_CREATED, _QUEUED, _STARTED = "topic created", "topic queued for deletion", "deletion started"
_DELETED, _REMOVED, _COMPLETED = "topic deleted", "topic removed", "deletion completed"
_ENDS: Final = (_DELETED, _REMOVED)
_PLANS: Final[Mapping[str, str]] = {_CREATED: "TopicChange", _QUEUED: "TopicDeletion"}
"""What somebody has to ask for, and the event by which a znode does."""


def topic_findings(steps: Sequence[Step]) -> Iterator[AuditFinding]:
    """Find what is wrong in the steps of all topics of one name. `steps`: in any order."""
    in_order = in_log_order(steps)
    yield from _ids_of_name(in_order)
    for topic_id in sorted({step["topic_id"] for step in in_order}, key=str):
        of_topic = [step for step in in_order if step["topic_id"] == topic_id]
        yield from _of_topic(of_topic)
        yield from _partitions(of_topic)
        yield from _lost_partitions(of_topic if topic_id is not None else ())


def topic_id_findings(steps: Sequence[Step]) -> Iterator[AuditFinding]:
    """Find whether topics of several names have had one id. `steps`: of the id."""
    firsts: dict[str, Step] = {}
    for step in in_log_order(steps):
        firsts.setdefault(step["topic"], step)
    if len(firsts) > 1:
        names = " and ".join(sorted(firsts))
        topic_id, last = steps[0]["topic_id"], [*firsts.values()][-1]
        message = f"topics {names} have the id {topic_id}"
        yield AuditFinding(
            ID_OF_ONE_TOPIC,
            f"topic id {topic_id}",
            message,
            tuple(map(reference, firsts.values())),
            at_ms=last["at_ms"],
        )


def _of_topic(steps: Sequence[Step]) -> Iterator[AuditFinding]:
    """Check one topic. `steps`: in the order of the log, of one name and id."""
    for place, step in enumerate(steps):
        before = steps[:place]
        ended, begun = _end_before(before, step), _begun_before(before, step)
        if step["what"] == _CREATED and begun is not None and ended is None:
            yield _finding(CREATED_ONCE, "is created, and was there before", begun, step)
        elif ended is not None and not _follows(ended, step):
            yield _finding(GONE_AFTER_DELETION, f"was deleted, and is recorded again: {step['what']}", ended, step)
        yield from _deletion(before, step)
        if step["what"] in _PLANS and not step["asked"] and step["cause_event"] not in {None, _PLANS[step["what"]]}:
            why = f"is recorded as {step['what']}, caused by {step['cause_event']}, and nobody who asked for it"
            yield _finding(PLAN_BY_REQUEST, why, step)


def _end_before(before: Sequence[Step], step: Step) -> Step | None:
    """The end of the topic before a step, if it was not created since; over terms only where an id tells it apart."""
    stated = [s for s in before if s["what"] in {*_ENDS, _CREATED}]
    stated = [s for s in stated if step["topic_id"] is not None or term_of(s) == term_of(step)]
    return stated[-1] if stated and stated[-1]["what"] in _ENDS else None


def _begun_before(before: Sequence[Step], step: Step) -> Step | None:
    stated = [s for s in before if s["what"] in {_CREATED, LOADED}]
    stated = [s for s in stated if step["topic_id"] is not None or term_of(s) == term_of(step)]
    return stated[-1] if stated else None


def _follows(ended: Step, step: Step) -> bool:
    """Whether a step is part of the end of a topic, or the beginning of the next one, which has no id."""
    of_end = step["what"] == _COMPLETED and term_of(step) == term_of(ended)
    return of_end or step["what"] == GONE or (step["topic_id"] is None and step["what"] == _CREATED)


def _deletion(before: Sequence[Step], step: Step) -> Iterator[AuditFinding]:
    last = last_of_term(before, step, _CREATED, LOADED, _QUEUED, _STARTED, *_ENDS)
    said = None if last is None else last["what"]
    if step["what"] == _STARTED and said == _CREATED:
        yield _finding(DELETION_IN_ORDER, "is deleted, and was not queued for deletion", step)
    # A new controller finds topics of which nothing is left but the znode, and deletes that.
    if step["what"] == _DELETED and said in {_CREATED, _QUEUED}:
        yield _finding(DELETION_IN_ORDER, "is deleted, and its deletion was not started", step)
    if step["what"] == _COMPLETED and said in {_CREATED, LOADED, _QUEUED}:
        yield _finding(DELETION_IN_ORDER, "has a deletion that is completed, and was not started", step)
    if step["what"] == _DELETED and last is not None and said == _STARTED:
        of_term = [s for s in before if term_of(s) == term_of(step)]
        going = sum(s["count"] for s in of_term if s["what"] == GOING)
        gone = sum(s["count"] for s in of_term if s["what"] == GONE and s["cause_id"] == step["cause_id"])
        if gone < going:
            why = f"is deleted with {going} replicas, of which the controller recorded {gone} as deleted"
            yield _finding(DELETED_AS_A_WHOLE, why, last, step)


def _partitions(steps: Sequence[Step]) -> Iterator[AuditFinding]:
    """Check the numbers of the partitions of one topic: those of one term that were created, or that were loaded."""
    numbers: dict[tuple[object, ...], list[Step]] = {}
    for step in steps:
        if step["what"] in {_CREATED, *_ENDS}:
            numbers[term_of(step)] = []
        elif step["what"] == LOADED or (step["what"] == NEW and term_of(step) in numbers):
            numbers.setdefault(term_of(step), []).append(step)
    for of_term in numbers.values():
        known, highest = sum(s["count"] for s in of_term), max((s["highest"] for s in of_term), default=-1)
        if known < highest + 1:
            why = f"has partitions up to {highest}, and only {known} of these were created"
            yield _finding(NEVER_CREATED, why, of_term[-1])


def _lost_partitions(steps: Sequence[Step]) -> Iterator[AuditFinding]:
    """Yield each start of a controller that loads fewer partitions of a topic than one before knew."""
    most: Step | None = None
    for step in steps:
        if step["what"] == LOADED and most is not None and step["highest"] < most["highest"]:
            why = f"is loaded with partitions up to {step['highest']}, and had partitions up to {most['highest']}"
            yield _finding(PARTITIONS_STAY, why, most, step)
        if step["what"] in {LOADED, NEW} and (most is None or step["highest"] > most["highest"]):
            most = step


def _ids_of_name(steps: Sequence[Step]) -> Iterator[AuditFinding]:
    """Yield each id of a name that one controller recorded while the topic of another id was not deleted."""
    living: dict[tuple[object, ...], dict[str, Step]] = {}
    for step in steps:
        of_term = living.setdefault(term_of(step), {})
        if step["topic_id"] is None:
            continue
        if step["what"] in _ENDS:
            of_term.pop(step["topic_id"], None)
        elif step["what"] in {_CREATED, LOADED, NEW} and step["topic_id"] not in of_term:
            for topic_id, first in of_term.items():
                yield _finding(ID_STAYS, f"has the id {step['topic_id']}, and had {topic_id}", first, step)
            of_term[step["topic_id"]] = step


def _finding(rule: str, why: str, *steps: Step) -> AuditFinding:
    last = steps[-1]
    name = last["topic"] if last["topic_id"] is None else f"{last['topic']} ({last['topic_id']})"
    records = tuple(map(reference, steps))
    return AuditFinding(
        rule,
        f"{name} record {records[-1]}",
        f"topic {last['topic']} {why}",
        records,
        topic=last["topic"],
        topic_id=last["topic_id"],
        at_ms=last["at_ms"],
    )


_LOGS: Final = "the controller's log near the record, and ZooKeeper's transaction log of the topic's znodes"
_NO_TOPICS: Final = "the log does not say when topics are created and deleted"


def _explained(severity: str, says: str, check_next: str = _LOGS) -> Explanation:
    return Explanation(severity, says, check_next, _NO_TOPICS, of_whole_logs=True)


EXPLAINS: Final = {
    CREATED_ONCE: _explained("error", "A topic is created once."),
    GONE_AFTER_DELETION: _explained(
        "critical",
        "A topic that was deleted is gone: its id does not return.",
        "whether ZooKeeper was restored; brokers have deleted the data of the topic",
    ),
    DELETION_IN_ORDER: _explained(
        "error", "A topic is queued for deletion, its deletion starts, and then it is deleted."
    ),
    DELETED_AS_A_WHOLE: _explained(
        "error",
        "A topic is deleted when each of its replicas was.",
        "the brokers of the topic's replicas: a disk has data that no topic owns",
    ),
    ID_STAYS: _explained(
        "critical",
        "A topic keeps its id until it is deleted.",
        "who wrote the topic's znode: brokers refuse requests with another id, or delete the data of the first",
    ),
    ID_OF_ONE_TOPIC: _explained("critical", "A topic id is of one topic."),
    PARTITIONS_STAY: _explained(
        "critical",
        "A topic never has fewer partitions than before.",
        "who wrote the topic's znode, or whether ZooKeeper was restored: the records of the partition are not served",
    ),
    NEVER_CREATED: _explained(
        "error",
        "The partitions of a topic have all numbers from 0 up to the highest.",
        "the topic's znode, and the controller's diagnostics: a partition was left out when the topic was created",
    ),
}
