"""Types that fields of several requests have, each with its bound (`cluster.model.bounds`).

The bound of a field is in its annotation; ids and epochs have theirs in their own type. `cluster.rpc.request_bounds`
derives the check of a request from them, and refuses a field that has none.
"""

from typing import Annotated, TypeVar

from cluster.model import bounds
from cluster.model.annotations import KafkaName
from cluster.model.broker import BrokerId

_T = TypeVar("_T")

Int32 = Annotated[int, bounds.INT32]
Int64 = Annotated[int, bounds.INT64]
String = Annotated[str, bounds.TEXT]
"""Also of names that administrators give: the handler answers unknown ones."""
TopicName = Annotated[str, bounds.TOPIC_NAME]
TopicOfItem = Annotated[str, bounds.TOPIC_NAME, KafkaName("name")]
"""The topic of a partition of a flat list; Kafka has a list of topics with partitions in them."""
PartitionIndex = Annotated[int, bounds.PARTITION]
PartitionOfItem = Annotated[int, bounds.INT32, KafkaName("partition_index")]
AnyBrokerId = Annotated[BrokerId, bounds.INT32]
"""Given by an administrator: the handler answers, in Kafka's words, what is no broker."""
FetcherId = Annotated[BrokerId, bounds.FETCHER_ID]
"""A broker, or one of the replica ids that stand for other clients."""
Replicas = Annotated[tuple[BrokerId, ...], bounds.REPLICAS]
ClientItems = Annotated[tuple[_T, ...], bounds.CLIENT_ITEMS]
"""A list in a request of a client: no longer than is answered within a fraction of a second."""
