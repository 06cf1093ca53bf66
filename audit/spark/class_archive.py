"""An archive of the JVM's classes, so that Spark starts with a third of the CPU time. Source: JEP 350, dynamic AppCDS.

The first JVM of an installation writes it when it exits, after the audit, which does not wait for that; later ones map
it into memory. It has 180 MB, and is in the user's cache folder, from where it may be deleted at any time. Whatever is
wrong with it costs time only: a JVM that cannot use its archive starts without it.
"""

import contextlib
import hashlib
import os
import re
import shutil
import time
from pathlib import Path
from typing import Final

import pyspark

from cluster.cli.user_folders import user_cache

_UNFINISHED, _FINISHED = ".new", ".jsa"
_BEGUN: Final = re.compile(r"(spark-[0-9a-f]+)(\.jsa)?\.(\d+)\.new")
"""The name of a file that a JVM writes: of the installation, and of the process that started the JVM."""
_KEPT: Final = 3
"""The archives that are kept, of different installations such as an old and a new release."""
_WRITING_SECONDS: Final = 120
"""How long a file may not have been written to before it counts as given up, in seconds."""
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"


def class_archive_options(cache: Path | None = None) -> str:
    """Options of a JVM with which it uses the archive, or writes it if there is none; empty if it can do neither."""
    java_home = _java_home()
    if not Path(java_home, "lib", "server", "classes.jsa").exists():
        return ""  # The archive of Java's own classes, on which this one rests.
    folder = user_cache() if cache is None else cache
    name = f"spark-{_fingerprint(java_home)}"
    if any(character.isspace() for character in str(folder)):
        return ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        waiting = _take_over(folder, name)
        archive = _archive(folder, name)
        if archive is not None:
            # Verified: an archive with damage inside would be taken as it is.
            return f"-XX:SharedArchiveFile={archive} -Xshare:auto -XX:+VerifySharedSpaces {_QUIET}"
        if waiting:
            return ""
        unfinished = folder / f"{name}.{os.getpid()}{_UNFINISHED}"
        unfinished.touch()
    except OSError:
        return ""
    return f"-XX:ArchiveClassesAtExit={unfinished} {_QUIET}"


def _archive(folder: Path, name: str) -> Path | None:
    """The archive if it is whole. One that is not, by the size in its name, ends a JVM, and is removed."""
    for path in folder.glob(f"{name}.*{_FINISHED}"):
        if path.stat().st_size == int(path.name.split(".")[-2]):
            return path
        path.unlink()
    return None


def _take_over(folder: Path, name: str) -> bool:
    """Give complete archives their names, and remove those given up; whether another process is to write this one.

    Archives of all installations are looked after: a deleted one, such as a virtual environment, has no other process
    that does. A JVM writes its archive after the process that started it has ended.
    """
    waiting = False
    for path in folder.glob(f"*{_UNFINISHED}"):
        found = _BEGUN.fullmatch(path.name)
        if found is None:
            continue
        is_over = not is_running(int(found[3]))
        with contextlib.suppress(FileNotFoundError):
            if is_over and _is_complete(path):
                path.replace(folder / f"{found[1]}.{path.stat().st_size}{_FINISHED}")
                _remove_old(folder)
            elif is_over and time.time() - path.stat().st_mtime > _WRITING_SECONDS:
                path.unlink()
            elif found[1] == name:
                waiting = True
    return waiting


def _remove_old(folder: Path) -> None:
    """Keep the archives of the last few installations."""
    newest_first = sorted(folder.glob(f"*{_FINISHED}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest_first[_KEPT:]:
        path.unlink(missing_ok=True)


def _is_complete(path: Path) -> bool:
    """Whether an archive is complete: the JVM writes its beginning last."""
    with path.open("rb") as file:
        return any(file.read(4))


def is_running(pid: int) -> bool:
    """Whether there is a process with this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _java_home() -> str:
    """The home of Java, found as Spark finds it."""
    on_path = shutil.which("java") or ""
    return os.environ.get("JAVA_HOME") or str(Path(on_path).resolve().parents[1] if on_path else "")


def _fingerprint(java_home: str) -> str:
    """A hash of the Java and the jars: an archive fits only those that it was written with."""
    release = Path(java_home, "release")
    jars = Path(pyspark.__file__).with_name("jars")
    parts = [java_home, release.read_text() if release.exists() else "", pyspark.__version__, str(jars)]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
