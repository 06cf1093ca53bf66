"""Reads files that settings name; one with a secret must not be open to others."""

import os
import stat
from collections.abc import Callable
from typing import Final

from cluster.model.errors import ConfigError

_BYTES_MAX: Final = 4 << 20
_OTHERS: Final = stat.S_IRWXO | stat.S_IWGRP


def read_guarded(
    name: str, path: str, secret: str = "", is_secret: Callable[[bytes], object] = lambda _: True
) -> bytes:
    """Read a file that a setting names. `secret`: what is in it that others must not be able to read; empty: nothing.

    `is_secret`: whether it is in this content. Raises ConfigError.
    """
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_BYTES_MAX + 1)
            if stat.S_ISREG(mode) and secret and mode & _OTHERS and is_secret(content):
                raise ConfigError(
                    [
                        f"{name}: {path}: has {secret}, and others may read or change it (mode {mode & 0o777:03o}): "
                        f"chmod 600 {path}"
                    ]
                )
    except OSError as error:
        raise ConfigError([f"{name}: {path}: {error.strerror or error}"]) from error
    except ValueError as error:  # A path with a NUL.
        raise ConfigError([f"{name}: {path!r}: {error}"]) from error
    if len(content) > _BYTES_MAX:
        raise ConfigError([f"{name}: {path}: has more than {_BYTES_MAX >> 20} MiB"])
    return content
