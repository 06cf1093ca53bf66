"""The damaged replicas of all log directories of an agent, and which directories' files do not have them yet."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from broker_agent.log_damage import DamagedReplica
from cluster.model.broker import Offset
from cluster.model.partition import TopicPartition


class KnownDamage:
    """By partition and first offset: one replica can be damaged in several places, and lack records in one."""

    def __init__(self) -> None:
        self._replicas: dict[TopicPartition, dict[Offset | None, DamagedReplica]] = {}
        self.unsaved: set[str] = set()
        """Log directories whose file must be written again."""

    @property
    def all(self) -> tuple[DamagedReplica, ...]:
        return tuple(replica for places in self._replicas.values() for replica in places.values())

    def of(self, topic_partition: TopicPartition) -> tuple[DamagedReplica, ...]:
        return tuple(self._replicas.get(topic_partition, {}).values())

    def load(self, replicas: Iterable[DamagedReplica]) -> None:
        """Add what the file of a directory has."""
        for replica in replicas:
            self._replicas.setdefault(replica.topic_partition, {})[_place(replica)] = replica

    def add(self, replica: DamagedReplica) -> None:
        """Add one, in place of one that begins at the same offset, or of the same doubt."""
        self.load((replica,))
        self.unsaved.add(replica.directory)

    def add_found(self, replica: DamagedReplica) -> None:
        """Add what was found at the start. Known damage that goes further, by checkpoints that are rewritten since, is
        merely found again.
        """
        known = self._replicas.get(replica.topic_partition, {}).get(replica.damage.from_offset)
        if known is not None and known.damage.to_offset >= replica.damage.to_offset:
            replica = replace(replica, damage=known.damage)
        self.add(replica)

    def remove(self, replica: DamagedReplica) -> None:
        places = self._replicas.get(replica.topic_partition, {})
        if places.pop(_place(replica), None) is not None:
            self.unsaved.add(replica.directory)
            if not places:
                del self._replicas[replica.topic_partition]

    def remove_where(self, is_gone: Callable[[DamagedReplica], bool]) -> None:
        for replica in [replica for replica in self.all if is_gone(replica)]:
            self.remove(replica)

    def directory_failed(self, path: str) -> None:
        """Its file stays as it is: it can be neither read nor written."""
        self.remove_where(lambda replica: replica.directory == path)
        self.unsaved.discard(path)

    def in_directory(self, path: str) -> list[DamagedReplica]:
        return [replica for replica in self.all if replica.directory == path]


def _place(replica: DamagedReplica) -> Offset | None:
    return None if replica.is_in_doubt else replica.damage.from_offset
