"""The ends of a broker's logs from role to role: they fall only by a truncation that is recorded, and a follower whose
log is longer than its leader's was cuts it before it fetches more.

Judged are the first roles that one run of a broker took in neighbouring leader epochs, of partitions with a topic id.
A truncation may be recorded after the role that it was made before. Source: Kafka ReplicaFetcherThread, KIP-101; agent
rules P10, P25.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.orders import sorted_order
from audit.records.sorted_runs import gather, gather_all
from audit.records.vectors import (
    ABSENT,
    Keys,
    Longs,
    are_present,
    group_starts,
    is_one_of,
    keys,
    longs,
    mixed,
    text_hashes,
    unique_pairs,
)
from audit.rules.committed_records import COMMITTED, COMMITTED_READ
from audit.rules.rule import KEY, TEXT, BucketBatch, Explanation, Kept, Rule, once
from audit.rules.subjects import reference
from state_log.record import Kind

LOG_END_FELL: Final = "log-end-falls-by-truncation"
NOT_CUT: Final = "follower-cut-to-leader"
_CUTS: Final = pyarrow.schema({**KEY, "to_offset": pyarrow.int64(), "node": TEXT, "incarnation": TEXT})
_SUSPECTS: Final = pyarrow.schema(KEY)
_GONE: Final = ("deleted", "offline")
_READ: Final = ("key", "kind", "topic_id", "to_state", "to_offset", "seq", "node", "incarnation")


def _cuts_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Read where logs were truncated, and where they went away as a whole, reduced."""
    gone = is_one_of(rows["kind"], [Kind.ROLE.value]) & is_one_of(rows["to_state"], _GONE)
    chosen = gone | (is_one_of(rows["kind"], [Kind.TRUNCATION.value]) & (longs(rows["to_offset"]) != ABSENT))
    chosen &= keys(rows["key"]) != 0
    if not chosen.any():
        return _CUTS.empty_table()
    part = rows.select(_READ).filter(pyarrow.array(chosen))
    to_offset = numpy.where(gone[chosen], 0, longs(part["to_offset"]))
    columns = [part["key"], part["seq"], pyarrow.array(to_offset), part["node"], part["incarnation"]]
    return reduce_cuts(pyarrow.table(columns, schema=_CUTS))


