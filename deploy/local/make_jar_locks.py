"""Write the lock files: the jars with which ZooKeeper and Apache Kafka run here.

    python -m deploy.local.make_jar_locks [zookeeper | kafka-VERSION …]

Resolves the coordinates below with jgo. What a program needs and its POM calls "provided" is named; what only its tests
and annotations need, and native TLS, is left out.
"""

import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import jgo
from jgo.maven import MavenContext
from msgspec import Struct

from deploy.local.locked_jars import JarLock, LockedJar


class Recipe(Struct, frozen=True):
    """`whole`: with all that they depend on. `alone`: without."""

    whole: tuple[str, ...]
    alone: tuple[str, ...] = ()


def _kafka(version: str) -> Recipe:
    """Its brokers log through SLF4J. The tools' own dependencies are Connect and a second binding of SLF4J."""
    return Recipe(
        (f"org.apache.kafka:kafka_2.13:{version}", "org.slf4j:slf4j-reload4j:1.7.36"),
        (f"org.apache.kafka:kafka-tools:{version}", "net.sourceforge.argparse4j:argparse4j:0.7.0"),
    )


RECIPES: Final = {
    "zookeeper": Recipe(
        (
            "org.apache.zookeeper:zookeeper:3.9.5",
            "io.dropwizard.metrics:metrics-core:4.1.12.1",
            "org.xerial.snappy:snappy-java:1.1.10.5",
            "org.apache.logging.log4j:log4j-core:2.25.4",
            "org.apache.logging.log4j:log4j-slf4j2-impl:2.25.4",
        )
    ),
    **{f"kafka-{version}": _kafka(version) for version in ("2.4.1", "2.8.2", "3.3.2", "3.9.1")},
}
_LEFT_OUT: Final = re.compile(
    r"mockito-.*|byte-buddy.*|objenesis|audience-annotations|error_prone_annotations|netty-tcnative-boringssl-.*"
)


def main() -> None:
    """Resolve, and write the files that are named; without an argument, all."""
    for name in sys.argv[1:] or RECIPES:
        lines = ["# Written by deploy/local/make_jar_locks.py."]
        for jar in _jars(RECIPES[name]):
            lines += ["", "[[jars]]", f'coordinates = "{jar.coordinates}"', f'sha256 = "{jar.sha256}"']
            lines += [f"bytes = {jar.bytes}"]
        JarLock(name, name).file.write_text("\n".join(lines) + "\n")


def _jars(recipe: Recipe) -> list[LockedJar]:
    found = {jar.coordinates: jar for jar in _closure(recipe.whole)}
    found |= {coordinates: _jar(coordinates) for coordinates in recipe.alone}
    return list(found.values())


def _closure(coordinates: tuple[str, ...]) -> Iterator[LockedJar]:
    folder = Path(jgo.build("+".join(coordinates)).path)
    sizes = {path.name: path.stat().st_size for path in folder.rglob("*.jar")}
    for jar in tomllib.loads((folder / "jgo.lock.toml").read_text())["dependencies"]:
        if _LEFT_OUT.fullmatch(jar["artifactId"]) or jar.get("classifier"):
            continue
        size = sizes[f"{jar['artifactId']}-{jar['version']}.jar"]
        yield LockedJar(":".join(jar[field] for field in ("groupId", "artifactId", "version")), jar["sha256"], size)


def _jar(coordinates: str) -> LockedJar:
    group, artifact, version = coordinates.split(":")
    content = Path(MavenContext().project(group, artifact).at_version(version).artifact().resolve()).read_bytes()
    return LockedJar(coordinates, hashlib.sha256(content).hexdigest(), len(content))


if __name__ == "__main__":
    main()
