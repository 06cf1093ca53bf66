"""Derives a broker's offline replicas from its LeaderAndIsr response.

Source: Kafka KafkaController.processLeaderAndIsrResponseReceived; KIP-112.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from msgspec import Struct

from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.control import LeaderAndIsrPartitionError
from controller.decisions.context_view import ContextView


class DirectoryNews(Struct, frozen=True):
    """`offline`: all partitions whose replica on the broker is in an offline log directory; `lost`: the new ones;
    `back`: those that no longer are.
    """

    offline: frozenset[TopicPartition]
    lost: tuple[TopicPartition, ...]
    back: tuple[TopicPartition, ...]


def classify_directories(
    view: ContextView, known_offline: AbstractSet[TopicPartition], results: Iterable[LeaderAndIsrPartitionError]
) -> DirectoryNews:
    """Classify results: KAFKA_STORAGE_ERROR is an offline replica, NONE an online one, other codes change nothing
    (BK-51).

    An online replica whose request was stale returns STALE_CONTROLLER_EPOCH. Results for unknown topic ids are ignored
    (BK-52).
    """
    lost: dict[TopicPartition, None] = {}
    online: set[TopicPartition] = set()
    for result in results:
        if result.error_code is ErrorCode.NONE and not known_offline:
            continue
        if result.error_code not in {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}:
            continue
        topic = result.topic_name if result.topic_id is None else view.topics.names_by_id.get(result.topic_id)
        if topic is None:
            continue
        tp = TopicPartition(topic, result.partition_index)
        if result.error_code is ErrorCode.NONE:
            online.add(tp)
        else:
            lost[tp] = None
    offline = (known_offline - online) | lost.keys()
    back = tuple(sorted(known_offline - offline))
    return DirectoryNews(frozenset(offline), tuple(tp for tp in lost if tp not in known_offline), back)
