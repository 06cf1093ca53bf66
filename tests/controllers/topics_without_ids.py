"""Topics whose znode a tool has written without the id, and the brokers that are asked for it."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random

from cluster.model.broker import Broker, BrokerId, ControllerEpoch, TopicId
from cluster.model.errors import PeerUnreachableError
from cluster.requests.cluster import DescribeFindingsRequest, Finding
from cluster.requests.control import ControlRequest, ControlResponse, LeaderAndIsrRequest, UpdateMetadataRequest
from cluster.requests.recovery import DescribedReplica, DescribeReplicasResponse
from controller.decisions.topics.creation import new_topic_id
from controller.topic_id_questions import TopicIdAnswer, TopicIdQuestion
from tests.controllers.worlds import RecordingBrokers, RunningController, World, quiesce, running_cluster, until
from tests.kafka.old_tools import rewrite_as_old_tool

KNOWN, OTHER = new_topic_id(Random(1)), new_topic_id(Random(2))


def describe(c: RunningController, broker: int, ids: Mapping[str, TopicId | None]) -> None:
    """What the broker says of its logs: partition 0 of each topic."""
    replicas = tuple(DescribedReplica(topic, topic_id, 0) for topic, topic_id in ids.items())
    c.brokers.descriptions[BrokerId(broker)] = DescribeReplicasResponse(
        BrokerId(broker), ControllerEpoch(1), replicas=replicas
    )


async def findings(c: RunningController) -> list[Finding]:
    found = (await c.ask(DescribeFindingsRequest())).findings
    return [f for f in found if f.kind in ("topic_id_lost", "topic_id_conflict")]


async def led_topic(*brokers: int, topic: str = "t", **settings: object) -> tuple[World, RunningController]:
    world, c = await running_cluster(*brokers, **settings)
    await world.create_topic(topic, list(brokers), topic_id=KNOWN)
    await world.leads(topic, leader=brokers[0])
    await quiesce()
    return world, c


def ids_sent(c: RunningController, broker: int, topic: str = "t") -> list[TopicId | None]:
    return [
        t.topic_id for r in c.brokers.of(broker, LeaderAndIsrRequest) for t in r.topic_states if t.topic_name == topic
    ]


async def id_in_znode(world: World, topic: str = "t") -> str | None:
    found = await world.topic(topic)
    assert found is not None
    return found.topic_id


async def fail_over_without_id(
    world: World, c: RunningController, *topics: str, answers: Mapping[int, Mapping[str, TopicId | None]]
) -> RunningController:
    await c.stop()
    for topic in topics:
        await rewrite_as_old_tool(world.tool, topic, {})
    successor = world.start_controller(1002)
    for broker, ids in answers.items():
        describe(successor, broker, ids)
    await until(lambda: successor.is_active)
    await quiesce()
    return successor


class KafkasBrokers(RecordingBrokers):
    """Brokers of Kafka: they name the ids they were told, until they get metadata without. `logged`: what their logs
    have, where it is not that.
    """

    metadata: dict[int, dict[str, TopicId]]
    logged: dict[int, dict[str, TopicId | None]]

    @classmethod
    def of(cls, c: RunningController, cached: Mapping[int, Mapping[str, TopicId]]) -> "KafkasBrokers":  # type: ignore[override]
        brokers = c.brokers
        brokers.__class__ = cls
        assert isinstance(brokers, cls)
        brokers.metadata = {broker: dict(ids) for broker, ids in cached.items()}
        brokers.logged = {}
        return brokers

    async def send(self, broker: Broker, request: ControlRequest) -> ControlResponse:
        answer = await super().send(broker, request)
        for topic in request.topic_states if isinstance(request, UpdateMetadataRequest) else ():
            self.metadata[broker.id].pop(topic.topic_name, None)
            if topic.topic_id is not None:
                self.metadata[broker.id][topic.topic_name] = topic.topic_id
        return answer

    async def cached_topic_ids(self, broker: Broker, topics: Sequence[str]) -> dict[str, TopicId]:
        await asyncio.sleep(0.001)
        if broker.id in self.unreachable:
            raise PeerUnreachableError(str(broker.id), "unplugged")
        return {topic: self.metadata[broker.id][topic] for topic in topics if topic in self.metadata[broker.id]}

    async def check_topic_ids(
        self, broker: Broker, question: TopicIdQuestion, cached: Mapping[str, TopicId]
    ) -> TopicIdAnswer:
        await asyncio.sleep(0.001)
        ids: dict[str, TopicId | None] = {}
        for topic, asked in question.topics.items():
            in_log = self.logged.get(broker.id, {}).get(topic, cached.get(topic))
            if in_log in (None, cached.get(topic, asked.new_id)):
                ids[topic] = cached.get(topic)
        return TopicIdAnswer(ids, frozenset(question.topics.keys() - ids.keys()), cached)


def metadata_ids(c: RunningController, broker: int) -> list[TopicId | None]:
    requests = RecordingBrokers.of(c.brokers, broker, UpdateMetadataRequest)
    return [t.topic_id for r in requests for t in r.topic_states if t.topic_name == "t"]
