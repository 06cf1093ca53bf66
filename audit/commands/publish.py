"""`klamm audit publish`: ships state-change logs to a Kafka topic."""

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from audit.commands.topic_options import KafkaOption, TopicOption
from cluster.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from audit.topic.publisher import Publisher
    from audit.topic.topics import TopicError

EPILOG: Final = (
    "Example:\n  klamm audit publish --kafka localhost:9092 --topic state-changes --log-dir .klamm/state-changes "
    "--follow\nExit codes: 0 done; 1 not published; 2 wrong usage; 4 some files could not be."
)


def publish(
    kafka: KafkaOption,
    topic: TopicOption,
    log_dir: Annotated[
        list[Path],
        typer.Option("--log-dir", exists=True, file_okay=False, help="Folder with state-change logs. Repeatable."),
    ],
    *,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with what is added, until Ctrl-C.")] = False,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="FILE",
            dir_okay=False,
            help="File that keeps its progress. Default: published-TOPIC.json in the first --log-dir.",
        ),
    ] = None,
) -> None:
    """Ship the lines of state-change logs to a Kafka topic, for 'klamm audit run --kafka'.

    Continues where it stopped. Run it on each node, or where the logs are
    collected; the topic must exist, with any number of partitions, which
    must not change. Lines that a crash makes it repeat are no finding.
    """
    from audit.topic.brokers import topic_ends  # noqa: PLC0415
    from audit.topic.publisher import PublishedFile, Publisher, is_of_another_topic  # noqa: PLC0415
    from audit.topic.topics import Topic, TopicError  # noqa: PLC0415

    to = Topic(kafka, topic)
    file = PublishedFile(log_dir[0] / f"published-{topic}.json" if state is None else state)
    try:
        published, ends = file.read(topic), topic_ends(to)
        if is_of_another_topic(published, ends):
            typer.echo(f"{to}: has fewer records than were published to it: all is published again", err=True)
            published.positions.clear()
            published.ends.clear()
        publisher = Publisher(log_dir, to, file, published)
        asyncio.run(_follow(publisher) if follow else publisher.publish())
    except (TopicError, OSError) as error:
        typer.echo(f"not published: {error}", err=True)
        raise typer.Exit(ExitCode.REFUSED) from None
    typer.echo(f"{publisher.lines} lines were published; {file.path} has how far")
    left_out = publisher.left_out()
    for line in left_out:
        typer.echo(line, err=True)
    if left_out:
        raise typer.Exit(ExitCode.INCOMPLETE)


async def _follow(publisher: "Publisher") -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await publisher.follow(stop, _say)


def _say(error: "TopicError") -> None:
    typer.echo(f"{error}; trying again", err=True)
