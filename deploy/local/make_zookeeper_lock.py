"""Write `zookeeper.lock.toml`: the jars with which the embedded ZooKeeper runs where pyspark is not installed.

    python -m deploy.local.make_zookeeper_lock

Resolves the coordinates below with jgo. What ZooKeeper needs and its POM calls "provided" is named; what only its tests
and annotations need, and native TLS, is left out.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import jgo

from deploy.local.zookeeper_jars import LOCK_FILE

_COORDINATES: Final = (
    "org.apache.zookeeper:zookeeper:3.9.5",
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
    "org.xerial.snappy:snappy-java:1.1.10.5",
    "org.apache.logging.log4j:log4j-core:2.25.4",
    "org.apache.logging.log4j:log4j-slf4j2-impl:2.25.4",
)
_LEFT_OUT: Final = re.compile(r"mockito-.*|byte-buddy.*|objenesis|audience-annotations|netty-tcnative-boringssl-.*")
_FIELDS: Final = ("groupId", "artifactId", "version")


def main() -> None:
    """Resolve, and write the file."""
    folder = Path(jgo.build("+".join(_COORDINATES)).path)
    sizes = {path.name: path.stat().st_size for path in folder.rglob("*.jar")}
    lines = ["# Written by deploy/local/make_zookeeper_lock.py."]
    for jar in tomllib.loads((folder / "jgo.lock.toml").read_text())["dependencies"]:
        if _LEFT_OUT.fullmatch(jar["artifactId"]) or jar.get("classifier"):
            continue
        lines += ["", "[[jars]]", *_table(jar, sizes[f"{jar['artifactId']}-{jar['version']}.jar"])]
    LOCK_FILE.write_text("\n".join(lines) + "\n")


def _table(jar: dict[str, Any], size: int) -> list[str]:
    coordinates = ":".join(jar[field] for field in _FIELDS)
    return [f'coordinates = "{coordinates}"', f'sha256 = "{jar["sha256"]}"', f"bytes = {size}"]


if __name__ == "__main__":
    main()
