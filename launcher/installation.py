"""What an installation may lack: the extras of the distribution, and what only a clone has."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cluster.model.errors import StartupError

ROOT: Final = Path(__file__).resolve().parents[1]
"""The folder of our packages; in a clone, the clone."""

_MODULES_OF_EXTRA: Final = {"embedded": ("jgo",), "audit": ("pyspark", "pandas", "pyarrow", "duckdb")}


def require_extras(*extras: str) -> None:
    """Raise StartupError, with the names of the extras that are not installed. Imports nothing."""
    missing = [extra for extra in extras if any(find_spec(module) is None for module in _MODULES_OF_EXTRA[extra])]
    if missing:
        named = " and ".join(f"the extra '{extra}'" for extra in missing)
        raise StartupError(f"this command needs {named}: install klamm's wheel as 'klamm-….whl[{','.join(missing)}]'")


def require_clone(folder: str, command: str) -> None:
    """Raise StartupError where there is no such folder, as in a wheel. `command`: what to run in a clone."""
    if not (ROOT / folder).is_dir():
        raise StartupError(f"this command needs the folder {folder} of the repository: run {command} in a clone")
