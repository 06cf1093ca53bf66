"""The kustomize base of deploy/kubernetes: the API's schemas, and what holds between its objects.

kustomize itself, built with Go in the deep suite, must make of the base what it is meant to be.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.metrics.server import HEALTH_PATH, LIVE_PATH
from tests.processes.installations import ROOT

BASE = ROOT / "deploy" / "kubernetes" / "base"
KUSTOMIZATION = yaml.safe_load((BASE / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    found for name in KUSTOMIZATION["resources"] for found in yaml.safe_load_all((BASE / name).read_text())
]
STATEFUL_SETS = {found["metadata"]["name"]: found for found in OBJECTS if found["kind"] == "StatefulSet"}
OLDEST = "1.31"
"""The first with ordinals of stateful sets as a stable feature."""
KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1"


def name(found: dict[str, Any]) -> str:
    return f"{found['kind']} {found['metadata']['name']}"


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {found["metadata"]["name"]: found for found in OBJECTS if found["kind"] == kind}


def check_schema(found: dict[str, Any], version: str | None = None) -> None:
    """Raises a ValidationError of kubernetes_validate; None: the newest version that it knows."""
    # Its import compiles a grammar of URIs for two seconds: not in each process that collects tests.
    import kubernetes_validate

    kubernetes_validate.validate(found, version or kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("version", [OLDEST, None], ids=["oldest", "newest"])
@pytest.mark.parametrize("found", OBJECTS, ids=name)
def test_each_object_fits_the_schema(found: dict[str, Any], version: str | None) -> None:
    check_schema(found, version)


def test_every_file_of_the_base_is_listed() -> None:
    listed = {*KUSTOMIZATION["resources"], *KUSTOMIZATION["configMapGenerator"][0]["files"], "kustomization.yaml"}
    assert {path.name for path in BASE.iterdir()} == listed


def test_each_stateful_set_has_a_headless_service_and_a_budget() -> None:
    services, budgets = of_kind("Service"), of_kind("PodDisruptionBudget")
    assert STATEFUL_SETS.keys() == services.keys() == budgets.keys() == {"zookeeper", "controller", "broker"}
    for key, found in STATEFUL_SETS.items():
        labels = found["spec"]["template"]["metadata"]["labels"]
        assert services[key]["spec"]["clusterIP"] == "None"
        assert services[key]["spec"]["selector"] == labels == budgets[key]["spec"]["selector"]["matchLabels"]
        assert found["spec"]["serviceName"] == key


@pytest.mark.parametrize("found", STATEFUL_SETS.values(), ids=name)
def test_containers_are_restricted_and_probed(found: dict[str, Any]) -> None:
    spec = found["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claimed = {claim["metadata"]["name"] for claim in found["spec"]["volumeClaimTemplates"]}
    assert mounted == claimed | {volume["name"] for volume in spec["volumes"]}


@pytest.mark.parametrize(("role", "first"), [("controller", 1001), ("broker", 1), ("zookeeper", 1)])
def test_the_number_of_a_pod_is_its_id(role: str, first: int) -> None:
    found = STATEFUL_SETS[role]
    assert found["spec"]["ordinals"] == {"start": first}
    (container,) = found["spec"]["template"]["spec"]["containers"]
    by_label = [e["name"] for e in container["env"] if "pod-index" in str(e.get("valueFrom"))]
    assert by_label == ["ZOO_MY_ID" if role == "zookeeper" else "KLAMM_ID"]


@pytest.mark.parametrize("role", ["controller", "broker"])
def test_a_lost_zookeeper_makes_a_pod_unready_and_does_not_restart_it(role: str) -> None:
    (container,) = STATEFUL_SETS[role]["spec"]["template"]["spec"]["containers"]
    assert container["livenessProbe"]["httpGet"]["path"] == LIVE_PATH
    assert container["readinessProbe"]["httpGet"]["path"] == HEALTH_PATH


def test_policies_name_ports_that_exist() -> None:
    offered = {
        role: {port["name"] for port in found["spec"]["template"]["spec"]["containers"][0]["ports"]}
        for role, found in STATEFUL_SETS.items()
    }
    for policy, found in of_kind("NetworkPolicy").items():
        roles = ["zookeeper"] if policy == "zookeeper" else ["controller", "broker"]
        for rule in found["spec"].get("ingress", []):
            for role in roles:
                assert {port["port"] for port in rule["ports"]} <= offered[role]


@pytest.mark.deep
def test_kustomize_builds_the_base(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("kustomize is built with Go, which is not installed")
    environment = {**os.environ, "GOBIN": str(tmp_path)}
    made = subprocess.run(["go", "install", KUSTOMIZE], env=environment, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"kustomize cannot be built: {made.stderr[-300:]}")
    built = subprocess.run([tmp_path / "kustomize", "build", str(BASE)], capture_output=True, text=True, check=True)
    objects = list(yaml.safe_load_all(built.stdout))
    for found in objects:
        check_schema(found, OLDEST)
        assert found["metadata"].get("namespace", "klamm") == "klamm"
    assert len(objects) == len(OBJECTS) + len(KUSTOMIZATION["configMapGenerator"])
    (policy,) = [found for found in objects if found["metadata"]["name"] == "controllers-and-brokers"]
    # kustomize would add its labels to the pods that may connect, if it were asked to add them to selectors.
    assert {"podSelector": {"matchLabels": {"klamm-client": "true"}}} in [
        peer for rule in policy["spec"]["ingress"] for peer in rule["from"]
    ]
