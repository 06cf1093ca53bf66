"""What workers on a cluster need of this installation, as one zip: klamm's packages, and those that they import.

Workers need no network and no installation, but Python of the same version and Spark, on machines of this kind. The
archive is unpacked into the working directory of each executor (`spark.archives`), from where `PYTHONPATH` has it:
compiled modules cannot be imported from a zip.
"""

import hashlib
import os
import platform
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cluster.model.errors import StartupError

FOLDER: Final = "klamm_audit"
"""The name of the archive in the working directory of an executor."""
_APPLICATION: Final = Path(__file__).resolve().parents[2]
_OURS: Final = ("audit", "state_log", "cluster")
_IMPORTED: Final = ("cramjam", "msgspec", "numpy", "pandas", "pyarrow", "pydantic", "structlog")
"""Distributions that our modules import in workers, and pandas, which Spark does. A test imports them all."""
_LEFT_OUT: Final = ("tests", "test", "include", "__pycache__")
"""Folders that no worker imports from: half the size."""
_LEFT_OUT_SUFFIXES: Final = (".pyc", ".pyi", ".pxd", ".pyx", ".pxi", ".h", ".lib", ".a")


def python_of_workers() -> str:
    """The interpreter that workers are asked for: Spark needs the driver's version."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def write_package(target: Path) -> int:
    """Write the archive, a zip; its size in bytes. Raises OSError, and StartupError if a distribution is missing."""
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in sorted(_files()):
            archive.write(path, name)
        archive.writestr(f"{FOLDER}.txt", f"klamm {_fingerprint()}, {python_of_workers()}, {platform.platform()}\n")
    temporary.replace(target)
    return target.stat().st_size


def current_package(folder: Path) -> Path:
    """The archive of this installation in a folder; written if it does not exist."""
    target = folder / f"klamm-audit-{_fingerprint()}.zip"
    if not target.exists():
        write_package(target)
    return target


def _files() -> Iterator[tuple[str, Path]]:
    """The name in the archive and the file of everything that goes in."""
    for package in _OURS:
        for path in (_APPLICATION / package).rglob("*"):
            if path.is_file() and _is_wanted(path.relative_to(_APPLICATION)):
                yield path.relative_to(_APPLICATION).as_posix(), path
    for found in _theirs():
        for entry in found.files or []:
            path = Path(str(entry.locate()))
            if ".." not in entry.parts and path.is_file() and _is_wanted(Path(str(entry))):
                yield entry.as_posix(), path


def _theirs() -> list[Distribution]:
    """Find what workers import, and what that needs in turn by its own metadata: releases differ. Raises
    StartupError.
    """
    found: dict[str, Distribution] = {}
    waiting = list(_IMPORTED)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            raise StartupError(
                f"the distribution {name} is not installed: install klamm with the extra 'audit'"
            ) from None
        needed = map(Requirement, found[name].requires or ())
        waiting += [r.name for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]
    return [found[name] for name in sorted(found)]


def _is_wanted(name: Path) -> bool:
    return not set(name.parts) & set(_LEFT_OUT) and name.suffix not in _LEFT_OUT_SUFFIXES


def _fingerprint() -> str:
    """A hash of what an archive has: our files by content, others by version."""
    digest = hashlib.blake2b(digest_size=8)
    for package in _OURS:
        for path in sorted((_APPLICATION / package).rglob("*.py")):
            digest.update(path.read_bytes())
    for found in _theirs():
        digest.update(f"{found.name} {found.version} {sys.version_info[:2]}".encode())
    return digest.hexdigest()
