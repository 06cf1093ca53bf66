"""`klamm users`: who may authenticate with a password (SCRAM)."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from admin.cli.options import Cluster, talks_to_cluster
from admin.cli.output import examples, say
from admin.client import AdminClient
from cluster.cli.documents import Format, write_document
from cluster.model.errors import ApiError, ConfigError, ErrorCode
from cluster.requests.users import ScramCredentialDeletion, ScramCredentialUpsertion, ScramMechanism
from cluster.sasl.mechanisms import SCRAM, SCRAM_SHA_512
from cluster.tls.guarded_files import read_guarded

app = typer.Typer(no_args_is_help=True, help="Set and remove the passwords with which users authenticate (SCRAM).")
_PASSWORD_FILE = "--password-file"  # noqa: S105 - the name of an option.
_NUMBERS = {mechanism.key: mechanism for mechanism in ScramMechanism}

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The name of the user.", show_default=False)]


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
