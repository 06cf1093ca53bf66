"""What a run of the audit is asked to do: how it reads, what it is held to, what it keeps."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from audit.reading.source import UTC
from audit.rules.limits import Limits
from state_log.heads_file import GivenHead

BATCH_BYTES: Final = 256 << 20


class AuditOptions(Struct, frozen=True, kw_only=True):
    """The options of a run; those without a value of their own are as in earlier runs on the same output."""

    once: bool = False
    """End when everything that was there at the start has been read."""
    trigger_seconds: float = 5.0
    timeout_seconds: float | None = None
    """After so long, since it began to read, it ends as it stands."""
    batch_bytes: int = BATCH_BYTES
    """Of the logs, about, in a batch."""
    keep_days: int | None = None
    """Of the tables of records and timelines; None keeps all."""
    expected_nodes: Sequence[str] = ()
    """Those that must have logs."""
    heads: Sequence[GivenHead] = ()
    """Lines that logs have reached."""
    timezone: str = UTC
    """Of the local times in logs of Apache Kafka's, a name of the time zone database."""
    require_trace: bool = False
    """Incomplete where logs of Apache Kafka's are not of level TRACE."""
    checkpoint: str = ""
    """Where Spark keeps its own, if not below the output."""
    limits: Limits | None = None
