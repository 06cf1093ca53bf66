"""Shared by tests of elections: a running controller, brokers that leave and join the ISRs, requests."""

from typing import Any

from cluster.model.broker import BrokerId, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.requests.elections import ElectLeadersRequest, ElectLeadersResponse, ElectLeadersTopic
from tests.controllers.contexts import tp
from tests.controllers.worlds import RunningController, World, quiesce, running_cluster, until


async def cluster(*brokers: int, **settings: Any) -> tuple[World, RunningController]:
    """Brokers and a controller that does not balance leaders by itself unless the settings say so."""
    return await running_cluster(*brokers, **{"auto_leader_rebalance_enable": False, **settings})


async def stop_broker(world: World, c: RunningController, *brokers: int) -> None:
    """Until the controller has dealt with it."""
    await world.stop_broker(*brokers)
    await until(lambda: c.context.brokers.live_ids.isdisjoint(brokers))
    await quiesce()


async def restart_broker(world: World, c: RunningController, broker: int) -> None:
    """Stop and start it, and have it catch up everywhere."""
    await stop_broker(world, c, broker)
    await world.start_broker(broker)
    await until(lambda: broker in c.context.brokers.live_ids)
    await quiesce()
    await catch_up(world, c, *c.context.topics.partitions_on(BrokerId(broker)), broker=broker)


async def catch_up(world: World, c: RunningController, *partitions: TopicPartition, broker: int) -> None:
    """Leaders ask for the broker to be back in their ISRs."""
    for partition in partitions:
        known = c.context.leaderships.known.get(partition)
        hosted = broker in c.context.topics.assignment(partition).replicas
        if known is None or known.leader < 0 or broker in known.isr or not hosted:
            continue
        item = AlterPartitionItem(
            partition.topic,
            None,
            partition.partition,
            known.leader_epoch,
            (*known.isr, BrokerId(broker)),
            PartitionEpoch(known.partition_epoch),
        )
        epoch = await world.broker_epoch(known.leader)
        answer = await c.ask(AlterPartitionRequest(known.leader, epoch, (item,)))
        assert answer.partitions[0].error_code is ErrorCode.NONE, answer
    await quiesce()


async def elect(
    c: RunningController,
    election_type: int,
    *names: str,
    timeout_ms: int = 5000,
    validate_only: bool = False,
    awaits_leaders: bool = True,
) -> ElectLeadersResponse:
    """`names`: "topic-0"; none of them means all partitions."""
    topics = tuple(ElectLeadersTopic(tp(name).topic, (tp(name).partition,)) for name in names) if names else None
    answer = await c.ask(ElectLeadersRequest(election_type, topics, timeout_ms, validate_only, awaits_leaders))
    assert isinstance(answer, ElectLeadersResponse)
    return answer


def codes(answer: ElectLeadersResponse) -> dict[str, ErrorCode]:
    return {f"{t.topic}-{p.partition_id}": p.error_code for t in answer.results for p in t.partition_result}
