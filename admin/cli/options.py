"""Options that several commands share, and the connection to a cluster that they describe."""

import asyncio
import functools
import inspect
import signal
import sys
from collections.abc import Callable, Coroutine
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import typer

from admin.client import AdminClient
from admin.node_search import NoAnswerError
from cluster import bounds
from cluster.errors import ConfigError, StartupError
from cluster.local_cluster import ClusterState, read_cluster_state
from cluster.process.documents import Format
from cluster.process.identity import GONE, state_of

_T = TypeVar("_T")

DEFAULT_DATA = Path(".klamm")


class Acks(StrEnum):
    """Kafka's acks: which replicas must have a record before it is acknowledged."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


DataOption = Annotated[
    Path,
    typer.Option(
        "--data", envvar="KLAMM_CLUSTER", help="Data folder of the cluster that 'klamm up' started.", show_default=True
    ),
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        envvar="KLAMM_BOOTSTRAP",
        metavar="HOST:PORT[,…]",
        help="Addresses of any controllers or brokers of the cluster. Overrides --data.",
    ),
]
TIMEOUT_MAX_S: Final = 2_000_000
"""About three weeks; in milliseconds it fits into the int32 fields of requests."""
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0.1, max=TIMEOUT_MAX_S, help="Give up after this many seconds.")
]
FormatOption = Annotated[Format, typer.Option("-o", "--format", help="Output format.")]
ConfigOption = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Set a config. Repeatable.")]
ShowConfigsOption = Annotated[bool, typer.Option("--configs", help="Show the configs in effect and their source.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, without changing anything.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt.")]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for completion, up to --timeout seconds.")]


def connect(bootstrap: str | None, data: Path, timeout_s: float) -> AdminClient:
    """A client for the named addresses, or else for the embedded cluster of the folder.

    Raises ConfigError for a malformed address and StartupError when the folder holds no cluster.
    """
    if bootstrap is None:
        members = _running_cluster(data).nodes
        names = {member.address: f"{member.role} {member.id}" for member in members}
        return AdminClient(list(names), timeout_ms=int(timeout_s * 1000), names=names)
    addresses = [a.strip() for a in bootstrap.split(",") if a.strip()]
    errors = [
        f"--bootstrap: {a!r}: must be HOST:PORT with a port from 1 to 65535" for a in addresses if not _is_address(a)
    ]
    if not addresses:
        errors = [f"--bootstrap: {bootstrap!r}: must be HOST:PORT[,HOST:PORT…]"]
    if errors:
        raise ConfigError(errors)
    return AdminClient(addresses, timeout_ms=int(timeout_s * 1000))


def _running_cluster(data: Path) -> ClusterState:
    """The cluster of a data folder. Raises StartupError when there is none, or none of its nodes is running."""
    state = read_cluster_state(data)
    if all(state_of(member.process) == GONE for member in state.nodes):
        where = "" if data == DEFAULT_DATA else f" --data {data}"
        raise StartupError(f"the cluster in {data} is stopped; start it with 'klamm up --detach{where}'")
    return state


class Cluster(NamedTuple):
    """Which cluster a command talks to, for how long it tries, and how it answers."""

    bootstrap: str | None
    data: Path
    timeout: float
    form: Format

    def ask(self, request: Callable[[AdminClient], Coroutine[Any, Any, _T]], *, check: str = "") -> _T:
        """Connect, and run the part of a command that needs a client.

        `check`: the command that shows whether the change was carried out, for when its answer was lost.
        """

        async def main() -> _T:
            async with connect(self.bootstrap, self.data, self.timeout) as client:
                return await request(client)

        try:
            return run(main())
        except NoAnswerError as error:
            if not (check and error.may_be_done):
                raise
            raise StartupError(f"{error}: check with '{check}' before you repeat it") from error


_OPTIONS_OF_CLUSTER: Final = {
    "bootstrap": BootstrapOption,
    "data": DataOption,
    "timeout": TimeoutOption,
    "form": FormatOption,
}


def talks_to_cluster(timeout: float = 30) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that make up its keyword argument `cluster`. `timeout`: the default, in seconds."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_options(**values: Any) -> None:
            cluster = Cluster(**{name: values.pop(name) for name in _OPTIONS_OF_CLUSTER})
            command(**values, cluster=cluster)

        defaults: dict[str, object] = {
            "bootstrap": None,
            "data": DEFAULT_DATA,
            "timeout": timeout,
            "form": Format.TABLE,
        }
        signature = inspect.signature(command)
        own = [parameter for name, parameter in signature.parameters.items() if name != "cluster"]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation)
            for name, annotation in _OPTIONS_OF_CLUSTER.items()
        ]
        # Typer builds the command line from the signature and the annotations.
        with_options.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
        with_options.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
        return with_options

    return decorate


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


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    number = bounds.parse_number(bounds.PORT, port)
    return bool(host and colon and number)
