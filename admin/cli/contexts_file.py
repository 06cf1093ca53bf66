"""Keeps clusters by name in the user's configuration folder: `$XDG_CONFIG_HOME/klamm/contexts.json`.

The context `local`, which always exists, is the cluster that `klamm up` started in the current folder.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from cluster.cli.user_folders import user_configuration
from cluster.config.files import read_file
from cluster.model.errors import DECODE_ERRORS, StartupError

DEFAULT_DATA: Final = Path(".klamm")
LOCAL: Final = "local"


class Context(Struct, frozen=True, omit_defaults=True):
    """Says how a cluster is reached: by addresses of its nodes, or by the data folder of one on this machine.

    `command_config`: the path of a file with `security.protocol`, `ssl.*` and `sasl.*`; empty: none.
    """

    bootstrap: str = ""
    data: str = ""
    command_config: str = ""

    @property
    def text(self) -> str:
        return self.bootstrap or self.data


class Contexts(Struct, frozen=True, omit_defaults=True):
    """Holds the content of the file. `current`: the context that commands use if their options name none."""

    current: str = LOCAL
    contexts: dict[str, Context] = {}

    @property
    def all(self) -> dict[str, Context]:
        """The contexts by name, with `local`."""
        return {LOCAL: Context(data=str(DEFAULT_DATA)), **dict(sorted(self.contexts.items()))}

    def named(self, name: str) -> Context:
        """Find the context of this name. Raises StartupError if there is none."""
        try:
            return self.all[name]
        except KeyError:
            known = ", ".join(self.all)
            raise StartupError(
                f"no context {name!r}; there are: {known}; 'klamm contexts add {name} --bootstrap …' adds it"
            ) from None


def contexts_path(environment: Mapping[str, str] | None = None) -> Path:
    """The path of the file."""
    return user_configuration(environment) / "contexts.json"


def read_contexts() -> Contexts:
    """Read the file; without a file there is only `local`. Raises StartupError if it cannot be read."""
    path = contexts_path()
    try:
        return msgspec.json.decode(read_file(path), type=Contexts)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except (OSError, *DECODE_ERRORS) as error:
        raise StartupError(f"{path} cannot be read: {error}; mend or remove it") from error


@contextlib.contextmanager
def changing_contexts() -> Iterator[Contexts]:
    """Read the file for a change; others that change it wait until the block ends. Raises StartupError, OSError."""
    folder = contexts_path().parent
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield read_contexts()
    finally:
        os.close(descriptor)


def write_contexts(contexts: Contexts) -> Path:
    """Replace the file, which only its owner can read, within `changing_contexts`; returns its path. Raises OSError."""
    path = contexts_path().resolve()  # Where it is a link to a file elsewhere it stays one.
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(0o600)
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(contexts)) + b"\n")
    draft.replace(path)
    return path
