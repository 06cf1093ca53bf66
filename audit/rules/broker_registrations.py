"""The registrations of a broker: each has an epoch of its own, higher than those before, and ends before the next."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from audit.records.findings import AuditFinding
from audit.rules.rule import Explanation
from audit.rules.subject_steps import Step, in_log_order, term_of
from audit.rules.subjects import reference

EPOCH_RISES: Final = "broker-epoch-rises"
EPOCH_OF_ONE_BROKER: Final = "broker-epoch-of-one-broker"
EPOCH_NOBODY_REGISTERED: Final = "broker-epoch-nobody-registered"
STATES_IN_ORDER: Final = "broker-states-in-order"
NOT_NOTED: Final = "registration-noted"
NOTED_WITHIN_MS: Final = 300_000
"""For how long a broker may be registered before the active controller takes note of it."""
_LIVE, _BOUNCED, _DEAD = "broker live", "broker bounced", "broker dead"
_REGISTERED, _EXPIRED = "registration registered", "registration expired"


def broker_findings(steps: Sequence[Step]) -> Iterator[AuditFinding]:
    """Find what is wrong in the steps of one broker. `steps`: in any order."""
    own = [step for step in steps if step["what"] in {_REGISTERED, _EXPIRED}]
    own.sort(key=lambda step: (step["incarnation"], step["seq"]))
    seen = [step for step in in_log_order(steps) if step["what"] not in {_REGISTERED, _EXPIRED}]
    yield from _registrations(own)
    for before, step in pairwise(seen):
        if term_of(before) == term_of(step):
            yield from _changes(before, step)
    yield from _unregistered(own, seen)
    yield from _not_noted(own, seen)


def broker_epoch_findings(steps: Sequence[Step]) -> Iterator[AuditFinding]:
    """Find whether several brokers have had one epoch. `steps`: those of the epoch."""
    firsts: dict[int, Step] = {}
    for step in sorted(steps, key=lambda s: (s["at_ms"], reference(s))):
        firsts.setdefault(step["broker"], step)
    if len(firsts) > 1:
        names = " and ".join(map(str, sorted(firsts)))
        epoch, last = steps[0]["broker_epoch"], [*firsts.values()][-1]
        message = f"brokers {names} have the broker epoch {epoch}"
        records = tuple(map(reference, firsts.values()))
        yield AuditFinding(EPOCH_OF_ONE_BROKER, f"broker epoch {epoch}", message, records, at_ms=last["at_ms"])


def _registrations(own: Sequence[Step]) -> Iterator[AuditFinding]:
    """Check what a broker recorded of itself; `own` in the order of its logs."""
    known = [step for step in own if step["broker_epoch"] is not None]
    for before, step in pairwise(step for step in known if step["what"] == _REGISTERED):
        if step["broker_epoch"] <= before["broker_epoch"]:
            why = f"registered with epoch {step['broker_epoch']} after epoch {before['broker_epoch']}"
            yield _finding(EPOCH_RISES, why, before, step)
    for before, step in pairwise(known):
        of_one_run = before["incarnation"] == step["incarnation"]
        if of_one_run and step["what"] == _EXPIRED and step["broker_epoch"] != before["broker_epoch"]:
            why = f"recorded that epoch {step['broker_epoch']} expired, and had epoch {before['broker_epoch']}"
            yield _finding(STATES_IN_ORDER, why, before, step)


def _changes(before: Step, step: Step) -> Iterator[AuditFinding]:
    """Check two things in turn that one controller saw of a broker in one epoch."""
    was_dead, is_new = before["what"] == _DEAD, step["what"] == _LIVE
    if was_dead != is_new:
        yield _finding(STATES_IN_ORDER, f"is {_state(step)} after it was {_state(before)}", before, step)
    elif None not in (before["broker_epoch"], step["broker_epoch"]):
        if step["what"] == _BOUNCED and step["broker_epoch"] <= before["broker_epoch"]:
            why = f"bounced to epoch {step['broker_epoch']} from epoch {before['broker_epoch']}"
            yield _finding(EPOCH_RISES, why, before, step)
        if step["what"] != _BOUNCED and step["broker_epoch"] != before["broker_epoch"]:
            why = f"is {_state(step)} with epoch {step['broker_epoch']}, and had epoch {before['broker_epoch']}"
            yield _finding(STATES_IN_ORDER, why, before, step)


def _unregistered(own: Sequence[Step], seen: Sequence[Step]) -> Iterator[AuditFinding]:
    """Yield the epochs that controllers saw between two with which one run of the broker registered in turn.

    Before the first and after the last one a broker may have died before it recorded its registration.
    """
    registered = [step for step in own if step["what"] == _REGISTERED and step["broker_epoch"] is not None]
    said: set[int] = set()
    for step in seen:
        epoch = step["broker_epoch"]
        for before, after in pairwise(registered):
            between = epoch is not None and before["broker_epoch"] < epoch < after["broker_epoch"]
            if between and before["incarnation"] == after["incarnation"] and epoch not in said:
                said.add(epoch)
                why = f"is {_state(step)} with epoch {epoch}, and never registered with it"
                yield _finding(EPOCH_NOBODY_REGISTERED, why, before, after, step)


def _not_noted(own: Sequence[Step], seen: Sequence[Step]) -> Iterator[AuditFinding]:
    """Yield the registrations that lasted for long, and that a controller, active all the time, never recorded.

    It is known to be active where it recorded something else of the broker, before and afterwards.
    """
    for registered, later in pairwise(own):
        epoch, until_ms = registered["broker_epoch"], later["at_ms"]
        if registered["what"] != _REGISTERED or epoch is None or until_ms - registered["at_ms"] <= NOTED_WITHIN_MS:
            continue
        for before, after in pairwise(seen):
            meanwhile = before["at_ms"] < registered["at_ms"] and after["at_ms"] > until_ms
            if meanwhile and term_of(before) == term_of(after) and epoch not in _epochs(before, after):
                lasted = (until_ms - registered["at_ms"]) // 1000
                why = f"was registered with epoch {epoch} for {lasted} s, and the controller took no note of it"
                yield _finding(NOT_NOTED, why, before, registered, after)


def _epochs(*steps: Step) -> set[object]:
    return {step["broker_epoch"] for step in steps}


def _state(step: Step) -> str:
    return str(step["what"].partition(" ")[2]).replace("_", " ")


def _finding(rule: str, why: str, *steps: Step) -> AuditFinding:
    last = steps[-1]
    records = tuple(map(reference, steps))
    subject = f"broker {last['broker']} record {records[-1]}"
    return AuditFinding(rule, subject, f"broker {last['broker']} {why}", records, at_ms=last["at_ms"])


_NO_BROKERS: Final = "the log does not say when brokers register"
EXPLAINS: Final = {
    EPOCH_RISES: Explanation(
        "critical",
        "Each registration of a broker has a higher epoch than the one before.",
        "whether ZooKeeper was restored or set up again from nothing: requests of earlier registrations are not fenced",
        _NO_BROKERS,
        of_whole_logs=True,
    ),
    EPOCH_OF_ONE_BROKER: Explanation(
        "critical",
        "A broker epoch is of one broker.",
        "whether ZooKeeper was restored, or the logs are of two clusters",
        _NO_BROKERS,
        of_whole_logs=True,
    ),
    EPOCH_NOBODY_REGISTERED: Explanation(
        "error",
        "The epoch with which a controller sees a broker is one with which the broker registered.",
        "the broker's znode: another process registered under its id",
        _NO_BROKERS,
        of_whole_logs=True,
    ),
    NOT_NOTED: Explanation(
        "error",
        "The active controller takes note of a broker's registration within five minutes.",
        "the controller's log and its watches: the broker leads nothing, and what it led before has no leader",
        _NO_BROKERS,
        of_whole_logs=True,
    ),
    STATES_IN_ORDER: Explanation(
        "error",
        "A broker that a controller sees is live until it is dead, and keeps its epoch until it bounces.",
        "the controller's log between the two records, and the broker's own",
        _NO_BROKERS,
        of_whole_logs=True,
    ),
}
