"""The findings about terms of controllers that the end of what was read shows."""

from collections.abc import Iterator
from typing import Final

import pyarrow.dataset

from audit.batches.cluster_state import ClusterState
from audit.records.findings import AuditFinding
from audit.rules.controller_terms import OTHER_CONTROLLER_FOLLOWED, others_followed, written_outside_terms
from audit.rules.subjects import reference
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import RECORDS_TABLE

_NAMED_MAX: Final = 20
_COLUMNS: Final = ("node", "incarnation", "seq", "at_ms")


def logs_that_lack_lines(state: ClusterState) -> set[str]:
    """The logs (node/incarnation) of which lines are missing or malformed."""
    return {
        name for name, log in state.incarnations.items() if log.missing or name.replace("/", "-", 1) in state.malformed
    }


def term_findings(folder: OutputFolder, commit: Commit | None, state: ClusterState) -> Iterator[AuditFinding]:
    """Find what controllers wrote outside their terms, and whom agents followed instead. Raises OutputError."""
    unread = logs_that_lack_lines(state)
    resigned = [term.resigned_record for term in state.tables.terms.values() if term.resigned_record is not None]
    yield from written_outside_terms(state.tables.work.values(), state.active, resigned, unread)
    followed = () if commit is None else commit.followed
    for epoch, controller, others in others_followed(followed, state.active):
        message = f"in controller epoch {epoch}, in which {others} became active, brokers carried out requests of "
        yield _with_records(folder, epoch, controller, f"{message}controller-{controller}")


def _with_records(folder: OutputFolder, epoch: int, controller: int, message: str) -> AuditFinding:
    field = pyarrow.dataset.field
    of_both = (field("cause_controller") == controller) & (field("cause_controller_epoch") == epoch)
    rows = sorted(folder.rows(RECORDS_TABLE, _COLUMNS, of_both), key=lambda row: (row["at_ms"], reference(row)))
    records = tuple(reference(row) for row in rows[:_NAMED_MAX])
    at_ms = rows[0]["at_ms"] if rows else None
    return AuditFinding(OTHER_CONTROLLER_FOLLOWED, f"controller-epoch {epoch}", message, records, at_ms=at_ms)
