"""What is wrong in the cluster and would stay so, as far as the active controller knows: text for operators.

What `klamm cluster health` derives from topics, brokers, reassignments and deletions is not repeated here.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from cluster.broker import UNKNOWN_BROKER_EPOCH, BrokerId
from cluster.requests.cluster import Finding
from cluster.state_machines import ReplicaState
from controller.decisions.brokers.refusals import ChannelState, Refusals, refusal_findings
from controller.decisions.context_view import ContextView

SILENT_BROKER: Final = "silent_broker"
STUCK_SHUTDOWN: Final = "stuck_shutdown"
STUCK_DELETION: Final = "stuck_deletion"
DAMAGED_REPLICA_WAITS: Final = "damaged_replica_waits"
SILENCE_MAX_S: Final = 30
"""As long as `request.timeout.ms` by default: the request was sent more than once."""
SHUTDOWN_MAX_S: Final = 120
"""Longer than a broker tries a controlled shutdown by default; then it only closes its logs."""


def findings(view: ContextView, channels: Mapping[BrokerId, ChannelState], now_ms: int) -> Iterator[Finding]:
    """All findings, by broker and then by topic. `now_ms`: of the wall clock."""
    for broker, state in sorted(channels.items()):
        refused = _of_known_topics(view, state.refusals)
        yield from refusal_findings(broker, refused, view.epoch, view.broker_epochs.get(broker, UNKNOWN_BROKER_EPOCH))
        if state.silent_s > SILENCE_MAX_S:
            detail = f"broker {broker} is registered, but has not responded to a request for {state.silent_s:.0f} s"
            yield Finding(SILENT_BROKER, detail, broker=broker)
    for broker, since_ms in sorted(view.shutting_down_since.items()):
        lasting_s = (now_ms - since_ms) // 1000
        if lasting_s > SHUTDOWN_MAX_S:
            detail = f"broker {broker} has been shutting down for {lasting_s} s and leads nothing: stop or restart it"
            yield Finding(STUCK_SHUTDOWN, detail, broker=broker)
    for broker in sorted(view.live_broker_ids):
        for (topic, partition), damage in sorted(view.held_replicas(broker).items()):
            detail = (
                f"the only replica in sync is on broker {broker}, and its offsets {damage.from_offset}.."
                f"{damage.to_offset - 1} are damaged; it is elected after klamm.damaged.replica.election.delay.ms: "
                "start the brokers of the other replicas"
            )
            yield Finding(DAMAGED_REPLICA_WAITS, detail, topic, partition, broker)
    for topic in sorted(view.topics_to_be_deleted - view.topics_ineligible_for_deletion):
        yield from _stuck_deletion(view, topic, channels)


def _of_known_topics(view: ContextView, refusals: Refusals) -> Refusals:
    """Without partitions of topics that were deleted since."""
    return Refusals(
        refusals.controller_epoch,
        refusals.broker_epoch,
        {tp: epochs for tp, epochs in refusals.leader_epochs.items() if tp.topic in view.topics},
        frozenset(tp for tp in refusals.topic_ids if tp.topic in view.topics),
    )


def _stuck_deletion(view: ContextView, topic: str, channels: Mapping[BrokerId, ChannelState]) -> Iterator[Finding]:
    """A deletion that is in progress, but waits for brokers that do not respond."""
    if view.replicas_by_state(topic).get(ReplicaState.DELETION_STARTED, 0) == 0:
        return
    waiting = {
        broker
        for tp in view.partitions_of(topic)
        for broker in view.assignment(tp).replicas
        if view.replica_state(broker, tp) is ReplicaState.DELETION_STARTED
    }
    silent = sorted(b for b in waiting if channels.get(b, ChannelState()).silent_s > SILENCE_MAX_S)
    if silent:
        names = ", ".join(map(str, silent))
        yield Finding(STUCK_DELETION, f"the deletion waits for brokers {names}, which do not respond", topic)
