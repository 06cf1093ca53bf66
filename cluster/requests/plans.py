"""What a request would do, told without doing it: answers to `validate_only`."""

from msgspec import Struct

from cluster.broker import BrokerId
from cluster.requests.topics import DescribedPartition


class PlannedChange(Struct, frozen=True):
    """One partition as it is and as it would be after the first write."""

    topic: str
    before: DescribedPartition
    after: DescribedPartition


class PlannedRequest(Struct, frozen=True):
    """A control request that would go to `broker_id`, with so many partitions; `name` is that of the call."""

    broker_id: BrokerId
    name: str
    partitions: int


class Plan(Struct, frozen=True):
    changes: tuple[PlannedChange, ...] = ()
    requests: tuple[PlannedRequest, ...] = ()
