"""`klamm reassign`: move partitions between brokers. File formats are those of kafka-reassign-partitions."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Annotated, NamedTuple

import typer

from admin.cli.completions import topic_names
from admin.cli.move_dir import report, unfinished_document
from admin.cli.options import Cluster, DryRunOption, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.parsing import parse_brokers, read_input
from admin.cli.plans import plan_document, write_plan
from admin.cli.reassignment_outcomes import (
    MOVE_COLUMNS,
    describe_moves,
    move_document,
    move_row,
    refusals,
    wait_for_moves,
)
from admin.cli.reassignment_throttles import PreserveOption, ThrottleOption, clear_throttle, set_throttle
from admin.connecting.client import AdminClient
from admin.moving.log_dir_moves import (
    UnfinishedMove,
    WantedDirs,
    chosen_brokers,
    find_brokers,
    request_moves,
    unfinished_moves,
    unknown_partitions,
    wait_for_dirs,
)
from admin.moving.partition_files import parse_reassignment, parse_replica_dirs, parse_topics, reassignment_document
from admin.moving.replica_moves import Assignment, ProposedMoves, compare, propose_moves, with_directories
from admin.producing.missing_topics import refuse_missing
from cluster.cli.documents import Format
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ConfigError, ErrorCode, all_refusals
from cluster.model.exit_codes import ExitCode
from cluster.model.partition import TopicPartition
from cluster.model.printable import counted
from cluster.requests.cluster import DescribedBroker
from cluster.requests.reassignments import (
    AlterPartitionReassignmentsResponse,
    DescribedReassignment,
    ReassignablePartition,
    ReassignableTopic,
)

app = typer.Typer(
    no_args_is_help=True, help="Move partitions between brokers, with the JSON files of kafka-reassign-partitions."
)

FileArgument = Annotated[Path | None, typer.Argument(metavar="FILE", help="Reassignment file; '-' reads stdin.")]
FileOption = Annotated[
    Path | None,
    typer.Option("--reassignment-json-file", metavar="FILE", help="Same as FILE, under the name Kafka's tool uses."),
]
RollbackOption = Annotated[
    Path | None, typer.Option(help="Save the current assignment to this file; executing it rolls back.")
]
WaitForMoves = Annotated[
    bool, typer.Option("--wait", help="Wait until all partitions have moved, up to --timeout seconds.")
]


@app.command(
    epilog=examples(
        "klamm reassign generate --topic orders --broker-list 1,2,3 > moves.json",
        "klamm reassign generate --topics-to-move-json-file topics.json --broker-list 4,5 --rollback back.json",
        "klamm reassign execute moves.json --wait",
    )
)
@talks_to_cluster()
def generate(
    *,
    broker_list: Annotated[str, typer.Option(metavar="ID,ID,…", help="Brokers to spread the topics over.")],
    topic: Annotated[
        list[str] | None, typer.Option(help="Topic to move. Repeatable.", autocompletion=topic_names)
    ] = None,
    topics_to_move_json_file: Annotated[
        Path | None, typer.Option(help='Kafka\'s file of topics: {"topics": [{"topic": "orders"}], "version": 1}.')
    ] = None,
    disable_rack_aware: Annotated[bool, typer.Option("--disable-rack-aware", help="Ignore racks.")] = False,
    rollback: RollbackOption = None,
    cluster: Cluster,
) -> None:
    """Propose an assignment that spreads topics over a list of brokers. Changes nothing.

    Prints a reassignment file to review, edit and pass to 'klamm reassign
    execute'. With -o json: an object with `current` and `proposed`.
    """
    names = list(topic or ())
    if topics_to_move_json_file is not None:
        names += parse_topics(read_input(topics_to_move_json_file), str(topics_to_move_json_file))
    if not names:
        raise typer.BadParameter("no topics: pass --topic or --topics-to-move-json-file")
    brokers = parse_brokers(broker_list)

    proposal = cluster.ask(lambda c: _propose(c, list(dict.fromkeys(names)), brokers, not disable_rack_aware))
    current, proposed = (reassignment_document(side) for side in proposal)
    if rollback is not None:
        _save(proposal.current, rollback)
    say(f"{counted(len(proposal.proposed), 'partition')} would move")
    if cluster.form is Format.TABLE:
        typer.echo(json.dumps(proposed))
    else:
        write({"current": current, "proposed": proposed}, cluster.form, (), ())


@app.command(
    epilog=examples(
        "klamm reassign execute moves.json --dry-run",
        "klamm reassign execute moves.json --wait --timeout 600",
        "klamm reassign execute moves.json --throttle 10000000   (10 MB per second)",
        'echo \'{"partitions": [{"topic": "t", "partition": 0, "replicas": [2, 3]}]}\' | klamm reassign execute -',
    )
)
@talks_to_cluster(timeout=60)
def execute(
    file: FileArgument = None,
    *,
    reassignment_json_file: FileOption = None,
    additional: Annotated[
        bool, typer.Option("--additional", help="Start although reassignments are in progress; replace those of FILE.")
    ] = False,
    wait: WaitForMoves = False,
    rollback: RollbackOption = None,
    throttle: ThrottleOption = None,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Start the reassignments of a file.

    Returns once they are accepted and stored in ZooKeeper; they continue
    through controller failovers. --wait waits until they are complete, and
    then removes the --throttle; without it 'klamm reassign verify' does.
    Where FILE names `log_dirs`, the brokers are asked first: each moves the
    replicas that it has, and creates those that it gets in the directory named.
    """
    moves, wanted = _read_moves_and_dirs(file, reassignment_json_file)

    async def main(client: AdminClient) -> _Executed:
        if not additional:
            await _refuse_others(client, dry_run)
        if rollback is not None:
            present = await _present_assignment(client, sorted({tp.topic for tp in moves}))
            _save({tp: present[tp] for tp in moves if tp in present}, rollback)
        brokers = await _choose_dirs(client, wanted, moves, dry_run) if wanted else {}
        if throttle is not None and not dry_run:
            await set_throttle(client, await _possible(client, moves), throttle)
        response = await _alter(client, moves, dry_run)
        if not wait or dry_run:
            return _Executed(response)
        left = await wait_for_moves(client, set(moves))
        if throttle is not None and not left:
            await clear_throttle(client, {tp.topic for tp in moves})
        return _Executed(response, left, [] if left else await wait_for_dirs(client, brokers, wanted, say))

    executed = cluster.ask(main, check="klamm reassign list")
    _report(executed, dry_run, cluster.form, "moved" if wait or dry_run else "moving")


