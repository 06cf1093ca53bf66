"""Histories as a correct cluster would log them, drawn from a random source, for tests of what reads the logs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from cluster.model.broker import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.model.partition import LeaderAndIsr
from simulator.memory_state_log import write_segment
from state_log.causes import ISR_WRITTEN, READ_FROM_LEADER
from state_log.record import Cause, Kind, LoadedPartition, LoggedStateChange, Stamper, StateChange, decode_line
from state_log.writer import SegmentName

Incarnation = tuple[str, str]
Logs = dict[Incarnation, list[StateChange]]
"""What each incarnation of each node said, in its order."""

REPLICAS = (BrokerId(1), BrokerId(2), BrokerId(3))


class Partition(Struct):
    """The truth about one partition: its state node, and what each agent was last told."""

    topic: str
    number: int
    state: LeaderAndIsr | None = None
    is_online: bool = False
    """Whether the controller's state machine of the partition has it online."""
    agent_epochs: dict[BrokerId, LeaderEpoch] = {}


class Cluster:
    """A model of a cluster that only does what the protocol allows, and writes down what it does."""

    def __init__(
        self,
        random: Random,
        topic: str = "orders",
        partitions: int = 1,
        *,
        unclean: bool = True,
        leaders_write: bool = False,
    ) -> None:
        """`unclean`: whether leaders may come from outside the ISR, which the audit reports. `leaders_write`: whether
        they write their ISRs, of which controllers learn later, or never.
        """
        self.random, self.unclean, self.leaders_write = random, unclean, leaders_write
        self.former: dict[Incarnation, ControllerEpoch] = {}
        """Controllers that are not active any more, and may not know it, with the last epoch of each."""
        self.partitions = [Partition(topic, number, agent_epochs={}) for number in range(partitions)]
        self.epoch = ControllerEpoch(0)
        self.logs: Logs = {}
        self.runs = 0
        self.controller: Incarnation = ("", "")
        self.agents: dict[BrokerId, Incarnation] = {broker: self._start(f"broker-{broker}") for broker in REPLICAS}
        self.fail_over()

    def _start(self, node: str) -> Incarnation:
        self.runs += 1
        incarnation = (node, f"{1_700_000_000_000 + self.runs:013d}.1")
        self.logs[incarnation] = []
        return incarnation

    def _say(self, kind: Kind, partition: Partition | None = None, **fields: object) -> None:
        where = {} if partition is None else {"topic": partition.topic, "partition": partition.number}
        cause = Cause("Drawn", len(self.logs[self.controller]))
        change = StateChange(kind=kind, cause=cause, controller_epoch=self.epoch, **where, **fields)  # type: ignore[arg-type]
        self.logs[self.controller].append(change)

    def fail_over(self) -> None:
        """Another controller, or the same in a new run, becomes active and loads what is in ZooKeeper."""
        self.epoch = ControllerEpoch(self.epoch + 1)
        node = f"controller-{1001 + self.random.randrange(3)}"
        if self.epoch > 1:
            self.former[self.controller] = ControllerEpoch(self.epoch - 1)
        stays = self.controller[0] == node and self.random.random() < 0.5
        self.controller = self.controller if stays else self._start(node)
        self.former.pop(self.controller, None)
        self._say(Kind.CONTROLLER, broker=int(node.partition("-")[2]), to_state="active")
        loaded = tuple(_loaded(p.number, p.state) for p in self.partitions)
        self._say(Kind.LOADED, topic=self.partitions[0].topic, partitions=loaded)
        for partition in self.partitions:
            partition.is_online = partition.state is not None and partition.state.leader != NO_LEADER

    def restart_agent(self) -> None:
        broker = self.random.choice(REPLICAS)
        self.agents[broker] = self._start(f"broker-{broker}")
        for partition in self.partitions:
            partition.agent_epochs.pop(broker, None)

    def step(self) -> None:
        """One thing happens, to one partition or to a node."""
        partition = self.random.choice(self.partitions)
        if partition.state is None:
            self._initialise(partition)
            return
        second_way = self._elect_uncleanly if self.unclean else self._elect
        change_isr = self._write_isr_as_leader if self.leaders_write else self._change_isr
        actions = [self._elect, second_way, self._lose_leader, change_isr, self._send_again]
        self.random.choice([*actions, self._tell, self._tell, self._tell, self._node_event])(partition)

    def _node_event(self, _: Partition) -> None:
        self.random.choice([self.fail_over, self.restart_agent])()

    def _initialise(self, partition: Partition) -> None:
        new, epochs = "NewPartition", (LeaderEpoch(0), PartitionEpoch(0))
        self._say(Kind.PARTITION, partition, from_state="NonExistentPartition", to_state=new, replicas=REPLICAS)
        partition.state = LeaderAndIsr(REPLICAS[0], epochs[0], REPLICAS, self.epoch, epochs[1])
        self._say_state(Kind.PARTITION, partition, from_state=new, to_state="OnlinePartition", reason="initialised")
        partition.is_online = True

    def delete(self, number: int) -> None:
        """The deletion of a partition begins: its replicas go, and leave the ISR one after the other."""
        partition = self.partitions[number]
        if partition.state is None:
            return
        self._go_offline(partition)
        self._say(Kind.PARTITION, partition, from_state="OfflinePartition", to_state="NonExistentPartition")
        for broker in [b for b in partition.state.isr if b != partition.state.leader]:
            self._write(partition, isr=tuple(b for b in _written(partition).isr if b != broker))
            self._say_state(Kind.ISR, partition, broker=broker, reason="replica removed")

    def _elect(self, partition: Partition) -> None:
        state = _written(partition)
        self._write(partition, leader=self.random.choice(state.isr), leader_epoch=LeaderEpoch(state.leader_epoch + 1))
        self._say_election(partition, "Reassign")

    def _elect_uncleanly(self, partition: Partition) -> None:
        state, leader = _written(partition), self.random.choice(REPLICAS)
        self._write(partition, leader=leader, isr=(leader,), leader_epoch=LeaderEpoch(state.leader_epoch + 1))
        self._say_election(partition, "Offline")

    def _say_election(self, partition: Partition, reason: str) -> None:
        self._go_offline(partition)
        states = {"from_state": "OfflinePartition", "to_state": "OnlinePartition"}
        self._say_state(Kind.PARTITION, partition, **states, reason=reason)
        partition.is_online = True

    def _go_offline(self, partition: Partition) -> None:
        if partition.is_online:
            self._say(Kind.PARTITION, partition, from_state="OnlinePartition", to_state="OfflinePartition")
        partition.is_online = False

    def _lose_leader(self, partition: Partition) -> None:
        state = _written(partition)
        isr = tuple(b for b in state.isr if b != state.leader) or state.isr
        self._write(partition, leader=NO_LEADER, isr=isr, leader_epoch=LeaderEpoch(state.leader_epoch + 1))
        self._say_state(
            Kind.REPLICA, partition, broker=state.leader, from_state="OnlineReplica", to_state="OfflineReplica"
        )
        # It returns before anything else happens, so that it may be elected again.
        moves = {"from_state": "OfflineReplica", "to_state": "OnlineReplica"}
        self._say(Kind.REPLICA, partition, broker=state.leader, **moves)

    def _change_isr(self, partition: Partition) -> None:
        state = _written(partition)
        if state.leader != NO_LEADER:
            others = [b for b in REPLICAS if b != state.leader]
            self._write(partition, isr=(state.leader, *self.random.sample(others, self.random.randrange(3))))
            asked = f"asked by broker {state.leader}"
            self._say_state(Kind.ISR, partition, broker=state.leader, reason=asked)

    def _write_isr_as_leader(self, partition: Partition) -> None:
        state = _written(partition)
        if partition.agent_epochs.get(state.leader) != state.leader_epoch:
            return
        others = [b for b in REPLICAS if b != state.leader]
        isr = (state.leader, *self.random.sample(others, self.random.randrange(3)))
        self._write(partition, isr=isr, controller_epoch=state.controller_epoch)
        change = _state_change(Kind.ROLE, partition, broker=state.leader, to_state="leader", cause=Cause(ISR_WRITTEN))
        self.logs[self.agents[state.leader]].append(change)
        readers = [(self.controller, self.epoch), *self.former.items()]
        for reader, epoch in self.random.sample(readers, self.random.randrange(min(3, len(readers) + 1))):
            read = _state_change(Kind.ISR, partition, controller_epoch=epoch, reason=READ_FROM_LEADER)
            self.logs[reader].append(read)

    def _send_again(self, partition: Partition) -> None:
        self._say_state(Kind.REPLICA, partition, broker=1, from_state="OnlineReplica", to_state="OnlineReplica")

    def _tell(self, partition: Partition) -> None:
        """An agent takes the role that the state gives it, unless it had heard of that leader epoch."""
        broker, state = self.random.choice(REPLICAS), _written(partition)
        if partition.agent_epochs.get(broker, -1) < state.leader_epoch:
            partition.agent_epochs[broker] = state.leader_epoch
            role = "leader" if state.leader == broker else "follower"
            change = _state_change(Kind.ROLE, partition, broker=broker, to_state=role)
            self.logs[self.agents[broker]].append(replace(change, controller_epoch=state.controller_epoch))

    def _write(self, partition: Partition, **fields: object) -> None:
        state = _written(partition)
        epoch = PartitionEpoch(state.partition_epoch + 1)
        partition.state = replace(state, **{"controller_epoch": self.epoch, "partition_epoch": epoch, **fields})

    def _say_state(self, kind: Kind, partition: Partition, **fields: object) -> None:
        change = _state_change(kind, partition, **fields)
        self.logs[self.controller].append(replace(change, controller_epoch=self.epoch))


