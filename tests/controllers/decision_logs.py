"""Logs of a controller, written record by record, for tests of what replays them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cluster.model.broker import TopicId
from controller.replay.logs import replay_records
from controller.replay.replay import Replayed
from state_log.record import (
    Cause,
    DecisionInputs,
    Kind,
    LoadedMove,
    LoadedPartition,
    LoggedStateChange,
    Stamper,
    StateChange,
)
from state_log.writer import SegmentName

NODE, INCARNATION, EPOCH = "controller-1001", "1700000000000.1", 5
ORDERS = TopicId("m0Xr1jGqSwGvBNHFKptIFA")
ONLINE, OFFLINE, NEW, ABSENT = "OnlinePartition", "OfflinePartition", "NewPartition", "NonExistentPartition"


class DecisionLog:
    """The records of one controller in one epoch; each method adds one, of the event that was begun last."""

    def __init__(self, live: Sequence[int] | None = (1, 2, 3), governs: str | None = "klamm") -> None:
        self.records: list[LoggedStateChange] = []
        self._cause = Cause("Startup")
        inputs = None if live is None else DecisionInputs(live=tuple(live), governs=governs)  # type: ignore[arg-type]
        self.add(Kind.CONTROLLER, broker=1001, to_state="active", inputs=inputs)

    def event(self, name: str) -> "DecisionLog":
        self._cause = Cause(name, self._cause.id + 1)
        return self

    def add(self, kind: Kind, **fields: Any) -> "DecisionLog":
        own = {"v": 2, "seq": len(self.records), "node": NODE, "incarnation": INCARNATION, "at_ms": 1_700_000_000_000}
        own |= {"kind": kind, "cause": self._cause, "controller_epoch": EPOCH}
        self.records.append(LoggedStateChange(**own, **fields))
        return self

    def loaded(self, *partitions: Sequence[Any], moves: Sequence[Sequence[Any]] = ()) -> "DecisionLog":
        """Each: partition, leader, leader epoch, partition epoch, ISR, replicas."""
        parts = tuple(LoadedPartition(*p, EPOCH - 1) for p in partitions)  # type: ignore[arg-type, call-arg]
        known = tuple(LoadedMove(*move) for move in moves) or None
        return self.add(Kind.LOADED, topic="orders", topic_id=ORDERS, partitions=parts, moves=known)

    def broker(self, broker: int, state: str, epoch: int | None = None) -> "DecisionLog":
        return self.add(Kind.BROKER, broker=broker, to_state=state, broker_epoch=epoch)

    def partition(self, states: str, replicas: Sequence[int] = (1, 2, 3), partition: int = 0) -> "DecisionLog":
        before, _, after = states.partition(">")
        fields = {"from_state": before, "to_state": after, "replicas": tuple(replicas)}
        return self.add(Kind.PARTITION, **self._of(partition), **fields)

    def elected(
        self, reason: str, states: Sequence[Any], before: str = ONLINE, replicas: Sequence[int] = (1, 2, 3), **more: Any
    ) -> "DecisionLog":
        """`states`: leader, leader epoch, partition epoch, ISR."""
        fields = {"from_state": before, "to_state": ONLINE, "replicas": tuple(replicas), "reason": reason}
        return self.add(Kind.PARTITION, **self._of(more.pop("partition", 0)), **fields, **_leadership(states), **more)

    def isr(self, reason: str, states: Sequence[Any], broker: int | None = None, **more: Any) -> "DecisionLog":
        fields = {"replicas": (1, 2, 3), "reason": reason, "broker": broker}
        return self.add(Kind.ISR, **self._of(more.pop("partition", 0)), **(fields | more), **_leadership(states))

    def replica(self, broker: int, states: str, partition: int = 0) -> "DecisionLog":
        before, _, after = states.partition(">")
        return self.add(Kind.REPLICA, **self._of(partition), broker=broker, from_state=before, to_state=after)

    def assignment(
        self, state: str | None, replicas: Sequence[int], adding: Sequence[int] = (), removing: Sequence[int] = ()
    ) -> "DecisionLog":
        lists = {"adding_replicas": tuple(adding), "removing_replicas": tuple(removing)}
        return self.add(Kind.ASSIGNMENT, **self._of(0), to_state=state, replicas=tuple(replicas), **lists)

    def topic(self, state: str, kind: Kind = Kind.TOPIC) -> "DecisionLog":
        return self.add(kind, topic="orders", topic_id=ORDERS, to_state=state)

    def changed(self, seq: int, **fields: Any) -> "DecisionLog":
        """The same log with other fields in one record."""
        self.records[seq] = replace(self.records[seq], **fields)
        return self

    def replayed(self, *others: LoggedStateChange) -> Replayed:
        logs = {f"{NODE}/{INCARNATION}": self.records}
        if others:
            logs[f"{others[0].node}/{others[0].incarnation}"] = list(others)
        return replay_records(logs)

    def write(self, folder: Path) -> Path:
        """Write the segment of this log."""
        fields = StateChange.__struct_fields__
        plain = [StateChange(**{name: getattr(record, name) for name in fields}) for record in self.records]
        lines = Stamper(NODE, INCARNATION).stamp(plain, self.records[0].at_ms)
        path = folder / str(SegmentName(NODE, INCARNATION, 0))
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    @staticmethod
    def comparable(record: LoggedStateChange) -> LoggedStateChange:
        """Without what columns do not keep: the chain, and the controller epochs of what was loaded."""
        partitions = record.partitions and tuple(replace(p, controller_epoch=-1) for p in record.partitions)
        return replace(record, prev="", partitions=partitions, moves=record.moves or None)

    @staticmethod
    def _of(partition: int) -> dict[str, Any]:
        return {"topic": "orders", "topic_id": ORDERS, "partition": partition}


def _leadership(states: Sequence[Any]) -> dict[str, Any]:
    leader, leader_epoch, partition_epoch, isr = states
    epochs = {"leader_epoch": leader_epoch, "partition_epoch": partition_epoch}
    return {"leader": leader, **epochs, "isr": tuple(isr)}
