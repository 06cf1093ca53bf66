"""The archive for workers has all that they import, and nothing of what they have not."""

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from audit.spark.packages import FOLDER, current_package, write_package

IMPORTED = (
    "audit.batches.batch, audit.reading.source, audit.topic.reading, audit.batches.bucket, audit.storage.remote_files, "
    "pandas, pyspark.sql.pandas.functions"
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worker")
    size = write_package(folder / "klamm-audit.zip")
    assert size == (folder / "klamm-audit.zip").stat().st_size
    with zipfile.ZipFile(folder / "klamm-audit.zip") as archive:
        archive.extractall(folder / FOLDER)
    return folder / FOLDER


def check_imports_of_workers(unpacked: Path) -> None:
    """A Python without packages imports all that a worker needs from an archive that is unpacked."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    # As Spark sets it for its workers.
    of_spark = Path(spec.origin).parent / "python" / "lib"
    program = f"import sys; sys.path[:0] = {[str(unpacked), *map(str, of_spark.glob('*.zip'))]}; import {IMPORTED}"
    program += "; print(sys.modules['audit.batches.batch'].__file__, sys.modules['msgspec'].__file__)"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert all(Path(found).is_relative_to(unpacked) for found in ran.stdout.split())


def test_a_python_without_packages_imports_all_that_a_worker_needs(unpacked: Path) -> None:
    check_imports_of_workers(unpacked)


def test_no_other_program_and_no_test_is_in_it(unpacked: Path) -> None:
    assert {path.name for path in unpacked.iterdir()} >= {"audit", "cluster", "state_log", "pyarrow", "numpy"}
    for name in ("controller", "broker_agent", "pyspark", "numpy/tests", "audit/cli.pyc"):
        assert not (unpacked / name).exists()


def test_an_archive_of_this_installation_is_written_once(tmp_path: Path) -> None:
    first = current_package(tmp_path)
    written = first.stat().st_mtime_ns
    assert current_package(tmp_path) == first
    assert first.stat().st_mtime_ns == written
