"""Jars as a lock file names them: by their Maven coordinates, with SHA-256 and size.

They are fetched once, by jgo, into the user's cache (`$XDG_CACHE_HOME/klamm/jars`); a jar that differs from the lock
file is never used.
"""

import hashlib
import importlib.util
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct, convert

from cluster.cli.user_folders import user_cache
from cluster.model.errors import StartupError

FOLDER: Final = Path(__file__).parent
SUFFIX: Final = ".lock.toml"
Say = Callable[[str], None]


class LockedJar(Struct, frozen=True):
    """`coordinates`: group:artifact:version."""

    coordinates: str
    sha256: str
    bytes: int

    @property
    def file_name(self) -> str:
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}.jar"


class JarLock(Struct, frozen=True):
    """One lock file. `program`: whose jars they are. `alternative`: what else helps where they cannot be fetched."""

    name: str
    program: str
    alternative: str = ""

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}{SUFFIX}"

    def jars(self) -> list[LockedJar]:
        return convert(tomllib.loads(self.file.read_text())["jars"], list[LockedJar])


def jars_of(lock: JarLock, say: Say) -> list[Path]:
    """The jars in the user's cache, complete; what is missing is fetched, of which `say` is told.

    Raises StartupError.
    """
    return fetch_jars(lock, lock.jars(), user_cache() / "jars", say)


def fetch_jars(lock: JarLock, jars: list[LockedJar], folder: Path, say: Say) -> list[Path]:
    """The jars in the folder, after those have been fetched that are missing or differ. Raises StartupError."""
    try:
        missing = [jar for jar in jars if _digest(folder / jar.file_name) != jar.sha256]
        if missing:
            _fetch_all(lock, missing, folder, say)
    except OSError as error:
        why = error.strerror or error
        raise StartupError(f"{folder}: {why}: the jars of {lock.program} cannot be kept there") from error
    return [folder / jar.file_name for jar in jars]


def _fetch_all(lock: JarLock, jars: list[LockedJar], folder: Path, say: Say) -> None:
    if importlib.util.find_spec("jgo") is None:
        raise StartupError(
            f"the jars of {lock.program} are fetched by the extra 'embedded': install klamm's wheel as"
            f" 'klamm-….whl[embedded]'{lock.alternative}"
        )
    say(f"fetching {len(jars)} jars of {lock.program} once, {sum(j.bytes for j in jars) / 1e6:.1f} MB, to {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    # Each becomes visible whole: a fetch that is interrupted leaves nothing that the next one would take.
    with tempfile.TemporaryDirectory(dir=folder) as draft:
        for number, jar in enumerate(jars, 1):
            _fetch(lock, jar, Path(draft)).replace(folder / jar.file_name)
            say(f"{number}/{len(jars)} {jar.file_name} ({jar.bytes / 1e6:.1f} MB)")


def _fetch(lock: JarLock, jar: LockedJar, draft: Path) -> Path:
    """Fetch one jar with jgo from the Maven repository, and check it against the lock file. Raises StartupError."""
    from jgo.maven import MavenContext  # noqa: PLC0415 - Only where something is to be fetched.

    group, artifact, version = jar.coordinates.split(":")
    try:
        path = Path(MavenContext(repo_cache=draft).project(group, artifact).at_version(version).artifact().resolve())
    except Exception as error:  # jgo lets errors of its HTTP client and the file system through.
        why = str(error).strip().partition("\n")[0]
        raise StartupError(
            f"{jar.coordinates} could not be fetched ({why}): connect to the network once{lock.alternative}"
        ) from error
    if (found := _digest(path)) != jar.sha256:
        raise StartupError(f"{jar.coordinates}: its SHA-256 is {found}, and {jar.sha256} in {lock.file.name}: not used")
    return path


def _digest(path: Path) -> str | None:
    if not path.is_file():
        return None  # Nor of a pipe, which would never end.
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
