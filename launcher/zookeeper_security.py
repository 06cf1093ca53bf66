"""`klamm zookeeper-security-migration`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from msgspec import to_builtins

from admin.cli.options import FormatOption, run
from admin.cli.output import examples, say, write
from adoption.command_config import CommandConfig, read_command_config
from cluster.cli.documents import Format
from cluster.config.config import NodeConfig, check_zookeeper, read_credentials
from cluster.model.exit_codes import ExitCode
from cluster.tls.live import LiveMaterial
from cluster.tls.settings import TlsSettings
from cluster.zookeeper.kazoo_access_lists import KazooAccessLists
from cluster.zookeeper.login import Credentials
from cluster.zookeeper.security_migration import MigrationOutcome, SecurityMigration, open_znodes

app = typer.Typer()

_SESSION_MS: Final = 30_000
_IN_FLIGHT: Final = 100
_SHOWN: Final = 10


class Acl(StrEnum):
    """Says what becomes of the znodes, as Kafka's tool calls it."""

    SECURE = "secure"
    UNSECURE = "unsecure"


def _address(text: str) -> str:
    try:
        return check_zookeeper(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}") from error


@app.command(
    "zookeeper-security-migration",
    epilog=examples(
        "klamm zookeeper-security-migration --zookeeper.acl secure --zookeeper zk-1:2281/klamm "
        "--command-config owner.properties --dry-run",
        "klamm zookeeper-security-migration --zookeeper.acl unsecure --zookeeper zk-1:2181/klamm "
        "--command-config owner.properties",
        exit_codes="0 done; 1 failed; 2 wrong usage; 3 some znodes belong to others.",
    ),
)
def migrate(
    *,
    acl: Annotated[
        Acl,
        typer.Option(
            "--zookeeper.acl",
            help="secure: the identity of this command owns every znode, others read; unsecure: everyone may do all.",
        ),
    ],
    zookeeper: Annotated[
        str,
        typer.Option(
            "--zookeeper",
            "--zookeeper.connect",
            metavar="HOST:PORT[,…][/CHROOT]",
            callback=_address,
            help="ZooKeeper of the cluster.",
        ),
    ],
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            "--zk-tls-config-file",
            metavar="FILE",
            help="Properties file: zookeeper.ssl.*, or java.security.auth.login.config; the identity of the nodes.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only; nothing is changed.")] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Secure the znodes of a running cluster, or open them: replace the ACL of each that has another one.

    Znodes of the cluster are changed one by one, while it serves; run it again
    after an interruption, or when processes have created others meanwhile. Give
    all nodes the identity first, and zookeeper.set.acl=true before or after.
    """
    config = read_command_config(command_config)
    if acl is Acl.SECURE and not _has_identity(config):
        raise typer.BadParameter(
            "secure needs an identity that will own the znodes: a file with zookeeper.ssl.keystore.location, or "
            "java.security.auth.login.config",
            param_hint="--command-config",
        )
    outcome = run(_migrate(zookeeper, config, secures=acl is Acl.SECURE, dry_run=dry_run))
    verb = "would be changed" if dry_run else "changed"
    rows = [(verb, outcome.changed), ("as they should be", outcome.unchanged), ("refused", len(outcome.refused))]
    write(to_builtins(outcome), form, ("znodes", "number"), rows)
    if outcome.refused:
        shown = ", ".join(outcome.refused[:_SHOWN]) + (", …" if len(outcome.refused) > _SHOWN else "")
        say(f"they belong to another identity, which alone can change them: {shown}")
        raise typer.Exit(ExitCode.FINDINGS)


def _has_identity(config: CommandConfig) -> bool:
    return config.credentials is not None or (config.zookeeper_tls is not None and config.zookeeper_tls.has_keystore)


async def _migrate(zookeeper: str, config: CommandConfig, *, secures: bool, dry_run: bool) -> MigrationOutcome:
    async with _session(zookeeper, config.credentials, config.zookeeper_tls, _SESSION_MS) as client:
        return await SecurityMigration(client, say, secures=secures, dry_run=dry_run).run()


async def open_znodes_of(config: NodeConfig, timeout_s: float) -> list[str]:
    """List the znodes that everyone may change, with the identity of a node. Raises ClusterError, TimeoutError."""
    settings = config.settings
    async with asyncio.timeout(timeout_s):
        identity = read_credentials(settings), settings.zookeeper_tls
        async with _session(config.zookeeper, *identity, round(timeout_s * 1000)) as client:
            return await open_znodes(client)


@asynccontextmanager
async def _session(
    zookeeper: str, credentials: Credentials | None, tls: TlsSettings | None, connection_timeout_ms: int
) -> AsyncIterator[KazooAccessLists]:
    client = KazooAccessLists(
        zookeeper,
        session_timeout_ms=_SESSION_MS,
        connection_timeout_ms=connection_timeout_ms,
        max_in_flight=_IN_FLIGHT,
        credentials=credentials,
        creates_chroot=False,
        tls=None if tls is None else LiveMaterial(tls, "zookeeper"),
    )
    client.listen(lambda _: None)
    await client.start_session()
    try:
        yield client
    finally:
        await client.close()
