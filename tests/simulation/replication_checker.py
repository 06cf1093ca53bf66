"""Watches every replica of one partition after every callback of the loop, and asserts what must always hold.

The properties are those of the agent specification, 16.2 to 16.4. Logs are followed batch by batch; that two logs
match is known by induction: equal base and epoch must mean the same batch after the same predecessor (P8).
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from broker_agent.decisions.isr import IsrState, maximal_isr
from broker_agent.hosted_partition import HostedPartition
from broker_agent.log.partition_log import PartitionLog
from cluster.broker import Offset
from cluster.partition import Leadership, TopicPartition
from cluster.record_batch import BatchHeader, walk
from cluster.znodes import decode_state, state_path
from simulator.cluster import SimulatedCluster
from simulator.nodes import SimulatedAgent


class Batch(NamedTuple):
    """What identifies a batch: offsets (`last` inclusive), leader epoch and checksum."""

    base: int
    last: int
    epoch: int
    crc: int


class Look(NamedTuple):
    """One replica at one moment; two equal looks mean that nothing happened in between."""

    partition: HostedPartition
    log: PartitionLog
    end: int
    high_watermark: int
    start: int
    leads: bool
    leader_epoch: int
    partition_epoch: int
    isr_state: IsrState

    @property
    def maximal(self) -> frozenset[int]:
        return frozenset(maximal_isr(self.isr_state))


class Replica:
    """What is known of one broker's replica: its last look and its batches by base offset, in order."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.batches: dict[int, Batch] = {}
        self.controller_epoch = 0

    def last(self) -> Batch | None:
        return next(reversed(self.batches.values()), None)

    def ending_at(self, end: int) -> Batch | None:
        """The batch whose last offset is `end` - 1."""
        return next((batch for batch in reversed(self.batches.values()) if batch.last == end - 1), None)


