"""`klamm contexts`: clusters by name."""

from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from admin.cli.completions import context_names
from admin.cli.contexts_file import (
    LOCAL,
    Context,
    Contexts,
    changing_contexts,
    contexts_path,
    read_contexts,
    write_contexts,
)
from admin.cli.options import FormatOption
from admin.cli.output import examples, say, write
from admin.cli.target import find_target, parse_addresses
from cluster.cli.documents import Format
from cluster.config.client_properties import read_client_security
from cluster.model import bounds
from cluster.model.errors import StartupError

app = typer.Typer(no_args_is_help=True, help="Name clusters, and choose the one that commands connect to.")

_ExistingName = Annotated[str, typer.Argument(metavar="NAME", autocompletion=context_names)]


@app.command("list", epilog=examples("klamm contexts list", "klamm contexts list -o json"))
def list_(*, form: FormatOption = Format.TABLE) -> None:
    """List all contexts; the current one is marked.

    `local` is always there: the cluster that 'klamm up' started in the
    current folder.
    """
    known = read_contexts()
    contexts = [
        {
            "name": name,
            "current": name == known.current,
            "bootstrap": c.bootstrap or None,
            "data": c.data or None,
            "command_config": c.command_config or None,
        }
        for name, c in known.all.items()
    ]
    rows = [["*" if c["current"] else "", c["name"], c["bootstrap"], c["data"]] for c in contexts]
    write({"contexts": contexts, "file": str(contexts_path())}, form, ("current", "name", "bootstrap", "data"), rows)


@app.command(epilog=examples("klamm contexts show", "klamm contexts show production -o json"))
def show(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Default: where a command would connect to.", autocompletion=context_names),
    ] = None,
    *,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show one context, or which cluster commands connect to without options.

    The environment variables KLAMM_BOOTSTRAP, KLAMM_CLUSTER and KLAMM_CONTEXT
    take precedence over the current context.
    """
    target = find_target(context=name)
    row = {"bootstrap": target.bootstrap, "data": None if target.bootstrap is not None else str(target.data)}
    write(row, form, list(row), [list(row.values())])


@app.command(
    epilog=examples(
        "klamm contexts add production --bootstrap broker-1:9092,broker-2:9092",
        "klamm contexts add demo --data /tmp/klamm --use",
        "klamm contexts add secured --bootstrap broker-1:9092 --command-config admin.properties",
    )
)
def add(
    name: Annotated[str, typer.Argument(help="Up to 249 letters, digits, '.', '_' and '-'.")],
    *,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT[,…]", help="Addresses of any controllers or brokers.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of a cluster that 'klamm up' started.")] = None,
    command_config: Annotated[
        Path | None,
        typer.Option("--command-config", metavar="FILE", help="Properties: security.protocol and ssl.* of a client."),
    ] = None,
    use_: Annotated[bool, typer.Option("--use", help="Make it the current context.")] = False,
) -> None:
    """Add a context, or replace the one of this name."""
    if (bootstrap is None) is (data is None):
        raise typer.BadParameter("pass either --bootstrap or --data")
    if name == LOCAL or not bounds.TOPIC_NAME.accepts(name):
        raise typer.BadParameter(f"{name!r}: use letters, digits, '.', '_' and '-'; {LOCAL!r} is always there")
    addresses = "" if bootstrap is None else ",".join(parse_addresses(bootstrap))
    if command_config is not None:
        read_client_security(command_config)
    config = "" if command_config is None else str(command_config.resolve())
    context = Context(addresses, "" if data is None else str(data.resolve()), config)
    with changing_contexts() as known:
        path = write_contexts(Contexts(name if use_ else known.current, {**known.contexts, name: context}))
    say(f"context {name} written to {path}{', and is the current one' if use_ else ''}")


@app.command(epilog=examples("klamm contexts use production", "klamm contexts use local"))
def use(name: _ExistingName) -> None:
    """Make a context the current one, which commands connect to without options."""
    with changing_contexts() as known:
        context = known.named(name)
        write_contexts(replace(known, current=name))
    say(f"commands now connect to {name} ({context.text})")


@app.command(epilog=examples("klamm contexts remove production"))
def remove(name: _ExistingName) -> None:
    """Remove a context. If it is the current one, `local` becomes it."""
    with changing_contexts() as known:
        known.named(name)
        if name == LOCAL:
            raise StartupError(f"context {LOCAL!r} cannot be removed")
        left = {other: context for other, context in known.contexts.items() if other != name}
        write_contexts(Contexts(LOCAL if known.current == name else known.current, left))
    say(f"context {name} removed")
