"""Plans which replicas of a broker to move so that its log directories are used evenly."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from cluster.model.partition import TopicPartition
from cluster.requests.log_dirs import DescribedLogDir

_WORTH_A_MOVE: Final = 0.05
"""Directories that differ by less than this part of what is in the fuller one are left as they are."""


class DirectoryUse(Struct, frozen=True):
    """The bytes of replicas in a log directory before and after the moves, and of its file system; -1: unknown."""

    log_dir: str
    before: int
    after: int
    total_bytes: int


class BalancingMove(Struct, frozen=True):
    topic_partition: TopicPartition
    size: int
    from_dir: str
    to_dir: str


class DirectoryBalance(Struct, frozen=True):
    moves: tuple[BalancingMove, ...]
    uses: tuple[DirectoryUse, ...]


def plan_balance(described: Sequence[DescribedLogDir]) -> DirectoryBalance:
    """Move replicas from the fullest directory to the emptiest, as long as that makes them more even.

    Fullness is the part of its file system that the replicas of a directory take; where sizes of file systems are not
    known, their bytes. Failed directories are left out, and so are replicas that are being moved, which count where
    they go.
    """
    live = sorted((d for d in described if not d.error_code), key=lambda d: d.log_dir)
    capacity = {d.log_dir: d.total_bytes for d in live}
    if any(size <= 0 for size in capacity.values()):
        capacity = dict.fromkeys(capacity, 1)
    moving = {tp for d in live for tp, _, is_future in _replicas(d) if is_future}
    movable = {d.log_dir: {tp: size for tp, size, _ in _replicas(d) if tp not in moving} for d in live}
    present = {tp: size for d in live for tp, size, is_future in _replicas(d) if not is_future}
    before = {
        d.log_dir: sum(present.get(tp, size) for tp, size, is_future in _replicas(d) if is_future or tp not in moving)
        for d in live
    }
    used, moves = dict(before), []
    while len(used) > 1 and (move := _next_move(used, movable, capacity)) is not None:
        # A replica moves once.
        del movable[move.from_dir][move.topic_partition]
        used[move.from_dir] -= move.size
        used[move.to_dir] += move.size
        moves.append(move)
    uses = tuple(DirectoryUse(d.log_dir, before[d.log_dir], used[d.log_dir], d.total_bytes) for d in live)
    return DirectoryBalance(tuple(moves), uses)


def _replicas(described: DescribedLogDir) -> list[tuple[TopicPartition, int, bool]]:
    return [
        (TopicPartition(topic.name, replica.partition_index), replica.partition_size, replica.is_future_key)
        for topic in described.topics
        for replica in topic.partitions
    ]


def _next_move(
    used: Mapping[str, int], movable: Mapping[str, Mapping[TopicPartition, int]], capacity: Mapping[str, int]
) -> BalancingMove | None:
    """The move from the fullest to the emptiest directory after which they differ least; None if none is worth it."""

    def fullness(path: str, more: int = 0) -> float:
        return (used[path] + more) / capacity[path]

    fullest, emptiest = (choose(sorted(used), key=fullness) for choose in (max, min))
    gap = fullness(fullest) - fullness(emptiest)
    if gap <= _WORTH_A_MOVE * fullness(fullest):
        return None

    def gap_after(tp: TopicPartition) -> float:
        size = movable[fullest][tp]
        return abs(fullness(fullest, -size) - fullness(emptiest, size))

    best = min(sorted(movable[fullest]), key=gap_after, default=None)
    if best is None or gap_after(best) >= gap:
        return None
    return BalancingMove(best, movable[fullest][best], fullest, emptiest)
