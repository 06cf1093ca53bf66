"""Dry runs: the result and the plan of a request, by rehearsing its handler without changing anything.

Source: `validate_only` of Kafka's admin requests, which only validates there.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from cluster.model.broker import UNKNOWN_BROKER_EPOCH
from cluster.model.errors import ApiError, ErrorCode, MalformedZnodeError
from cluster.requests import configs, elections
from cluster.requests.agents import ControlledShutdownRequest
from cluster.requests.plans import Plan
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from cluster.requests.topics import (
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
)
from controller.active_controller import ActiveController
from controller.context.controller_context import ControllerContext
from controller.decisions.brokers.controlled_shutdown import shutdown_threats
from controller.decisions.configs.topic_configs import min_insync_replicas
from controller.decisions.partitions.requested_elections import requested_partitions
from controller.handlers.brokers.controlled_shutdown import controlled_shutdown
from controller.handlers.configs.features import finalized_levels, update_features
from controller.handlers.waiting import ElectLeadersDecision, TopicsDecision
from controller.rehearsal import Rehearsal

_Request = TypeVar("_Request")
Planned = TypeVar(
    "Planned",
    TopicsDecision[CreatableTopicResult],
    TopicsDecision[CreatePartitionsResult],
    TopicsDecision[DeletableTopicResult],
    ElectLeadersDecision,
    configs.AlterConfigsResponse,
    AlterPartitionReassignmentsResponse,
)
"""Results of handlers for requests with `validate_only`."""


async def rehearse(
    active: ActiveController,
    request: _Request,
    handle: Callable[[ActiveController, _Request], Awaitable[Planned]],
    topics: Iterable[str],
) -> Planned:
    """The result of `handle` and the plan; nothing is changed.

    `topics`: those that the handler reads or changes.
    """
    rehearsal = Rehearsal(active, topics)
    answer = await rehearsal.run(handle(rehearsal.active, request))
    return _as_planned(answer, rehearsal.plan())


async def plan_controlled_shutdown(
    active: ActiveController, request: elections.PlanControlledShutdownRequest
) -> elections.PlanControlledShutdownResponse:
    """Plan the controlled shutdown of a broker. Raises ApiError(BROKER_ID_NOT_REGISTERED) for an unknown broker."""
    context, broker = active.context, request.broker_id
    if broker not in context.brokers.epochs:
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered", field="broker_id", value=broker
        )
    topics = sorted({tp.topic for tp in context.topics.partitions_on(broker)})
    rehearsal = Rehearsal(active, topics)

    async def shut_down() -> Mapping[str, Mapping[str, str] | MalformedZnodeError]:
        await controlled_shutdown(rehearsal.active, ControlledShutdownRequest(broker, UNKNOWN_BROKER_EPOCH))
        return await rehearsal.active.store.read_topic_configs(topics)

    overrides = await rehearsal.run(shut_down())
    default = active.config.settings.min_insync_replicas
    required = {
        topic: default if isinstance(found, MalformedZnodeError) else min_insync_replicas(found, default)
        for topic, found in overrides.items()
    }
    threats = shutdown_threats(context, rehearsal.after, broker, required)
    return elections.PlanControlledShutdownResponse(threats.leaderless, threats.below_min_isr, rehearsal.plan())


async def plan_feature_updates(
    active: ActiveController, request: configs.PlanFeatureUpdatesRequest
) -> configs.PlanFeatureUpdatesResponse:
    """Plan UpdateFeatures; raises what UpdateFeatures raises."""
    rehearsal = Rehearsal(active, ())
    updates = configs.UpdateFeaturesRequest(request.feature_updates)
    answer = await rehearsal.run(update_features(rehearsal.active, updates))
    levels = finalized_levels(await rehearsal.active.unfenced.read_features())
    return configs.PlanFeatureUpdatesResponse(answer.results, levels)


def named_topics(
    _context: ControllerContext,
    request: CreateTopicsRequest | CreatePartitionsRequest | AlterPartitionReassignmentsRequest,
) -> Iterable[str]:
    """The topics that the request names."""
    return [topic.name for topic in request.topics]


def topics_to_delete(context: ControllerContext, request: DeleteTopicsRequest) -> Iterable[str]:
    """The topics of the request by name; ids that are not known are left out."""
    names = (context.topics.names_by_id.get(t.topic_id) if t.topic_id else t.name for t in request.topics)
    return [name for name in names if name is not None]


def topics_to_elect(context: ControllerContext, request: elections.ElectLeadersRequest) -> Iterable[str]:
    """The topics of the partitions to elect, each once."""
    return dict.fromkeys(tp.topic for tp in requested_partitions(context, request))


def topics_to_alter(context: ControllerContext, request: configs.AlterConfigsRequest) -> Iterable[str]:
    """The topics of the request, and those for which a config may allow an election."""
    named = [r.resource_name for r in request.resources if r.resource_type == configs.TOPIC_RESOURCE]
    return dict.fromkeys((*named, *(tp.topic for tp in context.leaderships.partitions_awaiting_leader())))


def _as_planned(answer: Planned, plan: Plan) -> Planned:
    """The result without futures to wait for and without ids of topics that are not created."""
    if isinstance(answer, TopicsDecision):
        results = tuple(replace(r, topic_id=None) if isinstance(r, CreatableTopicResult) else r for r in answer.results)
        return replace(answer, results=results, pending={}, plan=plan)
    return replace(answer, plan=plan)
