"""`klamm adopt` and `klamm leave`."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from msgspec.structs import replace

from admin.cli.options import FormatOption, run
from admin.cli.output import examples, say, write
from adoption.broker_survey import ask_all
from adoption.command_config import CommandConfig, read_command_config
from adoption.execution import AdoptionOutcome, Execution
from adoption.findings import Findings, examine
from adoption.handover import Handover, Handovers, why_not_complete
from adoption.refusals import releases_of
from adoption.survey import Survey, SurveyedBroker
from adoption.wanted import protocol_of
from adoption.zookeeper_survey import survey_zookeeper
from cluster.cli.documents import Format
from cluster.config.config import check_zookeeper
from cluster.model.errors import ClusterError
from cluster.model.exit_codes import ExitCode
from cluster.model.takeover import AdoptedMode
from cluster.process.local_cluster import owner_properties_of, read_cluster_state
from cluster.tls.live import LiveMaterial
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.port import ZooKeeper

_T = TypeVar("_T")
_SESSION_MS: Final = 30_000
_ASK_S: Final = 30
_WAIT_MAX_S: Final = 86_400
_COLUMNS: Final = ("broker", "release", "protocol", "rack", "listeners", "obeys")
_EXIT_CODES: Final = "0 done; 1 refused, failed or timed out; 2 wrong usage; 3 a dry run found what forbids adoption."

app = typer.Typer()


def _address(text: str | None) -> str | None:
    try:
        return None if text is None else check_zookeeper(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}") from error


ZooKeeperOption = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT[,…][/CHROOT]",
        callback=_address,
        help="ZooKeeper of the Kafka cluster.",
        show_default=False,
    ),
]
LocalDataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="Instead of --zookeeper: the data folder of a cluster that 'klamm up --kafka' started.",
        show_default=False,
    ),
]
CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Properties file: ssl.* and sasl.* for brokers; credentials of ZooKeeper.",
    ),
]


def _wait(seconds: float) -> float:
    if not 0 < seconds <= _WAIT_MAX_S:
        raise typer.BadParameter(f"{seconds:g}: must be more than 0 and at most {_WAIT_MAX_S}")
    return seconds


TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="S", callback=_wait, help="How long to wait for the takeover.")
]


@app.command(
    epilog=examples(
        "klamm adopt --zookeeper zk1:2181,zk2:2181/kafka",
        "klamm adopt --zookeeper zk1:2181 --execute --mode persistent",
        "klamm adopt --data .klamm --execute   (a cluster of 'klamm up --kafka --config klamm.takeover=never')",
        exit_codes=_EXIT_CODES,
    )
)
def adopt(
    *,
    zookeeper: ZooKeeperOption = None,
    data: LocalDataOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look only; the default.")] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Adopt it; if not every broker obeys, give it back.")
    ] = False,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="atomic|persistent",
            help="How klamm takes over. Default: as the adoption says, else atomic.",
        ),
    ] = None,
    command_config: CommandConfigOption = None,
    timeout: TimeoutOption = 300,
    form: FormatOption = Format.TABLE,
) -> None:
    """Look at a running Apache Kafka cluster: what klamm's controllers would change, and what forbids it.

    Starts no process: it prints the commands of the controllers. With --execute it lets them take over.
    """
    if dry_run and execute:
        raise typer.BadParameter("--dry-run and --execute exclude each other")
    zookeeper, config = _cluster(zookeeper, data, command_config)
    wanted = None if mode is None else _mode(mode)
    survey = run(_with_zookeeper(zookeeper, config, lambda client: _survey(client, config)))
    chosen = wanted or ("atomic" if survey.adoption is None else survey.adoption.mode)
    findings = examine(survey, zookeeper, chosen)
    if not execute or findings.refusals:
        _show(survey, findings, form, None)
        raise typer.Exit(_code_of_survey(findings, executes=execute))
    if form is Format.TABLE:
        _print(survey, findings)
    outcome = _execute(
        zookeeper, config, Execution(survey, zookeeper, chosen, access=config.brokers, timeout_s=timeout, say=say)
    )
    if form is not Format.TABLE:
        _show(
            survey, replace(findings, refusals=outcome.refusals), form, outcome.handover if outcome.is_adopted else None
        )
    elif outcome.refusals:
        _print_list("It cannot be adopted:", outcome.refusals)
    if outcome.handover is None:
        say("klamm: nothing was changed")
        raise typer.Exit(ExitCode.REFUSED)
    if not outcome.is_adopted:
        raise typer.Exit(ExitCode.REFUSED)


def _cluster(zookeeper: str | None, data: Path | None, command_config: Path | None) -> tuple[str, CommandConfig]:
    """Find the cluster's ZooKeeper, and how it and the brokers are reached. Raises BadParameter, ConfigError,
    StartupError.
    """
    if (zookeeper is None) is (data is None):
        raise typer.BadParameter("give --zookeeper, or --data for a cluster that 'klamm up --kafka' started")
    if data is None:
        assert zookeeper is not None, "one of the two"
        return zookeeper, read_command_config(command_config)
    state = read_cluster_state(data)
    if not state.kafka:
        raise typer.BadParameter(f"--data {data}: its brokers are klamm's own: there is nothing to adopt or to leave")
    return state.zookeeper, read_command_config(command_config or owner_properties_of(data, state))


def _execute(zookeeper: str, config: CommandConfig, execution: Execution) -> AdoptionOutcome:
    """Adopt; whatever ends it before it has succeeded, give the cluster back, with a session of its own."""
    try:
        outcome = run(_with_zookeeper(zookeeper, config, execution.adopt))
    except BaseException as error:
        if execution.withdrawal.is_due:
            say(f"klamm: {'interrupted' if isinstance(error, KeyboardInterrupt) else error}")
            _give_back(zookeeper, config, execution)
            raise typer.Exit(ExitCode.REFUSED) from error
        raise
    if execution.withdrawal.is_due:
        _give_back(zookeeper, config, execution)
    return outcome


def _give_back(zookeeper: str, config: CommandConfig, execution: Execution) -> None:
    say("klamm: giving the cluster back")
    try:
        is_back = run(_with_zookeeper(zookeeper, config, execution.give_back))
    except (ClusterError, KeyboardInterrupt) as error:
        say(f"klamm: the cluster is not given back ({error or 'interrupted'}): run 'klamm leave'")
        return
    if is_back:
        say("klamm: the cluster is as it was before")
    else:
        say("klamm: no broker became the active controller that all brokers obey: run 'klamm leave'")


@app.command(
    epilog=examples(
        "klamm leave --zookeeper zk1:2181,zk2:2181/kafka",
        "klamm leave --zookeeper zk1:2181 --keep",
        "klamm leave --data .klamm   (a cluster of 'klamm up --kafka')",
    )
)
def leave(
    *,
    zookeeper: ZooKeeperOption = None,
    data: LocalDataOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep /klamm and /controllers, for audits.")] = False,
    command_config: CommandConfigOption = None,
    timeout: TimeoutOption = 120,
) -> None:
    """Give a Kafka cluster back to the controllers of its brokers, and wait until every broker obeys one of them.

    Once no controller of klamm runs, what klamm has in ZooKeeper is deleted.
    """
    zookeeper, config = _cluster(zookeeper, data, command_config)
    ended = run(
        _with_zookeeper(
            zookeeper, config, lambda client: Handovers(client, config.brokers, timeout, say).leave(keeps=keep)
        )
    )
    _finish(ended, is_wanted=not ended.is_candidate, hint="the adoption is deleted; run 'klamm leave' again")


async def _with_zookeeper(address: str, config: CommandConfig, work: Callable[[ZooKeeper], Awaitable[_T]]) -> _T:
    client = KazooZooKeeper(
        address,
        session_timeout_ms=_SESSION_MS,
        connection_timeout_ms=_SESSION_MS,
        credentials=config.credentials,
        sets_acl=config.sets_acl,
        creates_chroot=False,
        tls=None if config.zookeeper_tls is None else LiveMaterial(config.zookeeper_tls, "zookeeper"),
    )
    client.listen(lambda _: None)
    await client.start_session()
    try:
        return await work(client)
    finally:
        await client.close()


async def _survey(client: ZooKeeper, config: CommandConfig) -> Survey:
    found = await survey_zookeeper(client)
    brokers = await ask_all(found.brokers, config.brokers, _ASK_S)
    has_certificate = config.zookeeper_tls is not None and config.zookeeper_tls.has_keystore
    return replace(found, brokers=brokers, has_credentials=config.credentials is not None or has_certificate)


def _mode(text: str) -> AdoptedMode:
    match text:
        case "atomic" | "persistent":
            return text
        case _:
            raise typer.BadParameter(f"--mode: {text!r}: must be atomic or persistent")


def _code_of_survey(findings: Findings, *, executes: bool) -> ExitCode:
    if not findings.refusals:
        return ExitCode.OK
    return ExitCode.REFUSED if executes else ExitCode.FINDINGS


def _finish(ended: Handover, *, is_wanted: bool, hint: str) -> None:
    if not (is_wanted and ended.is_complete):
        say(f"klamm: {why_not_complete(ended)}; {hint}")
        raise typer.Exit(ExitCode.REFUSED)


def _show(survey: Survey, findings: Findings, form: Format, ended: Handover | None) -> None:
    if form is Format.TABLE:
        _print(survey, findings)
        return
    document = {
        "cluster_id": survey.cluster_id,
        "controller": survey.controller,
        "controller_epoch": survey.controller_epoch,
        "brokers": [_document(broker) for broker in survey.brokers],
        "controllers": [{"id": id_, "address": one.address} for id_, one in sorted(survey.candidates.items())],
        "adoption": None if survey.adoption is None else survey.adoption.mode,
        "topics": survey.topics,
        "partitions": survey.partitions,
        "refusals": findings.refusals,
        "notes": findings.notes,
        "changes": findings.changes,
        "commands": findings.commands,
        "scrape_job": findings.scrape_job,
        "took_over": None if ended is None else {"controller": ended.controller, "obeyed_by": dict(ended.obeyed)},
    }
    write(document, form, _COLUMNS, ())


def _document(broker: SurveyedBroker) -> dict[str, Any]:
    protocol = protocol_of(broker)
    return {
        "broker": broker.id,
        "release": releases_of(broker) or None,
        "protocol": None if protocol is None else str(protocol),
        "rack": broker.registered.rack,
        "listeners": [f"{e.listener}://{e.address} ({e.security_protocol})" for e in broker.registered.endpoints],
        "obeys": None if broker.answers is None else broker.answers.controller,
    }


def _print(survey: Survey, findings: Findings) -> None:
    typer.echo(
        f"cluster {survey.cluster_id or '(no id)'}: {len(survey.brokers)} brokers, {survey.topics} topics, "
        f"{survey.partitions} partitions, controller {survey.controller}, epoch {survey.controller_epoch}\n"
    )
    rows = [_document(broker) for broker in survey.brokers]
    shown = [{**row, "listeners": " ".join(row["listeners"])} for row in rows]
    write({}, Format.TABLE, _COLUMNS, (tuple("" if v is None else v for v in row.values()) for row in shown))
    candidates = ", ".join(f"{one.id} ({one.address})" for one in survey.candidates.values())
    typer.echo(f"\ncandidates of klamm: {candidates or 'none'}")
    _print_list("It cannot be adopted:", findings.refusals)
    _print_list("To know before:", findings.notes)
    if findings.refusals:
        return
    _print_list("What changes:", findings.changes)
    if not survey.candidates:
        typer.echo("\nControllers to start, each on a machine of its own (HOST: where brokers and clients reach it):\n")
        typer.echo("\n\n".join(findings.commands))
    typer.echo(f"\nFor Prometheus:\n\n{findings.scrape_job}\n")


def _print_list(title: str, items: tuple[str, ...]) -> None:
    if items:
        typer.echo(f"\n{title}")
        for item in items:
            typer.echo(f"  - {item}")