@app.command(
    epilog=examples(
        "klamm reassign verify moves.json",
        exit_codes="0 all complete; 1 no answer; 2 wrong usage; 3 not yet, or different from the file.",
    )
)
@talks_to_cluster()
def verify(
    file: FileArgument = None,
    *,
    reassignment_json_file: FileOption = None,
    preserve_throttles: PreserveOption = False,
    cluster: Cluster,
) -> None:
    """Compare a reassignment file with the cluster: complete, in progress, stuck (and why) or different.

    Once nothing is being reassigned any more, throttles are removed from the
    topics of the file and from all brokers.
    """
    moves, dirs = _read_moves_and_dirs(file, reassignment_json_file)

    async def main(client: AdminClient) -> tuple[Assignment, list[DescribedReassignment], list[UnfinishedMove]]:
        names = sorted({tp.topic for tp in moves})
        present, going_on = await _present_assignment(client, names), await describe_moves(client, names)
        if not going_on and not preserve_throttles:
            await clear_throttle(client, names)
        return (
            present,
            going_on,
            await unfinished_moves(client, await chosen_brokers(client, dirs), dirs) if dirs else [],
        )

    present, going_on, between_dirs = cluster.ask(main)
    arrivals = with_directories(compare(moves, present, going_on), between_dirs)
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(wanted), "state": state, "detail": detail}
        for tp, wanted, state, detail in arrivals
    ]
    columns = ("topic", "partition", "wanted", "state", "detail")
    write({"partitions": rows}, cluster.form, columns, (tuple(r.values()) for r in rows))
    if any(row["state"] != "completed" for row in rows):
        raise typer.Exit(ExitCode.FINDINGS)


