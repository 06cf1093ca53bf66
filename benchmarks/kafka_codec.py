"""Benchmarks the codec of Kafka's wire protocol: one LeaderAndIsr and one UpdateMetadata of many partitions.

Run as `python -m benchmarks.kafka_codec [--partitions N]`. Times are of CPU, the least of several runs.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from cluster.kafka_wire.codec import decode, encode
from cluster.kafka_wire.message import EncodedPart
from cluster.kafka_wire.messages.control import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from cluster.model.broker import TopicId

_TOPICS: Final = 10
_RUNS: Final = 15
_REPLICAS: Final = (1, 2, 3)
_TOPIC_ID: Final = TopicId("kJ3vFxuZS_OMRGEsrLmIsg")


def leader_and_isr(partitions: int) -> LeaderAndIsrRequest:
    """A full request of version 7."""
    states = tuple(
        LeaderAndIsrPartitionState(
            partition_index=number, controller_epoch=3, leader=1, leader_epoch=5, isr=_REPLICAS, replicas=_REPLICAS
        )
        for number in range(partitions // _TOPICS)
    )
    topics = [
        LeaderAndIsrTopicState(topic_name=f"topic-{number}", topic_id=_TOPIC_ID, partition_states=states)
        for number in range(_TOPICS)
    ]
    return LeaderAndIsrRequest(controller_id=1001, controller_epoch=3, broker_epoch=2**40, topic_states=tuple(topics))


def update_metadata(partitions: int) -> UpdateMetadataRequest:
    """A full request of version 8."""
    states = tuple(
        UpdateMetadataPartitionState(
            partition_index=number, controller_epoch=3, leader=1, leader_epoch=5, isr=_REPLICAS, replicas=_REPLICAS
        )
        for number in range(partitions // _TOPICS)
    )
    topics = [
        UpdateMetadataTopicState(topic_name=f"topic-{number}", topic_id=_TOPIC_ID, partition_states=states)
        for number in range(_TOPICS)
    ]
    return UpdateMetadataRequest(controller_id=1001, controller_epoch=3, topic_states=tuple(topics))


def with_parts(request: LeaderAndIsrRequest) -> LeaderAndIsrRequest:
    """The request with partition states that are encoded, as for the second broker."""
    topics = [
        replace(topic, partition_states=tuple(EncodedPart(encode(state, 7)) for state in topic.partition_states))
        for topic in request.topic_states
    ]
    return replace(request, topic_states=tuple(topics))


def cpu_ms(work: Callable[[], object]) -> float:
    """Milliseconds of CPU for it, the least of the runs."""
    found = []
    for _ in range(_RUNS):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found) * 1000


def main() -> None:
    """Measure, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=6670)
    partitions = parser.parse_args().partitions
    request, metadata = leader_and_isr(partitions), update_metadata(partitions)
    shared, data = with_parts(request), encode(request, 7)
    lines = {
        "LeaderAndIsr v7, encoded": cpu_ms(lambda: encode(request, 7)),
        "LeaderAndIsr v7 of encoded partitions": cpu_ms(lambda: encode(shared, 7)),
        "LeaderAndIsr v7, decoded": cpu_ms(lambda: decode(LeaderAndIsrRequest, 7, data)),
        "UpdateMetadata v8, encoded": cpu_ms(lambda: encode(metadata, 8)),
    }
    sys.stdout.write(f"{partitions} partitions, {len(data)} bytes\n")
    sys.stdout.writelines(f"{name:40} {took:8.2f} ms\n" for name, took in lines.items())


if __name__ == "__main__":
    main()
