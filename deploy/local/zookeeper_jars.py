"""The jars of the embedded ZooKeeper: those in pyspark if it is installed, else those of its lock file."""

import glob
import importlib.util
from pathlib import Path
from typing import Final

from cluster.model.errors import StartupError
from deploy.local.locked_jars import JarLock, Say, jars_of

LOCK: Final = JarLock("zookeeper", "ZooKeeper", ", or name a running ZooKeeper with --zookeeper")
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


def find_jars(say: Say = lambda _: None) -> list[str]:
    """Paths for the class path; what is missing is fetched, of which `say` is told. Raises StartupError."""
    package = importlib.util.find_spec("pyspark")
    if package is not None and package.origin is not None:
        return _jars_of_pyspark(Path(package.origin).parent / "jars")
    return [str(path) for path in jars_of(LOCK, say)]


def _jars_of_pyspark(jars: Path) -> list[str]:
    found = {pattern: sorted(glob.glob(str(jars / f"{pattern}.jar"))) for pattern in OF_PYSPARK}
    missing = [pattern for pattern in ("zookeeper-[0-9]*", "zookeeper-jute-*") if not found[pattern]]
    if missing:
        raise StartupError(f"no ZooKeeper server among the jars of pyspark in {jars}: install pyspark 4")
    return [jar for jars_of_pattern in found.values() for jar in jars_of_pattern]
