"""Brokers that were shutting down for long, and led on where another replica could have led.

A controller moves the leaders of a broker that asks to shut down in the same event, but for partitions of which nobody
else in sync is live. Source: Kafka KafkaController.doControlledShutdown.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy
import pyarrow

from audit.records.columns import RECORDS
from audit.records.sorted_runs import SortedRun, gather
from audit.records.vectors import BrokerLists, Flags, keys, longs
from audit.rules.broker_statuses import LIVE, UNKNOWN
from audit.rules.dead_leaders import ABSENT_LEADERS, ABSENT_READ, Absence, CheckedLeaders, check_leaders
from audit.rules.elected_brokers import known_statuses
from audit.rules.partition_states import WRITTEN
from audit.rules.rule import Awaited, BucketBatch, Explanation, Rule, once

STOPPING_LEADER: Final = "stopping-leader-too-long"
_TERM: Final = ("node", "incarnation", "seq", "controller_epoch")


def _others_were_live(batch: BucketBatch, record: Mapping[str, Any], states: pyarrow.Table) -> Flags:
    """Whether another member of the ISR of each state was live when the broker asked to shut down."""
    isr = BrokerLists(states["isr"])
    named = {name: pyarrow.array([record[name]] * len(isr.row), RECORDS.field(name).type) for name in _TERM}
    rows = pyarrow.table({**named, "key": states["key"].take(pyarrow.array(isr.row))})
    known = known_statuses(batch)
    live = known.of_brokers(rows, isr.values) == LIVE
    live &= numpy.isin(known.of_replicas(rows, isr.values), [LIVE, UNKNOWN]) & (isr.values != record["broker"])
    found = numpy.zeros(states.num_rows, bool)
    found[isr.row[live]] = True
    return found


def _others_are_in_sync(batch: BucketBatch, led: pyarrow.Table) -> Flags:
    """Whether the ISR of the last state that each broker led has other members."""
    key, sub = keys(led["key"]), longs(led["sub"])
    runs = batch.runs(WRITTEN).with_open(batch.added(WRITTEN))
    states = WRITTEN.reduce(gather(runs, key, sub, WRITTEN.schema.empty_table()))
    return numpy.asarray(BrokerLists(states["isr"]).lengths[SortedRun(states).find(key, sub).first] > 1, bool)


@once
def _checked(batch: BucketBatch) -> CheckedLeaders:
    return check_leaders(batch, STOPPING_LEADERS, _STOPPING)


_STOPPING: Final = Absence(STOPPING_LEADER, "shutting_down", "is shutting down", _others_were_live, _others_are_in_sync)
STOPPING_LEADERS: Final = Awaited("stopping_leaders", ABSENT_LEADERS, lambda batch: _checked(batch).waiting)
RULE: Final = Rule(
    explains={
        STOPPING_LEADER: Explanation(
            "error",
            "A broker that shuts down leads nothing for longer than the limit that another live replica in sync could "
            "lead.",
            "the controller's log after the record, and why the broker neither ended nor asked again",
            kafka="which brokers shut down is in controller.log",
            of_whole_logs=True,
        )
    },
    reads=ABSENT_READ,
    check=lambda batch: _checked(batch).findings,
    awaits=(STOPPING_LEADERS,),
)
