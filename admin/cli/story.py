"""`klamm story TOPIC-PARTITION`: who led when, and why it changed, from the state-change logs of all nodes."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from admin.cli.options import DEFAULT_DATA, BootstrapOption, Format, FormatOption, connect, run
from admin.cli.output import say, write
from cluster.errors import PeerUnreachableError, StartupError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admin.client import AdminClient
    from cluster.partition import TopicPartition
    from cluster.state_change_log import LoggedStateChange

_COLUMNS = ("time (UTC)", "node", "what", "leader", "epoch", "isr", "cause", "reason")


def story(
    partition: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", help="For example orders-0.")],
    *,
    log_dir: Annotated[
        list[Path] | None, typer.Option(help="Read the state-change logs in this folder; may be repeated.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Read the logs of the embedded cluster in this folder.")
    ] = None,
    bootstrap: BootstrapOption = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for each node.")] = 10,
    form: FormatOption = Format.TABLE,
) -> None:
    """Tell the history of one partition, oldest first.

    Reads files with --log-dir or --data, which works on a cluster that is down; with --bootstrap it asks every
    live node. Without any of them: the embedded cluster in .klamm.
    """
    wanted = _parse(partition)
    missing: list[str] = []
    if log_dir or data is not None or bootstrap is None:
        folders = log_dir if log_dir else [(DEFAULT_DATA if data is None else data) / "state-changes"]
        records = _read_files(folders, wanted)
    else:
        records, missing = run(_ask_nodes(bootstrap, timeout, wanted))
    import msgspec

    document: dict[str, Any] = {"records": [msgspec.to_builtins(r) for r in records], "missing_nodes": missing}
    write(document, form, _COLUMNS, map(_row, records))
    for node in missing:
        say(f"without the records of {node}, which did not answer")
    if not records:
        say(f"nothing is known of {partition}")


def _parse(text: str) -> "TopicPartition":
    from cluster.partition import TopicPartition

    topic, dash, number = text.rpartition("-")
    if not dash or not topic or not number.isdecimal():
        raise typer.BadParameter(f"{text!r}: must be TOPIC-PARTITION, for example orders-0")
    return TopicPartition(topic, int(number))


def _read_files(folders: "Sequence[Path]", wanted: "TopicPartition") -> "list[LoggedStateChange]":
    from cluster.state_change_reader import read_state_changes

    absent = [str(folder) for folder in folders if not folder.is_dir()]
    if absent:
        raise StartupError(
            f"no state-change logs: {', '.join(absent)} is not a folder; see --data, --log-dir, --bootstrap"
        )
    return list(read_state_changes(folders, wanted.topic, wanted.partition))


async def _ask_nodes(
    bootstrap: str, timeout_s: float, wanted: "TopicPartition"
) -> "tuple[list[LoggedStateChange], list[str]]":
    """Records of all nodes that answered, merged, and the names of those that did not."""
    from cluster.state_change_reader import merge

    lines: list[bytes] = []
    missing = []
    async with connect(bootstrap, DEFAULT_DATA, timeout_s) as client:
        for address in await _nodes(client, bootstrap):
            try:
                answer = await client.read_state_changes(address, wanted.topic, wanted.partition)
            except PeerUnreachableError:
                missing.append(address)
                continue
            lines += answer.lines
            if answer.truncated:
                missing.append(f"{address} (its oldest)")
    return list(merge(lines, wanted.topic, wanted.partition)), missing


async def _nodes(client: "AdminClient", bootstrap: str) -> list[str]:
    """The nodes that were named, the controller in office and all live brokers."""
    described = await client.describe_cluster()
    nodes = [a.strip() for a in bootstrap.split(",")]
    nodes += [described.controller_address] if described.controller_address else []
    nodes += [b.endpoint.address for b in described.brokers]
    return list(dict.fromkeys(nodes))


def _row(record: "LoggedStateChange") -> tuple[object, ...]:
    at = datetime.fromtimestamp(record.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    moves = " → ".join(s for s in (record.from_state, record.to_state) if s is not None)
    what = f"{record.kind.value}: {moves}" if moves else record.kind.value
    leader: object = "none" if record.leader == -1 else record.leader
    epoch = None if record.leader_epoch is None else record.leader_epoch
    cause = None if record.cause is None else record.cause.event
    return at, record.node, what, leader, epoch, record.isr, cause, record.reason