def reduce_cuts(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key, run and number of the record; keep one row of each."""
    rows = rows.unify_dictionaries()
    key, sub, run = keys(rows["key"]), longs(rows["sub"]), _runs(rows)
    order = sorted_order((longs(rows["to_offset"]), run, sub, key))
    return rows.take(pyarrow.array(order[group_starts(key[order], sub[order], run[order])]))


CUTS: Final = Kept("cuts", _CUTS, lambda batch: _cuts_of(batch.rows), reduce_cuts)
"""The truncations of logs (`sub`: the number of the record; `to_offset`: 0 where the whole log went away)."""


def _runs(rows: pyarrow.Table) -> Keys:
    """A hash of the partition and the run of a broker of each row; aligned."""
    if not rows.num_rows:
        return numpy.empty(0, numpy.uint64)
    return mixed(keys(rows["key"]) ^ mixed(text_hashes(rows["node"]) ^ mixed(text_hashes(rows["incarnation"]))))


class _Checked(NamedTuple):
    """Holds what a batch changes, and the partitions with findings after it."""

    findings: list[AuditFinding]
    suspects: Keys


@once
def _checked(batch: BucketBatch) -> _Checked:
    touched = _touched(batch)
    if not len(touched):
        return _Checked([], touched)
    before, now = (list(_violations(*_known(batch, touched, with_new=new))) for new in (False, True))
    finding = batch.subjects.finding
    suspects = numpy.unique(numpy.array([each.key for each in now], numpy.uint64))
    return _Checked(changes(map(finding, before), map(finding, now)), suspects)


def reduce_suspects(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key; keep one row of each."""
    return _suspects(numpy.unique(keys(rows["key"])))


def _suspects(key: Keys) -> pyarrow.Table:
    return pyarrow.table([key, numpy.zeros(len(key), numpy.int64)], schema=_SUSPECTS)


SUSPECTS: Final = Kept("cut_suspects", _SUSPECTS, lambda batch: _suspects(_checked(batch).suspects), reduce_suspects)
"""The partitions that have had a finding, which a later record may take back; `sub` is 0."""


def _touched(batch: BucketBatch) -> Keys:
    """The partitions about which a batch may change something, sorted."""
    roles, cuts = batch.added(COMMITTED), batch.added(CUTS)
    new = numpy.unique(numpy.concatenate((keys(roles["key"]), keys(cuts["key"]))))
    if not len(new):
        return new
    known = keys(gather_all(batch.runs(SUSPECTS), new, _SUSPECTS.empty_table())["key"])
    found = numpy.union1d(_strange(batch, roles), known)
    with_id = keys(batch.rows["key"])[are_present(batch.rows["topic_id"])] if len(found) else found
    return found[numpy.isin(found, with_id)]


def _strange(batch: BucketBatch, roles: pyarrow.Table) -> Keys:
    """The partitions in which a log, by new roles, became shorter, or grew though it was longer than the leader's."""
    if not roles.num_rows:
        return keys(roles["key"])
    key, sub = keys(roles["key"]), longs(roles["sub"])
    near = unique_pairs(numpy.tile(key, 3), numpy.concatenate((sub - 1, sub, sub + 1)))
    known = gather(batch.runs(COMMITTED), *near, COMMITTED.schema.empty_table())
    rows = COMMITTED.reduce(pyarrow.concat_tables([known, roles])) if known.num_rows else roles
    key, sub, end, run = keys(rows["key"]), longs(rows["sub"]), longs(rows["log_end_offset"]), _runs(rows)
    leads = numpy.asarray(rows["leads"].combine_chunks().to_numpy(zero_copy_only=False), bool)
    led_from = _of_leaders(key, sub, numpy.where(leads, end, -1))
    order = sorted_order((sub, run))
    a, b = order[:-1], order[1:]
    # A negative one is another rule's.
    fell = (end[b] < end[a]) & (end[b] >= 0)
    beyond = ~leads[a] & (led_from[a] >= 0) & (end[a] > led_from[a]) & (end[b] > end[a])
    strange = (run[a] == run[b]) & (sub[b] == sub[a] + 1) & (fell | beyond)
    return numpy.unique(key[a[strange]])


def _of_leaders(key: Keys, sub: Longs, end: Longs) -> Longs:
    """The greatest of these in each (key, sub), which are sorted; aligned with the rows."""
    starts = group_starts(key, sub)
    found: Longs = numpy.repeat(numpy.maximum.reduceat(end, starts), numpy.diff(numpy.append(starts, len(key))))
    return found


_Rows = Sequence[Mapping[str, Any]]


def _known(batch: BucketBatch, key: Keys, *, with_new: bool) -> tuple[_Rows, _Rows]:
    """The roles and the truncations in these partitions, sorted by partition."""
    found = []
    for table in (COMMITTED, CUTS):
        rows = gather_all(batch.runs(table), key, table.schema.empty_table())
        if with_new:
            added = batch.added(table)
            rows = pyarrow.concat_tables([rows, added.filter(pyarrow.array(numpy.isin(keys(added["key"]), key)))])
        found.append(table.reduce(rows).to_pylist())
    return found[0], found[1]


class _Run(NamedTuple):
    """What one run of a broker recorded of a partition: first roles, by leader epoch, and truncations."""

    roles: dict[int, Mapping[str, Any]]
    cuts: list[Mapping[str, Any]]

    def has_cut(self, after: Mapping[str, Any], to_offset: int) -> bool:
        return any(cut["sub"] > after["seq"] and cut["to_offset"] <= to_offset for cut in self.cuts)


def _violations(roles: _Rows, cuts: _Rows) -> Iterator[RuleViolation]:
    runs: dict[tuple[object, ...], _Run] = {}
    led_from: dict[tuple[int, int], Mapping[str, Any]] = {}
    for role in roles:
        runs.setdefault(_run_of(role), _Run({}, [])).roles[role["sub"]] = role
        of_epoch = role["key"], role["sub"]
        known = led_from.get(of_epoch)
        if role["leads"] and (known is None or role["log_end_offset"] > known["log_end_offset"]):
            led_from[of_epoch] = role
    for cut in cuts:
        runs.setdefault(_run_of(cut), _Run({}, [])).cuts.append(cut)
    for run in runs.values():
        for epoch, role in sorted(run.roles.items()):
            later = run.roles.get(epoch + 1)
            if later is None or later["seq"] < role["seq"]:
                continue
            if 0 <= later["log_end_offset"] < role["log_end_offset"]:
                if not run.has_cut(role, later["log_end_offset"]):
                    yield _shortened(role, later)
            elif epoch - 1 in run.roles and not role["leads"]:
                # Without an earlier role, its log may have records of this epoch: the broker was restarted in it.
                yield from _not_cut(run, role, later, led_from.get((role["key"], epoch)))


def _run_of(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["key"], row["node"], row["incarnation"]


def _shortened(role: Mapping[str, Any], later: Mapping[str, Any]) -> RuleViolation:
    message = (
        f"the log of broker {role['broker']} ended at {role['log_end_offset']} and then at {later['log_end_offset']}, "
        "and it recorded no truncation"
    )
    return _violation(LOG_END_FELL, message, role, later)


def _not_cut(
    run: _Run, role: Mapping[str, Any], later: Mapping[str, Any], leader: Mapping[str, Any] | None
) -> Iterator[RuleViolation]:
    end = role["log_end_offset"]
    if leader is None or not later["log_end_offset"] > end > leader["log_end_offset"]:
        return
    if not run.has_cut(role, leader["log_end_offset"]):
        message = (
            f"broker {role['broker']} followed broker {leader['broker']} in leader epoch {role['sub']} and fetched "
            f"more, though its log ended at {end} and was not cut to {leader['log_end_offset']}, where the leader began"
        )
        yield _violation(NOT_CUT, message, leader, role, later)


def _violation(rule: str, message: str, *roles: Mapping[str, Any]) -> RuleViolation:
    last = roles[-1]
    return RuleViolation(
        rule, last["key"], f"record {reference(last)}", message, tuple(map(reference, roles)), last["at_ms"]
    )


_NO_OFFSETS: Final = "the log does not say offsets"
RULE: Final = Rule(
    explains={
        LOG_END_FELL: Explanation(
            "critical",
            "The log of a replica becomes shorter only by a truncation that its broker records.",
            "the broker's log between the two records, and its disk: records are gone, and nobody says why",
            _NO_OFFSETS,
            of_whole_logs=True,
        ),
        NOT_CUT: Explanation(
            "critical",
            "A follower whose log ends beyond that of its new leader cuts it before it fetches.",
            "the records of both brokers at these offsets: the two logs differ from there on",
            _NO_OFFSETS,
            of_whole_logs=True,
        ),
    },
    reads=tuple(dict.fromkeys((*_READ, *COMMITTED_READ))),
    check=lambda batch: _checked(batch).findings,
    keeps=(CUTS, SUSPECTS),
    since=9,
)
