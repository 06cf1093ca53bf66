"""The jars of ZooKeeper and Apache Kafka: fetched once, whole, and only as the lock files have them."""

import hashlib
import itertools
from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster.cli.user_folders import user_cache
from cluster.model.errors import StartupError
from deploy.local import zookeeper_jars
from deploy.local.kafka_jars import NEWEST, kafka_lock, kafka_versions
from deploy.local.locked_jars import JarLock, LockedJar, fetch_jars

CONTENT = b"a jar"
LOCK = JarLock("thing", "Thing", ", or do without")
JAR = LockedJar("org.example:thing:1.0", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


class Repository:
    """Stands for the Maven repository behind jgo: the network of others is none of a test's."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, content: bytes = CONTENT, error: Exception | None = None
    ) -> None:
        self.asked: list[str] = []
        self.content, self.error, self.path = content, error, Path()
        monkeypatch.setattr("jgo.maven.MavenContext", self.open)

    def open(self, repo_cache: Path) -> "Repository":
        self.path = repo_cache / "thing-1.0.jar"
        return self

    def project(self, group: str, artifact: str) -> "Repository":
        self.asked.append(f"{group}:{artifact}")
        return self

    def at_version(self, version: str) -> "Repository":
        return self

    def artifact(self) -> "Repository":
        return self

    def resolve(self) -> Path:
        if self.error is not None:
            raise self.error
        self.path.write_bytes(self.content)
        return self.path


def test_the_lock_file_names_the_server_and_what_it_needs() -> None:
    jars = zookeeper_jars.LOCK.jars()
    names = {jar.coordinates.split(":")[1] for jar in jars}
    assert names >= {"zookeeper", "zookeeper-jute", "snappy-java", "metrics-core", "log4j-core", "netty-handler"}
    assert all(len(jar.sha256) == 64 for jar in jars)
    assert sum(jar.bytes for jar in jars) < 17e6


@pytest.mark.parametrize("version", kafka_versions())
def test_a_lock_file_of_kafka_names_brokers_tools_and_one_way_to_log(version: str) -> None:
    jars = kafka_lock(version).jars()
    assert {f"kafka_2.13-{version}.jar", f"kafka-clients-{version}.jar", f"kafka-tools-{version}.jar"} <= {
        jar.file_name for jar in jars
    }
    names = [jar.coordinates.split(":")[1] for jar in jars]
    assert {"zookeeper", "argparse4j", "slf4j-api"} <= set(names)
    assert [name for name in names if name.startswith("slf4j-")] == ["slf4j-reload4j", "slf4j-api"]
    assert "log4j" not in names
    assert sum(jar.bytes for jar in jars) < 50e6


def test_the_newest_version_of_kafka_on_zookeeper_is_there() -> None:
    assert kafka_versions()[-1] == NEWEST


def test_another_version_of_kafka_is_refused_with_those_there_are() -> None:
    with pytest.raises(StartupError, match=r"Kafka '4\.1\.0': must be one of 2\.4\.1, .*, 3\.9\.1"):
        kafka_lock("4.1.0")


def test_no_two_jars_share_a_name_in_the_cache() -> None:
    locks = [zookeeper_jars.LOCK, *map(kafka_lock, kafka_versions())]
    jars = {(jar.file_name, jar.coordinates, jar.sha256) for lock in locks for jar in lock.jars()}
    names = sorted(name for name, *_ in jars)
    assert [name for name, other in itertools.pairwise(names) if name == other] == []


def test_what_is_missing_is_fetched_once_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, said = Repository(monkeypatch), list[str]()
    for _ in range(2):
        assert fetch_jars(LOCK, [JAR], tmp_path / "jars", said.append) == [tmp_path / "jars" / "thing-1.0.jar"]
    assert repository.asked == ["org.example:thing"]
    assert said == [f"fetching 1 jars of Thing once, 0.0 MB, to {tmp_path / 'jars'}", "1/1 thing-1.0.jar (0.0 MB)"]
    assert [path.name for path in (tmp_path / "jars").iterdir()] == ["thing-1.0.jar"]


def test_a_jar_in_the_cache_that_differs_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Repository(monkeypatch)
    (tmp_path / JAR.file_name).write_bytes(b"half of")
    fetch_jars(LOCK, [JAR], tmp_path, lambda _: None)
    assert (tmp_path / JAR.file_name).read_bytes() == CONTENT


def test_a_jar_that_is_not_the_one_of_the_lock_file_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Repository(monkeypatch, b"another jar")
    with pytest.raises(StartupError, match=r"org.example:thing:1.0: its SHA-256 is .* not used"):
        fetch_jars(LOCK, [JAR], tmp_path, lambda _: None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [RuntimeError("not found\n and more"), OSError("no network"), ValueError("bad XML")])
def test_without_a_network_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    Repository(monkeypatch, error=error)
    with pytest.raises(StartupError) as refused:
        fetch_jars(LOCK, [JAR], tmp_path, lambda _: None)
    why = str(error).splitlines()[0]
    assert str(refused.value) == (
        f"org.example:thing:1.0 could not be fetched ({why}): connect to the network once, or do without"
    )


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Repository(monkeypatch)
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match="file/jars: Not a directory: the jars of Thing cannot be kept there"):
        fetch_jars(LOCK, [replace(JAR)], tmp_path / "file" / "jars", lambda _: None)


def test_jars_of_pyspark_are_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_jars, "jars_of", lambda *_: pytest.fail("fetched"))
    assert any("pyspark" in path for path in zookeeper_jars.find_jars())


def test_the_cache_is_that_of_the_xdg_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somebody")
    assert user_cache({"XDG_CACHE_HOME": "relative"}) == Path("/somebody/.cache/klamm")
    assert user_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/klamm")
