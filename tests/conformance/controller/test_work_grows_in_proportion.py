"""The controller's work for an event grows with the partitions or items that it is about, and not with their square.

Counted in lines of Python that run, so that the machine does not matter.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

import cluster
import controller
from cluster.model.broker import BrokerId, Offset
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import ReplicaState
from cluster.requests.agents import UNCLEAN_SHUTDOWN, ReportDamagedReplicasRequest, ReportedDamage
from cluster.requests.configs import (
    SET_CONFIG,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from cluster.requests.elections import UNCLEAN, ElectLeadersRequest, ElectLeadersTopic
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from cluster.requests.users import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from controller.decisions.broker_requests import ControlBatch
from controller.handlers.partitions.replica_transitions import move_replicas
from tests.controllers.user_credentials import SHA_256, of, upsertion
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

COUNTED = tuple(str(Path(str(package.__file__)).parent) for package in (controller, cluster))
PARTITIONS = 150

Step = Callable[[World, RunningController, int], Awaitable[None]]
Request = Callable[[int], Any]
"""How many items it has: the request."""


async def create(world: World, c: RunningController, partitions: int) -> None:
    await world.create_topic("t", *[(1, 2, 3)] * partitions)
    await until(lambda: len(c.context.leaderships.known) == partitions)


async def lose_the_leader(world: World, c: RunningController, _: int) -> None:
    await world.stop_broker(1)
    await until(lambda: all(known.isr == (2, 3) for known in c.context.leaderships.known.values()))


async def take_it_back(world: World, c: RunningController, _: int) -> None:
    await world.start_broker(1)
    await until(lambda: c.gauge("ActiveBrokerCount") == 3)


async def fail_over(world: World, c: RunningController, _: int) -> None:
    successor = world.start_controller(1002)
    await c.stop()
    await until(lambda: successor.is_active)


async def delete(world: World, c: RunningController, _: int) -> None:
    await world.create("/admin/delete_topics/t")
    await until(lambda: not c.context.topics.names)


class Lines:
    """How many lines of our own code have run."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(COUNTED):
            return None
        self.count += event == "line"
        return self


@contextmanager
def counted_lines() -> Iterator[Lines]:
    lines = Lines()
    tracer = sys.gettrace()
    sys.settrace(lines)
    try:
        yield lines
    finally:
        sys.settrace(tracer)


async def work(before: tuple[Step, ...], step: Step, partitions: int) -> int:
    world, c = await running_cluster(1, 2, 3)
    for earlier in before:
        await earlier(world, c, partitions)
    with counted_lines() as lines:
        await step(world, c, partitions)
    return lines.count


@pytest.mark.parametrize(
    ("before", "step"),
    [
        ((), create),
        ((create,), lose_the_leader),
        ((create, lose_the_leader), take_it_back),
        ((create,), fail_over),
        ((create,), delete),
    ],
)
def test_twice_the_partitions_are_twice_the_work(before: tuple[Step, ...], step: Step) -> None:
    once, twice = (run_virtually(lambda n=n: work(before, step, n)) for n in (PARTITIONS, 2 * PARTITIONS))
    assert twice < 2.4 * once


async def work_of_losing_all(replicas: int) -> int:
    """All replicas of one partition go offline at once; without the lines that begin and end the cluster."""
    brokers = range(1, replicas + 1)
    world, c = await running_cluster(*brokers)
    await world.create_topic("t", tuple(brokers))
    await until(lambda: len(c.context.leaderships.known) == 1)
    await quiesce()
    entries = Entries()
    sys.setprofile(entries)
    try:
        await move_replicas(
            c.controller._active, {BrokerId(b): [TopicPartition("t", 0)] for b in brokers}, ReplicaState.OFFLINE
        )
    finally:
        sys.setprofile(None)
    return entries.count


class Entries:
    """How many entries of LeaderAndIsr requests were made."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code is ControlBatch.add_leader_and_isr.__code__:
            self.count += len(tuple(frame.f_locals["brokers"]))


def test_twice_the_replicas_going_offline_at_once_are_twice_the_entries_of_requests() -> None:
    once, twice = (run_virtually(lambda n=n: work_of_losing_all(n)) for n in (20, 40))
    assert twice < 2.4 * once


class Number(int):
    """A partition number that counts how often it is compared: searching a list runs no line of Python."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Number.comparisons += 1
        return int.__eq__(self, other)  # type: ignore[no-any-return]

    __hash__ = int.__hash__


