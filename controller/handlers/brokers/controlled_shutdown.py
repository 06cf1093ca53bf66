"""Controlled shutdown: moves leadership away from a broker before it stops.

Source: Kafka KafkaController.processControlledShutdown, doControlledShutdown.
"""

import structlog

from cluster.model.errors import ErrorCode
from cluster.model.state_machines import PartitionState, ReplicaState
from cluster.requests.agents import ControlledShutdownRequest, ControlledShutdownResponse, RemainingPartition
from controller.active_controller import ActiveController
from controller.changes import BrokerShuttingDown
from controller.decisions.brokers.controlled_shutdown import duties_of, refuse_controlled_shutdown
from controller.decisions.partitions.leader_election import ControlledShutdown
from controller.handlers.partitions.partition_transitions import move_partitions
from controller.handlers.partitions.replica_transitions import move_replicas

_log = structlog.stdlib.get_logger()


async def controlled_shutdown(
    active: ActiveController, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    """Elect other leaders and remove the broker from ISRs; returns the partitions it still leads (CS-3 to CS-14).

    The response is sent once the decisions are in ZooKeeper and the requests are queued, not once brokers have
    acknowledged them (CS-12). Raises ControllerMovedError when a write is fenced; earlier writes remain.
    """
    context, broker = active.context, request.broker_id
    code = refuse_controlled_shutdown(context, broker, request.broker_epoch)
    if code is not ErrorCode.NONE:
        _log.warning("Controlled shutdown refused", broker=broker, broker_epoch=request.broker_epoch, error=code.name)
        return ControlledShutdownResponse(code)
    if broker not in context.shutting_down:
        active.commit(BrokerShuttingDown(broker, request.broker_epoch, active.clock.now_ms()))
    # Computed before any election: a replica that loses leadership here is not stopped by this request (CS-13). As a
    # follower it is in no ISR and does not fetch, but the broker still serves its requests until it stops.
    duties = duties_of(context, broker)
    await move_partitions(active, duties.led, PartitionState.ONLINE, ControlledShutdown())
    # `move_replicas` sends StopReplica; Kafka sends an additional one before it (D-15).
    await move_replicas(active, {broker: duties.followed}, ReplicaState.OFFLINE)
    remaining = context.partition_leaders_on_broker(broker)
    _log.info(
        "Controlled shutdown of a broker processed",
        broker=broker,
        led=len(duties.led),
        followed=len(duties.followed),
        remaining=len(remaining),
    )
    return ControlledShutdownResponse(
        ErrorCode.NONE, tuple(RemainingPartition(tp.topic, tp.partition) for tp in remaining)
    )
