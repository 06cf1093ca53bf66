"""Explains to a producer with acks=-1 why its records are not acknowledged: which replicas are missing, or lag.

What keeps them, as a full disk, only their own brokers know: the health check asks these.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from broker_agent.decisions.replica_progress import ReplicaProgress
from cluster.model.broker import UNKNOWN_OFFSET, BrokerId, Offset
from cluster.model.errors import ErrorCode

_NAMED: Final = 10


class Replication(Struct, frozen=True, kw_only=True):
    """The state of a partition at its leader. `isr`: all that the high watermark waits for; `remote`: of followers."""

    leader: BrokerId
    replicas: Sequence[BrokerId]
    isr: Sequence[BrokerId]
    min_isr: int
    remote: Mapping[BrokerId, ReplicaProgress]


def explain(code: ErrorCode, replication: Replication, *, required: Offset, timeout_ms: int) -> str:
    """Say what is missing; "" for a code that says it all. `required`: the end of what was appended, exclusive."""
    match code:
        case ErrorCode.NOT_ENOUGH_REPLICAS:
            return _too_few(replication)
        case ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            return f"appended, but {_too_few(replication)}"
        case ErrorCode.REQUEST_TIMED_OUT:
            return _waiting(replication, required, timeout_ms)
        case _:
            return ""


def _too_few(replication: Replication) -> str:
    missing = [f"{broker}" for broker in replication.replicas if broker not in replication.isr]
    return (
        f"{len(replication.isr)} of the {replication.min_isr} in-sync replicas that min.insync.replicas asks for;"
        f" not in sync: broker{'' if len(missing) == 1 else 's'} {_some(missing)}"
    )


def _waiting(replication: Replication, required: Offset, timeout_ms: int) -> str:
    ends = {
        broker: replication.remote[broker].log_end_offset if broker in replication.remote else UNKNOWN_OFFSET
        for broker in replication.isr
        if broker != replication.leader
    }
    lagging = [
        f"broker {broker} has fetched nothing yet" if end < 0 else f"broker {broker} has it up to offset {end}"
        for broker, end in ends.items()
        if end < required
    ]
    if not lagging and len(replication.isr) < replication.min_isr:
        return f"not committed within {timeout_ms} ms: {_too_few(replication)}"
    if lagging:
        return f"not in all in-sync replicas within {timeout_ms} ms: {_some(lagging)}; wanted: {required}"
    members = ", ".join(map(str, replication.isr[:_NAMED]))
    return (
        f"not committed within {timeout_ms} ms: in-sync replicas {members} have it, the high watermark is not there yet"
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
