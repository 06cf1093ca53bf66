"""What a run of the audit is asked to do: how it reads, what it is held to, what it keeps."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from audit.batches.decisions import Replayer
from audit.reading.source import UTC
from audit.records.sealed_runs import OPEN_ROWS
from audit.rules.limits import Limits
from state_log.heads_file import GivenHead

BATCH_BYTES: Final = 256 << 20


class AuditOptions(Struct, frozen=True, kw_only=True):
    """The options of a run. Those without a value of their own stay as in earlier runs on the same output."""

    once: bool = False
    """End when everything that was there at the start has been read."""
    trigger_seconds: float = 5.0
    timeout_seconds: float | None = None
    """Seconds after which the run ends, counted from the first read."""
    batch_bytes: int = BATCH_BYTES
    """About how many bytes of the logs a batch has."""
    open_rows: int = OPEN_ROWS
    """Rows of a table in a part of the state above which old ones are sealed; later batches keep it."""
    keep_days: int | None = None
    """Days that records and timelines are kept; None keeps all."""
    delta: bool = False
    """Whether the tables are published as Delta tables; once they were, they always are."""
    expected_nodes: Sequence[str] = ()
    """The nodes that must have logs."""
    heads: Sequence[GivenHead] = ()
    """Lines that logs have reached."""
    timezone: str = UTC
    """The time zone of local times in logs of Apache Kafka, by its name in the time zone database."""
    require_trace: bool = False
    """Whether logs of Apache Kafka that are not of level TRACE make the audit incomplete."""
    require_heads: bool = False
    """Whether a node whose newest log has no head makes the audit incomplete."""
    replayer: Callable[[], Replayer] | None = None
    """Makes what replays the decisions of controllers; None: they are not replayed."""
    checkpoint: str = ""
    """The location of Spark's checkpoint, if not below the output."""
    limits: Limits | None = None
