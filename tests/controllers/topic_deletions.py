"""Deletions of topics, as tests ask for them and see them."""

from cluster.model.errors import ErrorCode
from cluster.requests.control import ControlRequest, StopReplicaRequest
from cluster.requests.topics import (
    DescribedTopicDeletion,
    DescribeTopicDeletionsRequest,
)
from cluster.znodes.paths import delete_topic_path, topic_config_path, topic_path
from cluster.zookeeper.port import Create
from simulator.recount import recount
from tests.controllers.worlds import RunningController, World, until

E = ErrorCode


async def mark(world: World, *topics: str) -> None:
    await world.write(*(Create(delete_topic_path(topic)) for topic in topics))


async def gone(world: World, topic: str) -> None:
    async def nothing_left() -> bool:
        paths = (topic_path(topic), topic_config_path(topic), delete_topic_path(topic))
        return not any([await world.tool.get(path) for path in paths])

    await until(nothing_left, f"{topic} is gone")


def stops(c: RunningController, broker: int) -> list[tuple[str, int, int, bool]]:
    return [
        (s.topic_name, s.partition_index, s.leader_epoch, s.delete_partition)
        for request in c.brokers.of(broker, StopReplicaRequest)
        for s in request.partition_states
    ]


def kinds(c: RunningController, broker: int) -> list[type[ControlRequest]]:
    return [type(request) for b, request in c.brokers.received if b == broker]


def counters_agree(c: RunningController) -> bool:
    return recount(c.context) == (
        c.context.leaderships.offline_partition_count,
        c.context.leaderships.preferred_replica_imbalance_count,
    )


async def describe(c: RunningController, topic: str = "t") -> DescribedTopicDeletion:
    (described,) = (await c.ask(DescribeTopicDeletionsRequest((topic,)))).deletions
    return described
