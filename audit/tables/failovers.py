"""Failovers: what a controller did about partitions without a leader, when brokers died or when it became active.

Elections go to the buckets of their partitions, failures to the last one, each by its event. Once the buckets of a
batch are checked, the driver joins those of the events that have something new: a row depends on the records alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy
import pyarrow

from audit.records.findings import HOLDS
from audit.records.orders import sorted_order
from audit.records.sealed_runs import Sealing
from audit.records.sorted_runs import Runs, gather, gather_all
from audit.records.vectors import ABSENT, Flags, Keys, Longs, earliest, group_starts, is_one_of, keys, longs, mixed
from audit.rules.leaderships_taken import ANSWERS, TAKEN
from audit.rules.rule import KEY, BucketBatch, Kept, once
from audit.storage.commits import BucketState
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import FAILOVERS
from cluster.model.state_machines import PartitionState
from state_log.record import Kind

FAILURES: Final = "failures"
_ELECTIONS: Final = pyarrow.schema(
    {**KEY, **{name: pyarrow.int64() for name in ("offline_ms", "written_ms", "leader_epoch")}}
)
_EPOCHS: Final = pyarrow.schema({**KEY, "event": pyarrow.uint64()})
FAILED: Final = pyarrow.schema(
    {
        **KEY,
        "controller_epoch": pyarrow.int32(),
        "cause_id": pyarrow.int64(),
        "cause_event": pyarrow.string(),
        "at_ms": pyarrow.int64(),
    }
)
"""The brokers (`sub`) that an event (`key`) found dead, or NO_BROKER for the activation of a controller."""
NO_BROKER: Final = -1
_NEVER: Final = 1 << 62
_SHARES: Final = {"p50": 50, "p95": 95, "p99": 99, "max": 100}


class _NewElections(NamedTuple):
    """Holds what a batch adds to ELECTIONS and BY_EPOCH."""

    elections: pyarrow.Table
    by_epoch: pyarrow.Table


@once
def _new_elections(batch: BucketBatch) -> _NewElections:
    """The elections of partitions without a leader, and what left these without one."""
    rows = batch.rows
    offline = [PartitionState.OFFLINE.value]
    went, returned = is_one_of(rows["to_state"], offline), is_one_of(rows["from_state"], offline)
    elected = returned & (longs(rows["leader"]) >= 0) & (longs(rows["leader_epoch"]) >= 0)
    chosen = is_one_of(rows["kind"], [Kind.PARTITION.value]) & (went | elected) & _have_events(rows)
    needed = ["key", "controller_epoch", "cause_id", "at_ms", "leader_epoch"]
    part = rows.select(needed).filter(pyarrow.array(chosen))
    at_ms, elected = longs(part["at_ms"]), elected[chosen]
    event, key = events_of(part), keys(part["key"])
    leader_epoch = longs(part["leader_epoch"])
    elections = [
        pyarrow.array(event),
        pyarrow.array(key.view(numpy.int64)),
        *(pyarrow.array(at_ms, mask=unset) for unset in (elected, ~elected)),
        pyarrow.array(leader_epoch, mask=~elected),
    ]
    epochs = [key[elected], leader_epoch[elected], event[elected]]
    return _NewElections(
        reduce_elections(pyarrow.table(elections, schema=_ELECTIONS)),
        reduce_epochs(pyarrow.table([pyarrow.array(column) for column in epochs], schema=_EPOCHS)),
    )


def failures_of(rows: pyarrow.Table) -> pyarrow.Table:
    """The failures that these records are about, as FAILED, reduced."""
    dead = is_one_of(rows["kind"], [Kind.BROKER.value]) & is_one_of(rows["to_state"], ["dead", "bounced"])
    active = is_one_of(rows["kind"], [Kind.CONTROLLER.value]) & is_one_of(rows["to_state"], ["active"])
    broker = longs(rows["broker"])
    chosen = ((dead & (broker != ABSENT)) | active) & _have_events(rows)
    part = rows.filter(pyarrow.array(chosen))
    brokers = numpy.where(active, NO_BROKER, broker)[chosen]
    columns = [
        *(pyarrow.array(events_of(part)), pyarrow.array(brokers)),
        *(part[name].cast(FAILED.field(name).type) for name in FAILED.names[2:]),
    ]
    return earliest(pyarrow.table(columns, schema=FAILED))


def events_of(rows: pyarrow.Table) -> Keys:
    """A hash of the controller's event for each record; all have one. Aligned with the rows."""
    epoch, number = longs(rows["controller_epoch"]), longs(rows["cause_id"])
    return mixed(mixed(epoch.astype(numpy.uint64)) + number.astype(numpy.uint64))


