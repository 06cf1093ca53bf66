"""Checks the ISR changes that leaders write to state znodes themselves, and that they are announced in time.

The rules are P18 and P41 of `docs/rules/broker_agent.md`, which together are IS-1 of `docs/rules/controller.md`.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.znodes.admin_requests import decode_partitions
from cluster.znodes.paths import ISR_CHANGE_NOTIFICATION, partition_of_state_path, state_path, topic_path
from cluster.znodes.topics import decode_topic
from cluster.zookeeper.port import Znode
from simulator.cluster import SimulatedCluster
from simulator.nodes import Incarnation, SimulatedAgent
from simulator.violations import ViolationError, violated
from simulator.write_checker import decode_written_state
from simulator.zookeeper import ServerSession

LONE_S: Final = 7.5
"""A change is announced within this time if the broker makes no other."""
ALWAYS_S: Final = 62.5
_DELIVERY_S: Final = 0.5
"""What the way to ZooKeeper and back may take longer."""


class _Unannounced:
    """The ISR changes of one process that it has not announced: when each was first made, and when the last was."""

    def __init__(self, agent: SimulatedAgent, process: Incarnation) -> None:
        self.agent, self.process = agent, process
        self.since: dict[TopicPartition, float] = {}
        self.last = 0.0


class IsrWriteChecker:
    """Observes every write. Errors are kept: the writer would receive them as responses."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.written = 0
        """ISR changes that leaders have written."""
        self.announced = 0
        self._cluster = cluster
        self._tree = cluster.zookeeper.tree
        self._unannounced: dict[int, _Unannounced] = {}
        self._errors: list[ViolationError] = []
        cluster.zookeeper.write_observers.append(self._observe)

    def raise_first_error(self) -> None:
        """Raise the first violation, also one that an announcement is overdue."""
        for unannounced in self._unannounced.values():
            self._check_in_time(unannounced)
        if self._errors:
            raise self._errors[0]

    def _observe(self, session: ServerSession, before: Mapping[str, Znode | None], is_done: bool) -> None:
        if not is_done:
            return
        unannounced = self._of(session)
        if unannounced is None:
            self._forget(before)
            return
        try:
            for path, old in before.items():
                tp = partition_of_state_path(path)
                if tp is not None:
                    self._check_write(unannounced, tp, old)
                elif path.startswith(f"{ISR_CHANGE_NOTIFICATION}/"):
                    self._take_announcement(unannounced)
        except ViolationError as error:
            self._errors.append(error)

    def _forget(self, written: Mapping[str, Znode | None]) -> None:
        """A controller reads what it writes over, so that it knows the ISR without an announcement."""
        for tp in filter(None, map(partition_of_state_path, written)):
            for unannounced in self._unannounced.values():
                unannounced.since.pop(tp, None)

    def _of(self, session: ServerSession) -> _Unannounced | None:
        """The changes of the agent's process that owns the session; None if it is of no agent."""
        for agent in self._cluster.agents.values():
            for process in reversed(agent.incarnations):
                if session.client is process.zookeeper:
                    return self._unannounced.setdefault(id(process), _Unannounced(agent, process))
        return None

    def _check_write(self, unannounced: _Unannounced, tp: TopicPartition, old: Znode | None) -> None:
        agent, znode = unannounced.agent, self._tree.get(state_path(tp))
        if agent.settings.inter_broker_protocol_version.has_alter_partition:
            raise violated("R8.27", f"{agent.name} wrote the state node of {tp}, which the controller is to write")
        if old is None or znode is None:
            raise violated("P18", f"{agent.name} created or deleted the state node of {tp}")
        state, new = decode_written_state(tp, old), decode_written_state(tp, znode)
        if state is None or new is None:
            raise violated("P18", f"{agent.name} wrote the state node of {tp} as {znode.data!r} over {old.data!r}")
        self._check_change(agent, tp, state, new)
        self.written += 1
        now = asyncio.get_running_loop().time()
        unannounced.since.setdefault(tp, now)
        unannounced.last = now

    def _check_change(self, agent: SimulatedAgent, tp: TopicPartition, old: LeaderAndIsr, new: LeaderAndIsr) -> None:
        if new.partition_epoch != old.partition_epoch + 1:
            raise violated("P18", f"{agent.name} wrote {tp} over another version than it knew: {old} then {new}")
        if new.leader != agent.id or (new.leader, new.leader_epoch) != (old.leader, old.leader_epoch):
            raise violated("P18", f"{agent.name} wrote {tp}, which it does not lead: {old} then {new}")
        if new.controller_epoch != old.controller_epoch:
            raise violated("R8.22", f"{agent.name} changed the controller epoch of {tp}: {old} then {new}")
        strangers = set(new.isr) - set(old.isr) - self._replicas(agent, tp)
        if agent.id not in new.isr or strangers:
            raise violated("P18", f"{agent.name} wrote an ISR of {tp} from outside its replicas: {old} then {new}")

    def _replicas(self, agent: SimulatedAgent, tp: TopicPartition) -> set[int]:
        """The replicas by the topic's znode, and those that the leader knows."""
        topic, hosted = self._tree.get(topic_path(tp.topic)), agent.hosted(tp)
        found: set[int] = set() if hosted is None else set(hosted.assignment.replicas)
        if topic is not None:
            assignment = decode_topic(tp.topic, topic.data).partitions.get(tp.partition)
            found.update(() if assignment is None else assignment.replicas)
        return found

    def _take_announcement(self, unannounced: _Unannounced) -> None:
        """The newest notification is the one that was just created."""
        self._check_in_time(unannounced)
        name = max(self._tree.children(ISR_CHANGE_NOTIFICATION) or ())
        path = f"{ISR_CHANGE_NOTIFICATION}/{name}"
        znode = self._tree.get(path)
        assert znode is not None, f"{path} was created"
        self.announced += 1
        for tp in decode_partitions(path, znode.data):
            unannounced.since.pop(tp, None)

    def _check_in_time(self, unannounced: _Unannounced) -> None:
        """Times begin again when the process was held up: while it hangs or has no connection, it can say nothing."""
        process = unannounced.process
        undisturbed = process.zookeeper.undisturbed_since
        if not unannounced.since or undisturbed is None or not process.is_alive or process.stop.is_set():
            return
        now, first = asyncio.get_running_loop().time(), min(unannounced.since.values())
        for began, limit_s in ((unannounced.last, LONE_S), (first, ALWAYS_S)):
            waited = now - max(began, undisturbed)
            if waited > limit_s + _DELIVERY_S:
                tps = ", ".join(map(str, sorted(unannounced.since)))
                raise violated("P41", f"{unannounced.agent.name} has not announced its ISR of {tps} for {waited:.1f} s")
