"""The throttle of a reassignment on the command line: set before it starts, removed when nothing moves any more."""

from collections.abc import Iterable
from typing import Annotated

import typer

from admin.cli.output import say
from admin.cli.reassignment_outcomes import describe_moves
from admin.connecting.client import AdminClient
from admin.moving import throttles
from admin.moving.replica_moves import Assignment
from cluster.model.bounds import INT64_MAX
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicPartition
from cluster.model.printable import counted

ThrottleOption = Annotated[
    int | None,
    typer.Option(
        metavar="B/s", min=1, max=INT64_MAX, help="Bytes per second that each broker sends, and receives, for moves."
    ),
]
PreserveOption = Annotated[
    bool, typer.Option("--preserve-throttles", help="Leave throttles where they are when nothing moves any more.")
]


async def set_throttle(client: AdminClient, moves: Assignment, bytes_per_second: int) -> None:
    """Set the throttle of these moves and of those under way, before they start. Raises ApiError."""
    _refuse_kafka(client)
    under_way = await describe_moves(client, None)
    names = sorted({tp.topic for tp in moves} | {move.topic for move in under_way})
    present = {
        TopicPartition(topic.name, p.partition): ReplicaAssignment(p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in (await client.describe_topics(names)).topics
        for p in topic.partitions
    }
    throttled = throttles.throttled_moves(moves, present)
    await throttles.set_throttle(client, throttled, bytes_per_second)
    brokers = ", ".join(map(str, throttled.brokers))
    if throttled.brokers:
        say(
            f"brokers {brokers} send and receive at most {counted(bytes_per_second, 'byte')} per second for moves;"
            " 'klamm reassign verify FILE' removes the limit once all have moved"
        )
    else:
        say("nothing is to be copied: no throttle is set")


async def clear_throttle(client: AdminClient, topics: Iterable[str]) -> None:
    """Remove what is set of a throttle at these topics and at all brokers, if nothing is being reassigned."""
    await client.describe_controller()
    if client.kafka is not None or await describe_moves(client, None):
        return
    described = await client.describe_controller()
    cleared = await throttles.clear_throttles(client, topics, [broker.id for broker in described.brokers])
    if cleared:
        say(f"throttles removed: {', '.join(cleared)}")


def _refuse_kafka(client: AdminClient) -> None:
    if client.kafka is not None:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "the brokers are of Apache Kafka: throttle them by kafka-reassign-partitions.sh --throttle at one of them",
        )
