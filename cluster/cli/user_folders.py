"""Finds the folders where klamm keeps files of the user who runs it.

Source: XDG Base Directory Specification, by which a relative folder in the environment is ignored.
"""

import os
from collections.abc import Mapping
from pathlib import Path


def user_cache(environment: Mapping[str, str] | None = None) -> Path:
    """The folder for what can be made or fetched again."""
    return _folder("XDG_CACHE_HOME", ".cache", environment)


def user_configuration(environment: Mapping[str, str] | None = None) -> Path:
    """The folder for what the user has chosen."""
    return _folder("XDG_CONFIG_HOME", ".config", environment)


def _folder(variable: str, below_home: str, environment: Mapping[str, str] | None) -> Path:
    given = Path((os.environ if environment is None else environment).get(variable, ""))
    return (given if given.is_absolute() else Path.home() / below_home) / "klamm"
