"""What brokers of Apache Kafka show, compared with what klamm's controllers, which govern them, wrote.

Their lines carry no topic ids: a broker may show the state of an earlier topic of the same name. So what it shows at
an epoch has to be what a controller wrote at it, of any partition that has had the name; and it counts only if klamm
governed by then.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy
import pyarrow

from audit.records.sorted_runs import SortedRun
from audit.records.vectors import Flags, Longs, group_starts, keys, longs, mixed
from audit.rules.applied_states import AGENT_DISAGREES, unlike
from audit.rules.leader_claims import reduce_claims
from audit.rules.partition_states import describe_state, reduce_states
from audit.rules.subjects import reference
from state_log.histories import NO_EPOCH, ONE_LEADER_PER_EPOCH, ONE_STATE_PER_PARTITION_EPOCH
from state_log.kafka.lines import BROKER


class Disagreement(NamedTuple):
    """A finding about the partition with this key. `records`: the controller's and the broker's."""

    rule: str
    key: int
    subject: str
    message: str
    records: tuple[str, str]
    at_ms: int


class GovernedSince(NamedTuple):
    """The time from which brokers show what klamm's controllers wrote, where they do not name a controller epoch.

    `always`: no other controller is named. Otherwise it follows from the times of the records, which may differ by
    `clock_ms`.
    """

    always: bool
    clock_ms: int


def states_unlike(written: pyarrow.Table, shown: pyarrow.Table, since: GovernedSince) -> Iterator[Disagreement]:
    """Yield the states that brokers were sent or applied and klamm did not write. Both as STATES, of the same keys."""
    written, shown = reduce_states(written), reduce_states(shown)
    for state, found in _unlike(written, shown, since):
        by_broker = found["node"].startswith(BROKER)
        message = (
            f"{found['node']} shows partition epoch {found['sub']} as {describe_state(found)}; "
            f"{state['node']} wrote it as {describe_state(state)}"
        )
        yield Disagreement(
            AGENT_DISAGREES if by_broker else ONE_STATE_PER_PARTITION_EPOCH,
            found["key"],
            f"partition-epoch {found['sub']} content {found['content']:016x}",
            message,
            (reference(state), reference(found)),
            found["at_ms"],
        )


def leaders_unlike(written: pyarrow.Table, shown: pyarrow.Table, since: GovernedSince) -> Iterator[Disagreement]:
    """Yield the leaders that brokers name and klamm did not. Both as CLAIMS, of the same keys."""
    for claim, found in _unlike(_with_content(written), _with_content(shown), since):
        message = (
            f"{found['node']} names leader {found['leader']} in leader epoch {found['sub']}; "
            f"{claim['node']} leader {claim['leader']}"
        )
        subject = f"leader-epoch {found['sub']} leader {found['leader']}"
        records = (reference(claim), reference(found))
        yield Disagreement(ONE_LEADER_PER_EPOCH, found["key"], subject, message, records, found["at_ms"])


def states_unwritten(written: pyarrow.Table, shown: pyarrow.Table, epochs: Longs) -> pyarrow.Table:
    """The states that brokers were sent in one of these controller epochs and at whose partition epoch klamm wrote
    nothing, as STATES.
    """
    shown = reduce_states(shown)
    known = SortedRun(reduce_states(written)).find(keys(shown["key"]), longs(shown["sub"]))
    missing = (known.first == known.end) & numpy.isin(longs(shown["last_controller_epoch"]), epochs)
    return shown.filter(pyarrow.array(missing))


def _unlike(
    written: pyarrow.Table, shown: pyarrow.Table, since: GovernedSince
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the first row that was written and the one shown instead.

    Both tables are sorted by (key, sub) and have a `content`.
    """
    known, other = unlike(written, shown)
    which = numpy.flatnonzero(other)
    counts = _are_governed(written, shown.take(which), known.first[which], since)
    for row in which[counts].tolist():
        yield written.slice(int(known.first[row]), 1).to_pylist()[0], shown.slice(row, 1).to_pylist()[0]


def _are_governed(written: pyarrow.Table, shown: pyarrow.Table, first: Longs, since: GovernedSince) -> Flags:
    """Whether klamm knew what is in the `first` rows of `written` when brokers showed theirs, aligned with these."""
    if since.always or not len(first):
        return numpy.ones(len(first), bool)
    starts = group_starts(keys(written["key"]), longs(written["sub"]))
    group = numpy.searchsorted(starts, first)
    by_time = longs(shown["at_ms"]) + since.clock_ms >= numpy.minimum.reduceat(longs(written["at_ms"]), starts)[group]
    if "last_controller_epoch" not in shown.column_names:
        return numpy.asarray(by_time, bool)
    epoch = longs(shown["last_controller_epoch"])
    first_epoch = numpy.minimum.reduceat(longs(written["first_controller_epoch"]), starts)[group]
    # What a leader wrote has no controller's epoch by which it could be dated.
    undated = (epoch == NO_EPOCH) | (first_epoch == NO_EPOCH)
    return numpy.asarray(numpy.where(undated, by_time, epoch >= first_epoch), bool)


def _with_content(claims: pyarrow.Table) -> pyarrow.Table:
    claims = reduce_claims(claims)
    return claims.append_column("content", pyarrow.array(mixed(longs(claims["leader"]).astype(numpy.uint64))))
