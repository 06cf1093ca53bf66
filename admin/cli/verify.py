"""`klamm verify replicas`: compares replicas on line, as kafka-replica-verification does."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from admin.cli.completions import topic_names
from admin.cli.options import Cluster, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.connecting.client import AdminClient
from admin.describing.replica_verification import ReplicaReader, VerifiedPartition, strategy_of, verify_partition
from admin.describing.topology import Topology
from admin.producing.missing_topics import refuse_missing
from cluster.aio.rate_limiter import RateLimiter
from cluster.cli.documents import Format
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.exit_codes import ExitCode
from cluster.model.partition import TopicPartition
from cluster.model.printable import counted
from cluster.requests.configs import TOPIC_RESOURCE, ConfigResource
from cluster.requests.topics import DescribedTopic

app = typer.Typer(no_args_is_help=True, help="Compare the replicas of partitions with each other.")

_POLICY: Final = "cleanup.policy"
_ANSWER_MS: Final = 30_000


@app.callback()
def verify() -> None:
    """Compare the replicas of partitions with each other."""


@app.command(
    epilog=examples(
        "klamm verify replicas",
        "klamm verify replicas orders payments --throttle 10000000",
        "klamm verify replicas orders -o json",
        exit_codes="0 equal; 1 refused or timed out; 2 wrong usage; 3 replicas differ; 4 a replica could not be read.",
    )
)
@talks_to_cluster()
def replicas(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Topics to compare. Default: all.", autocompletion=topic_names),
    ] = None,
    *,
    throttle: Annotated[
        int | None, typer.Option(min=1, metavar="BYTES/S", help="Read no faster than this, all replicas together.")
    ] = None,
    cluster: Cluster,
) -> None:
    """Compare the replicas of each partition, from the highest log start to the lowest high watermark.

    With cleanup.policy=delete every byte must be equal; with compact, the last
    value of each key. Of replicas that differ it names the first offset, and
    which is right: the intact one of the latest leader epoch. Nothing is
    changed; brokers continue to serve.
    """

    async def run(client: AdminClient) -> tuple[list[VerifiedPartition], int]:
        return await _verify(client, topics, throttle, cluster.timeout)

    verified, size = cluster.ask(run)
    documents = [_document(partition) for partition in verified]
    different = sum(partition.difference is not None for partition in verified)
    unread = sum(bool(partition.unread) for partition in verified)
    verdict = "different" if different else "incomplete" if unread else "equal"
    columns = ("topic", "partition", "replicas", "from", "to", "outcome", "detail")
    write(
        {"verdict": verdict, "bytes_read": size, "partitions": documents},
        cluster.form,
        columns,
        [
            (d["topic"], d["partition"], d["replicas"], d["from_offset"], d["to_offset"], *_outcome(d))
            for d in documents
        ],
    )
    if cluster.form is Format.TABLE:
        equal = counted(sum(not p.unread and p.difference is None for p in verified), "partition")
        say(f"{equal} equal, {different} different, {unread} not fully read; {size / 1e6:.1f} MB read")
    if different:
        raise typer.Exit(ExitCode.FINDINGS)
    if unread:
        raise typer.Exit(ExitCode.INCOMPLETE)


async def _verify(
    client: AdminClient, names: Sequence[str] | None, throttle: int | None, timeout_s: float
) -> tuple[list[VerifiedPartition], int]:
    described = await client.describe_controller()
    if client.kafka is not None:
        await Topology(client).check_records_are_here("kafka-replica-verification.sh", (names or ["TOPIC"])[0])
    topics = (await client.describe_topics(names or None)).topics
    refuse_missing(topics)
    policies = await _policies(client, topics)
    addresses = {broker.id: broker.endpoint.address for broker in described.brokers}
    timeout_ms = min(_ANSWER_MS, int(timeout_s * 1000))
    reader = ReplicaReader(client, addresses, RateLimiter(throttle), timeout_ms)
    verified = []
    for topic in sorted(topics, key=lambda topic: topic.name):
        for p in topic.partitions:
            tp = TopicPartition(topic.name, p.partition)
            # What a reassignment adds has not caught up yet, and is no replica before it has.
            brokers = [broker for broker in p.replicas if broker not in p.adding_replicas or broker in p.isr]
            verified.append(await verify_partition(reader, tp, brokers, strategy_of(policies[topic.name])))
    return verified, reader.size


async def _policies(client: AdminClient, topics: Sequence[DescribedTopic]) -> dict[str, str]:
    """The cleanup.policy in effect, by topic. Raises ApiError."""
    asked = [ConfigResource(TOPIC_RESOURCE, topic.name, (_POLICY,)) for topic in topics]
    found = {}
    for result in (await client.describe_configs(asked)).results if asked else ():
        if result.error_code is not ErrorCode.NONE:
            raise ApiError(result.error_code, f"{_POLICY} of topic {result.resource_name!r}: {result.error_message}")
        found[result.resource_name] = next((c.value or "" for c in result.configs if c.name == _POLICY), "")
    return found


def _document(partition: VerifiedPartition) -> dict[str, Any]:
    difference = partition.difference
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "replicas": list(partition.replicas),
        "from_offset": partition.from_offset,
        "to_offset": partition.to_offset,
        "unread": [{"broker": broker, "why": why} for broker, why in partition.unread.items()],
        "difference": None
        if difference is None
        else {
            "offset": difference.offset,
            "right": list(difference.right),
            "wrong": list(difference.wrong),
            "why": difference.why,
            "replicas": [
                {
                    "broker": batch.broker,
                    "base_offset": batch.base_offset,
                    "next_offset": batch.next_offset,
                    "leader_epoch": batch.leader_epoch,
                    "intact": batch.is_intact,
                }
                for batch in difference.batches
            ],
        },
    }


def _outcome(document: dict[str, Any]) -> tuple[str, str]:
    unread = "; ".join(f"broker {found['broker']} not read: {found['why']}" for found in document["unread"])
    found = document["difference"]
    if found is None:
        return ("incomplete", unread) if unread else ("equal", "")
    right = (
        f"right: {_brokers(found['right'])}, wrong: {_brokers(found['wrong'])}" if found["right"] else "none is right"
    )
    text = f"from offset {found['offset']}; {right} ({found['why']})"
    return "different", "; ".join(filter(None, (text, unread)))


def _brokers(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))
