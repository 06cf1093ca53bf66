"""The jars of the embedded ZooKeeper: fetched once, whole, and only as the lock file has them."""

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster.errors import StartupError
from cluster.process.user_folders import user_cache
from deploy.local import zookeeper_jars
from deploy.local.zookeeper_jars import LockedJar, fetch_jars, read_lock

CONTENT = b"a jar"
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
    jars = read_lock()
    names = {jar.coordinates.split(":")[1] for jar in jars}
    assert names >= {"zookeeper", "zookeeper-jute", "snappy-java", "metrics-core", "log4j-core", "netty-handler"}
    assert all(len(jar.sha256) == 64 for jar in jars)
    assert sum(jar.bytes for jar in jars) < 17e6


def test_what_is_missing_is_fetched_once_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, said = Repository(monkeypatch), list[str]()
    for _ in range(2):
        assert fetch_jars([JAR], tmp_path / "jars", said.append) == [tmp_path / "jars" / "thing-1.0.jar"]
    assert repository.asked == ["org.example:thing"]
    assert said == [f"fetching 1 jars of ZooKeeper once, 0.0 MB, to {tmp_path / 'jars'}", "1/1 thing-1.0.jar (0.0 MB)"]
    assert [path.name for path in (tmp_path / "jars").iterdir()] == ["thing-1.0.jar"]


def test_a_jar_in_the_cache_that_differs_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Repository(monkeypatch)
    (tmp_path / JAR.file_name).write_bytes(b"half of")
    fetch_jars([JAR], tmp_path, lambda _: None)
    assert (tmp_path / JAR.file_name).read_bytes() == CONTENT


def test_a_jar_that_is_not_the_one_of_the_lock_file_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Repository(monkeypatch, b"another jar")
    with pytest.raises(StartupError, match=r"org.example:thing:1.0: its SHA-256 is .* not used"):
        fetch_jars([JAR], tmp_path, lambda _: None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [RuntimeError("not found\n and more"), OSError("no network"), ValueError("bad XML")])
def test_without_a_network_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    Repository(monkeypatch, error=error)
    with pytest.raises(StartupError) as refused:
        fetch_jars([JAR], tmp_path, lambda _: None)
    why = str(error).splitlines()[0]
    assert str(refused.value) == (
        f"org.example:thing:1.0 could not be fetched ({why}): connect to the network once, or name a running ZooKeeper "
        "with --zookeeper"
    )


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Repository(monkeypatch)
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match="file/jars: Not a directory: ZooKeeper's jars cannot be kept there"):
        fetch_jars([replace(JAR)], tmp_path / "file" / "jars", lambda _: None)


def test_jars_of_pyspark_are_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_jars, "fetch_jars", lambda *_: pytest.fail("fetched"))
    assert any("pyspark" in path for path in zookeeper_jars.find_jars())


def test_the_cache_is_that_of_the_xdg_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somebody")
    assert user_cache({"XDG_CACHE_HOME": "relative"}) == Path("/somebody/.cache/klamm")
    assert user_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/klamm")
