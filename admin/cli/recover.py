"""`klamm cluster recover`: bring a ZooKeeper restored from a backup up to what the brokers know."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from admin.cli.options import Cluster, YesOption, confirm, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.plans import change_text, partition_document
from admin.connecting.client import AdminClient
from cluster.cli.documents import Format, write_table
from cluster.model.errors import StartupError
from cluster.model.exit_codes import ExitCode
from cluster.model.printable import counted
from cluster.requests.recovery import ClusterRecovery, RecoveredPartition

_POLL_S: Final = 0.2
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and what is refused.")]
ExecuteOption = Annotated[bool, typer.Option("--execute", help="Write it; the active controller then resigns.")]
AcceptLossOption = Annotated[
    bool,
    typer.Option("--accept-loss", help="Proceed even if replicas are absent that may have the only copy of records."),
]
_COLUMNS: Final = ("topic", "partition", "leader", "leader_epoch", "isr", "replicas", "log_end_offset", "absent")


@talks_to_cluster(timeout=60)
def recover(
    *,
    dry_run: DryRunOption = False,
    execute: ExecuteOption = False,
    accept_loss: AcceptLossOption = False,
    yes: YesOption = False,
    cluster: Cluster,
) -> None:
    """Recover the cluster after ZooKeeper was restored from a backup.

    Brokers then know newer epochs than the controller and refuse its
    requests. The controller asks every broker for its logs and the newest ISR
    it knows, writes to ZooKeeper for each partition the replica with the
    greatest (epoch, end of log) as leader, creates topics that only brokers
    know, raises all epochs above those seen, and resigns; brokers obey the
    next controller. Nothing is deleted. An interrupted recovery is completed
    by running it again.

    LOG_END_OFFSET is where the new leader's log ends, ABSENT the replicas
    that did not answer.

    Brokers have ten seconds to answer; meanwhile the controller continues
    its other work. It resigns even if nothing is to be written, because
    brokers obey only the next controller.

    Refused while a replica of a partition's last known ISR is absent: start
    its broker, or pass --accept-loss.
    """
    if dry_run == execute:
        raise typer.BadParameter("pass exactly one of --dry-run and --execute")
    if dry_run:
        planned = cluster.ask(lambda client: client.plan_cluster_recovery(accept_loss=accept_loss)).recovery
        _report(planned, cluster.form, dry_run=True)
        if planned.refusals:
            raise typer.Exit(ExitCode.FINDINGS)
        return
    if accept_loss:
        confirm("Records that only absent replicas have will be lost. Continue?", yes)
    done, epoch = cluster.ask(
        lambda client: _execute(client, accept_loss, cluster.timeout), check="klamm cluster recover --dry-run"
    )
    _report(done, cluster.form, dry_run=False)
    say(f"a controller is active in epoch {epoch}; `klamm cluster health` shows when the brokers have followed")


EPILOG: Final = examples(
    "klamm cluster recover --dry-run",
    "klamm cluster recover --execute",
    "klamm cluster recover --execute --accept-loss --yes",
    exit_codes="0 done; 1 refused, failed or timed out; 2 wrong usage; 3 a dry run found reasons to refuse.",
)


async def _execute(client: AdminClient, accept_loss: bool, timeout_s: float) -> tuple[ClusterRecovery, int]:
    """Carry out the recovery, wait for the next controller and return its epoch. Raises StartupError."""
    done = (await client.recover_cluster(accept_loss=accept_loss)).recovery
    try:
        async with client.limits.outlasting_calls():
            while True:
                described = await client.describe_controller()
                if described.controller_epoch > done.controller_epoch:
                    return done, described.controller_epoch
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise StartupError(
            f"recovered, but within {timeout_s:g} s no controller is active above epoch {done.controller_epoch}: "
            "see 'klamm cluster health'"
        ) from None


def _report(recovery: ClusterRecovery, form: Format, *, dry_run: bool) -> None:
    if form is not Format.TABLE:
        write(_document(recovery, dry_run), form, (), ())
    elif recovery.partitions:
        write_table(_COLUMNS, [_row(p) for p in recovery.partitions])
    would = "would be " if dry_run else ""
    ids = "" if recovery.last_producer_id < 0 else f" and a producer id above {recovery.last_producer_id}"
    say(
        f"{counted(len(recovery.partitions), 'partition')} {would}written,"
        f" with a controller epoch above {recovery.controller_epoch}{ids}"
    )
    for line in _remarks(recovery, dry_run):
        say(line)


def _remarks(recovery: ClusterRecovery, dry_run: bool) -> Iterator[str]:
    if recovery.only_on_brokers:
        would = "would be created" if dry_run else "created"
        names = ", ".join(recovery.only_on_brokers)
        yield f"{would} from the brokers, with their ids but without configs, which must be set again: {names}"
    if recovery.only_in_zookeeper:
        names = ", ".join(recovery.only_in_zookeeper)
        yield f"left as they are, although no broker that answered has a replica of them: {names}"
    for refusal in recovery.refusals:
        yield f"refused: {refusal}"


def _row(p: RecoveredPartition) -> tuple[object, ...]:
    fields = ("leader", "leader_epoch", "isr", "replicas")
    changes = (change_text(getattr(p.before, f), getattr(p.after, f)) for f in fields)
    return (p.topic, p.after.partition, *changes, p.log_end_offset, p.absent)


def _document(recovery: ClusterRecovery, dry_run: bool) -> dict[str, Any]:
    """Describe a recovery by its fields.

    `partitions[]` has {topic, partition, before, after, last_isr[], absent[], log_end_offset}.
    """
    return {
        "dry_run": dry_run,
        "partitions": [
            {
                "topic": p.topic,
                "partition": p.after.partition,
                "before": partition_document(p.before),
                "after": partition_document(p.after),
                "last_isr": list(p.last_isr),
                "absent": list(p.absent),
                "log_end_offset": p.log_end_offset,
            }
            for p in recovery.partitions
        ],
        "only_on_brokers": list(recovery.only_on_brokers),
        "only_in_zookeeper": list(recovery.only_in_zookeeper),
        "silent_brokers": list(recovery.silent_brokers),
        "refusals": list(recovery.refusals),
        "controller_epoch": recovery.controller_epoch,
        "last_producer_id": recovery.last_producer_id,
    }
