"""`klamm`: the list of all commands. The module of a command is imported when it is run.

Exit codes: `cluster.model.exit_codes`.
"""

import gc
import os
import sys
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn

import typer
from typer._completion_classes import completion_init
from typer.core import TyperGroup

from admin.cli.output import examples, say
from cluster.model.errors import ApiError, ClusterError, ConfigError
from cluster.model.exit_codes import ExitCode
from cluster.model.printable import printable
from launcher.environment import unknown_variables

MODULES: Final = {
    "Cluster on this machine": {
        "demo": "launcher.demo.command",
        "up": "launcher.local_cluster",
        "down": "launcher.local_cluster",
        "status": "launcher.local_cluster",
        "doctor": "launcher.doctor",
        "bundle": "launcher.bundle",
        "monitoring": "launcher.monitoring",
    },
    "Cluster operations": {
        "watch": "admin.cli.watch",
        "top": "admin.cli.top",
        "produce": "admin.cli.produce",
        "consume": "admin.cli.consume",
        "perf": "admin.cli.perf",
        "verify": "admin.cli.verify",
        "story": "admin.cli.story",
        "topics": "admin.cli.topics",
        "cluster": "admin.cli.clusters",
        "brokers": "admin.cli.brokers",
        "clients": "admin.cli.clients",
        "acls": "admin.cli.acls",
        "users": "admin.cli.users",
        "reassign": "admin.cli.reassign",
        "elect": "admin.cli.elect",
        "features": "admin.cli.features",
        "contexts": "admin.cli.contexts",
    },
    "Apache Kafka clusters": {
        "adopt": "adoption.commands",
        "leave": "adoption.commands",
    },
    "Single processes": {
        "zookeeper": "launcher.nodes",
        "controller": "launcher.nodes",
        "broker": "launcher.nodes",
        "health": "launcher.nodes",
        "certs": "launcher.certs",
        "zookeeper-security-migration": "launcher.zookeeper_security",
    },
    "Audit, simulation, tests": {
        "simulate": "launcher.simulations",
        "test": "launcher.checks",
        "audit": "launcher.audits",
        "bench": "launcher.benches",
    },
    "Shell": {"completion": "launcher.completion"},
}
"""By panel of the help: each command or group, and the module whose `app` is this group or has this command."""
_NODES: Final = "launcher.nodes"
"""Programs that import most when they are run, and collect garbage from then on."""
_SUMMARIES: Final = {
    "demo": "Demonstrate failover: kill a leader and the active controller under load, then check that no record "
    "is lost.",
    "up": "Start a cluster on this machine: ZooKeeper, controllers 1001… and brokers 1…, one process each.",
    "down": "Stop the processes of a cluster. Its data stays; 'klamm up' starts it again.",
    "status": "Show every process of a cluster: state, pid, addresses, and which controller is active.",
    "doctor": "Check this machine, the installation and the cluster: what is wrong, and what to do.",
    "bundle": "Write an archive for support: versions, checks, descriptions, health, configs, ends of logs, metrics.",
    "monitoring": "Write the configuration of Prometheus, Alertmanager and Grafana: targets, alerts, dashboards.",
    "watch": "Stream changes of leaders, ISRs, brokers, topics, reassignments and configs until Ctrl-C.",
    "top": "Show what a cluster is busy with: event queue, failovers, elections, ISR changes, busiest partitions.",
    "produce": "Produce one record per line of stdin or of a file; a tab separates key and value.",
    "consume": "Print the records of a topic to stdout, one per line, and follow new ones until Ctrl-C.",
    "perf": "Measure producing and consuming: rates, latencies, lost records.",
    "verify": "Compare the replicas of partitions with each other.",
    "story": "Show the history of one partition: its leaders, and every recorded change with its cause.",
    "topics": "Create, list, describe, alter and delete topics.",
    "cluster": "Describe the cluster, check its health, recover it.",
    "brokers": "List, describe, configure and shut down brokers.",
    "clients": "Limit what clients produce, consume and change, by their client id.",
    "acls": "List, add and remove access rules: who may do what.",
    "users": "Set and remove the passwords with which users authenticate (SCRAM), and limit what they do.",
    "reassign": "Move partitions between brokers, with the JSON files of kafka-reassign-partitions.",
    "elect": "Trigger preferred or unclean leader elections.",
    "features": "Describe, upgrade, downgrade and disable features.",
    "adopt": "Look at a running Apache Kafka cluster: what klamm's controllers would change, and what forbids it.",
    "leave": "Give a Kafka cluster back to the controllers of its brokers, and wait until every broker obeys one of "
    "them.",
    "zookeeper": "Run a standalone ZooKeeper server in the foreground. Prints its address.",
    "controller": "Run one controller in the foreground. It competes for `/controller`; one controller is active at a "
    "time.",
    "broker": "Run one broker in the foreground: replicated partition logs, produce and fetch.",
    "health": "Check one controller or broker by its metrics port: active, standby or registered.",
    "certs": "Make certificates for development: an authority, nodes, clients.",
    "zookeeper-security-migration": "Secure the znodes of a running cluster, or open them: replace the ACL of each "
    "that has another one.",
    "simulate": "Run simulated clusters under random faults and check the protocol's invariants.",
    "test": "Run all checks of the repository: format, lint, types, import contracts, coverage of decisions, tests.",
    "audit": "Audit state-change logs: check invariants, report findings, detect tampering.",
    "contexts": "Name clusters, and choose the one that commands connect to.",
    "completion": "Print the completion script for a shell: commands, options, and names of topics and brokers.",
    "bench": "Benchmarks. They measure; only wrong results fail.",
}
"""What the list of commands says of each; for a command, the first paragraph of its help."""