def draw(
    seed: int, steps: int = 30, partitions: int = 1, *, unclean: bool = True, leaders_write: bool = False
) -> Cluster:
    cluster = Cluster(Random(seed), partitions=partitions, unclean=unclean, leaders_write=leaders_write)
    for _ in range(steps):
        cluster.step()
    return cluster


def stamped(logs: Logs) -> list[list[LoggedStateChange]]:
    """The records of each incarnation, as they would be read back."""
    streams = []
    for (node, incarnation), changes in logs.items():
        records = [decode_line(line) for line in Stamper(node, incarnation).stamp(changes, 1_700_000_000_000)]
        streams.append([r for r in records if isinstance(r, LoggedStateChange)])
    return streams


def shuffled(streams: Iterable[Sequence[LoggedStateChange]], random: Random) -> list[LoggedStateChange]:
    """One order of all records that keeps the order of each stream."""
    waiting = [list(reversed(stream)) for stream in streams if stream]
    merged = []
    while waiting:
        stream = random.choice(waiting)
        merged.append(stream.pop())
        waiting = [s for s in waiting if s]
    return merged


def write_logs(logs: Logs, directory: Path, *, ms_between_epochs: int = 0) -> dict[Incarnation, Path]:
    """One segment per incarnation, in a folder per node, as nodes would leave them: a first record begins it.

    `ms_between_epochs`: the time between two states of a partition.
    """
    paths = {}
    for (node, incarnation), changes in logs.items():
        if not changes:
            continue
        stamper, lines = Stamper(node, incarnation), list[bytes]()
        for change in changes:
            at_ms = 1_700_000_000_000 + ms_between_epochs * (change.partition_epoch or 0)
            lines += stamper.stamp([change], at_ms)
        paths[node, incarnation] = write_segment(directory / node, SegmentName(node, incarnation, 0), lines)
    return paths


def _written(partition: Partition) -> LeaderAndIsr:
    assert partition.state is not None, "the partition has a state node"
    return partition.state


def _state_change(kind: Kind, partition: Partition, **fields: object) -> StateChange:
    state = _written(partition)
    return StateChange(
        kind=kind,
        topic=partition.topic,
        partition=partition.number,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=state.isr,
        replicas=REPLICAS,
        **fields,  # type: ignore[arg-type]
    )


def _loaded(number: int, state: LeaderAndIsr | None) -> LoadedPartition:
    if state is None:
        none = (NO_LEADER, LeaderEpoch(-1), PartitionEpoch(-1))
        return LoadedPartition(number, *none, (), REPLICAS, ControllerEpoch(0))
    return LoadedPartition(
        number, state.leader, state.leader_epoch, state.partition_epoch, state.isr, REPLICAS, state.controller_epoch
    )
