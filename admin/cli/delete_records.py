"""`klamm topics delete-records`. The file is that of Kafka's kafka-delete-records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from admin.cli.completions import partition_names
from admin.cli.options import Cluster, DryRunOption, YesOption, confirm, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.parsing import parse_partition_names, read_input
from admin.moving.partition_files import parse_offsets
from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode
from cluster.model.exit_codes import ExitCode
from cluster.model.partition import TopicPartition
from cluster.model.printable import counted
from cluster.requests.data import DeleteRecordsResult

DELETE_RECORDS_EXAMPLES = examples(
    "klamm topics delete-records orders-0 --before-offset 1000 --dry-run",
    "klamm topics delete-records orders-0 orders-1 --before-offset -1 --yes  (up to the high watermark)",
    "klamm topics delete-records --offset-json-file offsets.json",
    exit_codes="0 deleted; 1 a partition was refused or timed out; 2 wrong usage.",
)


@talks_to_cluster()
def delete_records(
    partitions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC-PARTITION",
            help="Partitions such as orders-0; need --before-offset.",
            autocompletion=partition_names,
        ),
    ] = None,
    *,
    before_offset: Annotated[
        int | None, typer.Option(min=-1, help="Delete records below this offset; -1: below the high watermark.")
    ] = None,
    offset_json_file: Annotated[
        Path | None,
        typer.Option(help='Kafka\'s file: {"partitions": [{"topic": "orders", "partition": 0, "offset": 1000}]}.'),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Delete the records below an offset for good, and wait until no live replica has them.

    LOW_WATERMARK is the lowest log start offset of the live replicas. Disk
    space is freed later, when retention removes segments that lie wholly
    below it.
    """
    offsets = _wanted(partitions, before_offset, offset_json_file)
    if not dry_run:
        confirm(f"Delete records of {', '.join(map(str, offsets))}?", yes)
    results = cluster.ask(lambda client: client.delete_records(offsets, validate_only=dry_run))
    documents = [_document(result, offsets[tp]) for tp, result in results.items()]
    refused = sum(result.error_code is not ErrorCode.NONE for result in results.values())
    would = "would be " if dry_run else ""
    say(f"records of {counted(len(results) - refused, 'partition')} {would}deleted, {refused} refused")
    columns = ("topic", "partition", "offset", "low_watermark", "outcome", "message")
    rows = (
        tuple((f"{would}deleted" if d["error"] == "NONE" else d["error"]) if c == "outcome" else d[c] for c in columns)
        for d in documents
    )
    write({"partitions": documents, "dry_run": dry_run}, cluster.form, columns, rows)
    if refused:
        raise typer.Exit(ExitCode.REFUSED)


def _wanted(
    partitions: Sequence[str] | None, before_offset: int | None, file: Path | None
) -> dict[TopicPartition, Offset]:
    """Map the chosen partitions to their new log start offsets."""
    if file is not None:
        if partitions or before_offset is not None:
            raise typer.BadParameter("--offset-json-file cannot be combined with partitions or --before-offset")
        return parse_offsets(read_input(file), str(file))
    if not partitions or before_offset is None:
        raise typer.BadParameter("pass partitions with --before-offset, or --offset-json-file")
    return dict.fromkeys(parse_partition_names(partitions), Offset(before_offset))


def _document(result: DeleteRecordsResult, offset: Offset) -> dict[str, Any]:
    return {
        "topic": result.topic,
        "partition": result.partition,
        "offset": offset,
        "low_watermark": result.low_watermark,
        "error": result.error_code.name,
        "message": result.error_message,
    }
