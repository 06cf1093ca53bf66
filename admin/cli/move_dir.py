"""`klamm brokers move-dir` and `klamm brokers balance-dirs`: replicas move between the log directories of a broker."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, NamedTuple

import typer

from admin.cli.completions import broker_ids, partition_names
from admin.cli.options import Cluster, DryRunOption, WaitOption, YesOption, confirm, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.parsing import alterations, parse_partition_names
from admin.connecting.client import AdminClient
from admin.moving.log_dir_balance import DirectoryBalance, plan_balance
from admin.moving.log_dir_moves import (
    DirMovesPlan,
    PlannedDirMove,
    RefusedDirMove,
    UnfinishedMove,
    WantedDirs,
    chosen_brokers,
    plan_moves,
    request_moves,
    wait_for_dirs,
    without,
)
from admin.moving.progress import some_of
from cluster.cli.documents import Format
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.exit_codes import ExitCode
from cluster.model.printable import counted
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
        _move_document(PlannedDirMove(broker, move.topic_partition, move.size, move.from_dir, move.to_dir))
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


class _Outcome(NamedTuple):
    """`left`: moves that have not ended in time; `throttled`: the brokers whose throttle stays."""

    plan: DirMovesPlan
    refused: list[RefusedDirMove]
    left: list[UnfinishedMove]
    throttled: tuple[BrokerId, ...] = ()

    @property
    def moves(self) -> list[PlannedDirMove]:
        """The moves of the plan that no broker has refused."""
        refused = {(one.broker, one.topic_partition) for one in self.refused}
        return [move for move in self.plan.moves if (move.broker, move.topic_partition) not in refused]


def _carry_out(order: _Order, cluster: Cluster, document: dict[str, Any] | None = None) -> None:
    """Move replicas, and say what came of it. `document`: the plan, where it was shown before."""
    outcome = cluster.ask(lambda client: _move(client, order), check="klamm brokers log-dirs")
    _say_outcome(order, outcome)
    moves = [_move_document(move) for move in outcome.moves]
    if order.dry_run and cluster.form is Format.TABLE and moves:
        write({}, cluster.form, _PLAN_COLUMNS, (tuple(move.values()) for move in moves))
    in_place = [_move_document(move) for move in outcome.plan.in_place]
    written = {"moves": moves, **(document or {}), "in_place": in_place}
    accepted = len(moves)
    report(outcome.refused, outcome.left, cluster.form, {**written, "accepted": accepted, "dry_run": order.dry_run})
    if outcome.left:
        say("timed out: the moves continue; 'klamm brokers log-dirs' shows how far they are")
    for broker in outcome.throttled:
        say(f"the throttle stays; when all is moved: klamm brokers alter {broker} --delete-config {_RATE}")
    if outcome.refused or outcome.left:
        raise typer.Exit(ExitCode.REFUSED)


async def _move(client: AdminClient, order: _Order) -> _Outcome:
    brokers = await chosen_brokers(client, order.wanted)
    plan = await plan_moves(client, brokers, order.wanted)
    needed = plan.needed(order.wanted)
    throttled: tuple[BrokerId, ...] = ()
    if order.dry_run or order.throttle is not None:
        refused = await request_moves(client, brokers, needed, validate_only=True)
        if order.dry_run:
            return _Outcome(plan, [*plan.unknown, *refused], [])
        throttled = tuple(sorted(_accepted(needed, refused)))
        await _limit(client, throttled, order.throttle)
    refused = await request_moves(client, brokers, needed)
    left: list[UnfinishedMove] = []
    if order.wait:
        left = await wait_for_dirs(client, brokers, _accepted(needed, refused), say)
        if not left:
            await _limit(client, throttled, None)
            throttled = ()
    return _Outcome(plan, [*plan.unknown, *refused], left, throttled)


def _accepted(wanted: WantedDirs, refused: Iterable[RefusedDirMove]) -> WantedDirs:
    return without(wanted, ((one.broker, one.topic_partition) for one in refused))


def _say_outcome(order: _Order, outcome: _Outcome) -> None:
    by_dir: dict[str, list[str]] = {}
    for one in outcome.plan.in_place:
        by_dir.setdefault(one.to_dir, []).append(str(one.topic_partition))
    for path, names in by_dir.items():
        say(f"{some_of(names)}: already in {path}")
    done = len(outcome.moves) - len(outcome.left)
    if done or outcome.refused or not by_dir:
        verb = "would be moved" if order.dry_run else "moved" if order.wait else "moving"
        refused = f", {len(outcome.refused)} refused" if outcome.refused else ""
        say(f"{counted(done, 'replica')} {verb}{refused}")


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


def _move_document(move: PlannedDirMove) -> dict[str, Any]:
    values = (move.broker, *move.topic_partition, move.size, move.from_dir, move.to_dir)
    return dict(zip(_PLAN_COLUMNS, values, strict=True))


def unfinished_document(move: UnfinishedMove) -> dict[str, Any]:
    copied = (move.copied, move.size, move.offset_lag) if move.is_copied else (None, None, None)
    values = (move.broker, *move.topic_partition, move.log_dir, move.present or None, *copied)
    return dict(zip(_UNFINISHED_COLUMNS, values, strict=True))


async def _limit(client: AdminClient, brokers: Iterable[BrokerId], bytes_per_second: int | None) -> None:
    """Set the throttle of each broker's copies, or remove it. Raises ApiError."""
    set_, deleted = ({}, [_RATE]) if bytes_per_second is None else ({_RATE: str(bytes_per_second)}, [])
    resources = [AlterConfigsResource(BROKER_RESOURCE, str(broker), alterations(set_, deleted)) for broker in brokers]
    if not resources:
        return
    for result in (await client.alter_configs(resources)).responses:
        if result.error_code is not ErrorCode.NONE:
            raise ApiError(result.error_code, result.error_message or "the throttle was refused", field=_RATE)
