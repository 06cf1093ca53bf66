"""Defines options that several commands share, and the connection to a cluster that they describe."""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import typer

from admin.cli.completions import context_names
from admin.cli.output import say_wait
from admin.cli.shared_options import with_options
from admin.cli.target import Target, find_target
from admin.connecting.client import AdminClient
from admin.connecting.node_search import NoAnswerError
from admin.connecting.waiting import OnWait
from cluster.cli.documents import Format
from cluster.cli.typed_command import name_cluster
from cluster.model.errors import StartupError

_T = TypeVar("_T")


class Acks(StrEnum):
    """Names Kafka's acks: which replicas must have a record before it is acknowledged."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


DataOption = Annotated[
    Path,
    typer.Option(
        "--data", envvar="KLAMM_CLUSTER", help="Data folder of the cluster that 'klamm up' started.", show_default=True
    ),
]
_BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT[,…]",
        help="Addresses of any controllers or brokers. \\[env: KLAMM_BOOTSTRAP]",
    ),
]
_TargetDataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Data folder of a cluster that 'klamm up' started. \\[env: KLAMM_CLUSTER]"),
]
_ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="A cluster that 'klamm contexts' knows. \\[env: KLAMM_CONTEXT]",
        autocompletion=context_names,
    ),
]
_CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Properties of a client, as Kafka's tools take them: security.protocol, ssl.*, sasl.*. "
        "\\[env: KLAMM_COMMAND_CONFIG]",
    ),
]
TIMEOUT_MAX_S: Final = 2_000_000
"""The longest timeout, about three weeks; in milliseconds it fits into the int32 fields of requests."""
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0.1, max=TIMEOUT_MAX_S, help="Give up after this many seconds.")
]
FormatOption = Annotated[Format, typer.Option("-o", "--format", help="Output format.")]
ConfigOption = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Set a config. Repeatable.")]
ShowConfigsOption = Annotated[bool, typer.Option("--configs", help="Show the configs in effect and their source.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, without changing anything.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt.")]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for completion, up to --timeout seconds.")]


class Cluster(NamedTuple):
    """Says which cluster a command talks to, for how long it tries, and in which format it answers."""

    target: Target
    timeout: float
    form: Format

    def ask(
        self,
        request: Callable[[AdminClient], Coroutine[Any, Any, _T]],
        *,
        check: str = "",
        on_wait: OnWait = say_wait,
        is_endless: bool = False,
    ) -> _T:
        """Connect, and run the part of a command that needs a client, all of it within the timeout.

        `check`: the command that shows whether the change was carried out, for when its answer was lost; `on_wait`:
        what says that it waits; `is_endless`: it follows the cluster, and the timeout is that of each question.
        """

        async def main() -> _T:
            async with self.target.connect(self.timeout, on_wait) as client:
                with nullcontext() if is_endless else client.within_timeout():
                    return await request(client)

        try:
            return run(main())
        except NoAnswerError as error:
            if check and error.may_be_done:
                raise StartupError(f"{error}: check with '{check}' before you repeat it") from error
            if self.target.lacks_processes():
                raise StartupError(f"{error}; 'klamm up --detach' starts the processes that do not run") from error
            raise


_TARGET_OPTIONS: Final[dict[str, tuple[Any, object]]] = {
    "bootstrap": (_BootstrapOption, None),
    "data": (_TargetDataOption, None),
    "context": (_ContextOption, None),
    "command_config": (_CommandConfigOption, None),
}
"""The annotation and the default of each parameter."""


def names_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that make up its keyword argument `target`."""
    return with_options(command, "target", _TARGET_OPTIONS, _target)


def _target(command_config: Path | None, **named: Any) -> Target:
    name_cluster(**named)
    return find_target(**named, command_config=command_config)


def talks_to_cluster(timeout: float = 30) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that make up its keyword argument `cluster`. `timeout`: the default, in seconds."""
    options = {**_TARGET_OPTIONS, "timeout": (TimeoutOption, timeout), "form": (FormatOption, Format.TABLE)}

    def make(timeout: float, form: Format, **named: Any) -> Cluster:
        return Cluster(_target(**named), timeout, form)

    return lambda command: with_options(command, "cluster", options, make)


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run one command's coroutine; KeyboardInterrupt when Ctrl-C ended it.

    The event loop listens for the signal itself. asyncio.run alone would miss one that comes just as the loop goes to
    sleep, or that the system delivers to a thread of gRPC, until something else happens. A process started with SIGINT
    ignored, as shells start background jobs, keeps ignoring it.
    """

    async def interruptible() -> _T:
        task = asyncio.current_task()
        assert task is not None, "a command runs as a task"
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
        return await main

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation at a terminal; "no" exits with 1. Without a terminal, as in scripts, do not ask."""
    if not yes and sys.stdin.isatty():
        typer.confirm(question, abort=True, err=True)
