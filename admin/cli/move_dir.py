"""`klamm brokers move-dir` and `klamm brokers balance-dirs`: replicas move between the log directories of a broker."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, NamedTuple

import typer

from admin.cli.completions import broker_ids, partition_names
from admin.cli.options import Cluster, DryRunOption, WaitOption, YesOption, confirm, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.parsing import alterations, parse_partition_names
from admin.client import AdminClient
from admin.log_dir_balance import DirectoryBalance, plan_balance
from admin.log_dir_moves import (
    RefusedDirMove,
    UnfinishedMove,
    WantedDirs,
    chosen_brokers,
    request_moves,
    wait_for_dirs,
)
from cluster.cli.documents import Format
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.exit_codes import ExitCode
from cluster.model.printable import counted
from cluster.requests.cluster import DescribedBroker
from cluster.requests.configs import BROKER_RESOURCE, AlterConfigsResource

MOVE_DIR_EXAMPLES = examples(
    "klamm brokers log-dirs 2",
    "klamm brokers move-dir 2 orders-0 orders-1 --to /disk2/klamm --dry-run",
    "klamm brokers move-dir 2 orders-0 --to /disk2/klamm --throttle 10000000 --timeout 3600",
    exit_codes="0 moved, or moving with --no-wait; 1 refused or timed out; 2 wrong usage.",
)
BALANCE_EXAMPLES = examples(
    "klamm brokers balance-dirs --dry-run",
    "klamm brokers balance-dirs 2 --throttle 10000000 --yes --timeout 86400",
    exit_codes="0 balanced, or balancing with --no-wait; 1 refused or timed out; 2 wrong usage.",
)
_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_REFUSED_COLUMNS: Final = ("broker", "topic", "partition", "log_dir", "error", "message")
_UNFINISHED_COLUMNS: Final = (
    "broker",
    "topic",
    "partition",
    "log_dir",
    "present",
    "copied_bytes",
    "size_bytes",
    "offset_lag",
)
_PLAN_COLUMNS: Final = ("broker", "topic", "partition", "size_bytes", "from_dir", "to_dir")
_USE_COLUMNS: Final = ("broker", "log_dir", "bytes_before", "bytes_after", "total_bytes")
_ThrottleOption = Annotated[
    int | None,
    typer.Option(metavar="BYTES", min=1, help=f"Bytes per second that a broker copies at most: sets {_RATE}."),
]


@talks_to_cluster(timeout=60)
def move_dir(
    broker: Annotated[int, typer.Argument(metavar="ID", min=0, autocompletion=broker_ids)],
    partitions: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC-PARTITION", help="Partitions such as orders-0.", autocompletion=partition_names),
    ],
    *,
    to: Annotated[str, typer.Option(metavar="DIR", help="A log directory of the broker: 'klamm brokers log-dirs'.")],
    throttle: _ThrottleOption = None,
    wait: WaitOption = True,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Move replicas of a broker to another of its log directories, while they are read and written.

    The broker copies them, and swaps each copy for the replica when it has
    everything; readers, producers and followers notice nothing. The moves
    continue without this command, also after a restart of the broker; moving
    back ends one. A throttle is removed when all have moved.
    """
    moves = dict.fromkeys(parse_partition_names(partitions), to)
    _carry_out(_Order({BrokerId(broker): moves}, throttle, wait, dry_run), cluster)


