"""The bootstrap: when it installs, and what it leaves when it cannot."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from launcher import bootstrap
from tests.timeouts import TIMEOUT_S

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("stamp", "made_from", "extras", "installed"),
    [
        (None, "1 2 /r", "embedded,audit", False),
        ("1 2 /r\nembedded,audit\n", "1 2 /r", "embedded,audit", True),
        ("1 2 /r\nembedded,audit,dev\n", "1 2 /r", "embedded,audit", True),
        ("1 2 /r\nembedded,audit\n", "1 2 /r", "embedded", True),
        ("1 2 /r\nembedded\n", "1 2 /r", "embedded,audit", False),
        ("1 2 /r\nembedded,audit\n", "1 2 /r", "embedded,audit,dev", False),
        ("1 2 /elsewhere\nembedded,audit\n", "1 2 /r", "embedded,audit", False),
        ("1 2 /r\n", "1 2 /r", "embedded,audit", False),
    ],
)
def test_only_a_whole_stamp_of_this_project_counts_as_installed(
    tmp_path: Path, stamp: str | None, made_from: str, extras: str, installed: bool
) -> None:
    if stamp is not None:
        (tmp_path / bootstrap.STAMP).write_text(stamp)
    assert bootstrap.is_installed(tmp_path, made_from, extras) is installed


def test_the_shell_script_parses_as_posix_shell() -> None:
    assert subprocess.run(["sh", "-n", str(ROOT / "klamm")], check=False).returncode == 0


def clone(folder: Path) -> Path:
    """A clone as the bootstrap sees it: the script, the bootstrap and a project file."""
    (folder / "launcher").mkdir(parents=True)
    for name in ("klamm", "launcher/bootstrap.py", "pyproject.toml"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    (folder / "klamm").chmod(0o755)
    return folder


def path_with(folder: Path, **scripts: str) -> str:
    """A PATH with the basic tools and these scripts, and no Python of the machine."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "cksum", "readlink", "cat", "env"):
        found = next(p for d in ("/usr/bin", "/bin") if (p := Path(d) / name).exists())
        (tools / name).symlink_to(found)
    for name, body in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    return str(tools)


def run(script: Path, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(script), "--help"], env={"PATH": path, "HOME": ""}, capture_output=True, text=True, check=False
    )


def test_without_a_new_enough_python_the_bootstrap_says_what_to_install(tmp_path: Path) -> None:
    root = clone(tmp_path / "clone")
    old = 'case "$*" in *exit*) exit 1;; *print*) echo 3.9;; esac'
    answer = run(root / "klamm", path_with(tmp_path, python3=old))
    assert answer.returncode == 1
    assert "Python 3.11 or newer" in answer.stderr
    assert "python3=3.9" in answer.stderr
    assert not (root / ".venv").exists()


def test_a_python_without_venv_gets_the_name_of_the_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("launcher.bootstrap.importlib.util.find_spec", lambda name: None)
    code = bootstrap.main(["--root", str(tmp_path), "--extras", "embedded,audit", "--made-from", "x"])
    assert code == 1
    assert f"python{sys.version_info.major}.{sys.version_info.minor}-venv" in capsys.readouterr().err
    assert not (tmp_path / ".venv" / bootstrap.STAMP).exists()


def test_an_installation_that_failed_leaves_no_stamp_and_an_exit_code(tmp_path: Path) -> None:
    root = clone(tmp_path / "clone")
    (root / "pyproject.toml").write_text("this is not a project")
    answer = subprocess.run(
        [str(root / "klamm"), "--help"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert answer.returncode == 1
    assert "pip could not install" in answer.stderr
    assert answer.stdout == ""
    assert not (root / ".venv" / bootstrap.STAMP).exists()


def test_what_was_installed_is_compiled_beside_files_that_cannot_be(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "lib" / "python3" / "site-packages" / "package"
    package.mkdir(parents=True)
    (package / "module.py").write_text("x = 1\n")
    (package / "template.py").write_text("{{ name }} = \n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    bootstrap._compile(tmp_path)
    assert [path.name.partition(".")[0] for path in package.rglob("*.pyc")] == ["module"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("command", "extras", "installed"),
    [
        ("up", "embedded", True),
        ("audit", "embedded", False),
        ("demo", "embedded", False),
        ("audit", "embedded,audit", True),
        ("topics", "embedded,audit", True),
        ("test", "embedded,audit", False),
    ],
)
def test_spark_is_installed_only_for_what_needs_it(tmp_path: Path, command: str, extras: str, installed: bool) -> None:
    root = clone(tmp_path / "clone")
    bin_folder = root / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").write_text("#!/bin/sh\necho ran\n")
    (bin_folder / "python").chmod(0o755)
    checksum = subprocess.run(["cksum"], input=(root / "pyproject.toml").read_bytes(), capture_output=True, check=True)
    (root / ".venv" / bootstrap.STAMP).write_text(f"{checksum.stdout.decode().strip()} {root}\n{extras}\n")
    # Without any Python to install with: what is missing is an error.
    path = path_with(tmp_path)
    answer = subprocess.run([str(root / "klamm"), command], env={"PATH": path}, capture_output=True, check=False)
    assert (answer.returncode == 0) is installed


def test_an_installed_environment_is_used_without_asking_python_for_anything(tmp_path: Path) -> None:
    root = clone(tmp_path / "a clone")
    bin_folder = root / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").write_text('#!/bin/sh\necho "ran $*"\n')
    (bin_folder / "python").chmod(0o755)
    checksum = subprocess.run(["cksum"], input=(root / "pyproject.toml").read_bytes(), capture_output=True, check=True)
    (root / ".venv" / bootstrap.STAMP).write_text(f"{checksum.stdout.decode().strip()} {root}\nembedded,audit\n")
    answer = run(root / "klamm", path_with(tmp_path))
    assert (answer.returncode, answer.stdout) == (0, "ran -P -m klamm --help\n")


def test_a_wait_for_an_installation_is_said_with_its_size_and_duration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark takes minutes, in which another command of the same clone would seem to hang."""
    monkeypatch.setattr(bootstrap, "_WORD_EVERY_S", 0)
    waiter = []
    with bootstrap._locked(tmp_path, "with Spark: about 1.2 GB, some minutes"):
        waiter.append(threading.Thread(target=lambda: bootstrap._locked(tmp_path, "more").__enter__(), daemon=True))
        waiter[0].start()
        said = ""
        deadline = time.monotonic() + TIMEOUT_S
        while said.count("waiting for it") < 2:
            assert time.monotonic() < deadline, said
            said += capsys.readouterr().err
            time.sleep(0.05)
    waiter[0].join(TIMEOUT_S)
    assert not waiter[0].is_alive()
    assert f"process {os.getpid()}, with Spark: about 1.2 GB, some minutes" in said
