"""`klamm certs`: certificates for development."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from admin.cli.output import examples, say
from cluster.model import bounds
from cluster.model.printable import counted
from cluster.tls.authority import (
    DEFAULT_HOSTS,
    RESERVED_NAMES,
    Subject,
    client,
    node,
    write_certificates,
    zookeeper,
)

app = typer.Typer(no_args_is_help=True, help="Make certificates for development: an authority, nodes, clients.")

_HOST: Final = re.compile(r"[A-Za-z0-9*]([A-Za-z0-9.:-]*[A-Za-z0-9])?|::1?")
_NODE_HELP: Final = "Its id, and the hosts it is reached by. Repeatable."


@app.callback()
def _certs() -> None:
    """Make certificates for development: an authority, nodes, clients."""


@app.command(
    epilog=examples(
        "klamm certs create --output certs --controller 1001 --broker 1 --zookeeper localhost --client admin",
        "klamm certs create --output certs --broker 4=broker-4.example,10.0.0.4   (by the authority there)",
        "klamm certs create --output new --authority certs --broker 1   (before the old one expires)",
        exit_codes="0 written; 1 a file is there already, or cannot be written; 2 wrong usage.",
    )
)
def create(
    *,
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="Folder for the files.")],
    authority: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the authority. Default: that of --output.")
    ] = None,
    controller: Annotated[list[str] | None, typer.Option(metavar="ID[=HOST,…]", help=_NODE_HELP)] = None,
    broker: Annotated[list[str] | None, typer.Option(metavar="ID[=HOST,…]", help=_NODE_HELP)] = None,
    zookeeper_: Annotated[
        str | None, typer.Option("--zookeeper", metavar="HOST,…", help="The hosts of a ZooKeeper server.")
    ] = None,
    client_: Annotated[
        list[str] | None, typer.Option("--client", metavar="NAME", help="A client by its name. Repeatable.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days until the certificates expire.")] = 365,
) -> None:
    """Write keys and certificates, one PEM file for each node and client, for ssl.keystore.location.

    The authority, for ssl.truststore.location, is ca.pem, and is made if there
    is none. Its key is ca-key.pem: keep it away from the nodes. Hosts are
    localhost, 127.0.0.1 and ::1 unless given. A node's id is in its
    certificate as klamm://broker/ID. Nothing is overwritten. For development
    and tests: in production use the authority that you have.
    """
    subjects = [
        *(_node("controller", text) for text in controller or ()),
        *(_node("broker", text) for text in broker or ()),
        *([] if zookeeper_ is None else [zookeeper(_hosts(zookeeper_, "--zookeeper"))]),
        *(_client(name) for name in client_ or ()),
    ]
    files = [subject.file for subject in subjects]
    if not subjects:
        raise typer.BadParameter("nothing to make: pass --controller, --broker, --zookeeper or --client")
    if twice := sorted({file for file in files if files.count(file) > 1}):
        raise typer.BadParameter(f"{', '.join(twice)}: named twice")
    for file in write_certificates(output, subjects, days, authority):
        typer.echo(file)
    say(f"they expire in {counted(days, 'day')}; trust them by ssl.truststore.location={output / 'ca.pem'}")


def _node(role: str, text: str) -> Subject:
    identifier, separator, hosts = text.partition("=")
    number = bounds.parse_number(bounds.BROKER_ID, identifier)
    if number is None:
        raise typer.BadParameter(f"{text!r}: must be ID or ID=HOST,… with a broker id", param_hint=f"--{role}")
    return node(role, number, _hosts(hosts, f"--{role}") if separator else DEFAULT_HOSTS)


def _client(name: str) -> Subject:
    why = RESERVED_NAMES.get(name)
    if why is None and not bounds.TOPIC_NAME.accepts(name):
        why = "use letters, digits, '.', '_' and '-'"
    if why is not None:
        raise typer.BadParameter(f"{name!r}: {why}", param_hint="--client")
    return client(name)


def _hosts(text: str, option: str) -> list[str]:
    hosts = [host.strip() for host in text.split(",")]
    if wrong := [host for host in hosts if len(host) > 253 or not _HOST.fullmatch(host)]:
        raise typer.BadParameter(f"{wrong[0]!r}: must be a host name or an IP address", param_hint=option)
    return hosts
