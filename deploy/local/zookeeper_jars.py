"""The jars of the embedded ZooKeeper: those in pyspark if it is installed, else those of a lock file.

The lock file names each jar by its Maven coordinates with its SHA-256 and size. They are fetched once, by jgo, into the
user's cache (`$XDG_CACHE_HOME/klamm/jars`); a jar that differs from the lock file is never used.
"""

import glob
import hashlib
import importlib.util
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct, convert

from cluster.errors import StartupError
from cluster.process.user_folders import user_cache

LOCK_FILE: Final = Path(__file__).with_name("zookeeper.lock.toml")
OF_PYSPARK: Final = (
    "zookeeper-[0-9]*",
    "zookeeper-jute-*",
    "slf4j-api-*",
    "log4j-api-*",
    "log4j-core-*",
    "log4j-slf4j2-impl-*",
    "metrics-core-*",
    "snappy-java-*",
    "netty-*",
    "commons-cli-*",
    "commons-io-*",
    "commons-lang*",
    "commons-codec-*",
    "commons-collections*",
)
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


def find_jars(say: Say = lambda _: None) -> list[str]:
    """Paths for the class path; what is missing is fetched, of which `say` is told. Raises StartupError."""
    package = importlib.util.find_spec("pyspark")
    if package is not None and package.origin is not None:
        return _jars_of_pyspark(Path(package.origin).parent / "jars")
    return [str(path) for path in fetch_jars(read_lock(), user_cache() / "jars", say)]


def read_lock() -> list[LockedJar]:
    return convert(tomllib.loads(LOCK_FILE.read_text())["jars"], list[LockedJar])


def fetch_jars(jars: list[LockedJar], folder: Path, say: Say) -> list[Path]:
    """The jars in the folder, after those have been fetched that are missing or differ. Raises StartupError."""
    try:
        missing = [jar for jar in jars if _digest(folder / jar.file_name) != jar.sha256]
        if missing:
            _fetch_all(missing, folder, say)
    except OSError as error:
        raise StartupError(f"{folder}: {error.strerror or error}: ZooKeeper's jars cannot be kept there") from error
    return [folder / jar.file_name for jar in jars]


def _fetch_all(jars: list[LockedJar], folder: Path, say: Say) -> None:
    if importlib.util.find_spec("jgo") is None:
        raise StartupError(
            "the embedded ZooKeeper needs the extra 'embedded': install klamm's wheel as 'klamm-….whl[embedded]',"
            " or name a running server with --zookeeper"
        )
    say(f"fetching {len(jars)} jars of ZooKeeper once, {sum(j.bytes for j in jars) / 1e6:.1f} MB, to {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    # Each becomes visible whole: a fetch that is interrupted leaves nothing that the next one would take.
    with tempfile.TemporaryDirectory(dir=folder) as draft:
        for number, jar in enumerate(jars, 1):
            _fetch(jar, Path(draft)).replace(folder / jar.file_name)
            say(f"{number}/{len(jars)} {jar.file_name} ({jar.bytes / 1e6:.1f} MB)")


def _fetch(jar: LockedJar, draft: Path) -> Path:
    """One jar, by jgo from the Maven repository, checked against the lock file. Raises StartupError."""
    from jgo.maven import MavenContext  # noqa: PLC0415 - Only where something is to be fetched.

    group, artifact, version = jar.coordinates.split(":")
    try:
        path = Path(MavenContext(repo_cache=draft).project(group, artifact).at_version(version).artifact().resolve())
    except Exception as error:  # jgo lets errors of its HTTP client and the file system through.
        why = str(error).strip().partition("\n")[0]
        raise StartupError(
            f"{jar.coordinates} could not be fetched ({why}): connect to the network once, or name a running ZooKeeper "
            "with --zookeeper"
        ) from error
    if (found := _digest(path)) != jar.sha256:
        raise StartupError(f"{jar.coordinates}: its SHA-256 is {found}, and {jar.sha256} in {LOCK_FILE.name}: not used")
    return path


def _digest(path: Path) -> str | None:
    if not path.is_file():
        return None  # Nor of a pipe, which would never end.
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _jars_of_pyspark(jars: Path) -> list[str]:
    found = {pattern: sorted(glob.glob(str(jars / f"{pattern}.jar"))) for pattern in OF_PYSPARK}
    missing = [pattern for pattern in ("zookeeper-[0-9]*", "zookeeper-jute-*") if not found[pattern]]
    if missing:
        raise StartupError(f"no ZooKeeper server among the jars of pyspark in {jars}: install pyspark 4")
    return [jar for jars_of_pattern in found.values() for jar in jars_of_pattern]
