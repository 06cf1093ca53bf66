"""The jars of Apache Kafka, brokers and console tools, one lock file per version."""

from typing import Final

from cluster.model.errors import StartupError
from deploy.local.locked_jars import FOLDER, SUFFIX, JarLock, Say, jars_of

_PREFIX: Final = "kafka-"
NEWEST: Final = "3.9.1"


def kafka_versions() -> list[str]:
    """The versions that have a lock file, the oldest first."""
    names = (path.name.removeprefix(_PREFIX).removesuffix(SUFFIX) for path in FOLDER.glob(f"{_PREFIX}*{SUFFIX}"))
    return sorted(names, key=lambda version: [int(part) for part in version.split(".")])


def kafka_lock(version: str) -> JarLock:
    """Read the lock file of a version. Raises StartupError for a version that has none."""
    known = kafka_versions()
    if version not in known:
        raise StartupError(f"Kafka {version[:20]!r}: must be one of {', '.join(known)}")
    return JarLock(f"{_PREFIX}{version}", f"Apache Kafka {version}")


def protocol_of(version: str) -> str:
    """The inter.broker.protocol.version that its brokers speak unless told otherwise."""
    return ".".join(version.split(".")[:2])


def find_kafka_jars(version: str, say: Say = lambda _: None) -> list[str]:
    """Paths for the class path; what is missing is fetched, of which `say` is told. Raises StartupError."""
    return [str(path) for path in jars_of(kafka_lock(version), say)]
