"""Brokers that controllers recorded as dead, and that lead on: where another leader came late, or has not come.

What one controller recorded in turn is judged: the death of a broker, and its next states of the partitions that the
broker led. Those that have none yet wait in a table, and `audit.report.dead_leaders` judges them at the end. Source:
Kafka KafkaController.onBrokerFailure.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation
from audit.records.sorted_runs import NOTHING, Runs, SortedRun, gather, neighbours
from audit.records.vectors import ABSENT, Flags, Longs, is_one_of, keys, longs
from audit.rules.broker_statuses import STATUSES_READ
from audit.rules.deleted_partitions import DELETIONS
from audit.rules.elected_brokers import known_statuses
from audit.rules.machine_steps import log_keys
from audit.rules.partition_states import STATES_READ, WRITTEN
from audit.rules.recreations import compared
from audit.rules.rule import KEY, REFERENCE, Awaited, BucketBatch, Explanation, Rule, once
from audit.rules.subjects import reference, reference_at
from state_log.causes import utc_text
from state_log.record import Kind

DEAD_LEADER: Final = "dead-leader-too-long"
_SCHEMA: Final = pyarrow.schema(
    {
        **KEY,
        "broker": pyarrow.int32(),
        "controller_epoch": pyarrow.int32(),
        **REFERENCE,
        "state": pyarrow.string(),
    }
)
"""Partitions that a dead broker leads. `sub`: the partition epoch of the state that says so, whose record is `state`;
the others are of the record of the death.
"""
_OF_DEATHS: Final = ("kind", "to_state", *_SCHEMA.names[2:-1])


class _Checked(NamedTuple):
    """Holds what waits after a batch, as _SCHEMA, and what it shows to have lasted too long."""

    waiting: pyarrow.Table
    findings: list[AuditFinding]


@once
def _checked(batch: BucketBatch) -> _Checked:
    new = pyarrow.Table.from_pylist(list(_led_by_dead(batch)), _SCHEMA)
    led = pyarrow.concat_tables([compared(batch.awaited(DEAD_LEADERS), batch), new])
    gone = keys(batch.added(DELETIONS)["key"])
    led = led.filter(pyarrow.array(~numpy.isin(keys(led["key"]), gone)))
    if not led.num_rows:
        return _Checked(led, [])
    states, sub, above = _followed(batch, led)
    led = led.set_column(1, "sub", pyarrow.array(sub))
    came_back = known_statuses(batch).next_of_brokers(led, longs(led["broker"]))
    ended = above != NOTHING
    lived = came_back != NOTHING
    is_late = numpy.zeros(len(above), bool)
    after = SortedRun(states).find(keys(led["key"])[ended], above[ended]).first
    is_late[ended] = _is_late(led.filter(pyarrow.array(ended)), states.take(after), came_back[ended], batch)
    place = numpy.zeros(len(above), numpy.int64)
    place[ended] = after
    findings = [_finding(batch, led, row, states, int(place[row])) for row in numpy.flatnonzero(is_late).tolist()]
    return _Checked(led.filter(pyarrow.array(~ended & ~lived)), findings)


def _led_by_dead(batch: BucketBatch) -> Iterator[dict[str, Any]]:
    """The partitions that brokers led when the batch says that they died, as _SCHEMA."""
    rows = batch.rows
    dead = is_one_of(rows["kind"], [Kind.BROKER.value]) & is_one_of(rows["to_state"], ["dead"])
    dead &= (longs(rows["controller_epoch"]) != ABSENT) & (longs(rows["broker"]) != ABSENT)
    deaths = rows.select(_OF_DEATHS).filter(pyarrow.array(dead))
    if not deaths.num_rows:
        return
    runs = batch.runs(WRITTEN).with_open(batch.added(WRITTEN))
    states = [(run, longs(run.rows["leader"])) for run in runs.open if run.rows.num_rows]
    for death in deaths.drop_columns(["kind", "to_state"]).to_pylist():
        for run, leader in states:
            led = run.rows.filter(pyarrow.array(leader == death["broker"]))
            for row in led.filter(pyarrow.array(_is_known(led, death))).to_pylist():
                yield {**death, "key": row["key"], "sub": row["sub"], "state": reference(row)}


def _is_known(states: pyarrow.Table, death: dict[str, Any]) -> Flags:
    """Whether the controller knew each of these states when it recorded the death."""
    epoch, seq = longs(states["first_controller_epoch"]), longs(states["seq"])
    earlier = epoch < death["controller_epoch"]
    return numpy.asarray(earlier | ((epoch == death["controller_epoch"]) & (seq < death["seq"])), bool)


def _followed(batch: BucketBatch, led: pyarrow.Table) -> tuple[pyarrow.Table, Longs, Longs]:
    """Follow the states of partitions as long as the dead broker leads.

    Returns the states that follow, sorted, the partition epochs of the last ones that it leads, and those of the next
    ones, NOTHING where there are none; both aligned with `led`.
    """
    runs: Runs = batch.runs(WRITTEN).with_open(batch.added(WRITTEN))
    key, sub, broker = keys(led["key"]), longs(led["sub"]).copy(), longs(led["broker"])
    while True:
        above = neighbours(runs, key, sub)[1]
        has = above != NOTHING
        states = WRITTEN.reduce(gather(runs, key[has], above[has], WRITTEN.schema.empty_table()))
        same = numpy.zeros(len(key), bool)
        first = SortedRun(states).find(key[has], above[has]).first
        same[has] = longs(states["leader"])[first] == broker[has]
        if not same.any():
            return states, sub, above
        sub[same] = above[same]


def _is_late(led: pyarrow.Table, states: pyarrow.Table, came_back: Longs, batch: BucketBatch) -> Flags:
    """Whether the same controller wrote these states too long after the deaths, and the brokers were dead until then.

    All are aligned.
    """
    own = (log_keys(led) == log_keys(states)) & (
        longs(states["first_controller_epoch"]) == longs(led["controller_epoch"])
    )
    seq = longs(states["seq"])
    own &= (seq > longs(led["seq"])) & ((came_back == NOTHING) | (came_back > seq))
    return numpy.asarray(own & (longs(states["at_ms"]) - longs(led["at_ms"]) > batch.limits.leaderless_ms), bool)


def _finding(batch: BucketBatch, led: pyarrow.Table, row: int, states: pyarrow.Table, after: int) -> AuditFinding:
    found = led.slice(row, 1).to_pylist()[0]
    at_ms = states["at_ms"][after].as_py()
    led_s, limit_s = (at_ms - found["at_ms"]) / 1000, batch.limits.leaderless_ms // 1000
    message = (
        f"broker {found['broker']} led it for {led_s:.0f} s after the controller had recorded at "
        f"{utc_text(found['at_ms'])} that it is dead: more than {limit_s} s"
    )
    records = found["state"], reference(found), reference_at(states, after)
    subject = f"partition-epoch {found['sub']}"
    return batch.subjects.finding(RuleViolation(DEAD_LEADER, found["key"], subject, message, records, found["at_ms"]))


DEAD_LEADERS: Final = Awaited("dead_leaders", _SCHEMA, lambda batch: _checked(batch).waiting)
RULE: Final = Rule(
    explains={
        DEAD_LEADER: Explanation(
            "error",
            "A broker recorded as dead leads nothing for longer than the limit, but for topics that are being deleted.",
            "the controller's log after the record: it elected nobody, and clients still go to the dead broker",
            kafka="which brokers were live is in controller.log",
            of_whole_logs=True,
        )
    },
    reads=tuple(dict.fromkeys((*STATUSES_READ, *STATES_READ, "broker"))),
    check=lambda batch: _checked(batch).findings,
    awaits=(DEAD_LEADERS,),
)
