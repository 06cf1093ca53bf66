"""`klamm brokers acknowledge-damage`."""

from typing import Annotated

import typer

from admin.cli.options import Cluster, DryRunOption, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.parsing import parse_partition_names
from admin.client import AdminClient
from cluster.requests.cluster import AcknowledgeDamageResponse, LostOffsets

ACKNOWLEDGE_EXAMPLES = examples(
    "klamm brokers acknowledge-damage 2 orders-0 --dry-run",
    "klamm brokers acknowledge-damage 2 orders-0",
    exit_codes="0 acknowledged; 1 refused: nothing is lost there, or it heals by itself; 2 wrong usage.",
)


@talks_to_cluster()
def acknowledge_damage(
    broker: Annotated[int, typer.Argument(metavar="ID", min=0, help="The broker that the issue names.")],
    partition: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", help="The partition, such as orders-0.")],
    *,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """End a damaged_replica issue of records that are lost for good.

    A log was cut at its end and its replica has led since, so no other
    replica can have the records any more. The broker reports this, also
    after restarts, until you acknowledge it with this command, which changes
    no record. Damage in the middle of a log ends with 'klamm topics
    delete-records', and damage of a follower ends by itself.
    """
    (tp,) = parse_partition_names([partition])

    async def main(client: AdminClient) -> AcknowledgeDamageResponse:
        return await client.acknowledge_damage(await client.registered_broker(broker), tp, validate_only=dry_run)

    lost = cluster.ask(main).lost
    say(f"loss of {', '.join(map(_offsets, lost))} of {tp} {'would be ' if dry_run else ''}acknowledged")
    documents = [
        {"topic": tp.topic, "partition": tp.partition, "from_offset": one.from_offset, "to_offset": one.to_offset}
        for one in lost
    ]
    write(
        {"broker": broker, "dry_run": dry_run, "lost": documents},
        cluster.form,
        ("topic", "partition", "from_offset", "to_offset"),
        (tuple(document.values()) for document in documents),
    )


def _offsets(lost: LostOffsets) -> str:
    return f"{'' if lost.is_end_known else 'at least '}offsets {lost.from_offset}..{lost.to_offset - 1}"
