"""klamm with the extra `audit` alone, as users install it: the audit needs nothing that the tools of tests bring."""

import contextlib
import json
import os
import subprocess
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from audit.spark.packages import FOLDER
from deploy.spark.standalone import standalone_cluster
from tests.audits.log_audits import audit_folder
from tests.audits.state_change_histories import draw, write_logs
from tests.end_to_end.test_audit_on_spark import PYTHON_OF_WORKERS, spark_home
from tests.processes.installations import Environment, NoIndexError, build_wheel, declared
from tests.unit.audit.test_packages import check_imports_of_workers

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]
ON_ONE_MACHINE = "local-cluster[2,1,1024]"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    try:
        environment = Environment(tmp_path_factory.mktemp("environment") / "venv", extras=["audit"])
    except NoIndexError as reason:
        pytest.skip(f"pip cannot choose what the extra audit needs: {reason}")
    environment.install_wheel(wheel)
    return environment


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    write_logs(draw(21, steps=200, partitions=3).logs, folder)
    return folder


@contextlib.contextmanager
def master(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a master of this kind."""
    if kind == "standalone":
        with standalone_cluster(folder / "cluster", workers=1) as running:
            yield running.url
    else:
        yield kind


def audit(python: Path, logs: Path, output: Path, *options: str, **variables: str) -> dict[str, object]:
    """What an audit that goes to its end has read and found."""
    command = [python, "-P", "-m", "klamm", "audit", "run", "--once", "-o", "json"]
    command += ["--log-dir", str(logs), "--output", str(output), *options]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(
        command, env={**inherited, **variables}, capture_output=True, text=True, check=False, cwd=output.parent
    )
    assert ran.returncode in {0, 3}, ran.stdout[-2000:] + ran.stderr[-3000:]
    result = json.loads(ran.stdout)
    return {key: result[key] for key in ("verdict", "records", "findings")}


def test_what_only_the_tests_need_is_not_there(installed: Environment, tmp_path: Path) -> None:
    listing = "from importlib.metadata import distributions; print(*(found.name for found in distributions()))"
    there = {canonicalize_name(name) for name in installed.run("-c", listing, folder=tmp_path).stdout.split()}
    wanted = {canonicalize_name(requirement.name) for requirement in declared("audit")}
    assert wanted <= there
    assert there.isdisjoint({canonicalize_name(requirement.name) for requirement in declared("dev")} - wanted)


def test_the_archive_for_workers_is_written_and_has_all_that_they_import(
    installed: Environment, tmp_path: Path
) -> None:
    written = installed.klamm("audit", "package", "--output", "klamm-audit.zip", folder=tmp_path)
    assert written.returncode == 0, written.stderr
    with zipfile.ZipFile(tmp_path / "klamm-audit.zip") as archive:
        archive.extractall(tmp_path / FOLDER)
    check_imports_of_workers(tmp_path / FOLDER)


@pytest.fixture(scope="module")
def expected(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the audit finds without Spark."""
    result = audit_folder(logs, tmp_path_factory.mktemp("expected"))
    return {"verdict": result.verdict, "records": result.records, "findings": dict(result.findings)}


@pytest.mark.parametrize("kind", ["standalone", pytest.param(ON_ONE_MACHINE, marks=pytest.mark.deep)])
def test_the_audit_on_a_cluster_finds_what_its_rules_find(
    installed: Environment, logs: Path, expected: dict[str, object], tmp_path: Path, kind: str
) -> None:
    # The scripts of Spark go by where their links point to, which is not this environment.
    home = str(spark_home(tmp_path / "spark"))
    with master(kind, tmp_path) as url:
        options = ("--master", url, "--memory", "512m" if kind == "standalone" else "1g", "--conf", PYTHON_OF_WORKERS)
        assert audit(installed.python, logs, tmp_path / "output", *options, SPARK_HOME=home) == expected


@pytest.mark.deep
def test_what_pip_installs_for_the_extra_runs_on_a_cluster(wheel: Path, logs: Path, tmp_path: Path) -> None:
    """From a package index: nothing is borrowed from the environment of the tests."""
    folder = tmp_path / "venv"
    venv.create(folder, symlinks=True, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel}[audit]"], check=True)
    options = ("--master", ON_ONE_MACHINE, "--memory", "1g", "--conf", PYTHON_OF_WORKERS)
    result = audit(python, logs, tmp_path / "output", *options)
    assert result["records"]
