"""What is known of topics, topic ids, brokers and broker epochs: steps by subject, in the order of the logs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow

from audit.reading.topic_steps import TopicStep
from audit.records.vectors import are_present, is_one_of, text_hash
from audit.rules.rule import TEXT
from state_log.record import Kind

_LONG: Final = pyarrow.int64()
STEPS: Final = pyarrow.schema(
    {
        **{"key": pyarrow.uint64(), "sub": _LONG, "subject": TEXT, "what": TEXT},
        **{"topic": pyarrow.string(), "topic_id": pyarrow.string(), "broker": pyarrow.int32(), "broker_epoch": _LONG},
        **{"controller_epoch": pyarrow.int32(), "cause_event": TEXT, "cause_id": _LONG, "asked": pyarrow.bool_()},
        **{"count": _LONG, "highest": _LONG, "node": TEXT, "incarnation": TEXT, "seq": _LONG, "at_ms": _LONG},
    }
)
"""One row for each step and subject. `key`: a hash of the subject, `sub`: one of the step. `asked`: whether the record
names who asked for it. `count`, `highest`: those of `reading.topic_steps.TopicStep`.
"""
TOPIC, TOPIC_ID, BROKER, BROKER_EPOCH = "topic", "topic id", "broker", "broker epoch"
"""The kinds of subjects."""
THERE: Final = "broker there"
"""The step of a broker that was live when a controller became active."""
Step = dict[str, Any]
_KINDS: Final = [kind.value for kind in (Kind.TOPIC, Kind.DELETION, Kind.BROKER, Kind.REGISTRATION)]
_COPIED: Final = ("topic", "topic_id", "broker", "broker_epoch", "controller_epoch", "cause_event", "cause_id")
_NAMED: Final = ("node", "incarnation", "seq", "at_ms")


def steps_of(rows: pyarrow.Table, summed: Iterable[TopicStep]) -> pyarrow.Table:
    """The steps in records of no partition, and those of partitions, as STEPS, in no order."""
    part = rows.filter(pyarrow.array(is_one_of(rows["kind"], _KINDS)))
    found = [_step(row) for row in part.select(["kind", "to_state", "principal", *_COPIED, *_NAMED]).to_pylist()]
    begun = rows.filter(
        pyarrow.array(is_one_of(rows["kind"], [Kind.CONTROLLER.value]) & are_present(rows["inputs_live"]))
    )
    found += [step for row in begun.select(["inputs_live", *_COPIED, *_NAMED]).to_pylist() for step in _there(row)]
    found += [_summed(step) for step in summed]
    return pyarrow.Table.from_pylist([row for step in found for row in _of_subjects(step)], STEPS)


def _step(row: Step) -> Step:
    what = f"{row['kind']} {row['to_state']}"
    return {name: row[name] for name in (*_COPIED, *_NAMED)} | {"what": what, "asked": row["principal"] is not None}


def _there(row: Step) -> Iterator[Step]:
    """The brokers that were live when a controller became active."""
    named = {name: row[name] for name in (*_COPIED, *_NAMED)}
    return ({**named, "broker": broker, "what": THERE, "asked": False} for broker in row["inputs_live"])


def _summed(step: TopicStep) -> Step:
    named = {name: getattr(step, name) for name in ("what", "topic", "topic_id", "controller_epoch", "cause_id")}
    return named | {name: getattr(step, name) for name in ("count", "highest", *_NAMED)}


def _of_subjects(step: Step) -> Iterator[Step]:
    """The step under each subject that it is about."""
    subjects = {TOPIC: step.get("topic"), TOPIC_ID: step.get("topic_id")}
    if subjects[TOPIC] is None:
        subjects = {BROKER: step.get("broker"), BROKER_EPOCH: step.get("broker_epoch")}
    sub = text_hash(str(sorted(step.items()))) >> 1
    for subject, name in subjects.items():
        if name is not None:
            yield {**step, "key": text_hash(f"{subject} {name}"), "sub": sub, "subject": subject}


def in_log_order(steps: Iterable[Step]) -> list[Step]:
    """The steps that controllers recorded, in their order."""
    stated = (step for step in steps if step["controller_epoch"] is not None)
    return sorted(stated, key=lambda s: (s["controller_epoch"], s["node"], s["incarnation"], s["seq"], s["what"]))


def term_of(step: Step) -> tuple[object, ...]:
    """The controller epoch, and the log of the controller that recorded the step."""
    return step["controller_epoch"], step["node"], step["incarnation"]


def last_of_term(steps: Sequence[Step], step: Step, *whats: str) -> Step | None:
    """The last of these steps that is of the term of `step`, and of one of the kinds `whats`."""
    return next((s for s in reversed(steps) if s["what"] in whats and term_of(s) == term_of(step)), None)
