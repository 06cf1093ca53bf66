"""The wheel, and environments that have klamm from it or from a clone, without a package index.

An environment borrows the libraries of the one that the tests run in, by links, and so can lack some of them.
"""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def build_wheel(folder: Path) -> Path:
    """The wheel of this tree as it is, in `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


class Environment:
    """A virtual environment in `folder`; `lacking`: names in site-packages that it does not borrow."""

    def __init__(self, folder: Path, lacking: Collection[str] = ()) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
        self._packages = Path(paths["purelib"])
        for library in Path(sysconfig.get_paths()["purelib"]).iterdir():
            if "klamm" not in library.name and library.name not in lacking:
                (self._packages / library.name).symlink_to(library)

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


def place_unusable_package(folder: Path, package: str) -> None:
    """A package that fails when it is imported."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text('raise ImportError("a package of somebody else")\n')