class ReplicationChecker:
    """`look` is called after each step of the loop; the driver reports what it did and what clients were told."""

    def __init__(self, cluster: SimulatedCluster, tp: TopicPartition) -> None:
        self.sent: set[int] = set()
        """Checksums of what producers sent; the same wherever the batch is, since it covers no stamped field."""
        self.acknowledged: dict[int, int] = {}
        self.changes = 0
        self._cluster, self._tp = cluster, tp
        self._path = state_path(tp)
        self._mzxid = -1
        self.state: Leadership | None = None
        self.replicas: dict[int, Replica] = {}
        self._ended: dict[int, object] = {}
        self._stamped: dict[tuple[int, int], tuple[Batch, Batch | None]] = {}
        self._leaders: dict[int, int] = {}
        self._read: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        """Checksums of what has ever been below the high watermark of any leader, by base offset."""
        # Who lost unflushed records while a leader still counts on it: that leader's view is wrong until it hears.
        self._hurt: dict[tuple[int, int], set[int]] = {}
        self._hurt_in_znode: set[int] = set()

    def process_ended(self, agent: SimulatedAgent, *, power_failed: bool) -> None:
        """The driver has crashed an agent: what is left of it in memory is of no interest."""
        self._ended[agent.id] = agent.agent
        self.replicas.pop(agent.id, None)
        if not power_failed:
            return
        for broker, replica in self.replicas.items():
            if replica.look.leads and agent.id in replica.look.maximal:
                self._hurt.setdefault((broker, replica.look.leader_epoch), set()).add(agent.id)
        if self.state is not None and agent.id in self.state.isr:
            self._hurt_in_znode.add(agent.id)
            # Who was elected may hear of it only later.
            self._hurt.setdefault((self.state.leader, self.state.leader_epoch), set()).add(agent.id)

    @property
    def sound_isr(self) -> set[int]:
        """Members of the ISR in ZooKeeper that have lost nothing."""
        return set() if self.state is None else set(self.state.isr) - self._hurt_in_znode

    def look(self) -> None:
        changed = self._look_at_znode()
        for agent in self._cluster.agents.values():
            changed |= self._look_at_agent(agent)
        if changed:
            self.changes += 1
            self._check_leaders()

    # ZooKeeper

    def _look_at_znode(self) -> bool:
        znode = self._cluster.zookeeper.tree.nodes.get(self._path)
        if znode is None or znode.mzxid == self._mzxid:
            return False
        self._mzxid = znode.mzxid
        before, self.state = self.state, decode_state(self._tp, znode.data, znode.version)
        state = self.state
        assert state.isr, "P4: empty ISR"
        assert state.leader == -1 or state.leader in state.isr, f"P4: {state}"
        assert len(set(state.isr)) == len(state.isr), f"P5: {state}"
        if before is not None:
            assert state.partition_epoch > before.partition_epoch, f"P17: {before} then {state}"
            assert state.leader_epoch >= before.leader_epoch, f"P17: {before} then {state}"
        self._hurt_in_znode &= set(state.isr)
        return True

    # One replica

    def _look_at_agent(self, simulated: SimulatedAgent) -> bool:
        agent = simulated.agent
        if agent is None or not simulated.is_running or self._ended.get(simulated.id) is agent:
            return False
        partition = agent.manager.online(self._tp)
        if partition is None or partition.log is None:
            return False
        log = partition.log
        assert isinstance(log, PartitionLog)
        look = Look(
            partition,
            log,
            log.log_end_offset,
            log.high_watermark,
            log.log_start_offset,
            partition.is_leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.isr_state,
        )
        known = self.replicas.get(simulated.id)
        if known is not None and known.look == look:
            return False
        if known is None or known.look.log is not log:
            # The high watermark that a process finds on its disk is not one that it has moved.
            known = self.replicas[simulated.id] = Replica(look._replace(end=0, start=0, leads=False, leader_epoch=-1))
        self._check_log(simulated.id, known, look)
        self._check_role(simulated.id, known, look)
        assert agent.control.known_controller_epoch >= known.controller_epoch, "P17: controller epoch"
        known.controller_epoch = agent.control.known_controller_epoch
        known.look = look
        return True

    def _check_log(self, broker: int, replica: Replica, look: Look) -> None:
        before, log = replica.look, look.log
        assert 0 <= look.start <= look.high_watermark <= look.end, f"P1: broker {broker}: {look}"
        assert log.recovery_point <= look.end, f"P1: broker {broker}: recovery point {log.recovery_point} of {look}"
        assert look.start >= before.start, f"P24: broker {broker}"
        if look.end < before.end:
            self._check_truncation(broker, before, look)
            replica.batches = {base: batch for base, batch in replica.batches.items() if batch.last < look.end}
        elif look.end > before.end:
            for header in _batches(log, log.log_start_offset if not before.end else Offset(before.end)):
                self._check_appended(broker, replica, header, look)
            last = replica.last()
            assert last is not None, f"P2: broker {broker} ends at {look.end} without a batch"
            assert last.last == look.end - 1, f"P2: broker {broker} ends at {look.end}: {last}"
        self._check_epochs(broker, replica, look)

    def _check_truncation(self, broker: int, before: Look, look: Look) -> None:
        was_leader = before.leads and look.leads and before.leader_epoch == look.leader_epoch
        assert not was_leader, f"P19: leader {broker} lost its end: {before.end} to {look.end}"
        assert look.end >= before.high_watermark, f"P20: broker {broker} cut to {look.end}, HW {before.high_watermark}"
        if broker in self.sound_isr:
            for leader, replica in self.replicas.items():
                presumed = replica.look
                assert not presumed.leads or look.end >= presumed.high_watermark, (
                    f"P20: member {broker} cut to {look.end}, leader {leader} is at HW {presumed.high_watermark}"
                )

    def _check_appended(self, broker: int, replica: Replica, header: BatchHeader, look: Look) -> None:
        batch = Batch(header.base_offset, header.last_offset, header.leader_epoch, header.crc)
        before = replica.last()
        if before is not None:
            assert batch.base == before.last + 1, f"P2: broker {broker}: {before} then {batch}"
            assert batch.epoch >= before.epoch, f"P2: broker {broker}: {before} then {batch}"
        assert batch.crc in self.sent, f"P29: broker {broker} has {batch}, which nobody sent"
        assert batch.epoch <= look.leader_epoch or replica.look.leader_epoch < 0, f"R5.30: broker {broker}: {batch}"
        known = self._stamped.setdefault((batch.base, batch.epoch), (batch, before))
        assert known == (batch, before), f"P8: broker {broker} has {before} {batch}, another has {known}"
        replica.batches[batch.base] = batch

    def _check_epochs(self, broker: int, replica: Replica, look: Look) -> None:
        entries = look.log.epoch_entries
        for earlier, later in pairwise(entries):
            assert earlier.epoch < later.epoch, f"P3: broker {broker}: {entries}"
            assert earlier.start_offset < later.start_offset, f"P3: broker {broker}: {entries}"
        if not entries:
            assert not replica.batches, f"P3: broker {broker} has batches without epochs"
            return
        assert entries[-1].start_offset <= look.end, f"P3: broker {broker}: {entries} end at {look.end}"
        changing = look.partition.is_changing_role or look.leader_epoch < 0  # Loaded, but without a role yet.
        assert changing or entries[-1].epoch <= look.leader_epoch, f"P3: broker {broker}: {entries} in {look}"
        remaining = list(entries)
        for batch in replica.batches.values():
            while len(remaining) > 1 and remaining[1].start_offset <= batch.base:
                del remaining[0]
            assert remaining[0].start_offset <= batch.base, f"P3: broker {broker}: {batch} before {entries}"
            assert remaining[0].epoch == batch.epoch, f"P3: broker {broker}: {batch} in {entries}"

    # Leadership

    def _check_role(self, broker: int, replica: Replica, look: Look) -> None:
        before = replica.look
        assert look.leader_epoch >= before.leader_epoch, f"P17: broker {broker}"
        if before.leader_epoch >= 0:
            assert look.partition_epoch >= before.partition_epoch, f"P17: broker {broker}"
        if not look.leads:
            return
        isr = look.isr_state.isr
        assert broker in isr, f"P4: leader {broker} is not in its ISR {isr}"
        assert len(set(isr)) == len(isr), f"P5: {isr}"
        assert set(isr) <= set(look.partition.assignment.replicas), f"P5: {isr}"
        first = self._leaders.setdefault(look.leader_epoch, broker)
        assert first == broker, f"P7: brokers {first} and {broker} led in epoch {look.leader_epoch}"
        self._hurt.get((broker, look.leader_epoch), set()).intersection_update(look.maximal)
        if before.leads and before.leader_epoch == look.leader_epoch:
            assert look.high_watermark >= before.high_watermark, f"P6: leader {broker}: {before} then {look}"
            self._check_joining(broker, look, look.maximal - before.maximal)
        elif self.state is not None and self.state.leader_epoch == look.leader_epoch:
            self._check_acknowledged(broker, replica)
        if before.log is look.log and look.high_watermark > before.high_watermark:
            self._check_advance(broker, look)
            self._note_committed(replica, before.high_watermark, look.high_watermark)

    def _check_joining(self, broker: int, look: Look, joined: frozenset[int]) -> None:
        for member in joined:
            told = look.partition.remote[member].log_end_offset  # type: ignore[index]
            assert told >= look.high_watermark, f"P22: {member} joined {broker} at {told}, HW {look.high_watermark}"
            start = look.partition.epoch_start_offset
            assert start is not None, f"P22: {broker} leads without a start of its epoch"
            assert told >= start, f"P22: {member} joined {broker} at {told}, epoch from {start}"

    def _check_advance(self, broker: int, look: Look) -> None:
        assert len(look.isr_state.isr) >= look.partition.min_isr, f"P16: leader {broker} is under its min ISR"
        for member in look.maximal - {broker}:
            told = look.partition.remote[member].log_end_offset  # type: ignore[index]
            assert told >= look.high_watermark, f"P16: HW {look.high_watermark} of {broker}, but {member} is at {told}"

    def _note_committed(self, replica: Replica, start: int, end: int) -> None:
        for batch in reversed(replica.batches.values()):
            if batch.base < start:
                return
            if batch.last < end:
                known = self._committed.setdefault(batch.base, batch.crc)
                assert known == batch.crc, f"P32: two batches were committed at {batch.base}"

    def _check_acknowledged(self, broker: int, replica: Replica) -> None:
        """Also what was acknowledged by the leader alone is there, once a high watermark has passed it."""
        for rule, kept in (("P28: acknowledged", self.acknowledged), ("P32: committed", self._committed)):
            for base, crc in kept.items():
                batch = replica.batches.get(base)
                found = None if batch is None else batch.crc
                assert found == crc, (
                    f"{rule} at {base} is not on broker {broker}, which leads in {replica.look.leader_epoch}"
                )

    def _check_leaders(self) -> None:
        """What each broker that takes itself for the leader has committed is where it may be needed."""
        state = self.state
        for leader, replica in self.replicas.items():
            look = replica.look
            if not look.leads:
                continue
            hurt = self._hurt.get((leader, look.leader_epoch), frozenset())
            self._check_holders("P9", leader, replica, look.maximal - hurt)
            if state is not None:
                self._check_holders("P10, P12", leader, replica, frozenset(self.sound_isr))
                if state.leader_epoch == look.leader_epoch:
                    assert set(state.isr) <= look.maximal, f"P11: {state} for {look}"

    def _check_holders(self, rule: str, leader: int, replica: Replica, members: frozenset[int]) -> None:
        committed = replica.ending_at(replica.look.high_watermark)
        if committed is None:
            return
        for member in members:
            other = self.replicas.get(member)
            if other is not None and other is not replica:
                found = other.batches.get(committed.base)
                assert found == committed, (
                    f"{rule}: leader {leader} (epoch {replica.look.leader_epoch}) has committed {committed}, "
                    f"member {member} ends at {other.look.end} and has {found}; ZooKeeper says {self.state}"
                )

    # Clients

    def note_acknowledged(self, base: int, crc: int) -> None:
        """A producer with acks=all was answered NONE."""
        assert self.acknowledged.setdefault(base, crc) == crc, f"P28: two batches acknowledged at {base}"
        leader = None if self.state is None else self.replicas.get(self.state.leader)
        if leader is not None and self.state is not None and leader.look.leader_epoch == self.state.leader_epoch:
            self._check_acknowledged(self.state.leader, leader)

    def note_read(self, records: bytes, high_watermark: int) -> None:
        """A consumer was given these batches."""
        for _, header in walk(records):
            assert header.last_offset < high_watermark, f"P31: read {header.last_offset}, HW {high_watermark}"
            crc = self._read.setdefault(header.base_offset, header.crc)
            assert crc == header.crc, f"P30: offset {header.base_offset} was read differently before"

    def check_end(self, replicas: Mapping[int, object]) -> None:
        """After the quiet time at the end (P38, P39): all in the ISR, all the same, nothing missing."""
        assert self.state is not None
        assert set(self.state.isr) == set(replicas), f"P38: {self.state}"
        contents = [list(replica.batches.values()) for replica in self.replicas.values()]
        assert len(contents) == len(replicas)
        assert all(content == contents[0] for content in contents), "P39: logs differ"
        for replica in self.replicas.values():
            assert replica.look.high_watermark == replica.look.end, f"P39: {replica.look}"
        self._check_acknowledged(self.state.leader, self.replicas[self.state.leader])
        present = {batch.base: batch.crc for batch in contents[0]}
        lost = {base: crc for base, crc in self._read.items() if present.get(base) != crc}
        assert not lost, f"P30: read by consumers and gone: {sorted(lost)}"


def _batches(log: PartitionLog, start: Offset) -> Iterator[BatchHeader]:
    """All batches from there to the end; one read gives those of one segment."""
    while start < log.log_end_offset:
        for _, header in walk(log.read(start, 1 << 30, log.log_end_offset, at_least_one=True)):
            yield header
            start = Offset(header.last_offset + 1)
