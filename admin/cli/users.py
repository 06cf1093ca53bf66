"""`klamm users`: who may authenticate with a password (SCRAM), and what users may produce, consume and change."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from admin.cli.broker_documents import write_configs
from admin.cli.options import Cluster, ConfigOption, DryRunOption, talks_to_cluster
from admin.cli.output import examples, say
from admin.cli.quotas import (
    DEFAULT,
    DeleteOption,
    OwnedQuotas,
    QuotaTarget,
    alter_quotas,
    checked_name,
    quotas_and_tool,
    quotas_of,
    quotas_text,
)
from admin.connecting.client import AdminClient
from cluster.cli.documents import Format, write_document, write_table
from cluster.model.errors import ApiError, ConfigError, ErrorCode
from cluster.requests.configs import USER_RESOURCE
from cluster.requests.users import (
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    ScramMechanism,
)
from cluster.sasl.mechanisms import SCRAM, SCRAM_SHA_512
from cluster.tls.guarded_files import read_guarded
from cluster.znodes.configs import DEFAULT_ENTITY, entity_name

app = typer.Typer(
    no_args_is_help=True,
    help="Set and remove the passwords with which users authenticate (SCRAM), and limit what they do.",
)
_PASSWORD_FILE = "--password-file"  # noqa: S105 - the name of an option.
_NUMBERS = {mechanism.key: mechanism for mechanism in ScramMechanism}

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The name of the user.", show_default=False)]

QuotaArgument = Annotated[
    str,
    typer.Argument(
        metavar="USER|default",
        help="A user, or 'default' for all that have no quota.",
        callback=checked_name,
        show_default=False,
    ),
]
ClientOption = Annotated[
    str | None,
    typer.Option(
        metavar="CLIENT|default",
        help="Of this user with this client id, or 'default' for any that has no quota.",
        callback=lambda value: None if value is None else checked_name(value),
    ),
]


def _mechanism(value: str) -> str:
    name = value.upper()
    if name not in SCRAM:
        raise typer.BadParameter(f"{value!r}: must be one of {', '.join(SCRAM)}")
    return name


MechanismOption = Annotated[
    str, typer.Option("--mechanism", metavar="NAME", help=" or ".join(SCRAM) + ".", callback=_mechanism)
]


@app.command(
    "set",
    epilog=examples(
        "klamm users set ann", "klamm users set ann --mechanism SCRAM-SHA-256 --password-file ann.password"
    ),
)
@talks_to_cluster()
def set_password(
    user: UserArgument,
    *,
    mechanism: MechanismOption = SCRAM_SHA_512,
    iterations: Annotated[int, typer.Option(min=4096, max=16_384, help="How often the password is hashed.")] = 4096,
    password_file: Annotated[
        Path | None, typer.Option(_PASSWORD_FILE, metavar="FILE", help="Read the password from here, not from you.")
    ] = None,
    cluster: Cluster,
) -> None:
    """Set the password of a user, and create the user if there is none.

    Without --password-file it is asked for, or read from stdin if that is no
    terminal. The password itself is not sent: the cluster gets what it is
    verified with, in ZooKeeper, where Apache Kafka's brokers and tools have
    the same. Sessions that have begun with a former password last on until
    they end (connections.max.reauth.ms).
    """
    from cluster.sasl.scram import salt_password

    made = salt_password(mechanism, _read_password(password_file), iterations)
    upsertion = ScramCredentialUpsertion(user, _NUMBERS[mechanism], made.iterations, made.salt, made.salted_password)
    cluster.ask(lambda connected: _alter(connected, user, [upsertion], []))
    _write(cluster, {"user": user, "mechanism": mechanism, "iterations": iterations}, f"password of user {user} set")


@app.command(epilog=examples("klamm users remove ann", "klamm users remove ann --mechanism SCRAM-SHA-256"))
@talks_to_cluster()
def remove(user: UserArgument, *, mechanism: MechanismOption = SCRAM_SHA_512, cluster: Cluster) -> None:
    """Remove the password of a user for one mechanism.

    With the last one the user is out at once, at klamm's own listeners.
    """
    deletion = ScramCredentialDeletion(user, _NUMBERS[mechanism])
    cluster.ask(lambda connected: _alter(connected, user, [], [deletion]))
    _write(cluster, {"user": user, "mechanism": mechanism}, f"password of user {user} removed")


@app.command("list", epilog=examples("klamm users list", "klamm users list -o json"))
@talks_to_cluster()
def list_users(*, cluster: Cluster) -> None:
    """List the users with a password or a quota, and the default quotas.

    Users of certificates and tokens are not stored anywhere; only their
    quotas are. Quotas of client ids, whoever the user is, are in
    'klamm clients list'.
    """

    async def main(connected: AdminClient) -> tuple[list[dict[str, Any]], str]:
        credentials = (await connected.describe_user_scram_credentials()).results
        quotas, tool = await quotas_and_tool(connected, "'klamm users alter'")
        return _listed([_document(result) for result in credentials], quotas), tool

    users, tool = cluster.ask(main)
    if cluster.form is not Format.TABLE:
        write_document({"users": users}, cluster.form)
    elif users:
        rows = [(user["user"], user["client"], _mechanisms(user), quotas_text(user["configs"])) for user in users]
        write_table(("user", "client", "mechanisms", "quotas"), rows)
    else:
        say(f"no user has a password or a quota; 'klamm users set' gives a password, {tool} a quota")


@app.command(epilog=examples("klamm users describe ann", "klamm users describe ann --client app -o json"))
@talks_to_cluster()
def describe(user: QuotaArgument, *, client: ClientOption = None, cluster: Cluster) -> None:
    """Show the mechanisms for which a user has a password, and its quotas.

    The quotas are those set for exactly this user, or with --client for this
    user with this client id. The first of them counts that is set for: user
    with client id, user, client id, each before its default.
    """
    owner = _owner(user, client)

    async def main(connected: AdminClient) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        if user == DEFAULT:
            return {"mechanisms": []}, await quotas_of(connected, owner)
        response = await connected.describe_user_scram_credentials([user])
        (result,) = connected.results_for([f"user {user}"], response.results)
        if result.error_code not in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND):
            raise ApiError(result.error_code, result.error_message or "refused", field="user", value=user)
        quotas = await quotas_of(connected, owner)
        if not result.credential_infos and not quotas:
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"{owner.text} has neither a password nor a quota of its own: 'klamm users list' shows who has",
                field="user",
                value=user,
            )
        return _document(result), quotas

    found, quotas = cluster.ask(main)
    if cluster.form is not Format.TABLE:
        write_document({**owner.fields, "mechanisms": found["mechanisms"], "configs": quotas}, cluster.form)
        return
    if found["mechanisms"]:
        write_table(("mechanism", "iterations"), [(m["mechanism"], m["iterations"]) for m in found["mechanisms"]])
    elif user != DEFAULT:
        say(f"user {user} has no password here")
    if quotas:
        write_configs(quotas)
    else:
        say(f"{owner.text} has no quota")


@app.command(
    epilog=examples(
        "klamm users alter ann --config producer_byte_rate=5000000",
        "klamm users alter CN=app,O=example --client reports --config consumer_byte_rate=5000000",
        "klamm users alter default --config request_percentage=50",
        "klamm users alter ann --delete-config producer_byte_rate --dry-run",
    )
)
@talks_to_cluster()
def alter(
    user: QuotaArgument,
    *,
    client: ClientOption = None,
    config: ConfigOption = None,
    delete_config: DeleteOption = None,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Set the quotas of a user, or of a user with a client id.

    The user is who has authenticated, by its principal without 'User:'; who
    has not is ANONYMOUS. The keys are those of 'klamm clients alter'. Of a
    key, the first counts that is set for: user with client id, user, client
    id, each before its default. All clients of a user share the user's.
    """
    suffix = "" if client is None else f" --client {shlex.quote(client)}"
    check = f"klamm users describe {shlex.quote(user)}{suffix}"
    alter_quotas(cluster, _owner(user, client), config, list(delete_config or ()), check, dry_run=dry_run)


