"""CreateTopics and CreatePartitions requests: validated and written here; TopicChange creates the partitions.

A topic requested through the API and one that a tool wrote to ZooKeeper are therefore created the same way. Source:
Kafka ZkAdminManager.createTopics, AdminZkClient.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from cluster.aio.off_loop import off_loop
from cluster.aio.slices import in_slices
from cluster.model.broker import Broker, TopicId, ZkVersion
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicAssignment
from cluster.requests.topics import (
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewPartitions,
    NewTopic,
)
from cluster.znodes.paths import topic_path
from controller.active_controller import ActiveController
from controller.context.controller_context import ControllerContext
from controller.decisions.replicas_of_call import (
    check_replicas_of_call,
    replicas_of_new_partitions,
    replicas_of_new_topic,
)
from controller.decisions.topics.cluster_limits import ClusterRoom
from controller.decisions.topics.creation import TakenNames, duplicate_names, new_topic_id, plan_new_topic
from controller.decisions.topics.deletion_progress import describe_deletion
from controller.decisions.topics.expansion import plan_expansion
from controller.fenced_writes import MAX_UNIT_BYTES, Conflict, Outcome, TooLarge, Written
from controller.handlers.malformed_znode_findings import ways_out_of
from controller.handlers.waiting import TopicsDecision, results_in_time
from controller.topic_calls import CREATION, EXPANSION


async def create_topics(active: ActiveController, request: CreateTopicsRequest) -> TopicsDecision[CreatableTopicResult]:
    """Decide on each topic separately, then write the accepted ones (TP-1).

    Raises ApiError if the call would place too many replicas, ControllerMovedError when the write is fenced; topics of
    earlier transactions may exist by then.
    """
    config = active.config
    replicas = [
        replicas_of_new_topic(t, config.settings.num_partitions, config.settings.default_replication_factor)
        async for t in in_slices(request.topics)
    ]
    check_replicas_of_call("topics.num_partitions", replicas)
    marked = await active.store.marked_for_deletion([topic.name for topic in request.topics if topic.name])
    repeated = await off_loop(duplicate_names, request.topics)
    results: dict[int, CreatableTopicResult] = {}
    accepted: dict[int, TopicAssignment] = {}
    taken = TakenNames(active.context.topics.names | marked)
    live = [active.context.brokers.registered[b] for b in sorted(active.context.brokers.live_ids)]
    release, quota, room = active.kafka_release, active.mutation_quota, _room(active)
    async for position, topic in in_slices(enumerate(request.topics)):
        try:
            if topic.name in repeated:
                raise ApiError(ErrorCode.INVALID_REQUEST, "the topic is named twice", field="name", value=topic.name)
            planned = _plan(active, topic, taken, live, release)
            room.take(len(planned.partitions), topics=1)
            quota.record(len(planned.partitions))
            accepted[position] = planned
        except ApiError as error:
            results[position] = refused_topic(topic.name, error)
        else:
            # Two new topics of one request may collide with each other, too.
            taken.add(topic.name)
    outcomes = await active.store.create_topics(
        {request.topics[i].name: (assignment, request.topics[i].configs) for i, assignment in accepted.items()}
    )
    for position, assignment in accepted.items():
        name = request.topics[position].name
        results[position] = _result(name, assignment, outcomes[name])
    created = [name for name, outcome in outcomes.items() if isinstance(outcome, Written)]
    active.topic_calls.remember(created, CREATION, active.asked_by)
    return TopicsDecision(
        tuple([_explained(results[p], active, marked) async for p in in_slices(range(len(request.topics)))]),
        {name: active.leaders_elected(name) for name in created},
        throttled_until=quota.throttled_until,
    )


def _room(active: ActiveController) -> ClusterRoom:
    topics, settings = active.context.topics, active.config.settings
    present = sum(map(len, topics.assignments.values()))
    return ClusterRoom(
        len(topics.names), present, max_topics=settings.klamm_max_topics, max_partitions=settings.klamm_max_partitions
    )


def _plan(
    active: ActiveController, topic: NewTopic, taken: TakenNames, live: Sequence[Broker], release: str | None
) -> TopicAssignment:
    context, config = active.context, active.config
    partitions = plan_new_topic(
        topic,
        taken,
        live,
        default_partitions=config.settings.num_partitions,
        default_replication_factor=config.settings.default_replication_factor,
        random=active.random,
        controllers=context.brokers.controllers,
        kafka_release=release,
    )
    topic_id = new_topic_id(active.random) if config.protocol_version.assigns_topic_ids else None
    return TopicAssignment(partitions, topic_id)


def _result(name: str, assignment: TopicAssignment, outcome: Outcome) -> CreatableTopicResult:
    match outcome:
        case Written():
            return CreatableTopicResult(
                name,
                ErrorCode.NONE,
                topic_id=None if assignment.topic_id is None else TopicId(assignment.topic_id),
                num_partitions=len(assignment.partitions),
                replication_factor=len(assignment.partitions[0].replicas),
            )
        case Conflict():
            taken = ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} already exists", field="name", value=name)
            return refused_topic(name, taken)
        case TooLarge(size):
            count = len(assignment.partitions)
            why = ApiError(ErrorCode.INVALID_PARTITIONS, _too_large(size), field="num_partitions", value=count)
            return refused_topic(name, why)
        case _:
            return refused_topic(name, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper refused: {outcome}"))


def _explained(
    result: CreatableTopicResult, active: ActiveController, marked: AbstractSet[str]
) -> CreatableTopicResult:
    """A name may be taken by a topic of which nothing can be seen, because its znode is malformed or it is `marked` for
    deletion. Brokers that are too few may be more soon.
    """
    path = topic_path(result.name)
    if result.error_code is ErrorCode.INVALID_REPLICATION_FACTOR:
        return replace(result, error_message=result.error_message + _shutting_down(active.context))
    if result.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        return result
    if result.name in marked or result.name in active.context.deletions.queued:
        known = result.name in active.context.topics.names
        reason = describe_deletion(active.context, result.name).reason if known else ""
        why = f"topic {result.name} is still being deleted" + (f": {reason}" if reason else "")
        return replace(result, error_message=why)
    if path not in active.store.malformed:
        return result
    why = f"{result.error_message}, but its znode {path} is malformed: {ways_out_of(result.name)}"
    return replace(result, error_message=why)


def _shutting_down(context: ControllerContext) -> str:
    leaving = sorted(context.brokers.shutting_down)
    if not leaving:
        return ""
    who = f"broker {leaving[0]} is" if len(leaving) == 1 else f"brokers {', '.join(map(str, leaving))} are"
    return f"; {who} shutting down and not counted"


def _too_large(size: int) -> str:
    return f"the topic's znode would take {size} bytes, and ZooKeeper takes at most {MAX_UNIT_BYTES} in one piece"


def refused_topic(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name,
        error.code,
        error.message,
        error_field="" if error.field is None else error.field,
        error_value="" if error.value is None else str(error.value),
        violations=error.violations,
    )


async def wait_for_leaders(
    decided: TopicsDecision[CreatableTopicResult], request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """The response once every created topic has all its leaders, at most the request's time later (TP-4).

    Runs outside the event loop, which meanwhile creates the partitions. A topic without all leaders in time, or whose
    controller resigned, gets REQUEST_TIMED_OUT although it exists.
    """
    why = "the topic is created, but not all its partitions had a leader in time"
    results = await results_in_time(decided, request.timeout_ms, why)
    return CreateTopicsResponse(results, decided.plan, decided.throttle_time_ms)


async def create_partitions(
    active: ActiveController, request: CreatePartitionsRequest
) -> TopicsDecision[CreatePartitionsResult]:
    """Decide on each topic separately, then write the accepted ones; PartitionModifications does the rest (TP-2).

    Raises ApiError if the call would place too many replicas, ControllerMovedError when the write is fenced; topics of
    earlier transactions may have grown by then.
    """
    context = active.context
    names = [item.name for item in request.topics]
    added_replicas = [_added_replicas(context, item) async for item in in_slices(request.topics)]
    check_replicas_of_call("topics.count", added_replicas)
    repeated = await off_loop(duplicate_names, request.topics)
    doomed = context.deletions.queued | await active.store.marked_for_deletion([name for name in names if name])
    found = await active.store.read_topics_to_change(sorted(context.topics.names.intersection(names)))
    results: dict[int, CreatePartitionsResult] = {}
    planned: dict[str, tuple[TopicAssignment, ZkVersion]] = {}
    quota, room = active.mutation_quota, _room(active)
    async for position, item in in_slices(enumerate(request.topics)):
        try:
            if item.name in repeated:
                raise ApiError(ErrorCode.INVALID_REQUEST, "the topic is named twice", field="name", value=item.name)
            if item.name in doomed:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {item.name} is queued for deletion")
            if item.name not in found:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {item.name}")
            topic, version = found[item.name]
            added = plan_expansion(item, topic, context.brokers.registered.values(), context.brokers.shutting_down)
            room.take(len(added))
            quota.record(len(added))
        except ApiError as error:
            is_few = error.code is ErrorCode.INVALID_REPLICATION_FACTOR
            why = error.message + (_shutting_down(context) if is_few else "")
            results[position] = CreatePartitionsResult(item.name, error.code, why)
        else:
            planned[item.name] = replace(topic, partitions=topic.partitions | added), version
            replicas = {partition: assignment.replicas for partition, assignment in added.items()}
            results[position] = CreatePartitionsResult(item.name, ErrorCode.NONE, None, replicas)
    outcomes = await active.store.change_topics(planned)
    grown = {name for name, outcome in outcomes.items() if isinstance(outcome, Written)}
    active.topic_calls.remember(grown, EXPANSION, active.asked_by)
    return TopicsDecision(
        tuple([_expanded(results[p], outcomes) async for p in in_slices(range(len(request.topics)))]),
        {name: active.leaders_elected(name, len(planned[name][0].partitions)) for name in grown},
        throttled_until=quota.throttled_until,
    )


def _added_replicas(context: ControllerContext, item: NewPartitions) -> int:
    """Count the replicas that an expansion places, as far as this controller knows the topic."""
    known = context.topics.assignments.get(item.name)
    return replicas_of_new_partitions(item, len(known), len(known[min(known)].replicas)) if known else 0


def _expanded(result: CreatePartitionsResult, outcomes: Mapping[str, Outcome]) -> CreatePartitionsResult:
    match outcomes.get(result.name) if result.error_code is ErrorCode.NONE else None:
        case None | Written():
            return result
        case Conflict():
            why = "somebody else changed the topic at the same time"
            return CreatePartitionsResult(result.name, ErrorCode.OPERATION_NOT_ATTEMPTED, why)
        case TooLarge(size):
            return CreatePartitionsResult(result.name, ErrorCode.INVALID_PARTITIONS, _too_large(size))
        case refusal:
            why = f"ZooKeeper refused: {refusal}"
            return CreatePartitionsResult(result.name, ErrorCode.UNKNOWN_SERVER_ERROR, why)


async def wait_for_new_partitions(
    decided: TopicsDecision[CreatePartitionsResult], request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Respond once all partitions of every grown topic have a leader, at the latest after the timeout (TP-4)."""
    why = "the partitions are created, but not all had a leader in time"
    results = await results_in_time(decided, request.timeout_ms, why)
    return CreatePartitionsResponse(results, decided.plan, decided.throttle_time_ms)
