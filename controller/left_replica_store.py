"""`/klamm/left_replicas`: what brokers that are away still have of topics deleted without them, in ZooKeeper (D-98)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from cluster.model import bounds
from cluster.model.bounds import why_not
from cluster.model.broker import BrokerId, ControllerEpoch
from cluster.model.errors import MalformedZnodeError
from cluster.znodes.left_replicas import (
    LeftReplicas,
    decode_last_controller,
    decode_left_replicas,
    encode_last_controller,
    encode_left_replicas,
)
from cluster.znodes.paths import LEFT_REPLICAS, broker_of_name, left_replicas_path
from cluster.zookeeper.decoding import report_malformed
from cluster.zookeeper.port import Create, Delete, SetData, ZooKeeper
from controller.fenced_writes import Conflict, FencedWriter, Missing, Written
from controller.malformed_znodes import MalformedZnodes

Left = Mapping[BrokerId, Mapping[str, LeftReplicas]]
"""Broker -> deleted topic -> what it still has of it."""
_NO_EPOCH: Final = ControllerEpoch(-1)


class FoundRecords(Struct, frozen=True):
    """`last_epoch`: of the last controller of klamm that kept to the records, -1 if that is not known."""

    left: dict[BrokerId, dict[str, LeftReplicas]]
    last_epoch: ControllerEpoch


class LeftReplicaStore:
    """Reads and fenced writes of the records by the active controller of this epoch."""

    def __init__(
        self, zookeeper: ZooKeeper, writer: FencedWriter, malformed: MalformedZnodes, epoch: ControllerEpoch
    ) -> None:
        self._zookeeper = zookeeper
        self._writer = writer
        self._malformed = malformed
        self._epoch = epoch
        self._parents: set[str] = set()
        """Parents of records that are known to exist."""

    async def read(self) -> FoundRecords | None:
        """Read all records; None if there never were any."""
        parent = await self._zookeeper.get(LEFT_REPLICAS)
        if parent is None:
            return None
        left: dict[BrokerId, dict[str, LeftReplicas]] = {}
        names = (await self._zookeeper.children_many([LEFT_REPLICAS]))[0] or ()
        ids = {broker: name for name in names if (broker := broker_of_name(name)) is not None}
        self._malformed.name_children(LEFT_REPLICAS, names, [*ids.values()], why_not(bounds.BROKER_ID, "its name"))
        listed = await self._zookeeper.children_many([f"{LEFT_REPLICAS}/{name}" for name in ids.values()])
        keys = [
            (broker, topic)
            for broker, topics in zip(ids, listed, strict=True)
            for topic in topics or ()
            if bounds.TOPIC_NAME.accepts(topic)
        ]
        paths = [left_replicas_path(*key) for key in keys]
        znodes = await self._zookeeper.get_many(paths)
        found = self._malformed.decode_each(keys, paths, znodes, lambda k, z: decode_left_replicas(_path(k), z.data))
        for (broker, topic), record in found.items():
            left.setdefault(broker, {})[topic] = record
        try:
            return FoundRecords(left, decode_last_controller(parent.data))
        except MalformedZnodeError as error:
            report_malformed(error)
            return FoundRecords(left, _NO_EPOCH)

    async def standing(self, brokers: Sequence[BrokerId]) -> set[BrokerId]:
        """Find the brokers that have records: somebody may have deleted what stands about one that is gone."""
        listed = await self._zookeeper.children_many([f"{LEFT_REPLICAS}/{broker}" for broker in brokers])
        return {broker for broker, topics in zip(brokers, listed, strict=True) if topics}

    async def keep_to(self) -> None:
        """Write down that this controller keeps to the records."""
        await self._writer.write([(SetData(LEFT_REPLICAS, encode_last_controller(self._epoch)),)])

    async def record(self, left: Left) -> dict[BrokerId, dict[str, LeftReplicas]]:
        """Write records, over what stands there; returns those that were written."""
        await self._create_parents(left)
        keys = [(broker, topic) for broker, topics in left.items() for topic in topics]
        bodies = {(broker, topic): encode_left_replicas(left[broker][topic]) for broker, topic in keys}
        outcomes = dict(
            zip(keys, await self._writer.write([(Create(_path(k), bodies[k]),) for k in keys]), strict=True)
        )
        taken = [key for key, outcome in outcomes.items() if isinstance(outcome, Conflict)]
        again = await self._writer.write([(SetData(_path(key), bodies[key]),) for key in taken])
        outcomes |= dict(zip(taken, again, strict=True))
        if any(isinstance(outcome, Missing) for outcome in outcomes.values()):
            # Somebody deleted a parent; the retry creates it again.
            self._parents.clear()
        written: dict[BrokerId, dict[str, LeftReplicas]] = {}
        for (broker, topic), outcome in outcomes.items():
            if isinstance(outcome, Written):
                written.setdefault(broker, {})[topic] = left[broker][topic]
        return written

    async def delete(self, records: Mapping[BrokerId, Collection[str]]) -> dict[BrokerId, list[str]]:
        """Delete records; returns those that are gone."""
        keys = [(broker, topic) for broker, topics in records.items() for topic in topics]
        outcomes = await self._writer.write([(Delete(_path(key)),) for key in keys])
        gone: dict[BrokerId, list[str]] = {}
        for (broker, topic), outcome in zip(keys, outcomes, strict=True):
            if isinstance(outcome, Written):
                gone.setdefault(broker, []).append(topic)
        return gone

    async def _create_parents(self, left: Left) -> None:
        klamm = LEFT_REPLICAS.rpartition("/")[0]
        wanted = {klamm: b"", LEFT_REPLICAS: encode_last_controller(self._epoch)}
        wanted |= {f"{LEFT_REPLICAS}/{broker}": b"" for broker in left}
        missing = [path for path in wanted if path not in self._parents]
        outcomes = await self._writer.write([(Create(path, wanted[path]),) for path in missing])
        there = (path for path, o in zip(missing, outcomes, strict=True) if isinstance(o, Written | Conflict))
        self._parents.update(there)


def _path(key: tuple[BrokerId, str]) -> str:
    return left_replicas_path(*key)
