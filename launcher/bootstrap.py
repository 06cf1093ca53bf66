"""Make the project's environment, `.venv`, and install the project into it. Run by `./klamm`.

Only the standard library is imported: this runs before anything is installed, on any Python from 3.11. What
was installed is noted in a stamp that is written last, so an interrupted installation is done again.
"""

import argparse
import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

STAMP = "klamm-installed"
# By extra, each with those before it; as measured on Linux.
_SIZES = {
    "embedded": "about 230 MB, under a minute",
    "audit": "with Spark: about 1.2 GB, some minutes",
    "dev": "with Spark and all tools of the tests: about 1.5 GB, some minutes",
}
_LOCK_POLL_S = 0.2
_WORD_EVERY_S = 15


class BootstrapError(Exception):
    """The environment cannot be made; the message says what to do about it."""


def main(arguments: list[str] | None = None) -> int:
    """Install unless another process has just done so; exit code 0, or 1 with a message on stderr."""
    parser = argparse.ArgumentParser(prog="bootstrap")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--extras", required=True)
    parser.add_argument("--made-from", required=True)
    options = parser.parse_args(arguments)
    try:
        with _locked(options.root / ".venv", _size(options.extras)):
            if not is_installed(options.root / ".venv", options.made_from, options.extras):
                install(options.root, options.extras, options.made_from)
    except BootstrapError as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        _say("interrupted; the next run starts the installation again")
        return 130
    return 0


def is_installed(venv: Path, made_from: str, extras: str) -> bool:
    """Whether the stamp says that at least these extras were installed from this state of the project."""
    try:
        lines = (venv / STAMP).read_text().splitlines()
    except OSError:
        return False
    return len(lines) == 2 and lines[0] == made_from and set(extras.split(",")) <= set(lines[1].split(","))


def install(root: Path, extras: str, made_from: str) -> None:
    """Create or repair `.venv` and install the project, editable, with `extras`."""
    venv = root / ".venv"
    stamp = venv / STAMP
    held = _stamped_extras(stamp)
    stamp.unlink(missing_ok=True)
    _say(f"installing into {venv}, once ({_size(extras)})")
    if not _is_usable(venv):
        _create_venv(venv)
    # Extras installed earlier, such as the tools of `./klamm test`, are upgraded with the rest.
    wanted = sorted(set(extras.split(",")) | held)
    _pip_install(venv, f"{root}[{','.join(wanted)}]")
    unfinished = venv / f"{STAMP}.new"
    ordered = [e for e in ("embedded", "audit", "dev") if e in wanted]
    unfinished.write_text(f"{made_from}\n{','.join(ordered)}\n")
    unfinished.replace(stamp)
    _say("installed")


def _size(extras: str) -> str:
    """Say how much an installation of these takes."""
    return _SIZES[max(extras.split(","), key=list(_SIZES).index)]


def _create_venv(venv: Path) -> None:
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            raise BootstrapError(
                f"{sys.executable} cannot make virtual environments: its module '{module}' is missing.\n"
                f"  Debian, Ubuntu: sudo apt install python{version}-venv\n"
                f"  elsewhere: install a complete Python {version} and run this again"
            )
    # Not `venv --clear`, which would remove the lock file under our feet.
    for name in ("bin", "include", "lib", "lib64", "pyvenv.cfg"):
        path = venv / name
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)
    made = subprocess.run([sys.executable, "-I", "-m", "venv", str(venv)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise BootstrapError(f"could not make {venv}:\n{(made.stdout + made.stderr).strip()}")


def _is_usable(venv: Path) -> bool:
    """An environment of Python >= 3.11 with pip that does not look into the system's site packages."""
    try:
        settings = (venv / "pyvenv.cfg").read_text().lower().replace(" ", "")
    except OSError:
        return False
    if "include-system-site-packages=true" in settings:
        return False
    probe = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([_python(venv), "-I", "-c", probe], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _pip_install(venv: Path, requirement: str) -> None:
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PYTHONNOUSERSITE": "1"}
    home = Path(environment.get("HOME") or "/nonexistent")
    if not os.access(home, os.W_OK):
        environment["PIP_NO_CACHE_DIR"] = "1"
    command = [_python(venv), "-m", "pip", "install", "--no-compile", "--editable", requirement]
    if not sys.stderr.isatty():
        command += ["--quiet", "--progress-bar", "off"]
    # pip's own words go to stderr: stdout belongs to the command that the user called.
    if subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode != 0:
        raise BootstrapError(
            "pip could not install the project (its messages are above); is the package index in reach?"
        )
    _compile(venv)


def _compile(venv: Path) -> None:
    """Compile what was installed, on all processors: pip would do so on one.

    Packages have files, such as templates, that cannot be compiled; what fails is compiled, or refused, at its import.
    """
    command = [_python(venv), "-I", "-m", "compileall", "-qq", "-j", "0", str(venv / "lib")]
    subprocess.run(command, stdout=sys.stderr, check=False)


def _stamped_extras(stamp: Path) -> set[str]:
    try:
        return set(stamp.read_text().splitlines()[1].split(","))
    except (OSError, IndexError):
        return set()


@contextlib.contextmanager
def _locked(venv: Path, what: str) -> Iterator[None]:
    """Keep others from installing meanwhile; the lock ends with its process. `what`: the work that others wait for."""
    try:
        venv.mkdir(exist_ok=True)
        descriptor = os.open(venv / ".klamm-lock", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise BootstrapError(f"cannot write to {venv}: {error.strerror}") from error
    try:
        _wait_for_lock(descriptor)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}, {what}".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int) -> None:
    """Take the lock; while another process has it, say every now and then what is waited for."""
    began = time.monotonic()
    next_word = began
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            if now >= next_word:
                holder = os.pread(descriptor, 1000, 0).decode(errors="replace") or "just begun"
                _say(f"another process is installing ({holder}); waiting for it, {now - began:.0f} s so far")
                next_word = now + _WORD_EVERY_S
            time.sleep(_LOCK_POLL_S)
        else:
            return


def _python(venv: Path) -> str:
    return str(venv / "bin" / "python")


def _say(message: str) -> None:
    print(f"klamm: {message}", file=sys.stderr, flush=True)  # noqa: T201 - nothing else is installed yet


if __name__ == "__main__":
    sys.exit(main())
