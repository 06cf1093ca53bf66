"""Bounds the topics and partitions of a cluster: `klamm.max.topics`, `klamm.max.partitions`.

Source: Kafka CreateTopicPolicy, of which this is one, and `max.partitions` of KIP-578.
"""

from cluster.model.errors import ApiError, ErrorCode


class ClusterRoom:
    """Says whether there is room for further topics and partitions, and counts what one request takes of it."""

    def __init__(self, topics: int, partitions: int, *, max_topics: int, max_partitions: int) -> None:
        """`topics`, `partitions`: how many there are."""
        self._topics, self._partitions = topics, partitions
        self._max_topics, self._max_partitions = max_topics, max_partitions

    def take(self, partitions: int, topics: int = 0) -> None:
        """Raise ApiError if there is no room for these, and take nothing then."""
        if topics and self._topics + topics > self._max_topics:
            raise _full("topics", topics, self._topics, self._max_topics)
        if self._partitions + partitions > self._max_partitions:
            raise _full("partitions", partitions, self._partitions, self._max_partitions)
        self._topics, self._partitions = self._topics + topics, self._partitions + partitions


def _full(what: str, more: int, present: int, limit: int) -> ApiError:
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"the cluster has {present:,} {what} with those before in this call, and {more:,} more would be beyond "
        f"klamm.max.{what} ({limit:,}): delete some, or raise it at the controllers",
        field=f"klamm.max.{what}",
        value=limit,
    )
