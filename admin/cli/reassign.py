"""`klamm reassign`: move partitions between brokers. Files are those of Kafka's kafka-reassign-partitions."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from admin.cli.options import Cluster, DryRunOption, examples, run, talks_to_cluster
from admin.cli.output import counted, say, write
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
from cluster.errors import ApiError, ConfigError, ErrorCode
from cluster.process.documents import Format
from cluster.process.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admin.client import AdminClient
    from admin.replica_moves import Assignment, Proposal
    from cluster.broker import BrokerId
    from cluster.partition import TopicPartition
    from cluster.requests.reassignments import AlterPartitionReassignmentsResponse, DescribedReassignment

app = typer.Typer(no_args_is_help=True, help="Move partitions between brokers; Kafka's JSON files.")

FileArgument = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A reassignment file; '-' reads standard input.")
]
FileOption = Annotated[
    Path | None, typer.Option("--reassignment-json-file", metavar="FILE", help="The same, as Kafka's tool names it.")
]
WaitForMoves = Annotated[
    bool, typer.Option("--wait", help="Wait until all partitions have arrived, at most --timeout seconds.")
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
    broker_list: Annotated[str, typer.Option(metavar="B,B,…", help="The brokers that are to host the topics.")],
    topic: Annotated[list[str] | None, typer.Option(help="A topic to spread anew; may be repeated.")] = None,
    topics_to_move_json_file: Annotated[
        Path | None, typer.Option(help='Kafka\'s file of topics: {"topics": [{"topic": "orders"}], "version": 1}.')
    ] = None,
    disable_rack_aware: Annotated[bool, typer.Option("--disable-rack-aware", help="Pay no heed to racks.")] = False,
    rollback: Annotated[
        Path | None, typer.Option(help="Write what is there now to this file; executing it moves everything back.")
    ] = None,
    cluster: Cluster,
) -> None:
    """Propose where the partitions of some topics could go. Changes nothing.

    Writes a reassignment file to standard output, to be looked at, changed
    and executed; with -o json an object of two such files, `current` and
    `proposed`.
    """
    from admin.partition_files import parse_topics, reassignment_document

    names = list(topic or ())
    if topics_to_move_json_file is not None:
        names += parse_topics(read_input(topics_to_move_json_file), str(topics_to_move_json_file))
    if not names:
        raise typer.BadParameter("name topics with --topic or --topics-to-move-json-file")
    brokers = parse_brokers(broker_list)

    async def main() -> "Proposal":
        async with cluster.connect() as client:
            return await _propose(client, list(dict.fromkeys(names)), brokers, not disable_rack_aware)

    proposal = run(main())
    current, proposed = (reassignment_document(side) for side in proposal)
    if rollback is not None:
        rollback.write_text(json.dumps(current) + "\n")
        say(f"what is there now is in {rollback}")
    say(f"{counted(len(proposal.proposed), 'partition')} would move")
    if cluster.form is Format.TABLE:
        typer.echo(json.dumps(proposed))
    else:
        write({"current": current, "proposed": proposed}, cluster.form, (), ())


@app.command(
    epilog=examples(
        "klamm reassign execute moves.json --dry-run",
        "klamm reassign execute moves.json --wait --timeout 600",
        'echo \'{"partitions": [{"topic": "t", "partition": 0, "replicas": [2, 3]}]}\' | klamm reassign execute -',
    )
)
@talks_to_cluster(timeout=60)
def execute(
    file: FileArgument = None,
    *,
    reassignment_json_file: FileOption = None,
    additional: Annotated[
        bool, typer.Option("--additional", help="Begin although others are going on; replace those in the file.")
    ] = False,
    wait: WaitForMoves = False,
    rollback: Annotated[
        Path | None, typer.Option(help="Write what is there now to this file; executing it moves everything back.")
    ] = None,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Begin the moves of a reassignment file. Without --wait it returns when they are accepted and recorded."""
    moves = _read_moves(_one_file(file, reassignment_json_file))

    async def main() -> "tuple[AlterPartitionReassignmentsResponse, list[DescribedReassignment]]":
        from admin.partition_files import reassignment_document

        async with cluster.connect() as client:
            if not additional:
                await _refuse_others(client, dry_run)
            if rollback is not None:
                present = await _present_assignment(client, sorted({tp.topic for tp in moves}))
                here = {tp: present[tp] for tp in moves if tp in present}
                rollback.write_text(json.dumps(reassignment_document(here)) + "\n")
                say(f"what is there now is in {rollback}")
            response = await _alter(client, moves, dry_run)
            left = await wait_for_moves(client, set(moves), cluster.timeout) if wait and not dry_run else []
            return response, left

    response, left = run(main())
    _report(response, left, dry_run, cluster.form, "moved" if wait or dry_run else "moving")


@app.command(
    epilog=examples(
        "klamm reassign verify moves.json  (exit code 3 while anything is not as the file says)",
    )
)
@talks_to_cluster()
def verify(
    file: FileArgument = None,
    *,
    reassignment_json_file: FileOption = None,
    cluster: Cluster,
) -> None:
    """Compare a reassignment file with the cluster: what has arrived, what is on its way and what it waits for."""
    from admin.replica_moves import compare

    moves = _read_moves(_one_file(file, reassignment_json_file))

    async def main() -> "tuple[Assignment, list[DescribedReassignment]]":
        async with cluster.connect() as client:
            names = sorted({tp.topic for tp in moves})
            return await _present_assignment(client, names), await describe_moves(client, names)

    present, going_on = run(main())
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(wanted), "state": state, "detail": detail}
        for tp, wanted, state, detail in compare(moves, present, going_on)
    ]
    write(
        {"partitions": rows},
        cluster.form,
        ("topic", "partition", "wanted", "state", "detail"),
        (tuple(r.values()) for r in rows),
    )
    if any(row["state"] != "completed" for row in rows):
        raise typer.Exit(ExitCode.FINDINGS)


