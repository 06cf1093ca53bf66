"""Arguments and files of commands that are nearly right: a result or a message, and never a traceback."""

import tempfile
from collections.abc import Iterator
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any, Final

import typer
from hypothesis import example, given
from hypothesis import strategies as st

from launcher.__main__ import app
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.commands import NOBODY_THERE, run_command
from tests.fuzz.damage import documents
from tests.fuzz.messages import HOSTILE_TEXTS, Draw

_START_SOMETHING: Final = {"demo", "up", "test", "zookeeper", "controller", "broker", "simulate"}
"""Commands of which only the arguments are parsed; so those of the groups below."""
_GROUPS_THAT_START_SOMETHING: Final = {"bench", "audit"}
_REFUSALS: Final[tuple[type[BaseException], ...]] = (typer.BadParameter.__mro__[2], typer.Exit, SystemExit)
"""What the parser raises: typer does not export the base of its errors."""
_MOVES: Final = {
    "version": 1,
    "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}],
}
_FILES: Final = (
    (["reassign", "execute", "FILE", "--dry-run"], _MOVES),
    (["reassign", "verify", "FILE"], _MOVES),
    (["reassign", "cancel", "FILE", "--dry-run"], _MOVES),
    (
        ["reassign", "generate", "--topics-to-move-json-file", "FILE", "--broker-list", "1"],
        {"topics": [{"topic": "t"}]},
    ),
    (["elect", "preferred", "--path-to-json-file", "FILE"], _MOVES),
    (
        ["topics", "delete-records", "--offset-json-file", "FILE", "--dry-run"],
        {"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 3}]},
    ),
)
_IDENTITY: Final = {"pid": 1, "started": "1"}
_CLUSTER: Final = {
    "version": 1,
    "zookeeper": "127.0.0.1:1",
    "members": [
        {"role": "controller", "id": 1001, "port": 1, "metrics_port": 1, "process": _IDENTITY, "control_port": 1},
        {"role": "broker", "id": 1, "port": 1, "metrics_port": 1, "process": None},
    ],
    "settings": {},
    "supervisor": None,
}


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS: Final = dict(_commands(typer.main.get_command(app)))
_TEXTS: Final = st.sampled_from([text for text in HOSTILE_TEXTS if len(text) < 1000]) | st.text(max_size=10)
_VALUES: Final = (
    "t",
    "t-0",
    "1",
    "-1",
    "0",
    "0.1",
    "1e400",
    "nan",
    "inf",
    "k=v",
    "1:2",
    "1,2",
    "latest",
    "127.0.0.1:1",
    "\udcff",
    "/",
    ".",
)


@st.composite
def command_lines(draw: Draw) -> tuple[tuple[str, ...], list[str]]:
    """A command, and options and arguments with values that may make no sense."""
    path = draw(st.sampled_from(sorted(COMMANDS)))
    options = [option for parameter in COMMANDS[path].params for option in (*parameter.opts, *parameter.secondary_opts)]
    value = st.sampled_from(_VALUES) | _TEXTS
    arguments: list[str] = []
    for option in draw(st.lists(st.sampled_from(sorted(options)), max_size=4)):
        arguments += [option, draw(value)] if option.startswith("-") else [draw(value)]
    return path, arguments


@fuzz(examples=80)
@given(command_lines())
@example((("produce",), ["t"]))
def test_command_lines(line: tuple[tuple[str, ...], list[str]]) -> None:
    count_case("command lines")
    path, arguments = line
    if path[0] in _START_SOMETHING | _GROUPS_THAT_START_SOMETHING:
        parse(path, arguments)
        return
    options = {option for parameter in COMMANDS[path].params for option in parameter.opts}
    # Last, so that they count.
    reached = NOBODY_THERE if "--bootstrap" in options and "--help" not in arguments else ()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        run_command([*path, *arguments, *reached])


def parse(path: tuple[str, ...], arguments: list[str]) -> None:
    """Only the parsing of a command that would start something."""
    with suppress(*_REFUSALS):
        COMMANDS[path].make_context(path[-1], arguments)


@fuzz(examples=60)
@given(st.data())
def test_files_of_commands(data: st.DataObject) -> None:
    count_case("files of commands")
    arguments, usual = data.draw(st.sampled_from(_FILES))
    content = data.draw(documents([usual]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.json")
        path.write_bytes(content)
        run_command([*(str(path) if a == "FILE" else a for a in arguments), *NOBODY_THERE])


@fuzz(examples=60)
@given(documents([_CLUSTER]))
@example(b'{"version": 1, "zookeeper": "\x80", "members": [], "settings": {}}')
@example(b'{"version": 1, "zookeeper": "z", "members": [], "settings": ' + b"[" * 5000)
@example(b'{"version": 1, "zookeeper": "", "members": [], "settings": {}}')
@example(b'{"version": 1, "zookeeper": "127.0.0.1:1", "members": [], "settings": {}, "supervisor": null}')
def test_cluster_files(content: bytes) -> None:
    count_case("cluster files")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cluster.json").write_bytes(content)
        run_command(["status", "--data", folder])
        run_command(["topics", "list", "--data", folder, "--timeout", "0.1"])
