"""The controller's requests as lines a reader can compare: who was told what, in which order.

    lead by 1: new t-0 1/0 [1,2] v0 c1 of [1,2]   LeaderAndIsr: live leaders, then states: leader/leader epoch, ISR,
                                                  partition epoch, epoch of the controller that decided, replicas
    know 1,2,3: t-0 1/0 [1,2] v0 c1 of … off [3]  UpdateMetadata: live brokers, then states with their offline replicas
    stop t-0/0, delete t-0/-2                     StopReplica: leader epoch, with and without deletion

States are in order of topic and partition, which requests do not promise.
"""

from collections.abc import Iterable
from typing import Any

from cluster.requests.control import (
    ControlRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from tests.controllers.worlds import RunningController


def requests_sent(c: RunningController) -> dict[int, list[str]]:
    """What each broker was told since the last call, in its order."""
    lines: dict[int, list[str]] = {}
    for broker, request in c.brokers.received:
        lines.setdefault(broker, []).append(_line(request))
    c.brokers.received.clear()
    return dict(sorted(lines.items()))


def _line(request: ControlRequest) -> str:
    match request:
        case LeaderAndIsrRequest():
            states = [
                f"{'new ' if s.is_new else ''}{topic}-{_state(s, s.partition_epoch)}{_rest(s)}"
                for topic, s in _sorted(request)
            ]
            return f"lead by {_ids(leader.broker_id for leader in request.live_leaders)}: {'; '.join(states)}"
        case UpdateMetadataRequest():
            states = [
                f"{topic}-{_state(s, s.zk_version)} off [{_ids(s.offline_replicas)}]" for topic, s in _sorted(request)
            ]
            return f"know {_ids(b.id for b in request.live_brokers)}: {'; '.join(states)}".rstrip(": ")
        case StopReplicaRequest():
            return ", ".join(
                f"{'delete' if s.delete_partition else 'stop'} {s.topic_name}-{s.partition_index}/{s.leader_epoch}"
                for s in sorted(request.partition_states, key=lambda s: (s.topic_name, s.partition_index))
            )


def _sorted(request: LeaderAndIsrRequest | UpdateMetadataRequest) -> list[tuple[str, Any]]:
    states = [(topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states]
    return sorted(states, key=lambda named: (named[0], named[1].partition_index))


def _state(state: LeaderAndIsrPartitionState | UpdateMetadataPartitionState, version: int) -> str:
    return (
        f"{state.partition_index} {state.leader}/{state.leader_epoch} [{_ids(state.isr)}] v{version}"
        f" c{state.controller_epoch} of [{_ids(state.replicas)}]"
    )


def _rest(state: LeaderAndIsrPartitionState) -> str:
    recovering = " recovering" if state.leader_recovery_state else ""
    if not (state.adding_replicas or state.removing_replicas):
        return recovering
    return f" +[{_ids(state.adding_replicas)}] -[{_ids(state.removing_replicas)}]{recovering}"


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