@app.command(
    epilog=examples(
        "klamm reassign cancel moves.json",
        "klamm reassign cancel --all",
    )
)
@talks_to_cluster()
def cancel(
    file: FileArgument = None,
    *,
    reassignment_json_file: FileOption = None,
    all_: Annotated[bool, typer.Option("--all", help="Cancel everything that is going on.")] = False,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Bring partitions back to the replicas they had. New replicas are deleted, in sync or not."""
    named = file is not None or reassignment_json_file is not None
    if named == all_:
        raise typer.BadParameter("name the file that was executed, or --all")
    chosen = list(_read_moves(_one_file(file, reassignment_json_file))) if named else None

    async def main() -> "AlterPartitionReassignmentsResponse":
        async with cluster.connect() as client:
            partitions = chosen
            if partitions is None:
                from cluster.partition import TopicPartition

                partitions = [TopicPartition(r.topic, r.partition) for r in await describe_moves(client, None)]
            return await _alter(client, dict.fromkeys(partitions), dry_run)

    _report(run(main()), [], dry_run, cluster.form, "cancelled")


@app.command(
    "list",
    epilog=examples(
        "klamm reassign list -o json",
    ),
)
@talks_to_cluster()
def list_(
    *,
    cluster: Cluster,
) -> None:
    """Show what is being moved, how far it is, and what it waits for."""

    async def main() -> "list[DescribedReassignment]":
        async with cluster.connect() as client:
            return await describe_moves(client, None)

    going_on = run(main())
    if going_on or cluster.form is not Format.TABLE:
        write(
            {"reassignments": [move_document(r) for r in going_on]}, cluster.form, MOVE_COLUMNS, map(move_row, going_on)
        )
    if not going_on:
        say("nothing is being reassigned")


def _one_file(argument: Path | None, option: Path | None) -> Path:
    named = [file for file in (argument, option) if file is not None]
    if len(named) != 1:
        raise typer.BadParameter("name one reassignment file")
    return named[0]


def _read_moves(file: Path) -> "Assignment":
    from admin.partition_files import parse_reassignment

    return parse_reassignment(read_input(file), str(file))


async def _propose(client: "AdminClient", names: list[str], brokers: "list[BrokerId]", rack_aware: bool) -> "Proposal":
    from random import SystemRandom

    from admin.replica_moves import propose_moves

    topics = (await client.describe_topics(names)).topics
    for topic in topics:
        if topic.error_code is not ErrorCode.NONE:
            raise ApiError(topic.error_code, f"topic {topic.name!r}; 'klamm topics list' shows what there is")
    live = {b.id: b for b in (await client.describe_controller()).brokers}
    unknown = [b for b in brokers if b not in live]
    if unknown:
        raise ConfigError([f"--broker-list: broker {b} is not alive; alive are {sorted(live)}" for b in unknown])
    return propose_moves(topics, [live[b] for b in dict.fromkeys(brokers)], SystemRandom(), rack_aware=rack_aware)


async def _present_assignment(client: "AdminClient", names: list[str]) -> "Assignment":
    from cluster.partition import TopicPartition

    return {
        TopicPartition(t.name, p.partition): tuple(b for b in p.replicas if b not in p.removing_replicas)
        for t in (await client.describe_topics(names)).topics
        for p in t.partitions
    }


async def _refuse_others(client: "AdminClient", dry_run: bool) -> None:
    """A dry run goes on, and says that the real thing would not."""
    going_on = await describe_moves(client, None)
    if not going_on:
        return
    why = (
        f"{counted(len(going_on), 'partition')} being reassigned already ('klamm reassign list');"
        " --additional begins all the same"
    )
    if not dry_run:
        raise ApiError(ErrorCode.REASSIGNMENT_IN_PROGRESS, why)
    say(f"would be refused now: {why}")


async def _alter(
    client: "AdminClient", moves: "Mapping[TopicPartition, tuple[BrokerId, ...] | None]", dry_run: bool
) -> "AlterPartitionReassignmentsResponse":
    """Ask for these targets; None cancels."""
    from cluster.requests.reassignments import ReassignablePartition, ReassignableTopic

    topics: dict[str, list[ReassignablePartition]] = {}
    for tp, replicas in moves.items():
        topics.setdefault(tp.topic, []).append(ReassignablePartition(tp.partition, replicas))
    wanted = [ReassignableTopic(name, tuple(partitions)) for name, partitions in topics.items()]
    return await client.alter_partition_reassignments(wanted, validate_only=dry_run)


def _report(
    response: "AlterPartitionReassignmentsResponse",
    left: "list[DescribedReassignment]",
    dry_run: bool,
    form: Format,
    done: str,
) -> None:
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
    if left:
        say("not arrived in time: the moves go on by themselves; 'klamm reassign list' shows them")
    if refused or left:
        raise typer.Exit(ExitCode.REFUSED)
