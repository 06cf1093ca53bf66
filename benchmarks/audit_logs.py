"""State-change logs for the benchmark of the audit: three controllers and five agents, without a fault in them.

`steady`: elections and ISR changes, one partition at a time. `incident`: brokers die and return in turn, and each time
one event changes all the partitions that the broker has a replica of.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from cluster.model.broker import BrokerId, ControllerEpoch, ControllerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from state_log.record import Cause, Kind, Stamper, StateChange
from state_log.writer import SegmentName

STEADY, INCIDENT = "steady", "incident"
_INCARNATION: Final = "1795356180123.4711"
_CONTROLLERS: Final = (1001, 1002, 1003)
_BROKERS: Final = (1, 2, 3, 4, 5)
_BLOCK: Final = 10_000
_TICK_MS: Final = 100
"""What is written within it has one time."""
_START_MS: Final = 1_795_356_181_000
_BETWEEN_DEATHS_MS: Final = 600_000
Written = tuple[str, StateChange]
"""A record, and the node that writes it."""


@dataclass
class Partition:
    topic: str
    topic_id: TopicId
    number: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    epoch: int = -1
    version: int = -1


def write_logs(folder: Path, records: int, keys: int, case: str = STEADY) -> int:
    """Write at least this many records of this many partitions; return the number of bytes."""
    nodes = [*(f"controller-{id_}" for id_ in _CONTROLLERS), *(f"broker-{id_}" for id_ in _BROKERS)]
    stampers = {node: Stamper(node, _INCARNATION) for node in nodes}
    waiting: dict[str, list[StateChange]] = {node: [] for node in nodes}
    written = kept = size = 0
    last_ms = _START_MS
    for at_ms, event in _EVENTS[case](Random(1), keys):
        if at_ms > last_ms + _TICK_MS or kept >= _BLOCK:
            size += _write(folder, stampers, waiting, last_ms)
            last_ms, kept = at_ms, 0
        if written >= records:
            break
        for node, change in event:
            waiting[node].append(change)
        written, kept = written + len(event), kept + len(event)
    return size + _write(folder, stampers, waiting, last_ms)


def _write(folder: Path, stampers: dict[str, Stamper], waiting: dict[str, list[StateChange]], at_ms: int) -> int:
    size = 0
    for node, changes in waiting.items():
        if not changes:
            continue
        block = b"".join(line + b"\n" for line in stampers[node].stamp(changes, at_ms))
        with (folder / str(SegmentName(node, _INCARNATION, 0))).open("ab") as file:
            file.write(block)
        size += len(block)
        changes.clear()
    return size


def _steady(random: Random, keys: int) -> Iterator[tuple[int, list[Written]]]:
    """Yield an event of each partition in ten minutes: more would be a cluster in which all leaders change all the
    time.
    """
    partitions = _partitions(keys)
    for event in count(1):
        epoch = ControllerEpoch(1 + event // 100_000)
        at_ms = _START_MS + event * 600_000 // keys
        controller = ControllerId(_CONTROLLERS[epoch % 3])
        if event == 1 or event % 100_000 == 0:
            yield at_ms, [_active(controller, epoch, 2 * event - 1)]
        partition = random.choice(partitions)
        is_new = partition.version < 0
        if is_new or random.random() < 0.5:
            leader = partition.leader if is_new else random.choice(partition.isr)
            isr = partition.isr
        else:
            leader = partition.leader
            isr = (leader,) if len(partition.isr) == len(partition.replicas) else partition.replicas
        elects = is_new or isr == partition.isr
        yield at_ms, _changed(partition, leader, isr, elects, (controller, epoch, "BrokerChange", 2 * event))


def _incident(random: Random, keys: int) -> Iterator[tuple[int, list[Written]]]:
    """Yield the creation of all partitions; then a broker dies, returns, another one dies."""
    del random
    partitions, controller, epoch = _partitions(keys), ControllerId(_CONTROLLERS[0]), ControllerEpoch(1)
    yield _START_MS, [_active(controller, epoch, 1)]
    for number, partition in enumerate(partitions):
        by = (controller, epoch, "TopicChange", 2 + number // 100)
        yield _START_MS, _changed(partition, partition.leader, partition.isr, True, by)
    for death in count(1):
        broker, at_ms = BrokerId(_BROKERS[death % 5]), _START_MS + death * _BETWEEN_DEATHS_MS
        hit = [partition for partition in partitions if broker in partition.replicas]
        cause = Cause("BrokerChange", keys + 2 * death)
        dead = StateChange(kind=Kind.BROKER, cause=cause, controller_epoch=epoch, broker=broker, to_state="dead")
        yield at_ms, [(f"controller-{controller}", dead)]
        for partition in hit:
            if partition.leader == broker:
                yield at_ms, [(f"controller-{controller}", _offline(partition, epoch, cause))]
        by = (controller, epoch, cause.event, keys + 2 * death)
        for partition in hit:
            isr = tuple(member for member in partition.isr if member != broker)
            if partition.leader == broker:
                yield at_ms + 1000, _changed(partition, isr[0], isr, True, by, before="OfflinePartition")
            else:
                yield at_ms + 1000, _changed(partition, partition.leader, isr, True, by)
        returned = Cause("IsrChangeNotification", keys + 2 * death + 1)
        live = StateChange(kind=Kind.BROKER, cause=returned, controller_epoch=epoch, broker=broker, to_state="live")
        yield at_ms + _BETWEEN_DEATHS_MS // 2, [(f"controller-{controller}", live)]
        for partition in hit:
            by = (controller, epoch, returned.event, returned.id)
            yield at_ms + _BETWEEN_DEATHS_MS // 2, _changed(partition, partition.leader, partition.replicas, False, by)


_EVENTS: Final = {STEADY: _steady, INCIDENT: _incident}


def _partitions(keys: int) -> list[Partition]:
    topics = max(1, keys // 100)
    return [_partition(number, topics) for number in range(keys)]


def _partition(number: int, topics: int) -> Partition:
    topic = f"topic-{number % topics:05d}"
    topic_id = TopicId(urlsafe_b64encode(blake2b(topic.encode(), digest_size=16).digest()).decode().rstrip("="))
    replicas = tuple(BrokerId((number + shift) % 5 + 1) for shift in range(3))
    return Partition(topic, topic_id, number // topics, replicas, replicas, replicas[0])


def _active(controller: ControllerId, epoch: ControllerEpoch, event: int) -> Written:
    change = StateChange(
        kind=Kind.CONTROLLER,
        cause=Cause("Reelect", event),
        controller_epoch=epoch,
        broker=controller,
        to_state="active",
    )
    return f"controller-{controller}", change


def _offline(partition: Partition, epoch: ControllerEpoch, cause: Cause) -> StateChange:
    return StateChange(
        kind=Kind.PARTITION, cause=cause, controller_epoch=epoch, topic=partition.topic, topic_id=partition.topic_id,
        partition=partition.number, from_state="OnlinePartition", to_state="OfflinePartition",
    )  # fmt: skip


def _changed(
    partition: Partition,
    leader: BrokerId,
    isr: tuple[BrokerId, ...],
    elects: bool,
    by: tuple[ControllerId, ControllerEpoch, str, int],
    *,
    before: str = "OnlinePartition",
) -> list[Written]:
    """The partition gets this state; what the controller and, of an election, the agents write about it."""
    controller, epoch, event, number = by
    is_new = partition.version < 0
    partition.version += 1
    partition.epoch += elects
    partition.leader, partition.isr = leader, isr
    state = StateChange(
        kind=Kind.PARTITION if elects else Kind.ISR, cause=Cause(event, number), controller_epoch=epoch,
        topic=partition.topic, topic_id=partition.topic_id, partition=partition.number, leader=leader,
        leader_epoch=LeaderEpoch(partition.epoch), partition_epoch=PartitionEpoch(partition.version),
        isr=isr, replicas=partition.replicas,
        from_state=("NewPartition" if is_new else before) if elects else None,
        to_state="OnlinePartition" if elects else None,
    )  # fmt: skip
    return [(f"controller-{controller}", state), *(_roles(state, controller, isr) if elects else ())]


def _roles(state: StateChange, controller: ControllerId, brokers: tuple[BrokerId, ...]) -> Iterator[Written]:
    assert state.cause is not None
    cause = Cause(state.cause.event, state.cause.id, controller, state.controller_epoch)
    for broker in brokers:
        change = StateChange(
            kind=Kind.ROLE, cause=cause, controller_epoch=state.controller_epoch, topic=state.topic,
            topic_id=state.topic_id, partition=state.partition, broker=broker, leader=state.leader,
            to_state="leader" if broker == state.leader else "follower", leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch, isr=state.isr, replicas=state.replicas,
            high_watermark=Offset(state.partition_epoch or 0), log_end_offset=Offset(state.partition_epoch or 0),
            min_insync_replicas=1 if broker == state.leader else None,
        )  # fmt: skip
        yield f"broker-{broker}", change
