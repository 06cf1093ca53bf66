"""`klamm brokers online-dir`: a failed log directory of a broker is used again, without a restart."""

from typing import Annotated, Final

import typer

from admin.cli.completions import broker_ids
from admin.cli.options import Cluster, DryRunOption, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.connecting.client import AdminClient
from cluster.cli.documents import Format
from cluster.requests.log_dirs import OnlineLogDirResponse

ONLINE_DIR_EXAMPLES = examples(
    "klamm brokers log-dirs 2",
    "klamm brokers online-dir 2 /disk2/klamm --dry-run",
    "klamm brokers online-dir 2 /disk2/klamm",
    exit_codes="0 in service again; 1 refused: it still fails, or is in service; 2 wrong usage.",
)
_COLUMNS: Final = ("broker", "log_dir", "replicas", "offline", "in_doubt", "deleted")


@talks_to_cluster(timeout=60)
def online_dir(
    broker: Annotated[int, typer.Argument(metavar="ID", min=0, autocompletion=broker_ids)],
    path: Annotated[str, typer.Argument(metavar="DIR", help="The failed log directory: 'klamm brokers log-dirs'.")],
    *,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Bring a failed log directory of a broker back into service, without a restart.

    Mend the disk and mount it first. The broker tries to read and write in the
    directory, recovers the logs there, and has the controller send their
    roles. What was not flushed when the disk failed may be gone: replicas there
    follow others in sync first, and lead only where there are none. A replica
    that was created in another directory meanwhile stays there, and what this
    one has of it is deleted. A full directory needs no command: it returns by
    itself.
    """

    async def main(client: AdminClient) -> OnlineLogDirResponse:
        return await client.online_log_dir(await client.registered_broker(broker), path, validate_only=dry_run)

    found = cluster.ask(main, check=f"klamm brokers log-dirs {broker}")
    if dry_run:
        say(f"log directory {path} of broker {broker} can be read and written, and would be brought back")
    else:
        say(f"log directory {path} of broker {broker} is in service again")
    counts = (found.replicas, found.offline, found.in_doubt, found.deleted)
    row = (broker, path, *counts)
    document = {**dict(zip(_COLUMNS, row, strict=True)), "dry_run": dry_run}
    if cluster.form is not Format.TABLE or not dry_run:
        write(document, cluster.form, _COLUMNS, [row])
