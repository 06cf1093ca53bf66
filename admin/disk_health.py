"""Health of the brokers' disks, from what each live broker says of its log directories."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from admin.client import AdminClient
from admin.health import HealthIssue, Trouble
from cluster.broker import BrokerId
from cluster.errors import ApiError, PeerUnreachableError
from cluster.requests.cluster import DescribedBroker
from cluster.requests.log_dirs import DAMAGED_REPLICA, OFFLINE_REPLICA, DescribeLogDirsResponse

_KINDS: Final = {DAMAGED_REPLICA: Trouble.DAMAGED_REPLICA, OFFLINE_REPLICA: Trouble.OFFLINE_REPLICA}


async def ask_brokers(
    client: AdminClient, brokers: Sequence[DescribedBroker]
) -> dict[BrokerId, DescribeLogDirsResponse]:
    """What the brokers that answer say of their log directories, without their replicas."""

    async def ask(broker: DescribedBroker) -> DescribeLogDirsResponse | None:
        try:
            return await client.describe_log_dirs(broker, ())
        except (ApiError, PeerUnreachableError):
            return None

    answers = await asyncio.gather(*map(ask, brokers))
    return {b.id: answer for b, answer in zip(brokers, answers, strict=True) if answer is not None}


def find_disk_trouble(answers: Mapping[BrokerId, DescribeLogDirsResponse]) -> Iterator[HealthIssue]:
    """Failed log directories, logs that cannot be loaded, and replicas that lost records."""
    for broker, answer in answers.items():
        for directory in answer.results:
            if directory.error_message:
                detail = f"log directory {directory.log_dir} failed: {directory.error_message}"
                yield HealthIssue(Trouble.FAILED_LOG_DIRECTORY, detail, broker=broker)
            for finding in directory.findings:
                kind = _KINDS.get(finding.kind, Trouble.DAMAGED_REPLICA)
                detail = f"broker {broker}: {finding.detail}"
                yield HealthIssue(kind, detail, finding.topic, finding.partition, broker)
