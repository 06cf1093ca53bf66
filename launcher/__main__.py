"""`klamm`: the list of all commands. What a command needs is imported when it runs.

Exit codes: `cluster.process.exit_codes`.
"""

import os
import sys
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from admin.cli import brokers, clusters, elect, features, reassign, topics
from admin.cli.consume import CONSUME_EXAMPLES, consume
from admin.cli.options import examples
from admin.cli.output import say
from admin.cli.produce import PRODUCE_EXAMPLES, produce
from admin.cli.story import STORY_EXAMPLES, story
from admin.cli.watch import WATCH_EXAMPLES, watch
from cluster.errors import ApiError, ClusterError, ConfigError
from cluster.process.exit_codes import ExitCode
from launcher import audits, benches, local_cluster, nodes
from launcher.checks import run_checks
from launcher.demo_command import DEMO_EXAMPLES, demo
from launcher.simulations import SIMULATE_EXAMPLES, simulate


class _Commands(TyperGroup):
    """All commands. A reader that closes the pipe early, such as `head`, is not a failure."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return None
        finally:
            try:
                typer.echo(nl=False)
            except BrokenPipeError:
                _close_stdout()


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
        typer.echo(f"klamm {version('klamm')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of `klamm` itself."""


_LOCAL: Final = "Cluster on this machine"
_CLIENTS: Final = "Cluster operations"
_PROCESSES: Final = "Single processes"
_CHECKS: Final = "Audit, simulation, tests"

app.command(rich_help_panel=_LOCAL, epilog=DEMO_EXAMPLES)(demo)
app.command(rich_help_panel=_LOCAL, epilog=local_cluster.UP_EXAMPLES)(local_cluster.up)
app.command(rich_help_panel=_LOCAL, epilog=local_cluster.DOWN_EXAMPLES)(local_cluster.down)
app.command(rich_help_panel=_LOCAL, epilog=local_cluster.STATUS_EXAMPLES)(local_cluster.status)
app.add_typer(topics.app, name="topics", rich_help_panel=_CLIENTS)
app.add_typer(clusters.app, name="cluster", rich_help_panel=_CLIENTS)
app.add_typer(brokers.app, name="brokers", rich_help_panel=_CLIENTS)
app.add_typer(reassign.app, name="reassign", rich_help_panel=_CLIENTS)
app.add_typer(elect.app, name="elect", rich_help_panel=_CLIENTS)
app.add_typer(features.app, name="features", rich_help_panel=_CLIENTS)
app.command(rich_help_panel=_CLIENTS, epilog=WATCH_EXAMPLES)(watch)
app.command(rich_help_panel=_CLIENTS, epilog=PRODUCE_EXAMPLES)(produce)
app.command(rich_help_panel=_CLIENTS, epilog=CONSUME_EXAMPLES)(consume)
app.command(rich_help_panel=_CLIENTS, epilog=STORY_EXAMPLES)(story)
app.command(rich_help_panel=_PROCESSES, epilog=nodes.ZOOKEEPER_EXAMPLES)(nodes.zookeeper)
app.command(rich_help_panel=_PROCESSES, epilog=nodes.CONTROLLER_EXAMPLES)(nodes.controller)
app.command(rich_help_panel=_PROCESSES, epilog=nodes.BROKER_EXAMPLES)(nodes.broker)
app.add_typer(audits.app, name="audit", rich_help_panel=_CHECKS)
app.command(rich_help_panel=_CHECKS, epilog=SIMULATE_EXAMPLES)(simulate)
app.add_typer(benches.app, name="bench", rich_help_panel=_CHECKS)
app.command(
    "test", rich_help_panel=_CHECKS, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(run_checks)


def main() -> None:
    """Run the command line. Failures of the environment or of the caller end with a message, not with a traceback."""
    if sys.stdin is None:
        # Started with stdin closed: read it as an empty file.
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    try:
        app(prog_name="klamm")
    except ConfigError as error:
        for line in error.errors:
            say(f"klamm: {line}")
        sys.exit(ExitCode.USAGE)
    except ApiError as error:
        for line in error_lines(error):
            say(f"klamm: {line}")
        sys.exit(ExitCode.REFUSED)
    except ClusterError as error:
        say(f"klamm: {error}")
        sys.exit(ExitCode.REFUSED)
    except OSError as error:
        if error.errno is None:
            raise
        # A file that cannot be written, or a full disk behind stdout.
        place = "" if error.filename is None else f"{error.filename}: "
        say(f"klamm: {place}{error.strerror}")
        _close_stdout()
        sys.exit(ExitCode.REFUSED)


def error_lines(error: ApiError) -> list[str]:
    """The message for an error: a single one with its field and value, several on a line each."""
    if len(error.violations) > 1:
        return [error.code.name, *(f"  {v.field}: {v.description}" for v in error.violations)]
    about = "" if error.field is None or error.value is None else f" ({error.field}: {error.value})"
    return [f"{error}{about}"]


if __name__ == "__main__":
    main()
