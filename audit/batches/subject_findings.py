"""Checks topics and brokers that a batch has new steps of, each from all of its steps."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy
import pyarrow

from audit.batches.kept_tables import KeptTables
from audit.reading.lines_read import ReadRange
from audit.records.findings import AuditFinding, changes
from audit.records.sorted_runs import gather_all
from audit.records.vectors import earliest, group_starts, keys
from audit.rules.broker_registrations import broker_epoch_findings, broker_findings
from audit.rules.subject_steps import BROKER, BROKER_EPOCH, STEPS, TOPIC, TOPIC_ID, Step, steps_of
from audit.rules.topic_sequences import topic_findings, topic_id_findings

SUBJECTS: Final = "subject_steps"
_RULES_OF: Final[dict[str, Callable[[Sequence[Step]], Iterable[AuditFinding]]]] = {
    TOPIC: topic_findings,
    TOPIC_ID: topic_id_findings,
    BROKER: broker_findings,
    BROKER_EPOCH: broker_epoch_findings,
}


def subject_findings(rows: pyarrow.Table, read: Sequence[ReadRange], kept: KeptTables) -> list[AuditFinding]:
    """Find what a batch changes about topics and brokers, and add its steps to `kept`.

    `rows`: the records of no partition. `read`: has the steps of those of partitions. Raises OutputError.
    """
    new = earliest(steps_of(rows, (step for part in read for step in part.topic_steps)))
    if not new.num_rows:
        return []
    runs = kept.known(SUBJECTS)
    known = earliest(gather_all(runs, numpy.unique(keys(new["key"])), STEPS.empty_table()))
    now = earliest(pyarrow.concat_tables([known, new]))
    kept.add(SUBJECTS, runs, new, earliest)
    return changes(_checked(known), _checked(now))


def _checked(steps: pyarrow.Table) -> Iterator[AuditFinding]:
    in_order = steps.to_pylist()
    for first, end in pairwise([*group_starts(keys(steps["key"])).tolist(), len(in_order)]):
        yield from _RULES_OF[in_order[first]["subject"]](in_order[first:end])
