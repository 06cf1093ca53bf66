"""`klamm audit`: run the Spark job, show its report, check logs for tampering. Only `run` starts Spark.

The result goes to stdout, messages to stderr. Exit codes: `cluster.model.exit_codes`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import typer

from audit.commands import publish as topic_command
from audit.commands import table_commands
from audit.commands.heads_options import (
    BootstrapOption,
    CommandConfigOption,
    HeadsOption,
    RequireHeadsOption,
    ZooKeeperOption,
    given_heads,
)
from audit.commands.input_options import LogDirOrUrlOption, inputs_of
from audit.commands.joined import Joined
from audit.commands.spark_options import (
    CheckpointOption,
    ClassArchiveOption,
    ConfOption,
    CoresOption,
    MasterOption,
    MemoryOption,
    PartitionsOption,
    TriggerOption,
    package,
    spark_settings,
)
from audit.commands.table_commands import KeepDaysOption, opened_output
from audit.commands.topic_options import CONNECTOR_VERSION, ConnectorOption, KafkaOption, TopicOption
from audit.report.report_text import show_result, show_verification
from cluster.cli.documents import Format, write_document
from cluster.model.errors import ConfigError, StartupError
from cluster.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from audit.batches.decisions import Replayer
    from audit.options import AuditOptions
    from audit.report.alerts import Alerts
    from audit.report.report import AuditResult
    from audit.rules.limits import Limits
    from audit.spark.settings import SparkSettings
    from audit.storage.file_store import Location
    from audit.topic.topics import Topic

app = typer.Typer(
    no_args_is_help=True, help="Audit state-change logs: check invariants, report findings, detect tampering."
)


def _epilog(example: str) -> str:
    return f"Example:\n  {example}\nExit codes: 0 clean; 1 the audit failed; 2 wrong usage; 3 findings; 4 incomplete."


LogDirOption = Annotated[
    list[Path],
    typer.Option("--log-dir", exists=True, file_okay=False, help="Folder with state-change logs. Repeatable."),
]
OutputOption = Annotated[
    str,
    typer.Option("--output", metavar="DIR|URI", help="Folder for findings and checkpoints; also s3a://BUCKET/FOLDER."),
]
FormatOption = Annotated[Format, typer.Option("-o", "--format", help="Output format.")]
ExpectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--expect", metavar="NODE", help="A node that has a log, such as broker-4: incomplete without it. Repeatable."
    ),
]
ReplayOption = Annotated[
    bool, typer.Option("--replay", help="Replay what controllers decided, as 'klamm audit replay' does.")
]
RuleLimitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rule-limit",
        metavar="NAME=VALUE",
        help="Limit of a rule about time, such as leaderless=60 (seconds); see docs/audit.md. Repeatable.",
    ),
]
FollowOption = Annotated[bool, typer.Option("--follow", help="Follow the logs until Ctrl-C. This is the default.")]
MetricsOption = Annotated[
    str, typer.Option("--metrics-listen", metavar="HOST:PORT", help="Serve metrics to Prometheus here while it runs.")
]
UntilCleanOption = Annotated[
    bool, typer.Option("--until-clean", help="Stop once the present logs are read and the verdict is clean.")
]
RunTimeOption = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=1, max=604_800, help="Seconds after which --follow or --until-clean ends as it stands."
    ),
]
WebhookOption = Annotated[str, typer.Option(metavar="URL", help="Post new and withdrawn findings to this address.")]
DeltaOption = Annotated[
    bool,
    typer.Option(
        "--delta", help="Publish the tables as Delta tables after each batch, now and in later runs; see 'audit delta'."
    ),
]
TimezoneOption = Annotated[
    str,
    typer.Option("--timezone", metavar="NAME", help="Time zone of the local times in logs of Apache Kafka."),
]
RequireTraceOption = Annotated[
    bool, typer.Option("--require-trace", help="Incomplete unless the logs of Apache Kafka are of level TRACE.")
]
LimitOption = Annotated[int, typer.Option("--limit", min=0, help="Show at most this many findings.")]


@app.command(epilog=_epilog("klamm audit run --once --log-dir .klamm/state-changes --output report"))
def run(
    context: typer.Context,
    output: OutputOption,
    *,
    log_dir: LogDirOrUrlOption = None,
    kafka: KafkaOption = "",
    topic: TopicOption = "",
    once: Annotated[bool, typer.Option("--once", help="Stop once the present logs have been read.")] = False,
    follow: FollowOption = False,
    until_clean: UntilCleanOption = False,
    timeout: RunTimeOption = None,
    metrics_listen: MetricsOption = "",
    expect: ExpectOption = None,
    keep_days: KeepDaysOption = None,
    delta: DeltaOption = False,
    heads: HeadsOption = None,
    zookeeper: ZooKeeperOption = "",
    bootstrap: BootstrapOption = "",
    command_config: CommandConfigOption = None,
    require_heads: RequireHeadsOption = False,
    timezone: TimezoneOption = "UTC",
    require_trace: RequireTraceOption = False,
    webhook: WebhookOption = "",
    replay: ReplayOption = False,
    form: FormatOption = Format.TABLE,
    limit: LimitOption = 20,
    master: MasterOption = "",
    memory: MemoryOption = "1g",
    cores: CoresOption = None,
    shuffle_partitions: PartitionsOption = None,
    trigger: TriggerOption = 5.0,
    conf: ConfOption = None,
    checkpoint: CheckpointOption = "",
    class_archive: ClassArchiveOption = True,
    kafka_connector: ConnectorOption = CONNECTOR_VERSION,
    rule_limit: RuleLimitOption = None,
) -> None:
    """Check the invariants on state-change logs with Spark, and follow the logs until Ctrl-C.

    Continues the last run with this --output. Needs the extra 'audit' and Java 17.
    """
    from audit.options import AuditOptions  # noqa: PLC0415 - a second of imports that --help must not pay.

    inputs, local = inputs_of(log_dir, kafka, topic, kafka_connector, until_clean=until_clean)
    options = AuditOptions(
        timezone=time_zone(timezone),
        once=once,
        trigger_seconds=trigger,
        timeout_seconds=_run_time(timeout, once, follow, until_clean),
        keep_days=keep_days,
        delta=delta,
        heads=given_heads(context, heads, zookeeper, bootstrap, command_config),
        **_required(expect, trace=require_trace, heads=require_heads),
        checkpoint=checkpoint,
        limits=_rule_limits(rule_limit or []),
        replayer=_replayer(context) if replay else None,
    )
    alerts = partial(_alerts, local, output, metrics_listen, webhook, until_clean=until_clean)
    spark = spark_settings(master, memory, cores, shuffle_partitions, conf, class_archive=class_archive)
    show_result(_audited(inputs, output, options, spark, alerts), output, form, limit)


def _alerts(
    folders: Sequence[Path], output: "Location", metrics_listen: str, webhook: str, *, until_clean: bool
) -> "Alerts":
    from audit.report.alerts import Alerts  # noqa: PLC0415

    return Alerts(folders, output, metrics_listen, webhook, until_clean=until_clean)


def _audited(
    inputs: "Sequence[Path | str] | Topic",
    output: "Location",
    options: "AuditOptions",
    settings: "SparkSettings",
    alerts: "Callable[[], Alerts]",
) -> "AuditResult":
    from audit.job import run_audit  # noqa: PLC0415

    with _errors(), alerts() as each:
        result = run_audit(
            inputs,
            output,
            options,
            on_progress=each.progress,
            stop=each.retry,
            listener=each.listener,
            settings=settings,
            say=partial(typer.echo, err=True),
        )
        each.finish(result)
    return result


def _replayer(context: typer.Context) -> "Callable[[], Replayer]":
    joined: Joined = context.obj
    return joined.make_replayer


def _required(expect: list[str] | None, *, trace: bool, heads: bool) -> dict[str, Any]:
    """The options of what has to be there, so that an audit is complete."""
    return {"expected_nodes": _nodes(expect or []), "require_trace": trace, "require_heads": heads}


def _run_time(timeout: float | None, once: bool, follow: bool, until_clean: bool) -> float | None:
    """Return the time-out of the run; refuse modes that exclude one another."""
    if once + follow + until_clean > 1:
        raise typer.BadParameter("--once, --follow and --until-clean are mutually exclusive", param_hint="--once")
    if once and timeout is not None:
        raise typer.BadParameter("is for --follow and --until-clean; --once ends by itself", param_hint="--timeout")
    return timeout


def time_zone(name: str) -> str:
    """Check the name of a time zone. Raises BadParameter."""
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise typer.BadParameter(
            f"{name}: no such time zone; give one of the time zone database, such as Europe/Berlin",
            param_hint="--timezone",
        ) from None


@contextmanager
def _errors() -> Iterator[None]:
    """Say on one line what failed, and exit."""
    from audit.spark.errors import AuditFailedError  # noqa: PLC0415
    from audit.storage.committed_state import OutputError  # noqa: PLC0415
    from audit.topic.topics import TopicError  # noqa: PLC0415

    try:
        yield
    except ConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(ExitCode.USAGE) from None
    except (AuditFailedError, OutputError, StartupError, TopicError, OSError) as error:
        typer.echo(f"the audit failed: {error}", err=True)
        raise typer.Exit(ExitCode.REFUSED) from None


@app.command(epilog=_epilog("klamm audit report --output report -o json"))
def report(
    output: OutputOption,
    *,
    expect: ExpectOption = None,
    require_trace: RequireTraceOption = False,
    require_heads: RequireHeadsOption = False,
    form: FormatOption = Format.TABLE,
    limit: LimitOption = 20,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", dir_okay=False, help="Write it to this file, to be read in a browser."),
    ] = None,
) -> None:
    """Show the findings of all runs with this --output so far.

    --html writes one file with findings, timelines and failovers; it needs no
    network.
    """
    from audit.report.html.page import write_report  # noqa: PLC0415
    from audit.report.report import read_result  # noqa: PLC0415

    expected = _nodes(expect or [])
    with opened_output(output, "there is no report") as folder:
        folder.check()
        if html is not None:
            typer.echo(f"the report is {write_report(output, html, expected)}", err=True)
        result = read_result(output, expected, require_trace=require_trace, require_heads=require_heads)
        show_result(result, output, form, limit)


@app.command(epilog="Example:\n  klamm audit explain one-leader-per-epoch\nExit codes: 0 done; 2 no such rule.")
def explain(rule: Annotated[str, typer.Argument(help="Rule id; without it all rules are listed.")] = "") -> None:
    """Say what a rule of the audit means, and what to look at when it was violated."""
    from audit.report.rule_catalogue import EXPLANATIONS  # noqa: PLC0415

    if rule and rule not in EXPLANATIONS:
        raise typer.BadParameter(f"{rule}: no such rule; 'klamm audit explain' lists them", param_hint="RULE")
    for name in [rule] if rule else sorted(EXPLANATIONS):
        found = EXPLANATIONS[name]
        typer.echo(f"{name} ({found.severity})\n    {found.says}\n    Look at {found.check_next}.")


@app.command(epilog=_epilog("klamm audit verify --log-dir .klamm/state-changes"))
def verify(
    context: typer.Context,
    log_dir: LogDirOption,
    *,
    heads: HeadsOption = None,
    zookeeper: ZooKeeperOption = "",
    bootstrap: BootstrapOption = "",
    command_config: CommandConfigOption = None,
    require_heads: RequireHeadsOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Check the logs themselves: finds lines that are missing, altered or repeated, and logs that were cut.

    Compares numbers, hash chains, and what nodes have seen of one another's
    logs. Needs the extra 'audit', but no Java.
    """
    from audit.records.findings import CLEAN, FINDINGS  # noqa: PLC0415
    from audit.verification import verify_logs  # noqa: PLC0415

    given = given_heads(context, heads, zookeeper, bootstrap, command_config)
    result = verify_logs(log_dir, given, require_heads=require_heads)
    with suppress(BrokenPipeError):
        if form is not Format.TABLE:
            write_document(msgspec.to_builtins(result), form)
        else:
            show_verification(result)
    codes = {CLEAN: ExitCode.OK, FINDINGS: ExitCode.FINDINGS}
    raise typer.Exit(codes.get(result.verdict, ExitCode.INCOMPLETE))


