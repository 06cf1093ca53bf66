"""Requirements on all commands: help, options that select the cluster, and --dry-run of every change."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from launcher.__main__ import app

READS = {
    "acls list",
    "top",
    "brokers describe",
    "brokers list",
    "brokers log-dirs",
    "cluster describe",
    "cluster health",
    "features describe",
    "reassign generate",
    "reassign list",
    "reassign verify",
    "topics describe",
    "topics offsets",
    "topics list",
    "watch",
}
CHANGES = {
    "acls add",
    "acls remove",
    "brokers acknowledge-damage",
    "brokers alter",
    "brokers balance-dirs",
    "brokers move-dir",
    "brokers online-dir",
    "brokers shutdown",
    "cluster recover",
    "elect preferred",
    "elect unclean",
    "features disable",
    "features downgrade",
    "features upgrade",
    "reassign cancel",
    "reassign execute",
    "topics alter",
    "topics create",
    "topics delete",
    "topics delete-records",
}
OF_THE_CLUSTER = {"--bootstrap", "--data", "--timeout", "--format"}


def commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        below = f"{path} {name}".strip()
        if hasattr(command, "commands"):
            yield from commands(command, below)
        else:
            yield below, command


ALL = dict(commands(typer.main.get_command(app)))
GROUPS = {name.split()[0] for name in CHANGES}


def options(command: Any) -> set[str]:
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_command_has_help(name: str) -> None:
    answer = CliRunner().invoke(app, [*name.split(), "--help"])
    assert answer.exit_code == 0
    assert "Usage:" in answer.stdout
    assert ALL[name].help


@pytest.mark.parametrize("command", typer.main.get_command(app).commands.values(), ids=lambda c: c.name)
def test_the_list_of_commands_says_of_each_what_its_help_begins_with(command: Any) -> None:
    assert command.short_help == " ".join(command.help.partition("\n\n")[0].split())


def test_every_command_of_a_group_is_known_here() -> None:
    assert {name for name in ALL if name.split()[0] in GROUPS | {"cluster", "top", "watch"}} == READS | CHANGES


@pytest.mark.parametrize("name", sorted(READS | CHANGES))
def test_all_cluster_commands_have_the_same_options(name: str) -> None:
    assert options(ALL[name]) >= OF_THE_CLUSTER


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_every_command_that_changes_a_cluster_has_a_dry_run(name: str) -> None:
    assert "--dry-run" in options(ALL[name])
