"""Checks that a cluster without faults has converged: ZooKeeper, the active controller and every agent agree, each
partition has a leader and is fully replicated, and nothing is pending.
"""

from collections.abc import Iterator

from broker_agent.replication.hosted_partition import HostedPartition
from cluster.model.broker import BrokerId
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.znodes.paths import DELETE_TOPICS, REASSIGN_PARTITIONS
from controller.context.controller_context import ControllerContext
from simulator.cluster import SimulatedCluster
from simulator.gauge_recount import check_agent_gauges, check_controller_gauges
from simulator.nodes import SimulatedAgent
from simulator.partition_znodes import assignments, partition_states
from simulator.recount import recount
from simulator.violations import Violation, ViolationError, from_finding, violated
from state_log.invariants import check_all
from state_log.machine_restarts import is_explained

Assignments = dict[TopicPartition, ReplicaAssignment]
States = dict[TopicPartition, LeaderAndIsr]


def differences(cluster: SimulatedCluster) -> list[str]:
    """List each deviation from the converged state as a message; empty if there is none."""
    active = cluster.active_controller()
    if active is None:
        return ["there is no active controller"]
    if not active.is_idle:
        return ["the active controller is processing an event"]
    tree = cluster.zookeeper.tree
    expected, states = assignments(tree), partition_states(tree)
    found = [*_unfinished(cluster), *_unhealthy(expected, states), *_differences_of(active.context, expected, states)]
    for agent in cluster.agents.values():
        found += _differences_of_cache(agent, set(cluster.agents), states)
        found += _differences_of_roles(agent, expected, states)
    return found


def check_context(context: ControllerContext) -> None:
    """Check the context of the active controller of a converged cluster (INV-10). Raises ViolationError."""
    counted = (context.leaderships.offline_partition_count, context.leaderships.preferred_replica_imbalance_count)
    if counted != recount(context):
        raise violated("INV-10", f"the counters are {counted}, a recount gives {recount(context)}")
    if context.leaderships.offline_partition_count:
        raise violated("INV-10", f"{context.leaderships.offline_partition_count} partitions are offline")
    if context.topics.being_reassigned:
        raise violated("INV-10", f"{sorted(context.topics.being_reassigned)} are being reassigned")
    if context.deletions.queued:
        raise violated("INV-10", f"{sorted(context.deletions.queued)} are to be deleted")


def check_standbys(cluster: SimulatedCluster) -> None:
    """Check that no controller took over anything that ZooKeeper did not have. Raises ViolationError."""
    for node in cluster.controllers.values():
        if node.controller is not None and node.controller.standby.difference:
            raise violated("D-122", f"{node.name} took over what differs in {node.controller.standby.difference}")


def check_gauges(cluster: SimulatedCluster) -> None:
    """Check the gauges of the active controller and of every agent against a recount. Raises ViolationError."""
    active = cluster.active_controller()
    if active is not None and active.controller is not None:
        check_controller_gauges(active.controller)
    for agent in cluster.agents.values():
        if agent.agent is not None:
            check_agent_gauges(agent.agent)


def check_state_change_logs(cluster: SimulatedCluster) -> None:
    """Check the invariants of the state-change log over the logs of all nodes, but for what power failures explain.

    Raises ViolationError.
    """
    records = cluster.records()
    findings = [finding for finding in check_all(records) if not is_explained(finding, records)]
    violations: list[Violation] = [from_finding(finding) for finding in findings]
    if violations:
        raise ViolationError(*violations)


def _unfinished(cluster: SimulatedCluster) -> Iterator[str]:
    tree = cluster.zookeeper.tree
    if len(tree.children("/brokers/ids") or ()) < len(cluster.agents):
        yield "an agent is not registered"
    if tree.children(DELETE_TOPICS):
        yield f"topics wait for their deletion: {tree.children(DELETE_TOPICS)}"
    if tree.get(REASSIGN_PARTITIONS) is not None:
        yield "a reassignment waits in ZooKeeper"


def _unhealthy(expected: Assignments, states: States) -> Iterator[str]:
    for tp, assignment in expected.items():
        state = states.get(tp)
        if assignment.is_being_reassigned:
            yield f"{tp} is being reassigned: {assignment}"
        if state is None or state.leader < 0 or set(state.isr) != set(assignment.replicas):
            yield f"{tp} {assignment.replicas} {state}"


def _differences_of(context: ControllerContext, expected: Assignments, states: States) -> Iterator[str]:
    if context.topics.being_reassigned:
        yield f"the controller reassigns {sorted(context.topics.being_reassigned)}"
    leaderships = context.leaderships.known
    if leaderships != states:
        known = {tp: s for tp, s in leaderships.items() if s != states.get(tp)}
        yield f"the controller has {known}; {states.keys() ^ leaderships.keys()} have a state in one place only"
    known_assignments = {TopicPartition(t, p): a for t, of in context.topics.assignments.items() for p, a in of.items()}
    if known_assignments != expected:
        yield f"the controller has assignments {known_assignments} instead of {expected}"


def _differences_of_cache(agent: SimulatedAgent, brokers: set[BrokerId], states: States) -> Iterator[str]:
    assert agent.agent is not None, f"{agent.name} runs"
    cached = agent.agent.metadata.snapshot
    if set(cached.brokers) != brokers:
        yield f"agent {agent.id} knows brokers {sorted(cached.brokers)}"
    known = {TopicPartition(t, p): s for t, of in cached.topics.items() for p, s in of.items()}
    # It may still know topics that were deleted while no request reached it, as in Kafka.
    if states.keys() - known.keys():
        yield f"agent {agent.id} does not know {sorted(states.keys() - known.keys())}"
    for tp, state in states.items():
        got = known.get(tp)
        if got is not None and (got.leader, got.leader_epoch, got.isr, got.zk_version) != (
            state.leader,
            state.leader_epoch,
            state.isr,
            state.partition_epoch,
        ):
            yield f"agent {agent.id} knows {got} instead of {state}"


def _differences_of_roles(agent: SimulatedAgent, expected: Assignments, states: States) -> Iterator[str]:
    """Hosted replicas beyond the assignments are ignored: a reassignment does not verify its deletions (D-10)."""
    for tp, state in states.items():
        if agent.id in expected[tp].replicas:
            role = _role(agent.hosted(tp))
            if role != (state.leader_epoch, state.leader == agent.id):
                yield f"agent {agent.id} has {tp} as {role}, {state}"


def _role(hosted: HostedPartition | None) -> tuple[int, bool] | None:
    return None if hosted is None else (hosted.leader_epoch, hosted.is_leader)
