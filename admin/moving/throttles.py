"""Throttles of reassignments: which replicas and brokers they concern, and how they are set and removed.

A throttle is a rate at each broker that takes part, and a list of replicas at each topic that moves: those from which
records are copied, and those to which. Source: Kafka ReassignPartitionsCommand; KIP-73.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from admin.connecting.client import AdminClient
from admin.moving.replica_moves import Assignment
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicPartition
from cluster.requests.configs import (
    BROKER_RESOURCE,
    DELETE_CONFIG,
    SET_CONFIG,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsResource,
    ConfigResource,
)

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_OF_THE_RESOURCE: Final = (1, 2)
"""The sources of configs that are not defaults from elsewhere: of the topic, and of this broker."""


class ThrottledMoves(Struct, frozen=True):
    """`topics`: for each the replicas that are copied from, and those that are copied to, as its configs have them;
    `brokers`: those that have any of them.
    """

    topics: Mapping[str, tuple[str, str]]
    brokers: tuple[BrokerId, ...]


def throttled_moves(moves: Assignment, present: Mapping[TopicPartition, ReplicaAssignment]) -> ThrottledMoves:
    """Find what a throttle of these moves concerns, and of all under way. Partitions without new replicas are not
    copied, and left out.
    """
    under_way = {tp: a.target for tp, a in present.items() if a.is_being_reassigned}
    topics: dict[str, tuple[list[str], list[str]]] = {}
    brokers: set[BrokerId] = set()
    for tp, target in sorted((under_way | moves).items()):
        sources = present[tp].original if tp in present else ()
        destinations = [broker for broker in target if broker not in sources]
        if not sources or not destinations:
            continue
        leaders, followers = topics.setdefault(tp.topic, ([], []))
        leaders += [f"{tp.partition}:{broker}" for broker in sources]
        followers += [f"{tp.partition}:{broker}" for broker in destinations]
        brokers.update((*sources, *destinations))
    lists = {topic: (",".join(leaders), ",".join(followers)) for topic, (leaders, followers) in topics.items()}
    return ThrottledMoves(lists, tuple(sorted(brokers)))


async def set_throttle(client: AdminClient, throttled: ThrottledMoves, bytes_per_second: int) -> None:
    """Set the lists, then the rates. Raises ApiError for the first that is refused."""
    rate = str(bytes_per_second)
    await _alter(
        client,
        [
            *(
                AlterConfigsResource(TOPIC_RESOURCE, topic, _settings(zip(REPLICAS, lists, strict=True)))
                for topic, lists in throttled.topics.items()
            ),
            *(
                AlterConfigsResource(BROKER_RESOURCE, str(broker), _settings((key, rate) for key in RATES))
                for broker in throttled.brokers
            ),
        ],
    )


async def clear_throttles(client: AdminClient, topics: Iterable[str], brokers: Iterable[BrokerId]) -> list[str]:
    """Remove what is set of a throttle at these topics and brokers; returns their names. Topics that do not exist have
    none. Raises ApiError.
    """
    wanted = [
        *(ConfigResource(TOPIC_RESOURCE, topic, REPLICAS) for topic in sorted(set(topics))),
        *(ConfigResource(BROKER_RESOURCE, str(broker), RATES) for broker in sorted(set(brokers))),
    ]
    described = (await client.describe_configs(wanted)).results
    found = [
        AlterConfigsResource(
            result.resource_type,
            result.resource_name,
            tuple(
                AlterableConfig(config.name, DELETE_CONFIG)
                for config in result.configs
                if config.config_source in _OF_THE_RESOURCE
            ),
        )
        for result in described
        if result.error_code is ErrorCode.NONE
    ]
    cleared = [resource for resource in found if resource.configs]
    await _alter(client, cleared)
    return [
        f"{'topic' if resource.resource_type == TOPIC_RESOURCE else 'broker'} {resource.resource_name}"
        for resource in cleared
    ]


def _settings(values: Iterable[tuple[str, str]]) -> tuple[AlterableConfig, ...]:
    return tuple(AlterableConfig(key, SET_CONFIG, value) for key, value in values)


async def _alter(client: AdminClient, resources: Sequence[AlterConfigsResource]) -> None:
    if not resources:
        return
    for result in (await client.alter_configs(resources)).responses:
        if result.error_code is not ErrorCode.NONE:
            raise ApiError(result.error_code, f"throttle at {result.resource_name!r}: {result.error_message}")