async def work_for_replicas_in_doubt(partitions: int) -> tuple[int, ...]:
    """After a power failure everywhere brokers 1 and 2 are back and wait for 3, until the longest logs lead."""
    world, c = await running_cluster(1, 2, 3)
    await create(world, c, partitions)
    c.crash()
    await world.stop_broker(1, 2, 3)
    c = world.start_controller(1002)
    await until(lambda: c.is_active)
    await world.start_broker(1, 2, damaged=True)
    await quiesce()
    Number.comparisons = 0
    with counted_lines() as lines:
        for broker in (1, 2):
            named = tuple(
                ReportedDamage("t", None, Number(p), Offset(broker), Offset(9), 0, UNCLEAN_SHUTDOWN)
                for p in range(partitions)
            )
            await c.ask(ReportDamagedReplicasRequest(BrokerId(broker), await world.broker_epoch(broker), named))
        await until(lambda: all(known.leader == 2 for known in c.context.leaderships.known.values()), deadline_s=90)
    return lines.count, Number.comparisons


def test_twice_the_replicas_in_doubt_are_twice_the_work() -> None:
    once, twice = (run_virtually(lambda n=n: work_for_replicas_in_doubt(n)) for n in (PARTITIONS, 2 * PARTITIONS))
    assert all(after < 2.4 * before for before, after in zip(once, twice, strict=True)), (once, twice)


def new_topics(count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(tuple(NewTopic(f"t{n:04}", 1, 1) for n in range(count)), timeout_ms=60_000)


def more_partitions(count: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(tuple(NewPartitions(f"t{n:04}", 2) for n in range(count)), timeout_ms=60_000)


def other_settings(count: int) -> AlterConfigsRequest:
    alteration = AlterableConfig("retention.ms", SET_CONFIG, "60000")
    return AlterConfigsRequest(
        tuple(AlterConfigsResource(TOPIC_RESOURCE, f"t{n:04}", (alteration,)) for n in range(count))
    )


def deletions(count: int) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(tuple(TopicToDelete(f"t{n:04}") for n in range(count)), timeout_ms=60_000)


def dry_run(asked: Request) -> Request:
    return lambda count: replace(asked(count), validate_only=True)


def credentials(count: int) -> AlterUserScramCredentialsRequest:
    return of(*(upsertion(f"u{n:04}") for n in range(count)))


def deletions_of_credentials(count: int) -> AlterUserScramCredentialsRequest:
    return of(*(ScramCredentialDeletion(f"u{n:04}", SHA_256) for n in range(count)))


async def work_for_items(before: tuple[Request, ...], asked: Request, count: int) -> int:
    _, c = await running_cluster(1, 2, 3)
    for earlier in before:
        await c.ask(earlier(count))
        await quiesce()
    request = asked(count)
    with counted_lines() as lines:
        await c.ask(request)
    return lines.count


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ((), new_topics),
        ((), dry_run(new_topics)),
        ((new_topics,), more_partitions),
        ((new_topics,), dry_run(more_partitions)),
        ((new_topics,), other_settings),
        ((new_topics,), dry_run(other_settings)),
        ((new_topics,), deletions),
        ((new_topics,), dry_run(deletions)),
        ((), credentials),
        ((credentials,), deletions_of_credentials),
    ],
)
def test_a_request_about_twice_the_items_is_twice_the_work(before: tuple[Request, ...], asked: Request) -> None:
    once, twice = (run_virtually(lambda n=n: work_for_items(before, asked, n)) for n in (PARTITIONS, 2 * PARTITIONS))
    assert twice < 2.4 * once


async def znodes_read(asked: Any, topics: int) -> int:
    """For a dry run of something about one topic of so many."""
    _, c = await running_cluster(1, 2, 3)
    await c.ask(new_topics(topics))
    await quiesce()
    read = 0

    def counting(original: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def reading(paths: list[str], **options: Any) -> Any:
            nonlocal read
            read += len(paths)
            return await original(paths, **options)

        return reading

    for name in ("get_many", "children_many"):
        setattr(c.zookeeper, name, counting(getattr(c.zookeeper, name)))
    await c.ask(asked)
    return read


@pytest.mark.parametrize(
    "asked",
    [
        CreateTopicsRequest((NewTopic("another", 1, 3),), validate_only=True),
        CreatePartitionsRequest((NewPartitions("t0001", 2),), validate_only=True),
        DeleteTopicsRequest((TopicToDelete("t0001"),), validate_only=True),
        replace(other_settings(1), validate_only=True),
        AlterPartitionReassignmentsRequest(
            (ReassignableTopic("t0001", (ReassignablePartition(0, (BrokerId(3),)),)),), validate_only=True
        ),
        ElectLeadersRequest(UNCLEAN, (ElectLeadersTopic("t0001", (0,)),), validate_only=True),
    ],
    ids=lambda asked: type(asked).__name__,
)
def test_a_dry_run_about_one_topic_reads_as_much_of_few_topics_as_of_many(asked: Any) -> None:
    few, many = (run_virtually(lambda n=n: znodes_read(asked, n)) for n in (5, 200))
    assert few == many < 60
