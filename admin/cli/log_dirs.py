"""`klamm brokers log-dirs`: what kafka-log-dirs.sh shows, of klamm's brokers and of those of Apache Kafka."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated, Any, Final

import typer

from admin.cli.completions import broker_ids, topic_names
from admin.cli.options import Cluster, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.connecting.client import AdminClient
from admin.moving.progress import some_of
from admin.producing.missing_topics import refuse_missing
from cluster.cli.documents import Format
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.model.exit_codes import ExitCode
from cluster.requests.cluster import DescribedBroker
from cluster.requests.log_dirs import DescribedLogDir

LOG_DIRS_EXAMPLES = examples(
    "klamm brokers log-dirs",
    "klamm brokers log-dirs 1 2 --topic orders -o json",
    exit_codes="0 done; 1 refused, a topic does not exist, or a broker does not answer; 2 wrong usage.",
)
_COLUMNS: Final = ("broker", "log_dir", "replicas", "future", "size_bytes", "offset_lag", "usable_bytes", "state")


@talks_to_cluster(timeout=10)
def log_dirs(
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID", help="Default: all brokers.", autocompletion=broker_ids)
    ] = None,
    *,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Count only replicas of this topic. Repeatable.", autocompletion=topic_names),
    ] = None,
    cluster: Cluster,
) -> None:
    """Show the log directories of brokers: replicas, their size, how far they lag, free space, state.

    STATE is online, full (it takes no records until there is room), or
    failed; a line below says why. OFFSET_LAG is the largest of any replica
    there, without those that have no role yet, as after a start. FUTURE counts
    the replicas
    that are being moved there from another directory of the broker; -o json
    has each replica, those with is_future. Of Apache Kafka's brokers
    USABLE_BYTES is known from 3.3 on.
    """

    async def main(client: AdminClient) -> tuple[list[dict[str, Any] | str], list[str]]:
        brokers = _chosen((await client.describe_controller()).brokers, ids)
        questions = [(f"broker {broker.id}", _described(client, broker, topic)) for broker in brokers]
        described = await client.waiting.answers(questions, client.limits.left_s)
        return described, await _not_hosted(client, described, topic or ())

    described, not_hosted = cluster.ask(main)
    brokers = [broker for broker in described if not isinstance(broker, str)]
    write({"brokers": brokers}, cluster.form, _COLUMNS, _rows(brokers))
    if cluster.form is Format.TABLE:
        for broker in brokers:
            for log_dir in broker["log_dirs"]:
                if log_dir["error_message"]:
                    say(f"broker {broker['id']}: {log_dir['log_dir']}: {log_dir['error_message']}")
    if not_hosted:
        say(f"warning: no broker shown has a replica of {some_of(not_hosted)}")
    silent = [why for why in described if isinstance(why, str)]
    for why in silent:
        say(why)
    if silent:
        raise typer.Exit(ExitCode.REFUSED)


def _chosen(brokers: Sequence[DescribedBroker], ids: Collection[int] | None) -> list[DescribedBroker]:
    """Find the brokers with these ids. Raises ApiError if one of them is not registered."""
    missing = sorted(set(ids or ()) - {broker.id for broker in brokers})
    if missing:
        message = f"no broker {', '.join(map(str, missing))} is registered; 'klamm brokers list' shows those that are"
        raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, message, field="broker")
    return sorted((broker for broker in brokers if not ids or broker.id in ids), key=lambda broker: broker.id)


async def _not_hosted(
    client: AdminClient, described: Sequence[dict[str, Any] | str], topics: Iterable[str]
) -> list[str]:
    """Find the topics of which no replica was found. Raises ApiError for those of them that do not exist."""
    hosted = {
        replica["topic"]
        for broker in described
        if not isinstance(broker, str)
        for log_dir in broker["log_dirs"]
        for replica in log_dir["replicas"]
    }
    missing = [topic for topic in dict.fromkeys(topics) if topic not in hosted]
    if missing:
        refuse_missing((await client.describe_topics(missing)).topics)
    return missing


async def _described(
    client: AdminClient, broker: DescribedBroker, topics: Collection[str] | None
) -> dict[str, Any] | str:
    """Ask a broker, and return its document or the reason why there is none."""
    try:
        found = await client.describe_log_dirs(broker)
    except PeerUnreachableError as error:
        return f"broker {broker.id} does not answer: {error}"
    return {"id": broker.id, "log_dirs": [_document(log_dir, topics) for log_dir in found]}


def _document(log_dir: DescribedLogDir, topics: Collection[str] | None) -> dict[str, Any]:
    replicas = [
        {
            "topic": topic.name,
            "partition": replica.partition_index,
            "size_bytes": replica.partition_size,
            "offset_lag": _known(replica.offset_lag),
            "is_future": replica.is_future_key,
        }
        for topic in sorted(log_dir.topics, key=lambda topic: topic.name)
        if not topics or topic.name in topics
        for replica in sorted(topic.partitions, key=lambda replica: (replica.partition_index, replica.is_future_key))
    ]
    return {
        "log_dir": log_dir.log_dir,
        "error": log_dir.error_code.name,
        "state": _state(log_dir),
        "error_message": log_dir.error_message,
        "total_bytes": _known(log_dir.total_bytes),
        "usable_bytes": _known(log_dir.usable_bytes),
        "replicas": replicas,
    }


def _state(log_dir: DescribedLogDir) -> str:
    if log_dir.error_code is not ErrorCode.NONE:
        return "failed"
    return "full" if log_dir.error_message else "online"


def _known(size: int) -> int | None:
    return None if size < 0 else size


def _rows(brokers: Sequence[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    for broker in brokers:
        for log_dir in broker["log_dirs"]:
            replicas = log_dir["replicas"]
            sizes = sum(replica["size_bytes"] for replica in replicas)
            lags = [replica["offset_lag"] for replica in replicas if replica["offset_lag"] is not None]
            futures = sum(replica["is_future"] for replica in replicas)
            counts = len(replicas) - futures, futures, sizes, max(lags, default=None)
            yield broker["id"], log_dir["log_dir"], *counts, log_dir["usable_bytes"], log_dir["state"]