@app.command(epilog=examples("klamm reassign cancel moves.json", "klamm reassign cancel --all"))
@talks_to_cluster()
def cancel(
    file: FileArgument = None,
    *,
    reassignment_json_file: FileOption = None,
    all_: Annotated[bool, typer.Option("--all", help="Cancel all ongoing reassignments.")] = False,
    preserve_throttles: PreserveOption = False,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Cancel ongoing reassignments: partitions go back to their original replicas.

    Adding replicas are stopped and deleted, whether in sync or not. Throttles
    are removed if nothing else is being reassigned.
    """
    named = file is not None or reassignment_json_file is not None
    if named == all_:
        raise typer.BadParameter("pass either the executed file or --all")
    chosen = list(_read_moves(file, reassignment_json_file)) if named else None

    async def main(client: AdminClient) -> AlterPartitionReassignmentsResponse:
        partitions = chosen
        if partitions is None:
            partitions = [TopicPartition(r.topic, r.partition) for r in await describe_moves(client, None)]
        response = await _alter(client, dict.fromkeys(partitions), dry_run)
        if not dry_run and not preserve_throttles:
            await clear_throttle(client, {tp.topic for tp in partitions})
        return response

    _report(_Executed(cluster.ask(main, check="klamm reassign list")), dry_run, cluster.form, "cancelled")


@app.command("list", epilog=examples("klamm reassign list -o json"))
@talks_to_cluster()
def list_(*, cluster: Cluster) -> None:
    """List ongoing reassignments: how many targets are in sync, and why one is stuck."""
    going_on = cluster.ask(lambda client: describe_moves(client, None))
    if going_on or cluster.form is not Format.TABLE:
        document = {"reassignments": list(map(move_document, going_on))}
        write(document, cluster.form, MOVE_COLUMNS, map(move_row, going_on))
    if not going_on:
        say("no reassignments in progress")


def _save(assignment: Assignment, rollback: Path) -> None:
    rollback.write_text(json.dumps(reassignment_document(assignment)) + "\n")
    say(f"current assignment saved to {rollback}")


class _Executed(NamedTuple):
    """`left`: reassignments that have not ended in time; `between_dirs`: moves between log directories likewise."""

    response: AlterPartitionReassignmentsResponse
    left: Sequence[DescribedReassignment] = ()
    between_dirs: Sequence[UnfinishedMove] = ()


async def _choose_dirs(
    client: AdminClient, wanted: WantedDirs, moves: Assignment, dry_run: bool
) -> dict[BrokerId, DescribedBroker]:
    """Tell the brokers in which log directories replicas are to be, and return them; one that has no replica yet
    remembers it. Raises ApiError with all errors, those of the moves between brokers too, before anything is changed.
    """
    brokers, refusal = await find_brokers(client, wanted)
    errors = [] if refusal is None else [refusal]
    unknown = await unknown_partitions(client, (tp for moves in wanted.values() for tp in moves))
    errors += [ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why, field="log_dirs") for why in unknown.values()]
    known = {
        broker: {tp: path for tp, path in wanted[broker].items() if tp not in unknown} for broker in sorted(brokers)
    }
    for validate_only in (True,) if dry_run else (True, False):
        refused = await request_moves(client, brokers, known, validate_only=validate_only)
        errors += [
            ApiError(r.code, f"broker {r.broker}, {r.topic_partition}: {r.message or r.code.name}", field="log_dirs")
            for r in refused
            if r.code is not ErrorCode.REPLICA_NOT_AVAILABLE
        ]
        if errors:
            others = {tp: error for tp, error in (await _refused(client, moves)).items() if tp not in unknown}
            raise all_refusals([*errors, *others.values()])
    return brokers


async def _possible(client: AdminClient, moves: Assignment) -> Assignment:
    """Leave out the moves that would be refused: they need no throttle, and would leave one behind."""
    refused = await _refused(client, moves)
    return {tp: replicas for tp, replicas in moves.items() if tp not in refused}


async def _refused(client: AdminClient, moves: Assignment) -> dict[TopicPartition, ApiError]:
    """The errors of the moves between brokers that would be refused."""
    return {
        TopicPartition(topic.name, p.partition_index): ApiError(
            p.error_code, f"{topic.name}-{p.partition_index}: {p.error_message or p.error_code.name}", field="replicas"
        )
        for topic in (await _alter(client, moves, dry_run=True)).responses
        for p in topic.partitions
        if p.error_code is not ErrorCode.NONE
    }


def _read_moves(argument: Path | None, option: Path | None) -> Assignment:
    return _read_moves_and_dirs(argument, option)[0]


def _read_moves_and_dirs(argument: Path | None, option: Path | None) -> tuple[Assignment, WantedDirs]:
    """The target replicas of each partition, and the log directories that the file names, by broker."""
    named = [file for file in (argument, option) if file is not None]
    if len(named) != 1:
        raise typer.BadParameter("pass one reassignment file, as FILE or with --reassignment-json-file")
    content, source = read_input(named[0]), str(named[0])
    return parse_reassignment(content, source), parse_replica_dirs(content, source)


async def _propose(client: AdminClient, names: list[str], brokers: list[BrokerId], rack_aware: bool) -> ProposedMoves:
    topics = (await client.describe_topics(names)).topics
    refuse_missing(topics)
    live = {b.id: b for b in (await client.describe_controller()).brokers}
    unknown = [b for b in brokers if b not in live]
    if unknown:
        raise ConfigError([f"--broker-list: broker {b} is not registered; registered: {sorted(live)}" for b in unknown])
    return propose_moves(topics, [live[b] for b in dict.fromkeys(brokers)], SystemRandom(), rack_aware=rack_aware)


async def _present_assignment(client: AdminClient, names: list[str]) -> Assignment:
    return {
        TopicPartition(t.name, p.partition): tuple(b for b in p.replicas if b not in p.removing_replicas)
        for t in (await client.describe_topics(names)).topics
        for p in t.partitions
    }


async def _refuse_others(client: AdminClient, dry_run: bool) -> None:
    """Refuse while other reassignments are in progress; a dry run only prints that they would cause a refusal."""
    going_on = await describe_moves(client, None)
    if not going_on:
        return
    why = (
        f"{counted(len(going_on), 'partition')} being reassigned already ('klamm reassign list');"
        " pass --additional to start anyway"
    )
    if not dry_run:
        raise ApiError(ErrorCode.REASSIGNMENT_IN_PROGRESS, why)
    say(f"would be refused: {why}")


async def _alter(
    client: AdminClient, moves: Mapping[TopicPartition, tuple[BrokerId, ...] | None], dry_run: bool
) -> AlterPartitionReassignmentsResponse:
    """Request these target replicas; None cancels."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for tp, replicas in moves.items():
        topics.setdefault(tp.topic, []).append(ReassignablePartition(tp.partition, replicas))
    wanted = [ReassignableTopic(name, tuple(partitions)) for name, partitions in topics.items()]
    return await client.alter_partition_reassignments(wanted, validate_only=dry_run)


def _report(executed: _Executed, dry_run: bool, form: Format, done: str) -> None:
    response, left, between_dirs = executed
    refused = refusals(response)
    accepted = sum(len(t.partitions) for t in response.responses) - len(refused)
    say(
        f"{counted(accepted - len(left), 'partition')} {'would be ' if dry_run else ''}{done}"
        + (f", {len(refused)} refused" if refused else "")
    )
    document = {
        "accepted": accepted,
        "dry_run": dry_run,
        "refused": refused,
        "unfinished": [move_document(r) for r in left],
        "between_log_dirs": [unfinished_document(move) for move in between_dirs],
        "plan": None if response.plan is None else plan_document(response.plan),
    }
    if form is not Format.TABLE:
        write(document, form, (), ())
    else:
        if refused:
            write({}, form, ("topic", "partition", "error", "message"), (tuple(r.values()) for r in refused))
        if left:
            write({}, form, MOVE_COLUMNS, map(move_row, left))
        if response.plan is not None:
            write_plan(response.plan)
        if between_dirs:
            report((), between_dirs, form, {})
    if left:
        say("timed out: the reassignments continue; 'klamm reassign list' shows their progress")
    if between_dirs:
        say("timed out: moves between log directories continue; 'klamm brokers log-dirs' shows their progress")
    if refused or left or between_dirs:
        raise typer.Exit(ExitCode.REFUSED)
