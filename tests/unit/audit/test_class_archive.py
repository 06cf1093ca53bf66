"""The archive of the JVM's classes: who writes it, who uses it, and that nothing about it can fail a run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit.spark.class_archive import class_archive_options

WRITES, USES = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="
COMPLETE, INCOMPLETE = b"\x01\x02\x03\x04 classes", b"\0\0\0\0 cl"


@pytest.fixture(autouse=True)
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "java"
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    (home / "release").write_text("17")
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


def file_of(options: str) -> Path:
    return Path(options.split(maxsplit=1)[0].partition("=")[2])


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def left_by(pid: int, cache: Path, content: bytes) -> Path:
    """The file of a process that had begun an archive."""
    begun = file_of(class_archive_options(cache))
    left = begun.with_name(begun.name.replace(str(os.getpid()), str(pid)))
    begun.rename(left)
    left.write_bytes(content)
    return left


def test_the_first_process_writes_the_archive_and_others_do_without_it_meanwhile(tmp_path: Path) -> None:
    assert class_archive_options(tmp_path / "cache").startswith(WRITES)
    assert class_archive_options(tmp_path / "cache") == ""


def test_an_archive_is_used_when_its_writer_has_ended_and_it_is_complete(tmp_path: Path) -> None:
    left = left_by(dead_process(), tmp_path, INCOMPLETE)
    assert class_archive_options(tmp_path) == ""
    left.write_bytes(COMPLETE)
    options = class_archive_options(tmp_path)
    assert options.startswith(USES)
    assert file_of(options).read_bytes() == COMPLETE
    assert not left.exists()
    assert class_archive_options(tmp_path) == options


def test_an_archive_that_its_writer_gave_up_is_written_anew(tmp_path: Path) -> None:
    left = left_by(dead_process(), tmp_path, INCOMPLETE)
    os.utime(left, (0, 0))
    assert class_archive_options(tmp_path).startswith(WRITES)
    assert not left.exists()


def test_an_archive_that_is_not_whole_is_removed_and_written_anew(tmp_path: Path) -> None:
    left_by(dead_process(), tmp_path, COMPLETE)
    archive = file_of(class_archive_options(tmp_path))
    archive.write_bytes(COMPLETE[:-1])
    assert class_archive_options(tmp_path).startswith(WRITES)
    assert not archive.exists()


def test_the_archives_of_a_few_installations_are_kept(tmp_path: Path, java_home: Path) -> None:
    for number in range(6):
        (java_home / "release").write_text(str(number))
        archive = left_by(dead_process(), tmp_path, COMPLETE)
        os.utime(archive, (number + 1, number + 1))
        assert class_archive_options(tmp_path).startswith(USES)
    assert len(list(tmp_path.glob("*.jsa"))) == 3


def test_what_processes_of_other_installations_left_is_kept_or_removed_too(tmp_path: Path, java_home: Path) -> None:
    """They may have been deleted since, as virtual environments are, so that nobody else would look at it."""
    for number in range(6):
        (java_home / "release").write_text(str(number))
        os.utime(left_by(dead_process(), tmp_path, COMPLETE), (number + 1, number + 1))
    (java_home / "release").write_text("given up")
    os.utime(left_by(dead_process(), tmp_path, INCOMPLETE), (0, 0))
    (java_home / "release").write_text("being written")
    class_archive_options(tmp_path)
    (java_home / "release").write_text("another")
    own = file_of(class_archive_options(tmp_path))
    of_running = sorted(path.stat().st_size for path in tmp_path.glob("*.new") if path != own)
    assert (of_running, len(list(tmp_path.glob("*.jsa")))) == ([0], 3)


def test_a_file_of_another_name_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("spark-1.new", "spark-1.x.new", "notes.new"):
        (tmp_path / name).touch()
    assert class_archive_options(tmp_path).startswith(WRITES)


def test_another_java_has_an_archive_of_its_own(tmp_path: Path, java_home: Path) -> None:
    left_by(dead_process(), tmp_path, COMPLETE)
    assert class_archive_options(tmp_path).startswith(USES)
    (java_home / "release").write_text("21")
    assert class_archive_options(tmp_path).startswith(WRITES)


def test_a_java_without_an_archive_of_its_own_classes_gets_none(tmp_path: Path, java_home: Path) -> None:
    (java_home / "lib" / "server" / "classes.jsa").unlink()
    assert class_archive_options(tmp_path) == ""


def test_a_cache_that_cannot_be_used_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for cache in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/no"), tmp_path / "a blank"):
        assert class_archive_options(cache) == ""