def _owner(user: str, client: str | None) -> QuotaTarget:
    name, fields = _in_path(user), {"user": user}
    if client is not None:
        name, fields = f"{name}/clients/{_in_path(client)}", {**fields, "client": client}
    return QuotaTarget(USER_RESOURCE, name, fields, is_default=(user if client is None else client) == DEFAULT)


def _in_path(name: str) -> str:
    return DEFAULT_ENTITY if name == DEFAULT else entity_name(name)


def _document(result: DescribeUserScramCredentialsResult) -> dict[str, Any]:
    known = {mechanism.value: mechanism.key for mechanism in ScramMechanism}
    mechanisms = [
        {"mechanism": known.get(info.mechanism, str(info.mechanism)), "iterations": info.iterations}
        for info in result.credential_infos
    ]
    return {"user": result.user, "mechanisms": mechanisms, "error": result.error_message}


def _listed(known: list[dict[str, Any]], quotas: list[OwnedQuotas]) -> list[dict[str, Any]]:
    """Put users with a password and those with quotas together, by name and then client id."""
    found = {(user["user"], ""): {**user, "client": None, "configs": []} for user in known}
    for owned in quotas:
        if owned.user is not None:
            nobody: dict[str, Any] = {"user": owned.user, "client": owned.client, "mechanisms": [], "error": None}
            found.setdefault((owned.user, owned.client or ""), nobody)["configs"] = owned.documents
    return [found[key] for key in sorted(found)]


def _mechanisms(user: dict[str, Any]) -> str:
    return user["error"] or ", ".join(m["mechanism"] for m in user["mechanisms"])


def _read_password(file: Path | None) -> str:
    if file is not None:
        try:
            return read_guarded(_PASSWORD_FILE, str(file), "a password").decode().strip("\r\n")
        except UnicodeDecodeError as error:
            raise ConfigError([f"{_PASSWORD_FILE}: {file}: is not text in UTF-8"]) from error
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip("\r\n")
    password: str = typer.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    return password


async def _alter(
    connected: AdminClient,
    user: str,
    upsertions: list[ScramCredentialUpsertion],
    deletions: list[ScramCredentialDeletion],
) -> None:
    response = await connected.alter_user_scram_credentials(upsertions, deletions)
    (result,) = connected.results_for([f"user {user}"], response.results)
    if result.error_code is not ErrorCode.NONE:
        raise ApiError(result.error_code, result.error_message or "refused", field="user", value=user)


def _write(cluster: Any, document: dict[str, Any], text: str) -> None:
    say(text)
    if cluster.form is not Format.TABLE:
        write_document(document, cluster.form)