class _Lazy:
    """A command or a group whose module is imported at the first use of more than its line in the list of commands."""

    hidden = deprecated = False

    def __init__(self, name: str, panel: str, module: str) -> None:
        self.name, self.rich_help_panel, self.short_help = name, panel, _SUMMARIES[name]
        self._module = module

    @cached_property
    def _command(self) -> Any:
        group = typer.main.get_group(import_module(self._module).app)
        if self._module != _NODES:
            gc.enable()
        return group.commands.get(self.name, group)

    def get_short_help_str(self, limit: int = 0) -> str:
        """Shorten the help for the list of commands that a shell completes."""
        return self.short_help

    def __getattr__(self, name: str) -> Any:
        return getattr(self._command, name)


class _Commands(TyperGroup):
    """All commands. Where a reader closes the pipe early, such as `head`, they end as other programs do."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        lazy: Any = {name: _Lazy(name, panel, module) for panel, of in MODULES.items() for name, module in of.items()}
        self.commands = {**lazy, **self.commands}

    def invoke(self, ctx: Any) -> Any:
        try:
            result = self._invoke(ctx)
        except BaseException:
            # A verdict that a command ends with stays what it is.
            _flush_stdout()
            raise
        if not _flush_stdout():
            # Not 0: a script must not take a check whose output was cut for one that found nothing.
            raise typer.Exit(ExitCode.PIPE_CLOSED)
        return result

    def _invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _reworded(error)
            raise
        except BrokenPipeError:
            raise typer.Exit(ExitCode.PIPE_CLOSED) from None


def _flush_stdout() -> bool:
    """Write what is left; whether somebody reads it."""
    try:
        typer.echo(nl=False)
    except BrokenPipeError:
        _close_stdout()
        return False
    return True


def _reworded(error: typer.BadParameter) -> str:
    """The message with the value and what it must be; as it is where the library did not make it.

    Recent versions of typer convert values by pydantic, whose error is the cause; others name the value themselves.
    """
    from pydantic import ValidationError

    from cluster.config.files import shown
    from cluster.config.validation_reasons import BOUNDED, reason

    if not isinstance(error.__cause__, ValidationError):
        return error.message
    (detail, *_) = error.__cause__.errors()
    option: Any = error.param
    least, most = getattr(option, "min", None), getattr(option, "max", None)
    if detail["type"] == "value_error":
        return reason(detail)
    bounded = detail["type"] in BOUNDED and least is not None and most is not None
    return f"{shown(detail['input'])}: {f'must be from {least:,} to {most:,}' if bounded else reason(detail)}"


def _close_stdout() -> None:
    """Replace stdout, because Python flushes it at exit and would print an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A Kafka-style cluster: controllers elected through ZooKeeper, brokers with replicated logs, and their audit.",
    epilog=examples(
        "klamm demo                                              (failovers under load, then an audit)",
        "klamm up --detach                                       (a cluster on this machine)",
        "klamm topics create orders --partitions 6",
        "seq 1000 | klamm produce orders",
        "klamm consume orders --from-beginning --until-end",
        "klamm cluster health",
        "klamm down",
        exit_codes="0 done; 1 refused, failed or timed out; 2 wrong usage; 3 a check found issues.",
    ),
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"klamm {version('klamm')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of `klamm` itself."""


def main() -> None:
    """Run the command line. Failures of the environment or of the caller end with a message, not with a traceback."""
    if sys.stdin is None:
        # Started with stdin closed: read it as an empty file.
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    # gRPC writes a line of its own for each refused handshake: a stranger could fill the disk. It reads this when it is
    # imported, which is later.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if "_KLAMM_COMPLETE" in os.environ:
        _complete()
    for line in unknown_variables(os.environ):
        say(f"klamm: {printable(line)}")
    try:
        app(prog_name="klamm")
    except ConfigError as error:
        for line in error.errors:
            say(f"klamm: {line}")
        sys.exit(ExitCode.USAGE)
    except ApiError as error:
        for line in error_lines(error):
            say(f"klamm: {printable(line)}")
        sys.exit(ExitCode.REFUSED)
    except ClusterError as error:
        say("\n".join(map(printable, f"klamm: {error}".split("\n"))))
        sys.exit(ExitCode.REFUSED)
    except OSError as error:
        if error.errno is None:
            raise
        # A file that cannot be written, or a full disk behind stdout.
        place = "" if error.filename is None else f"{error.filename}: "
        say(f"klamm: {printable(place)}{error.strerror}")
        _close_stdout()
        sys.exit(ExitCode.REFUSED)


def _complete() -> NoReturn:
    """Print names for a shell (launcher/completion.py); none where its variables are not what shells set."""
    completion_init()
    try:
        app(prog_name="klamm")
    except (KeyError, ValueError):
        sys.exit(ExitCode.USAGE)
    sys.exit(ExitCode.OK)


def error_lines(error: ApiError) -> list[str]:
    """Format an error: a single violation with its field and value, several on a line each."""
    if len(error.violations) > 1:
        return [error.code.name, *(f"  {v.field}: {v.description}" for v in error.violations)]
    about = "" if error.field is None or error.value is None else f" ({error.field}: {error.value})"
    return [f"{error}{about}"]


if __name__ == "__main__":
    main()
