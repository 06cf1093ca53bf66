"""Turns of requests for the same partitions."""

import asyncio
from random import Random

import pytest

from broker_agent.requests.produce import ArrivalOrder
from cluster.model.partition import TopicPartition
from simulator.virtual_time_loop import VirtualTimeLoop

PARTITIONS = [TopicPartition("t", number) for number in range(4)]


@pytest.mark.rule("R7.18")
@pytest.mark.parametrize("seed", range(30))
def test_turns_of_a_partition_begin_as_they_were_taken_and_never_overlap(seed: int) -> None:
    random, order = Random(seed), ArrivalOrder()
    done: dict[TopicPartition, list[int]] = {tp: [] for tp in PARTITIONS}
    inside: set[TopicPartition] = set()

    async def request(number: int, partitions: list[TopicPartition]) -> None:
        async with order.turn(partitions):
            assert not inside & set(partitions)
            inside.update(partitions)
            try:
                await asyncio.sleep(random.random())
                for tp in partitions:
                    done[tp].append(number)
            finally:
                inside.difference_update(partitions)

    async def run() -> None:
        tasks = []
        for number in range(60):
            chosen = random.sample(PARTITIONS, random.randint(1, 3))
            tasks.append(asyncio.ensure_future(request(number, chosen)))
            await asyncio.sleep(random.choice((0, 0, 0.3)))
            if random.random() < 0.2:
                random.choice(tasks).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order._last == {}

    VirtualTimeLoop(max_steps=100_000).run_until_complete(run())
    assert all(numbers == sorted(numbers) and numbers for numbers in done.values())
