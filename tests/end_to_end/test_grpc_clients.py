"""Clients in other languages, made from the `.proto` files as `docs/grpc-clients.md` says, against a real cluster."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deploy.local.cluster import LocalCluster
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "docs" / "clients"
PROTO = ROOT / "proto"
PLUGINS = re.findall(r"^go install (\S+/protoc-gen-\S+)$", (ROOT / "docs" / "grpc-clients.md").read_text("utf-8"), re.M)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with serving_cluster(tmp_path_factory.mktemp("cluster") / "c", controllers=2, brokers=1) as running:
        yield running


@pytest.fixture
def address(cluster: LocalCluster) -> str:
    """Of the broker, which is not the one to be asked for topics."""
    found: str = as_json(cluster, "status")["brokers"][0]["address"]
    return found


def run(command: Sequence[str | Path], folder: Path, *, stdin: str = "", **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        input=stdin,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def needed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def check_that_git_sees_no_change(folder: Path, language: str) -> None:
    """What a reader did in `folder`, a copy of a client's, leaves a clone clean."""
    kept = {path.name for path in (CLIENTS / language).iterdir() if not is_ignored(path)}
    assert kept <= {path.name for path in folder.iterdir()}
    for path in folder.iterdir():
        original = CLIENTS / language / path.name
        assert is_ignored(original) or path.read_bytes() == original.read_bytes(), f"{path.name} is new, or changed"


def is_ignored(path: Path) -> bool:
    # Folders are ignored by a pattern that ends with a slash, also if they are not there.
    command = ["git", "check-ignore", str(path), f"{path}/"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_a_client_in_python(address: str, tmp_path: Path) -> None:
    printed = run(
        [sys.executable, CLIENTS / "python" / "topics.py", address, "python"], tmp_path, PYTHONPATH=str(PROTO)
    )
    assert "python" in printed.splitlines()


def test_an_idempotent_producer_in_python(address: str, tmp_path: Path, cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "lines", "--partitions", "1")
    numbers = [str(number) for number in range(250)]
    command = [sys.executable, CLIENTS / "python" / "produce.py", address, "lines", "0"]
    printed = run(command, tmp_path, stdin="\n".join(numbers), PYTHONPATH=str(PROTO))
    assert printed.splitlines()[-1] == "50 records from offset 200 on"
    assert klamm(cluster, "consume", "lines", "--from-beginning", "--until-end").stdout.splitlines() == numbers


@pytest.mark.deep
def test_a_client_in_go(address: str, tmp_path: Path) -> None:
    go, tools = needed("go"), tmp_path / "tools"
    for plugin in PLUGINS:
        run([go, "install", plugin], tmp_path, GOBIN=str(tools))
    folder = shutil.copytree(CLIENTS / "go", tmp_path / "go")
    protos = sorted((PROTO / "klamm" / "v1").glob("*.proto"))
    path = f"{tools}:{os.environ['PATH']}"
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", PROTO, "--go_out=.", "--go-grpc_out=."]
    run([*protoc, *protos], folder, PATH=path)
    assert "go" in run([go, "run", ".", address, "go"], folder).splitlines()
    check_that_git_sees_no_change(folder, "go")
    run([go, "mod", "tidy", "-diff"], folder)


@pytest.mark.deep
def test_a_client_in_node(address: str, tmp_path: Path) -> None:
    npm, node = needed("npm"), needed("node")
    folder = shutil.copytree(CLIENTS / "node", tmp_path / "node")
    run([npm, "install", "--no-audit", "--no-fund"], folder)
    assert "node" in run([node, "topics.js", PROTO, address, "node"], folder).splitlines()
    check_that_git_sees_no_change(folder, "node")


@pytest.mark.deep
def test_grpcurl(address: str, tmp_path: Path) -> None:
    run([needed("go"), "install", "github.com/fullstorydev/grpcurl/cmd/grpcurl@latest"], tmp_path, GOBIN=str(tmp_path))
    grpcurl = [tmp_path / "grpcurl", "-plaintext"]
    assert "klamm.v1.ClusterService" in run([*grpcurl, address, "list"], tmp_path)
    described = json.loads(run([*grpcurl, address, "klamm.v1.ClusterService/DescribeCluster"], tmp_path))
    topics = {"topics": [{"name": "curl", "num_partitions": 3, "replication_factor": 1}], "timeout_ms": 10_000}
    controller = [described["controller_address"], "klamm.v1.ControllerService/CreateTopics"]
    created = json.loads(run([*grpcurl, "-d", json.dumps(topics), *controller], tmp_path))
    assert created["topics"][0]["name"] == "curl"
    assert created["topics"][0]["num_partitions"] == 3
