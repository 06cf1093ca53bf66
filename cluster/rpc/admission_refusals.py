"""Makes the refusals of calls: which setting has no room, and what to do. A refused call was not processed at all."""

from cluster.model.errors import ApiError, ErrorCode
from cluster.rpc.admission_limits import AdmissionLimits
from cluster.rpc.budgets import Bound, Budget, Peer
from cluster.rpc.call_kinds import CallKind
from cluster.rpc.memory_pool import Reception


def too_many(budget: Budget, bound: Bound, kind: CallKind, doing: str, setting: str) -> ApiError:
    """Make the refusal of a call for which a budget has no place. `doing`: the state of the calls that use it."""
    match bound:
        case Bound.KIND:
            whose, todo = f"{kind.label} requests and less urgent ones", "retry later"
        case Bound.CONNECTION:
            whose, todo = f"{kind.label} requests of this connection", "send fewer at once"
        case Bound.ADDRESS:
            whose, todo = f"{kind.label} requests of this address", "send fewer at once"
    why = f"{budget.limit(kind, bound)} {whose} are {doing}, as many as may be"
    return _refusal(setting, budget.total, why, todo)


def too_many_connections(peer: Peer, limit: int) -> ApiError:
    why = f"{peer.address} has open requests on {limit} connections, as many as one address may have"
    return _refusal("max.connections.per.ip", limit, why, "close some")


def not_received(limits: AdmissionLimits, reception: Reception | None) -> ApiError:
    """Make the refusal of a request that did not arrive in time. `reception`: None if it found no room at all."""
    if reception is None:
        why = f"no room for the request for {limits.klamm_request_transfer_timeout_ms} ms"
    elif reception.is_cut:
        why = "the request took long to arrive, and there was no room to continue it"
    else:
        limit = limits.klamm_request_transfer_timeout_ms
        why = f"the request did not arrive within {limit} ms"
        return _refusal("klamm.request.transfer.timeout.ms", limit, why, "send it faster, or in smaller parts")
    return _refusal("queued.max.request.bytes", limits.queued_max_request_bytes, why, "retry later")


def no_room(limits: AdmissionLimits, size: int) -> ApiError:
    why = f"no room for a request of {size} bytes"
    return _refusal("queued.max.request.bytes", limits.queued_max_request_bytes, why, "retry later")


def _refusal(setting: str, limit: int, why: str, todo: str) -> ApiError:
    message = f"{why}; {todo}, or raise {setting} ({limit})"
    return ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message, field=setting, value=limit)