@talks_to_cluster(timeout=60)
def balance_dirs(
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID", help="Default: all brokers.", autocompletion=broker_ids)
    ] = None,
    *,
    throttle: _ThrottleOption = None,
    wait: WaitOption = True,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Move replicas between the log directories of brokers, so that these are used evenly.

    Shows the moves first, and asks. What counts is the part of each file
    system that replicas take; differences of less than 5 % are left.
    """
    plans = cluster.ask(lambda client: _plans(client, ids))
    wanted = {
        broker: {move.topic_partition: move.to_dir for move in plan.moves}
        for broker, plan in plans.items()
        if plan.moves
    }
    document = _plan_document(plans)
    if cluster.form is Format.TABLE:
        if wanted:
            write({}, cluster.form, _PLAN_COLUMNS, (tuple(move.values()) for move in document["moves"]))
        write({}, cluster.form, _USE_COLUMNS, (tuple(use.values()) for use in document["log_dirs"]))
    count = sum(map(len, wanted.values()))
    if dry_run or not wanted:
        if cluster.form is not Format.TABLE:
            write({**document, "dry_run": dry_run}, cluster.form, (), ())
        say(f"{counted(count, 'replica')} would be moved" if wanted else "the log directories are used evenly")
        return
    confirm(f"Move {counted(count, 'replica')}?", yes)
    _carry_out(_Order(wanted, throttle, wait, dry_run), cluster, document)


async def _plans(client: AdminClient, ids: Sequence[int] | None) -> dict[BrokerId, DirectoryBalance]:
    every = ids or [broker.id for broker in (await client.describe_controller()).brokers]
    brokers = await chosen_brokers(client, every)
    return {id_: plan_balance(await client.describe_log_dirs(broker)) for id_, broker in brokers.items()}


def _plan_document(plans: dict[BrokerId, DirectoryBalance]) -> dict[str, list[dict[str, Any]]]:
    moves = [
        dict(
            zip(
                _PLAN_COLUMNS,
                (broker, *move.topic_partition, move.size, move.from_dir, move.to_dir),
                strict=True,
            )
        )
        for broker, plan in plans.items()
        for move in plan.moves
    ]
    uses = [
        dict(zip(_USE_COLUMNS, (broker, use.log_dir, use.before, use.after, use.total_bytes), strict=True))
        for broker, plan in plans.items()
        for use in plan.uses
    ]
    return {"moves": moves, "log_dirs": uses}


class _Order(NamedTuple):
    wanted: WantedDirs
    throttle: int | None
    wait: bool
    dry_run: bool


def _carry_out(order: _Order, cluster: Cluster, plan: dict[str, Any] | None = None) -> None:
    wanted, throttle, wait, dry_run = order

    async def main(client: AdminClient) -> tuple[list[RefusedDirMove], list[UnfinishedMove]]:
        brokers = await chosen_brokers(client, wanted)
        if throttle is not None and not dry_run:
            await _limit(client, brokers.values(), throttle)
        refused = await request_moves(client, brokers, wanted, validate_only=dry_run)
        if not wait or dry_run:
            return refused, []
        left = await wait_for_dirs(client, brokers, _without(wanted, refused), say)
        if throttle is not None and not left:
            await _limit(client, brokers.values(), None)
        return refused, left

    refused, left = cluster.ask(main, check="klamm brokers log-dirs")
    accepted = sum(map(len, wanted.values())) - len(refused)
    done = "would be moved" if dry_run else "moved" if wait else "moving"
    say(f"{counted(accepted - len(left), 'replica')} {done}" + (f", {len(refused)} refused" if refused else ""))
    report(refused, left, cluster.form, {**(plan or {}), "accepted": accepted, "dry_run": dry_run})
    if left:
        say("timed out: the moves continue; 'klamm brokers log-dirs' shows how far they are")
    if throttle is not None and not dry_run and (left or not wait):
        for broker in sorted(wanted):
            say(f"the throttle stays; when all is moved: klamm brokers alter {broker} --delete-config {_RATE}")
    if refused or left:
        raise typer.Exit(ExitCode.REFUSED)


def report(
    refused: Sequence[RefusedDirMove], left: Sequence[UnfinishedMove], form: Format, document: dict[str, Any]
) -> None:
    """Write what was refused, and what is still being moved."""
    refusals = [refusal_document(refusal) for refusal in refused]
    unfinished = [unfinished_document(move) for move in left]
    if form is not Format.TABLE:
        write({**document, "refused": refusals, "unfinished": unfinished}, form, (), ())
        return
    if refusals:
        write({}, form, _REFUSED_COLUMNS, (tuple(refusal.values()) for refusal in refusals))
    if unfinished:
        write({}, form, _UNFINISHED_COLUMNS, (tuple(move.values()) for move in unfinished))


def refusal_document(refused: RefusedDirMove) -> dict[str, Any]:
    values = (refused.broker, *refused.topic_partition, refused.log_dir, refused.code.name, refused.message)
    return dict(zip(_REFUSED_COLUMNS, values, strict=True))


def unfinished_document(move: UnfinishedMove) -> dict[str, Any]:
    copied = (move.copied, move.size, move.offset_lag) if move.is_copied else (None, None, None)
    values = (move.broker, *move.topic_partition, move.log_dir, move.present or None, *copied)
    return dict(zip(_UNFINISHED_COLUMNS, values, strict=True))


def _without(wanted: WantedDirs, refused: Iterable[RefusedDirMove]) -> WantedDirs:
    gone = {(refusal.broker, refusal.topic_partition) for refusal in refused}
    kept = {
        broker: {tp: path for tp, path in moves.items() if (broker, tp) not in gone} for broker, moves in wanted.items()
    }
    return {broker: moves for broker, moves in kept.items() if moves}


async def _limit(client: AdminClient, brokers: Iterable[DescribedBroker], bytes_per_second: int | None) -> None:
    """Set the throttle of each broker's copies, or remove it. Raises ApiError."""
    set_, deleted = ({}, [_RATE]) if bytes_per_second is None else ({_RATE: str(bytes_per_second)}, [])
    resources = [AlterConfigsResource(BROKER_RESOURCE, str(b.id), alterations(set_, deleted)) for b in brokers]
    response = await client.alter_configs(resources)
    for result in response.responses:
        if result.error_code is not ErrorCode.NONE:
            raise ApiError(result.error_code, result.error_message or "the throttle was refused", field=_RATE)
