"""Maps the responses of brokers to controller events."""

from collections.abc import Iterator

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.requests import control
from controller import events
from controller.active_controller import ActiveController
from controller.handlers.topics.deletions import deletion_answer


def events_of_answer(
    active: ActiveController | None,
    broker: BrokerId,
    request: control.ControlRequest,
    response: control.ControlResponse,
) -> Iterator[events.Event]:
    """Yield the events that follow from one response; a refusal may also say that the controller epoch is too low."""
    if response.error_code is ErrorCode.STALE_CONTROLLER_EPOCH:
        yield events.ControllerEpochRefused(broker, request.controller_epoch, response.controller_epoch)
    match request, response:
        case _, control.LeaderAndIsrResponse():
            yield events.LeaderAndIsrResponseReceived(broker, response)
        case _, control.UpdateMetadataResponse():
            yield events.UpdateMetadataResponseReceived(broker, response)
        case control.StopReplicaRequest(), control.StopReplicaResponse() if active is not None:
            # Only topic deletion uses the response to StopReplica.
            deletion = deletion_answer(active, broker, request, response)
            if deletion is not None:
                yield deletion
