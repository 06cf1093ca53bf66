"""Brokers that controllers recorded as dead, and that lead on: where another leader came late, or has not come.

What one controller recorded in turn is judged: the death of a broker, and its next states of the partitions that the
broker led. Those that have none yet wait in a table, and `audit.report.dead_leaders` judges them at the end. Source:
Kafka KafkaController.onBrokerFailure.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy
import pyarrow
import pyarrow.compute

from audit.records.findings import AuditFinding, RuleViolation
from audit.records.orders import sorted_order
from audit.records.sorted_runs import NOTHING, Runs, SortedRun, gather, neighbours
from audit.records.vectors import ABSENT, Flags, Longs, group_starts, is_one_of, keys, longs
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
ABSENT_LEADERS: Final = pyarrow.schema(
    {
        **KEY,
        "broker": pyarrow.int32(),
        "controller_epoch": pyarrow.int32(),
        **REFERENCE,
        "state": pyarrow.string(),
    }
)
"""Partitions that a broker leads which is dead, or stops. `sub`: the partition epoch of the state that says so, whose
record is `state`; the others are of the record about the broker.
"""
_OF_DEATHS: Final = ("kind", "to_state", *ABSENT_LEADERS.names[2:-1])


class Absence(NamedTuple):
    """Says which leaders have to be replaced: those of brokers that a controller recorded as `to_state`.

    `text`: what the controller recorded, after "that it". `counts`: whether a partition counts that the broker led then
    (batch, the record of the broker, rows of WRITTEN), and `lasts`: whether one still does after its leader's last
    state (batch, rows as ABSENT_LEADERS); None: all do. Both results are aligned with the rows.
    """

    rule: str
    to_state: str
    text: str
    counts: Callable[[BucketBatch, Mapping[str, Any], pyarrow.Table], Flags] | None = None
    lasts: Callable[[BucketBatch, pyarrow.Table], Flags] | None = None


class CheckedLeaders(NamedTuple):
    """Holds what waits after a batch, as ABSENT_LEADERS, and what it shows to have lasted too long."""

    waiting: pyarrow.Table
    findings: list[AuditFinding]


def check_leaders(batch: BucketBatch, waiting: Awaited, absence: Absence) -> CheckedLeaders:
    """Follow the partitions of absent leaders to their next leaders. `waiting`: the table of those that have none."""
    led = pyarrow.concat_tables([compared(batch.awaited(waiting), batch), *_led_by_absent(batch, absence)])
    gone = keys(batch.added(DELETIONS)["key"])
    led = led.filter(pyarrow.array(~numpy.isin(keys(led["key"]), gone)))
    if not led.num_rows:
        return CheckedLeaders(led, [])
    states, sub, above = _followed(batch, led)
    led = led.set_column(1, "sub", pyarrow.array(sub))
    if absence.lasts is not None:
        lasts = absence.lasts(batch, led)
        led, above = led.filter(pyarrow.array(lasts)), above[lasts]
    came_back = known_statuses(batch).next_of_brokers(led, longs(led["broker"]))
    ended = above != NOTHING
    lived = came_back != NOTHING
    is_late = numpy.zeros(len(above), bool)
    after = SortedRun(states).find(keys(led["key"])[ended], above[ended]).first
    is_late[ended] = _is_late(led.filter(pyarrow.array(ended)), states.take(after), came_back[ended], batch)
    place = numpy.zeros(len(above), numpy.int64)
    place[ended] = after
    findings = [
        _finding(batch, absence, led.slice(row, 1).to_pylist()[0], states, int(place[row]))
        for row in numpy.flatnonzero(is_late).tolist()
    ]
    return CheckedLeaders(led.filter(pyarrow.array(~ended & ~lived)), findings)


def _led_by_absent(batch: BucketBatch, absence: Absence) -> list[pyarrow.Table]:
    """The partitions that brokers led when the batch says that they are absent, as ABSENT_LEADERS: a table for each
    such record.
    """
    rows = batch.rows
    dead = is_one_of(rows["kind"], [Kind.BROKER.value]) & is_one_of(rows["to_state"], [absence.to_state])
    dead &= (longs(rows["controller_epoch"]) != ABSENT) & (longs(rows["broker"]) != ABSENT)
    deaths = rows.select(_OF_DEATHS).filter(pyarrow.array(dead))
    runs = batch.runs(WRITTEN).with_open(batch.added(WRITTEN))
    states = [_Leaders.of(run) for run in runs.open if run.rows.num_rows] if deaths.num_rows else []
    if not states:
        return []
    found = []
    for death in deaths.drop_columns(["kind", "to_state"]).to_pylist():
        led = _led_before(death, states)
        if absence.counts is not None:
            led = led.filter(pyarrow.array(absence.counts(batch, death, led)))
        found.append(_waiting(death, led))
    return found


class _Leaders(NamedTuple):
    """The states of a run, in its order, and who wrote that the broker `leader` leads; the columns are aligned."""

    run: SortedRun
    leader: Longs
    controller_epoch: Longs
    seq: Longs

    @classmethod
    def of(cls, run: SortedRun) -> "_Leaders":
        return cls(run, *(longs(run.rows[name]) for name in ("leader", "first_controller_epoch", "seq")))

    def last_before(self, death: Mapping[str, Any]) -> Longs:
        """The last state of each partition that the controller knew when it recorded a death."""
        earlier = self.controller_epoch < death["controller_epoch"]
        own = (self.controller_epoch == death["controller_epoch"]) & (self.seq < death["seq"])
        known = numpy.flatnonzero(earlier | own)
        starts = group_starts(self.run.key[known])
        found: Longs = known[numpy.append(starts[1:], len(known))[: len(starts)] - 1]
        return found


def _led_before(death: Mapping[str, Any], states: Sequence[_Leaders]) -> pyarrow.Table:
    """The states in which a broker led, of those that the controller knew when it recorded the broker as absent."""
    last = [of.last_before(death) for of in states]
    key, sub = (
        numpy.concatenate([column[rows] for column, rows in zip(columns, last, strict=True)])
        for columns in ([of.run.key for of in states], [of.run.sub for of in states])
    )
    order = sorted_order((sub, key))
    ends = numpy.append(group_starts(key[order])[1:], len(order))[: len(order)] - 1
    is_last = numpy.zeros(len(order), bool)
    is_last[order[ends]] = True
    parts, first = [WRITTEN.schema.empty_table()], 0
    for of, rows in zip(states, last, strict=True):
        led = rows[is_last[first : first + len(rows)] & (of.leader[rows] == death["broker"])]
        parts.append(of.run.rows.take(pyarrow.array(led)))
        first += len(rows)
    return pyarrow.concat_tables(parts)


def _waiting(death: Mapping[str, Any], led: pyarrow.Table) -> pyarrow.Table:
    """The rows of ABSENT_LEADERS of a death and these states of what the broker led."""
    names = [led[name].cast(pyarrow.string()) for name in ("node", "incarnation", "seq")]
    state = pyarrow.compute.binary_join_element_wise(*names, "/")
    stated = {name: [death[name]] * led.num_rows for name in _OF_DEATHS[2:]}
    return pyarrow.table({"key": led["key"], "sub": led["sub"], **stated, "state": state}, schema=ABSENT_LEADERS)


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


def _finding(
    batch: BucketBatch, absence: Absence, found: Mapping[str, Any], states: pyarrow.Table, after: int
) -> AuditFinding:
    at_ms = states["at_ms"][after].as_py()
    led_s, limit_s = (at_ms - found["at_ms"]) / 1000, batch.limits.leaderless_ms // 1000
    message = (
        f"broker {found['broker']} led it for {led_s:.0f} s after the controller had recorded at "
        f"{utc_text(found['at_ms'])} that it {absence.text}: more than {limit_s} s"
    )
    records = found["state"], reference(found), reference_at(states, after)
    subject = f"partition-epoch {found['sub']}"
    return batch.subjects.finding(RuleViolation(absence.rule, found["key"], subject, message, records, found["at_ms"]))


@once
def _checked(batch: BucketBatch) -> CheckedLeaders:
    return check_leaders(batch, DEAD_LEADERS, _DEAD)


_DEAD: Final = Absence(DEAD_LEADER, "dead", "is dead")
DEAD_LEADERS: Final = Awaited("dead_leaders", ABSENT_LEADERS, lambda batch: _checked(batch).waiting)
ABSENT_READ: Final = tuple(dict.fromkeys((*STATUSES_READ, *STATES_READ, "broker")))
"""The columns of records that absent leaders are found by."""
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
    reads=ABSENT_READ,
    check=lambda batch: _checked(batch).findings,
    awaits=(DEAD_LEADERS,),
)