app.command("query", epilog=table_commands.QUERY_EPILOG)(table_commands.query)
app.command("compact", epilog=table_commands.COMPACT_EPILOG)(table_commands.compact)
app.command("delta", epilog=table_commands.DELTA_EPILOG)(table_commands.delta)
app.command("rebuild", epilog=table_commands.REBUILD_EPILOG)(table_commands.rebuild)
app.command("rejudge", epilog=table_commands.REJUDGE_EPILOG)(table_commands.rejudge)
app.command("publish", epilog=topic_command.EPILOG)(topic_command.publish)
app.command(epilog="Example:\n  klamm audit package --output klamm-audit.zip\nExit codes: 0 done; 1 failed.")(package)


def _rule_limits(given: Sequence[str]) -> "Limits | None":
    from audit.rules.limits import LimitError, parse_limits  # noqa: PLC0415

    try:
        return parse_limits(given) if given else None
    except LimitError as error:
        raise typer.BadParameter(str(error), param_hint="--rule-limit") from None


def _nodes(names: Sequence[str]) -> list[str]:
    for name in names:
        kind, _, number = name.partition("-")
        if kind not in {"broker", "controller"} or not number.isdecimal():
            raise typer.BadParameter(f"{name}: a node is named like broker-4 or controller-1001", param_hint="--expect")
    return list(names)
