"""DeleteTopics requests: writes the deletion markers; `deletions` does the rest.

Source: Kafka KafkaApis.handleDeleteTopicsRequest, ZkAdminManager.deleteTopics.
"""

from collections import Counter

from cluster.aio.slices import in_slices
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, TopicToDelete
from controller.active_controller import ActiveController
from controller.fenced_writes import Conflict, Written
from controller.handlers.waiting import TopicsDecision, results_in_time
from controller.topic_calls import DELETION


async def delete_topics(active: ActiveController, request: DeleteTopicsRequest) -> TopicsDecision[DeletableTopicResult]:
    """Mark the topics that may be deleted; marking a marked topic succeeds (TP-3).

    Raises ControllerMovedError when the write is fenced; some topics may have been marked by then.
    """
    names = [_name(active, topic) for topic in request.topics]
    repeated = {name for name, count in Counter(names).items() if name is not None and count > 1}
    results: list[DeletableTopicResult] = []
    quota = active.mutation_quota
    async for topic, name in in_slices(zip(request.topics, names, strict=True)):
        try:
            _check(active, topic, name, repeated)
            quota.record(0 if name is None else len(active.context.topics.assignments.get(name, ())))
        except ApiError as error:
            results.append(DeletableTopicResult(topic.name, topic.topic_id, error.code, error.message))
        else:
            topic_id = None if name is None else active.context.topics.ids.get(name)
            results.append(DeletableTopicResult(name, topic_id, ErrorCode.NONE))
    accepted = [result.name for result in results if result.error_code is ErrorCode.NONE and result.name is not None]
    outcomes = await active.store.mark_for_deletion(accepted)
    marked = {topic for topic, outcome in outcomes.items() if isinstance(outcome, Written | Conflict)}
    newly = [topic for topic, outcome in outcomes.items() if isinstance(outcome, Written)]
    active.topic_calls.remember(newly, DELETION, active.asked_by)
    results = [
        DeletableTopicResult(
            r.name, r.topic_id, ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper refused: {outcomes[r.name]}"
        )
        if r.name in outcomes and r.name not in marked
        else r
        for r in results
    ]
    # Clients of Kafka wait, as with a broker that is the controller, until brokers are told to forget the topic.
    is_kafka_client = active.asked_by is not None and active.asked_by.is_kafka_client
    awaited = active.topic_deletion_begun if is_kafka_client else active.topic_deleted
    pending = {topic: awaited(topic) for topic in accepted if topic in marked}
    return TopicsDecision(tuple(results), pending, throttled_until=quota.throttled_until)


def _name(active: ActiveController, topic: TopicToDelete) -> str | None:
    if topic.name is not None or topic.topic_id is None:
        return topic.name
    return active.context.topics.names_by_id.get(topic.topic_id)


def _check(active: ActiveController, topic: TopicToDelete, name: str | None, repeated: set[str]) -> None:
    if (topic.name is None) is (topic.topic_id is None):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id", field="topics")
    if not active.config.settings.delete_topic_enable:
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    if name in repeated:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the topic is named twice", field="name", value=name)
    if name is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic.topic_id}")
    if name not in active.context.topics.names:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")


async def wait_for_deletions(
    decided: TopicsDecision[DeletableTopicResult], request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Return the response once every topic is deleted, at the latest after the request's timeout (TP-4).

    For clients of Kafka: once its deletion has begun (D-101). A topic of which that is not so then gets
    REQUEST_TIMED_OUT and is deleted all the same.
    """
    results = await results_in_time(decided, request.timeout_ms, "the topic is marked, but not gone yet")
    return DeleteTopicsResponse(results, decided.plan, decided.throttle_time_ms)
