"""The findings about controller epochs and events of controllers that the end of what was read shows."""

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

import pyarrow.dataset

from audit.batches.cluster_state import ClusterState
from audit.records.findings import AuditFinding
from audit.report.open_conditions import was_read_beyond
from audit.rules.controller_epochs import (
    EVENT_NEVER_WAS,
    Followed,
    TermOfController,
    falling_epochs,
    falling_events,
    late_controllers,
    of_other_controllers,
    renamed_events,
    times_without_controller,
    unknown_requests,
)
from audit.rules.subjects import reference
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import RECORDS_TABLE

_NAMED_MAX: Final = 20
_COLUMNS: Final = ("node", "incarnation", "seq", "at_ms", "cause_id", "cause_controller", "cause_controller_epoch")


def epoch_findings(
    folder: OutputFolder, commit: Commit | None, state: ClusterState, unread: set[str]
) -> Iterator[AuditFinding]:
    """Find what there is about epochs and events. `unread`: logs (node/incarnation) that lack lines.

    Raises OutputError.
    """
    if commit is None:
        return
    work = state.tables.work.values()
    yield from falling_events(work)
    yield from renamed_events(work)
    yield from falling_epochs(state.active)
    terms = [
        TermOfController(
            *(t.controller_epoch, t.controller, t.active_ms, t.resigned_ms),
            active_record=t.record,
            resigned_record=t.resigned_record,
            silent_ms=t.silent_ms,
        )
        for t in state.tables.terms.values()
    ]
    yield from of_other_controllers(terms)
    newest_ms = max(state.last_at_ms.values(), default=0)
    yield from times_without_controller(terms, newest_ms, commit.limits.controllerless_ms)
    yield from late_controllers(terms, commit.limits.controllerless_ms)
    followed = (Followed(*each) for each in commit.greatest_events)
    unknown = list(unknown_requests(followed, state.active, work, unread))
    above = {
        request: state.tables.work[f"{log}/{request.controller_epoch}"].max_event if log else -1
        for _, request, log in unknown
    }
    first = _first_records(folder, above)
    for rule, request, _ in unknown:
        rows = first[request]
        if rows and _is_decided(request, rows[0]["at_ms"], state):
            yield _finding(rule, request, rows)


def _first_records(folder: OutputFolder, above: Mapping[Followed, int]) -> dict[Followed, list[dict[str, Any]]]:
    """The first records, by time, that follow from later events than these of each controller in its controller epoch.

    All are found in one pass: while brokers' logs are read ahead of controllers' there are many such epochs.
    """
    found: dict[Followed, list[dict[str, Any]]] = {request: [] for request in above}
    if not above:
        return found
    of = {(request.controller_epoch, request.controller): request for request in above}
    field = pyarrow.dataset.field
    chosen = [
        (field("cause_controller_epoch") == request.controller_epoch)
        & (field("cause_controller") == request.controller)
        & (field("cause_id") > event)
        for request, event in above.items()
    ]
    for row in folder.rows(RECORDS_TABLE, _COLUMNS, reduce(or_, chosen)):
        rows = found[of[row["cause_controller_epoch"], row["cause_controller"]]]
        insort(rows, row, key=_by_time)
        del rows[_NAMED_MAX:]
    return found


def _by_time(row: Mapping[str, Any]) -> tuple[int, str]:
    return row["at_ms"], reference(row)


def _is_decided(request: Followed, at_ms: int, state: ClusterState) -> bool:
    """Whether the logs of the controller have what it wrote until then: otherwise the end may only be missing."""
    if request.controller_epoch in state.active:
        return was_read_beyond(request.controller_epoch, at_ms, state)
    return state.last_at_ms.get(f"controller-{request.controller}", 0) > at_ms


def _finding(rule: str, request: Followed, rows: Sequence[dict[str, Any]]) -> AuditFinding:
    epoch, controller = request.controller_epoch, request.controller
    if rule == EVENT_NEVER_WAS:
        what = f"event {rows[0]['cause_id']} of controller {controller} in controller epoch {epoch}"
        message = f"brokers carried out a request of {what}, which its log does not have"
    else:
        message = (
            f"brokers carried out requests of controller {controller} in controller epoch {epoch}, in which nobody "
            "became active"
        )
    records = tuple(reference(row) for row in rows)
    return AuditFinding(
        rule, f"controller-epoch {epoch} of controller {controller}", message, records, at_ms=rows[0]["at_ms"]
    )