def _have_events(rows: pyarrow.Table) -> Flags:
    return numpy.asarray((longs(rows["controller_epoch"]) != ABSENT) & (longs(rows["cause_id"]) != ABSENT), bool)


def reduce_elections(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by event and partition; keep the first times of each, and the last leader epoch."""
    key, sub = keys(rows["key"]), longs(rows["sub"])
    order = sorted_order((sub, key))
    starts = group_starts(key[order], sub[order])
    if not len(starts):
        return rows
    firsts = [_first(longs(rows[name])[order], starts) for name in ("offline_ms", "written_ms")]
    epoch = numpy.maximum.reduceat(longs(rows["leader_epoch"])[order], starts)
    columns = [key[order][starts], sub[order][starts], *firsts, epoch]
    return pyarrow.table(
        [pyarrow.array(c, mask=c == ABSENT) if n > 1 else pyarrow.array(c) for n, c in enumerate(columns)],
        schema=_ELECTIONS,
    )


def _first(values: Longs, starts: Longs) -> Longs:
    least = numpy.minimum.reduceat(numpy.where(values == ABSENT, _NEVER, values), starts)
    return numpy.where(least == _NEVER, ABSENT, least)


def reduce_epochs(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by partition, leader epoch and event; keep one row of each."""
    key, sub, event = keys(rows["key"]), longs(rows["sub"]), keys(rows["event"])
    order = sorted_order((event, sub, key))
    return rows.take(pyarrow.array(order[group_starts(key[order], sub[order], event[order])]))


ELECTIONS: Final = Kept(
    "elections",
    _ELECTIONS,
    lambda batch: _new_elections(batch).elections,
    reduce_elections,
    Sealing(("offline_ms", "written_ms"), whole=True),
)
"""Elections by event (`key`) and partition (`sub`: its key as a signed number). The times are null where the event did
not leave the partition without a leader, or did not write a new one.
"""
BY_EPOCH: Final = Kept(
    "elections_by_epoch",
    _EPOCHS,
    lambda batch: _new_elections(batch).by_epoch,
    reduce_epochs,
    Sealing(times=()),
)
"""The events of elections by partition and leader epoch (`sub`)."""


def touched_events(batch: BucketBatch) -> Keys:
    """The events that have new elections, or whose leaders have newly taken their roles; sorted, each once."""
    taken = batch.added(TAKEN)
    known = batch.runs(BY_EPOCH).with_open(batch.added(BY_EPOCH))
    taken_now = gather(known, keys(taken["key"]), longs(taken["sub"]), _EPOCHS.empty_table())
    return numpy.unique(numpy.concatenate((keys(batch.added(ELECTIONS)["key"]), keys(taken_now["event"]))))


def failed_events(output: OutputFolder, cluster: BucketState) -> Keys:
    """Find all events with failures, sorted, in the state of what concerns no partition. Raises OutputError."""
    runs = output.runs(cluster.runs.get(FAILURES, ()))
    return numpy.unique(numpy.concatenate([numpy.zeros(0, numpy.uint64), *(run.key for run in runs)]))


def failover_rows(output: OutputFolder, buckets: Mapping[str, BucketState], events: Iterable[int]) -> pyarrow.Table:
    """The rows of these events, as FAILOVERS. Raises OutputError."""
    wanted = numpy.unique(numpy.fromiter(events, numpy.uint64))
    names = (FAILURES, ELECTIONS.name, TAKEN.name, ANSWERS.name)
    runs = [{name: output.table_runs(state, name) for name in names} for state in buckets.values()]
    failures = pyarrow.concat_tables([gather_all(of[FAILURES], wanted, FAILED.empty_table()) for of in runs])
    failed = numpy.unique(keys(failures["key"]))
    parts = [_elections(of, failed) for of in runs]
    elections = pyarrow.concat_tables(parts)
    rows = _rows(earliest(failures), elections.take(_in_order(elections)))
    return pyarrow.Table.from_pylist(list(rows), FAILOVERS)


def _in_order(elections: pyarrow.Table) -> pyarrow.Array:
    return pyarrow.array(numpy.argsort(keys(elections["key"]), kind="stable"))


def _elections(runs: Mapping[str, Runs], events: Keys) -> pyarrow.Table:
    """The elections of these events in one bucket, with the times at which the leaders took their roles, and at which
    those before them had answered them last.
    """
    found = reduce_elections(gather_all(runs[ELECTIONS.name], events, _ELECTIONS.empty_table()))
    partition, epoch = longs(found["sub"]).view(numpy.uint64), longs(found["leader_epoch"])
    taken_ms = _earliest_at(runs[TAKEN.name], "at_ms", partition, epoch)
    answered_ms = _earliest_at(runs[ANSWERS.name], "answered_ms", partition, epoch)
    return found.append_column("taken_ms", taken_ms).append_column("answered_ms", answered_ms)


def _earliest_at(runs: Runs, column: str, partition: Keys, epoch: Longs) -> pyarrow.Array:
    """The least time of the rows of each partition and leader epoch, null where there is none; all are aligned."""
    at_ms = numpy.full(len(epoch), _NEVER)
    for run in runs.at(partition, epoch):
        bounds = run.find(partition, epoch)
        present = bounds.first < bounds.end
        at_ms[present] = numpy.minimum(at_ms[present], longs(run.rows[column])[bounds.first[present]])
    return pyarrow.array(at_ms, mask=at_ms == _NEVER)


def _rows(failures: pyarrow.Table, elections: pyarrow.Table) -> Iterator[dict[str, Any]]:
    key = keys(elections["key"])
    times = [longs(elections[name]) for name in ("offline_ms", "written_ms", "taken_ms", "answered_ms")]
    by_event: dict[int, list[dict[str, Any]]] = {}
    for failure in failures.to_pylist():
        by_event.setdefault(failure["key"], []).append(failure)
    for event, failed in by_event.items():
        part = slice(*(int(numpy.searchsorted(key, numpy.uint64(event), side)) for side in ("left", "right")))
        brokers = sorted(failure["sub"] for failure in failed if failure["sub"] != NO_BROKER)
        if not brokers and part.start == part.stop:
            continue  # A controller that found all partitions led.
        detected_ms = min(failure["at_ms"] for failure in failed)
        yield {
            **{name: failed[0][name] for name in ("controller_epoch", "cause_id", "cause_event")},
            "brokers": brokers,
            "detected_ms": detected_ms,
            **_phases(detected_ms, *(column[part] for column in times)),
            "status": HOLDS,
        }


def _phases(detected_ms: int, offline: Longs, written: Longs, taken: Longs, answered: Longs) -> dict[str, int | None]:
    elected, done = written[written != ABSENT], taken[(taken != ABSENT) & (written != ABSENT)]
    answers = (answered != ABSENT) & (taken != ABSENT) & (written != ABSENT)
    leaderless = numpy.maximum(done - detected_ms, 0)
    return {
        "answered_ms": _extreme(answered[answers], numpy.max),
        "waited_max_ms": _extreme(taken[answers] - answered[answers], numpy.max),
        "partitions": len(offline),
        "first_written_ms": _extreme(elected, numpy.min),
        "last_written_ms": _extreme(elected, numpy.max),
        "first_taken_ms": _extreme(done, numpy.min),
        "last_taken_ms": _extreme(done, numpy.max),
        "not_elected": int(len(written) - len(elected)),
        "not_taken": int(len(elected) - len(done)),
        **{
            # The nearest rank: a time that a partition really had no leader for.
            f"leaderless_{name}_ms": _extreme(
                leaderless, lambda values, share=share: numpy.percentile(values, share, method="inverted_cdf")
            )
            for name, share in _SHARES.items()
        },
    }


def _extreme(values: Longs, which: Any) -> int | None:
    return int(which(values)) if len(values) else None
