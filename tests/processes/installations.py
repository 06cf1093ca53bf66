"""The wheel, and environments that have klamm from it or from a clone.

An environment borrows the libraries of the one that the tests run in, by links and without a package index, and so can
lack some of them. One for certain extras has what pip chooses for them alone, of which it fetches what is not here.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Collection, Iterable
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parents[2]


def build_wheel(folder: Path) -> Path:
    """The wheel of this tree as it is, in `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


class NoIndexError(Exception):
    """pip cannot choose or fetch distributions; the message is its own."""


def declared(*extras: str) -> list[Requirement]:
    """The requirements of klamm with these extras, as pyproject.toml has them."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    return [Requirement(line) for line in lines]


class Environment:
    """A virtual environment in `folder` that borrows all libraries, or has those that klamm with some extras requires.

    `lacking`: names in site-packages that it does not borrow. Raises NoIndexError if there are extras.
    """

    def __init__(self, folder: Path, lacking: Collection[str] = (), *, extras: Collection[str] | None = None) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
        self._packages = Path(paths["purelib"])
        if extras is None:
            self._borrow_all_but(lacking)
        else:
            self._install(_chosen_by_pip(declared(*extras)))

    def _borrow_all_but(self, lacking: Collection[str]) -> None:
        for library in Path(sysconfig.get_paths()["purelib"]).iterdir():
            if "klamm" not in library.name and library.name not in lacking:
                (self._packages / library.name).symlink_to(library)

    def _install(self, chosen: dict[str, str]) -> None:
        here = {canonicalize_name(found.name): found for found in distributions()}
        same = {name for name, version in chosen.items() if name in here and here[name].version == version}
        self._borrow(here[name] for name in same)
        if missing := [f"{name}=={version}" for name, version in chosen.items() if name not in same]:
            _pip("install", "--no-deps", "--target", str(self._packages), *missing)

    def _borrow(self, borrowed: Iterable[Distribution]) -> None:
        """File by file: distributions share folders, as those of the package `google` do."""
        for found in borrowed:
            assert found.files is not None, f"{found.name} does not list its files"
            for file in found.files:
                source = Path(str(file.locate()))
                # Not the scripts, which have the path of their Python in them, and not what an old pip lists as sources
                # of a distribution (setup.py, LICENSE) without having installed it.
                if ".." not in file.parts and source.exists():
                    link = self._packages / file
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(source)

    def install_wheel(self, wheel: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self._packages)

    def install_editable(self, clone: Path) -> None:
        """As pip does it: the roots of the clone, in a file that Python reads at its start."""
        (self._packages / "_klamm.pth").write_text(f"{clone}\n{clone / 'proto'}\n")

    def install_foreign(self, package: str, distribution: str) -> None:
        """Another distribution, whose package is not to be imported."""
        place_unusable_package(self._packages, package)
        metadata = self._packages / f"{distribution.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (metadata / "RECORD").write_text(f"{package}/__init__.py,,\n")

    def run(
        self, *arguments: str, folder: Path, timeout_s: float = 120, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Python with these arguments, in `folder`."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [self.python, *arguments],
            env={**inherited, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            timeout=timeout_s,
        )

    def klamm(
        self, *arguments: str, folder: Path, timeout_s: float = 120, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """The command as its console script runs it."""
        return self.run("-P", "-m", "klamm", *arguments, folder=folder, timeout_s=timeout_s, **variables)


def _chosen_by_pip(requirements: Iterable[Requirement]) -> dict[str, str]:
    """What an installation of these gets, by name: without the tools of the tests, which keep other versions back.

    pyspark is taken as it is here: pip would have to fetch 400 MB to know what it requires. Raises NoIndexError.
    """
    asked, chosen = {canonicalize_name(wanted.name): str(wanted) for wanted in requirements}, dict[str, str]()
    if asked.pop("pyspark", None) is not None:
        spark = distribution("pyspark")
        chosen["pyspark"] = spark.version
        further = [Requirement(line) for line in spark.requires or ()]
        asked |= {f.name: str(f) for f in further if f.marker is None or f.marker.evaluate({"extra": ""})}
    report = _pip("install", "--dry-run", "--ignore-installed", "--report", "-", *asked.values())
    found = [entry["metadata"] for entry in json.loads(report)["install"]]
    return {**chosen, **{canonicalize_name(entry["name"]): entry["version"] for entry in found}}


def _pip(*arguments: str) -> str:
    """stdout of pip. Raises NoIndexError."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise NoIndexError(answer.stderr[-2000:])
    return answer.stdout


def place_unusable_package(folder: Path, package: str) -> None:
    """A package that fails when it is imported."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text('raise ImportError("a package of somebody else")\n')
