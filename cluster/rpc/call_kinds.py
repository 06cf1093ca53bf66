"""Names the kinds of calls, in the order in which a server admits them under load."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from cluster.requests import agents, control
from cluster.requests.cluster import WatchRequest
from cluster.requests.data import FetchRequest, ProduceRequest
from cluster.requests.recovery import DescribeReplicasRequest


class CallKind(IntEnum):
    """Ranks calls: the smaller the number, the longer calls of this kind are admitted as load rises."""

    CONTROL = 0
    """Requests between controllers and brokers."""
    REPLICATION = 1
    """Fetches of followers."""
    ADMIN = 2
    """Health checks, reflection, metadata, and administrative requests."""
    PRODUCE = 3
    FETCH = 4
    """Fetches of consumers."""
    WATCH = 5
    """Streams that stay open: cluster events, changes of health."""

    @property
    def label(self) -> str:
        """The name of the kind in messages and metrics."""
        return self.name.lower()


_KINDS: Final[Mapping[type, CallKind]] = {
    ProduceRequest: CallKind.PRODUCE,
    FetchRequest: CallKind.FETCH,
    WatchRequest: CallKind.WATCH,
    DescribeReplicasRequest: CallKind.CONTROL,
}
_CONTROL_MODULES: Final = frozenset({agents.__name__, control.__name__})


def kind_of(request_type: type) -> CallKind:
    """Find the kind of a call from the type of its request; a fetch may turn out to be a follower's."""
    if request_type.__module__ in _CONTROL_MODULES:
        return CallKind.CONTROL
    return _KINDS.get(request_type, CallKind.ADMIN)
