"""The transactions of a log that is cleaned: which records were aborted, and which markers have outlived theirs. Pure.

They are found in the batches themselves, whose headers say all that Kafka's transaction index does. Source: Kafka
CleanedTransactionMetadata; KIP-98.
"""

from bisect import bisect_left

from msgspec import Struct

from cluster.model.broker import Offset


class _Transaction(Struct, frozen=True):
    """Offsets of an aborted transaction: its first batch, and the marker that ends it."""

    first: Offset
    marker: Offset


class CleanedTransactions:
    """Batches and markers are added in the order of the log, all of them, before anything is asked."""

    def __init__(self) -> None:
        self._open: dict[int, Offset] = {}  # Producer id -> first offset of its transaction.
        self._aborted: dict[int, list[_Transaction]] = {}
        self._empty_markers: set[Offset] = set()

    @property
    def are_all_decided(self) -> bool:
        """Whether no transaction waits for its marker."""
        return not self._open

    def add_batch(self, producer_id: int, base_offset: Offset) -> None:
        """Add a transactional batch of records."""
        self._open.setdefault(producer_id, base_offset)

    def add_marker(self, producer_id: int, offset: Offset, *, is_abort: bool) -> None:
        """Add the marker at `offset`, which ends the producer's transaction."""
        first = self._open.pop(producer_id, None)
        if first is None:
            self._empty_markers.add(offset)
        elif is_abort:
            self._aborted.setdefault(producer_id, []).append(_Transaction(first, offset))

    def was_aborted(self, producer_id: int, base_offset: Offset) -> bool:
        """Whether a transactional batch of records was aborted."""
        aborted = self._aborted.get(producer_id, ())
        index = bisect_left(aborted, base_offset, key=lambda transaction: transaction.marker)
        return index < len(aborted) and aborted[index].first <= base_offset

    def has_outlived(self, marker: Offset) -> bool:
        """Whether nothing is left of the transaction that the marker at this offset ended."""
        return marker in self._empty_markers
