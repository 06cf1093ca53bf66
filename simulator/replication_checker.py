"""Checks the replicas of one partition after every callback of the event loop.

The rules are the properties P1 to P39 of `docs/rules/broker_agent.md`. Logs are compared batch by batch; that two logs
match follows by induction: equal base offset and epoch must mean the same batch after the same predecessor (P8).
"""

from collections.abc import Collection

from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import BatchHeader, walk
from cluster.model.broker import Offset, PartitionEpoch
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.znodes.paths import state_path
from cluster.znodes.topics import decode_state
from simulator.cluster import SimulatedCluster
from simulator.nodes import SimulatedAgent
from simulator.replica_contents import BatchIdentity, batch_of, headers
from simulator.replica_view import (
    ObservedReplica,
    ReplicaView,
    check_epochs,
    check_epochs_rise,
    check_isr_in_zookeeper,
    check_isr_of_leader,
    check_offsets,
    check_successor,
    view_of,
)
from simulator.violations import violated


class ReplicationChecker:
    """`observe` is called after each callback of the loop; the simulation adds what clients sent and received.

    Every method that finds a violation raises ViolationError.
    """

    def __init__(self, cluster: SimulatedCluster, tp: TopicPartition) -> None:
        self.sent: set[int] = set()
        """Checksums of sent batches; the same at any offset, as the checksum covers no field set by the leader."""
        self.acknowledged: dict[int, int] = {}
        self.changes = 0
        self._cluster, self._tp = cluster, tp
        self._path = state_path(tp)
        self._mzxid = -1
        self.state: LeaderAndIsr | None = None
        self.replicas: dict[int, ObservedReplica] = {}
        self._ended: dict[int, object] = {}
        self._stamped: dict[tuple[int, int], tuple[BatchIdentity, BatchIdentity | None]] = {}
        self._leaders: dict[int, int] = {}
        self._read: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        """Checksums of batches ever below the high watermark of any leader, by base offset."""
        # Replicas that lost unflushed records while a leader still counts them; that leader is wrong until it learns of
        # it.
        self._lossy: dict[tuple[int, int], set[int]] = {}
        self._lossy_in_znode: set[int] = set()

    def process_ended(self, agent: SimulatedAgent, *, power_failed: bool) -> None:
        """An agent crashed: its in-memory state is dropped."""
        self._ended[agent.id] = agent.agent
        self.replicas.pop(agent.id, None)
        if not power_failed:
            return
        for broker, replica in self.replicas.items():
            if replica.view.leads and agent.id in replica.view.maximal:
                self._lossy.setdefault((broker, replica.view.leader_epoch), set()).add(agent.id)
        if self.state is not None and agent.id in self.state.isr:
            self._lossy_in_znode.add(agent.id)
            # An elected leader may learn of its election only later.
            self._lossy.setdefault((self.state.leader, self.state.leader_epoch), set()).add(agent.id)

    @property
    def sound_isr(self) -> set[int]:
        """Members of the ISR in ZooKeeper that have lost nothing."""
        isr: Collection[int] = () if self.state is None else self.state.isr
        return set(isr) - self._lossy_in_znode

    def observe(self) -> None:
        """Read all replicas after a step, and check what must hold at every moment. Raises ViolationError."""
        changed = self._observe_znode()
        for agent in self._cluster.agents.values():
            changed |= self._observe_agent(agent)
        if changed:
            self.changes += 1
            self._check_leaders()

    # ZooKeeper

    def _observe_znode(self) -> bool:
        znode = self._cluster.zookeeper.tree.znodes.get(self._path)
        if znode is None or znode.mzxid == self._mzxid:
            return False
        self._mzxid = znode.mzxid
        before, state = self.state, decode_state(self._tp, znode.data, PartitionEpoch(znode.version))
        if state is None:
            raise violated("P4", f"the state node of {self._tp} cannot be read: {znode.data!r}")
        check_isr_in_zookeeper(before, state)
        self.state = state
        self._lossy_in_znode &= set(state.isr)
        return True

    # One replica

    def _observe_agent(self, simulated: SimulatedAgent) -> bool:
        agent = simulated.agent
        if agent is None or not simulated.is_running or self._ended.get(simulated.id) is agent:
            return False
        partition = agent.manager.online(self._tp)
        if partition is None or partition.log is None:
            return False
        log = partition.log
        assert isinstance(log, PartitionLog)
        view = view_of(partition, log)
        known = self.replicas.get(simulated.id)
        if known is not None and known.view == view:
            return False
        if known is None or known.view.log is not log:
            # The high watermark loaded from disk was not advanced by this process.
            known = self.replicas[simulated.id] = ObservedReplica(
                view._replace(end=0, start=0, leads=False, leader_epoch=-1)
            )
        elif view.leader_epoch < 0:
            # It lost its role when the next one could not be taken, as on a full disk; no later one has a lower epoch.
            epoch = max(known.view.leader_epoch, log.confirmed_epoch)
            view = view._replace(leads=False, leader_epoch=epoch, partition_epoch=known.view.partition_epoch)
        self._check_log(simulated.id, known, view)
        self._check_role(simulated.id, known, view)
        if agent.control.known_controller_epoch < known.controller_epoch:
            raise violated("P17", "controller epoch")
        known.controller_epoch = agent.control.known_controller_epoch
        known.view = view
        return True

    def _check_log(self, broker: int, replica: ObservedReplica, view: ReplicaView) -> None:
        before, log = replica.view, view.log
        check_offsets(broker, before, view)
        if view.end < before.end:
            self._check_truncation(broker, before, view)
            replica.batches = {base: batch for base, batch in replica.batches.items() if batch.last < view.end}
        elif view.end > before.end:
            for header in headers(log, log.log_start_offset if not before.end else Offset(before.end)):
                self._check_appended(broker, replica, header, view)
            last = replica.last()
            if last is None or last.last != view.end - 1:
                raise violated("P2", f"broker {broker} ends at {view.end}: {last}")
        check_epochs(broker, replica, view)

    def _check_truncation(self, broker: int, before: ReplicaView, view: ReplicaView) -> None:
        if before.leads and view.leads and before.leader_epoch == view.leader_epoch:
            raise violated("P19", f"leader {broker} lost its end: {before.end} to {view.end}")
        if view.end < before.high_watermark:
            raise violated("P20", f"broker {broker} cut to {view.end}, HW {before.high_watermark}")
        if broker in self.sound_isr:
            for leader, replica in self.replicas.items():
                presumed = replica.view
                if presumed.leads and view.end < presumed.high_watermark:
                    raise violated(
                        "P20", f"member {broker} cut to {view.end}, leader {leader} is at HW {presumed.high_watermark}"
                    )

    def _check_appended(self, broker: int, replica: ObservedReplica, header: BatchHeader, view: ReplicaView) -> None:
        batch, before = batch_of(header), replica.last()
        check_successor(broker, before, batch)
        if batch.crc not in self.sent:
            raise violated("P29", f"broker {broker} has {batch}, which nobody sent")
        if batch.epoch > view.leader_epoch and replica.view.leader_epoch >= 0:
            raise violated("R5.30", f"broker {broker}: {batch}")
        known = self._stamped.setdefault((batch.base, batch.epoch), (batch, before))
        if known != (batch, before):
            raise violated("P8", f"broker {broker} has {before} {batch}, another has {known}")
        replica.batches[batch.base] = batch

    # Leadership

    def _check_role(self, broker: int, replica: ObservedReplica, view: ReplicaView) -> None:
        before = replica.view
        check_epochs_rise(broker, before, view)
        if not view.leads:
            return
        check_isr_of_leader(broker, view)
        first = self._leaders.setdefault(view.leader_epoch, broker)
        if first != broker:
            raise violated("P7", f"brokers {first} and {broker} led in epoch {view.leader_epoch}")
        self._lossy.get((broker, view.leader_epoch), set()).intersection_update(view.maximal)
        if before.leads and before.leader_epoch == view.leader_epoch:
            if view.high_watermark < before.high_watermark:
                raise violated("P6", f"leader {broker}: {before} then {view}")
            self._check_joining(broker, view, view.maximal - before.maximal)
        elif self.state is not None and self.state.leader_epoch == view.leader_epoch:
            self._check_acknowledged(broker, replica)
        if before.log is view.log and view.high_watermark > before.high_watermark:
            self._check_advance(broker, view)
            self._add_committed(replica, before.high_watermark, view.high_watermark)

    def _check_joining(self, broker: int, view: ReplicaView, joined: frozenset[int]) -> None:
        for member in joined:
            end = view.end_of(member)
            if end < view.high_watermark:
                raise violated("P22", f"{member} joined {broker} at {end}, HW {view.high_watermark}")
            start = view.partition.epoch_start_offset
            if start is None or end < start:
                raise violated("P22", f"{member} joined {broker} at {end}, epoch from {start}")

    def _check_advance(self, broker: int, view: ReplicaView) -> None:
        if len(view.isr_state.committed) < view.partition.min_isr:
            raise violated("P16", f"leader {broker} is under its min ISR")
        for member in view.maximal - {broker}:
            end = view.end_of(member)
            if end < view.high_watermark:
                raise violated("P16", f"HW {view.high_watermark} of {broker}, but {member} is at {end}")

    def _add_committed(self, replica: ObservedReplica, start: int, end: int) -> None:
        for batch in reversed(replica.batches.values()):
            if batch.base < start:
                return
            if batch.last < end:
                known = self._committed.setdefault(batch.base, batch.crc)
                if known != batch.crc:
                    raise violated("P32", f"two batches were committed at {batch.base}")

    def _check_acknowledged(self, broker: int, replica: ObservedReplica) -> None:
        """Records acknowledged by the leader alone must be present once a high watermark has passed them, too."""
        for rule, kept in (("P28", self.acknowledged), ("P32", self._committed)):
            for base, crc in kept.items():
                batch = replica.batches.get(base)
                found = None if batch is None else batch.crc
                if found != crc:
                    kind = "acknowledged" if rule == "P28" else "committed"
                    epoch = replica.view.leader_epoch
                    raise violated(rule, f"{kind} at {base} is not on broker {broker}, which leads in {epoch}")

    def _check_leaders(self) -> None:
        """Check that all that a broker which believes to be leader has committed is on every possible next leader."""
        state = self.state
        for leader, replica in self.replicas.items():
            view = replica.view
            if not view.leads:
                continue
            lossy = self._lossy.get((leader, view.leader_epoch), set())
            self._check_holders("P9", leader, replica, view.maximal - lossy)
            if state is not None:
                self._check_holders("P10", leader, replica, frozenset(self.sound_isr))
                if state.leader_epoch == view.leader_epoch and not set(state.isr) <= view.maximal:
                    raise violated("P11", f"{state} for {view}")

    def _check_holders(self, rule: str, leader: int, replica: ObservedReplica, members: frozenset[int]) -> None:
        committed = replica.ending_at(replica.view.high_watermark)
        if committed is None:
            return
        for member in members:
            other = self.replicas.get(member)
            if other is not None and other is not replica:
                found = other.batches.get(committed.base)
                if found != committed:
                    raise violated(
                        rule,
                        f"leader {leader} (epoch {replica.view.leader_epoch}) has committed {committed}, "
                        f"member {member} ends at {other.view.end} and has {found}; ZooKeeper says {self.state}",
                    )

    # Clients

    def add_acknowledged(self, base: int, crc: int) -> None:
        """Record a produce with acks=all that got NONE."""
        if self.acknowledged.setdefault(base, crc) != crc:
            raise violated("P28", f"two batches acknowledged at {base}")
        leader = None if self.state is None else self.replicas.get(self.state.leader)
        if leader is not None and self.state is not None and leader.view.leader_epoch == self.state.leader_epoch:
            self._check_acknowledged(self.state.leader, leader)

    def add_read(self, records: bytes, high_watermark: int) -> None:
        """Record batches that a consumer has read."""
        for _, header in walk(records):
            if header.last_offset >= high_watermark:
                raise violated("P31", f"read {header.last_offset}, HW {high_watermark}")
            crc = self._read.setdefault(header.base_offset, header.crc)
            if crc != header.crc:
                raise violated("P30", f"offset {header.base_offset} was read differently before")

    def check_end(self, brokers: Collection[int]) -> None:
        """Check the converged end state: all replicas in the ISR, all equal, nothing missing (P38, P39)."""
        assert self.state is not None, "the partition has a state node"
        if set(self.state.isr) != set(brokers):
            raise violated("P38", f"{self.state}")
        contents = [list(replica.batches.values()) for replica in self.replicas.values()]
        if len(contents) != len(brokers):
            raise violated("P38", f"replicas are hosted by {sorted(self.replicas)} only")
        if any(content != contents[0] for content in contents):
            raise violated("P39", "logs differ")
        for replica in self.replicas.values():
            if replica.view.high_watermark != replica.view.end:
                raise violated("P39", f"{replica.view}")
        self._check_acknowledged(self.state.leader, self.replicas[self.state.leader])
        present = {batch.base: batch.crc for batch in contents[0]}
        lost = {base: crc for base, crc in self._read.items() if present.get(base) != crc}
        if lost:
            raise violated("P30", f"read by consumers and gone: {sorted(lost)}")
