"""Requests that are only to be tried: what they would come to, by a rehearsal of what carries them out.

Source: `validate_only` of Kafka's admin requests, which there stops at the checks.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from cluster.broker import UNKNOWN_BROKER_EPOCH
from cluster.errors import ApiError, ErrorCode, MalformedZnodeError
from cluster.requests.agents import ControlledShutdownRequest
from cluster.requests.configs import (
    TOPIC_RESOURCE,
    AlterConfigsRequest,
    AlterConfigsResponse,
    PlanFeatureUpdatesRequest,
    PlanFeatureUpdatesResponse,
    UpdateFeaturesRequest,
)
from cluster.requests.elections import (
    ElectLeadersRequest,
    PlanControlledShutdownRequest,
    PlanControlledShutdownResponse,
)
from cluster.requests.plans import Plan
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from cluster.requests.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from controller.active_controller import ActiveController
from controller.context import ControllerContext
from controller.decisions.brokers.controlled_shutdown import shutdown_threats
from controller.decisions.configs.topic_configs import min_insync_replicas
from controller.decisions.partitions.requested_elections import requested_partitions
from controller.handlers.brokers.controlled_shutdown import controlled_shutdown
from controller.handlers.configs.features import finalized_levels, update_features
from controller.handlers.waiting import (
    CreatePartitionsDecision,
    CreateTopicsDecision,
    DeleteTopicsDecision,
    ElectLeadersDecision,
)
from controller.rehearsal import Rehearsal

_Request = TypeVar("_Request")
Planned = TypeVar(
    "Planned",
    CreateTopicsDecision,
    CreatePartitionsDecision,
    DeleteTopicsDecision,
    ElectLeadersDecision,
    AlterConfigsResponse,
    AlterPartitionReassignmentsResponse,
)
"""What handlers answer to a request with `validate_only`."""


async def rehearse(
    active: ActiveController,
    request: _Request,
    handle: Callable[[ActiveController, _Request], Awaitable[Planned]],
    topics: Iterable[str],
) -> Planned:
    """What `handle` would answer, and the plan; nothing is changed.

    `topics`: those that the handler looks at, and those that follow from the request.
    """
    rehearsal = Rehearsal(active, topics)
    answer = await rehearsal.run(handle(rehearsal.active, request))
    return _as_planned(answer, rehearsal.plan())


async def plan_controlled_shutdown(
    active: ActiveController, request: PlanControlledShutdownRequest
) -> PlanControlledShutdownResponse:
    """What the shutdown of a broker would do now. Raises ApiError(BROKER_NOT_AVAILABLE) for an unknown broker."""
    context, broker = active.context, request.broker_id
    if broker not in context.broker_epochs:
        raise ApiError(
            ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker} is not registered", field="broker_id", value=broker
        )
    topics = sorted({tp.topic for tp in context.partitions_on_broker(broker)})
    rehearsal = Rehearsal(active, topics)

    async def shut_down() -> Mapping[str, Mapping[str, str] | MalformedZnodeError]:
        await controlled_shutdown(rehearsal.active, ControlledShutdownRequest(broker, UNKNOWN_BROKER_EPOCH))
        return await rehearsal.active.store.read_topic_configs(topics)

    overrides = await rehearsal.run(shut_down())
    default = active.config.min_insync_replicas
    required = {
        topic: default if isinstance(found, MalformedZnodeError) else min_insync_replicas(found, default)
        for topic, found in overrides.items()
    }
    threats = shutdown_threats(context, rehearsal.after, broker, required)
    return PlanControlledShutdownResponse(threats.leaderless, threats.below_min_isr, rehearsal.plan())


async def plan_feature_updates(
    active: ActiveController, request: PlanFeatureUpdatesRequest
) -> PlanFeatureUpdatesResponse:
    """What UpdateFeatures would answer and finalize; raises what it raises."""
    rehearsal = Rehearsal(active, ())
    updates = UpdateFeaturesRequest(request.feature_updates)
    answer = await rehearsal.run(update_features(rehearsal.active, updates))
    levels = finalized_levels(await rehearsal.active.unfenced.read_features())
    return PlanFeatureUpdatesResponse(answer.results, levels)


def named_topics(
    _context: ControllerContext,
    request: CreateTopicsRequest | CreatePartitionsRequest | AlterPartitionReassignmentsRequest,
) -> Iterable[str]:
    return [topic.name for topic in request.topics]


def topics_to_delete(context: ControllerContext, request: DeleteTopicsRequest) -> Iterable[str]:
    names = (context.topic_names.get(t.topic_id) if t.topic_id else t.name for t in request.topics)
    return [name for name in names if name is not None]


def topics_to_elect(context: ControllerContext, request: ElectLeadersRequest) -> Iterable[str]:
    return dict.fromkeys(tp.topic for tp in requested_partitions(context, request))


def topics_to_alter(context: ControllerContext, request: AlterConfigsRequest) -> Iterable[str]:
    """Also those for which a setting may allow an election."""
    named = [r.resource_name for r in request.resources if r.resource_type == TOPIC_RESOURCE]
    return dict.fromkeys((*named, *(tp.topic for tp in context.partitions_awaiting_leader())))


def _as_planned(answer: Planned, plan: Plan) -> Planned:
    """The answer without what there is to wait for, and without the ids of topics that do not come to be."""
    match answer:
        case CreateTopicsDecision():
            results = tuple(replace(result, topic_id=None) for result in answer.results)
            return replace(answer, results=results, leaders_elected={}, plan=plan)
        case CreatePartitionsDecision():
            return replace(answer, leaders_elected={}, plan=plan)
        case DeleteTopicsDecision():
            return replace(answer, deleted={}, plan=plan)
        case _:
            return replace(answer, plan=plan)
