"""Names commands in messages as this one was typed: in a clone, `klamm` is not on the PATH and `./klamm` is.

Those that ask a cluster name it as this one did, by the same option.
"""

import os
import re
import shlex
from contextvars import ContextVar
from typing import Final

_COMMAND: Final = "_KLAMM_COMMAND"
"""The variable that the script `klamm` of a clone sets if it is not on the PATH."""
_NAMED: Final = re.compile(r"(['`])klamm ([a-z]+)([^'`]*)(?=\1)")
_OF_THIS_MACHINE: Final = frozenset(("down", "status", "up"))
_ASKING: Final = re.compile(
    "acls|brokers|bundle|clients|cluster|consume|doctor|elect|features|perf|produce|reassign|story|top|topics|users|verify|watch"
)
"""The commands that take `--bootstrap`, `--data` and `--context`; `_OF_THIS_MACHINE` take `--data` alone."""
_cluster: Final[ContextVar[tuple[str, str] | None]] = ContextVar("cluster", default=None)


def typed_command() -> str:
    return os.environ.get(_COMMAND) or "klamm"


def name_cluster(**options: object) -> None:
    """Remember the first of these options that was typed, by its name without `--`; None: it was not."""
    given = ((f"--{name}", shlex.quote(str(value))) for name, value in options.items() if value is not None)
    _cluster.set(next(given, None))


def as_typed(text: str) -> str:
    """Replace the commands in quotes, such as 'klamm up', by what is to be typed here."""
    return _NAMED.sub(
        lambda found: f"{found[1]}{typed_command()} {found[2]}{found[3]}{_options_for(*found.groups())}", text
    )


def _options_for(_: str, command: str, arguments: str) -> str:
    """Make the option that names the cluster, unless the command has one already, or does not take it."""
    named = _cluster.get()
    if named is None or any(option in arguments for option in ("--bootstrap", "--data", "--context")):
        return ""
    takes_it = _ASKING.fullmatch(command) is not None or (command in _OF_THIS_MACHINE and named[0] == "--data")
    return f" {' '.join(named)}" if takes_it else ""
