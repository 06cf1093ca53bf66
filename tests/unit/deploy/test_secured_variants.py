"""The secured variants of compose and kustomize: whole configurations, with the certificates that they name."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cluster.config.config import NodeConfig, load_config
from cluster.tls.authority import client, node, write_certificates
from tests.processes.installations import ROOT
from tests.unit.deploy.test_compose_file import DEFAULTS, FOLDER, NODES
from tests.unit.deploy.test_compose_file import SERVICES as OPEN
from tests.unit.deploy.test_kubernetes_base import BASE, KUSTOMIZE, OLDEST, STATEFUL_SETS

SECURED: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "compose.secured.yaml").read_text())["services"]
KUBERNETES = BASE.parent
OVERLAY = yaml.safe_load((KUBERNETES / "secured" / "kustomization.yaml").read_text())
PATCHES = {
    name: next(yaml.safe_load_all((KUBERNETES / "secured" / f"{name}.yaml").read_text()))
    for name in ("zookeeper", "controller", "broker")
}
CERTIFICATES = {
    found["metadata"]["name"]: found["spec"]
    for found in yaml.safe_load_all((KUBERNETES / "cert-manager" / "certificates.yaml").read_text())
    if found["kind"] == "Certificate"
}
PODS = {"controller": (1001, 1002, 1003), "broker": (1, 2, 3)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of each node."""
    made = tmp_path_factory.mktemp("certificates")
    write_certificates(made, [*(node(role, n) for role, ids in PODS.items() for n in ids), client("admin")], days=1)
    return made


def configuration(
    environment: dict[str, str], arguments: list[str], folder: Path, patch: pytest.MonkeyPatch
) -> NodeConfig:
    """What a process makes of its container's environment and command, with the certificates of `folder`."""
    of_image = {"KLAMM_DATA": "d", "KLAMM_LISTEN": "0.0.0.0:9092", "KLAMM_CONTROL_LISTEN": "0.0.0.0:9093"}
    for key, value in {**of_image, "KLAMM_METRICS_LISTEN": "0.0.0.0:9404", **environment}.items():
        patch.setenv(key, value.replace("${KLAMM_PORTS}", "190").replace("/certs", str(folder)))
    overrides = [argument.removeprefix("--override=").partition("=") for argument in arguments[1:]]
    return load_config(None, {"settings": {key: value.replace("/certs", str(folder)) for key, _, value in overrides}})


class TestCompose:
    @pytest.mark.parametrize("name", NODES)
    def test_a_process_has_tls_at_every_port_but_that_for_metrics(
        self, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        environment = {**OPEN[name]["environment"], **SECURED[name]["environment"]}
        found = configuration(environment, SECURED[name]["command"], folder, monkeypatch)
        assert SECURED[name]["command"][0] == OPEN[name]["command"][0]
        assert {end.security_protocol for end in found.endpoints(9092, 9093, 9094)} == {"SSL"}
        keystore, role = found.settings.ssl_keystore_location, name.partition("-")[0]
        assert keystore == str(folder / f"{role}-{found.id}.pem")
        assert found.settings.zookeeper_tls is not None
        assert found.settings.zookeeper_tls.keystore_location == keystore
        assert found.settings.zookeeper_set_acl
        assert found.settings.super_users == f"User:{client('admin').distinguished_name}"
        # Nothing else differs from the open stack.
        for key, value in yaml.safe_load(OPEN[name]["environment"]["KLAMM_SETTINGS"]).items():
            assert yaml.safe_load(environment["KLAMM_SETTINGS"])[key] == value

    def test_each_container_sees_its_own_certificates(self) -> None:
        for name, service in SECURED.items():
            assert f"${{KLAMM_CERTIFICATES}}/{name}:/certs:ro" in service["volumes"]
        assert SECURED.keys() == {*NODES, "cli", "zookeeper-1", "zookeeper-2", "zookeeper-3"}

    @pytest.mark.parametrize("of", [FOLDER, None])
    def test_zookeeper_takes_clients_under_tls_only(self, of: Path | None) -> None:
        usual = (BASE / "zoo.cfg" if of is None else of / "zoo.cfg").read_text()
        secured = (KUBERNETES / "secured" / "zoo.cfg" if of is None else of / "zoo.secured.cfg").read_text()

        def pairs(text: str) -> dict[str, str]:
            return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))

        assert pairs(usual).items() <= pairs(secured).items()
        added = pairs(secured)
        assert (added["clientPortAddress"], added["secureClientPort"], added["ssl.clientAuth"]) == (
            "127.0.0.1",
            "2281",
            "need",
        )
        # Whoever has a certificate of the authority of the quorum is a member of it.
        assert added["sslQuorum"] == "true"
        for store in ("keyStore", "trustStore"):
            of_clients, of_quorum = added[f"ssl.{store}.location"], added[f"ssl.quorum.{store}.location"]
            assert Path(of_clients).parent != Path(of_quorum).parent

    @pytest.mark.deep
    def test_the_script_makes_every_file_that_is_mounted(self, tmp_path: Path) -> None:
        klamm = ROOT / ".venv" / "bin" / "klamm"
        made = subprocess.run(
            [FOLDER / "make-certificates", "made"], cwd=tmp_path, env={**os.environ, "KLAMM": str(klamm)}, check=False
        )
        assert made.returncode == 0
        for name, service in SECURED.items():
            files = {str(path.relative_to(tmp_path / "made" / name)) for path in (tmp_path / "made" / name).rglob("*")}
            configured = (FOLDER / "zoo.secured.cfg").read_text() if name.startswith("zookeeper") else ""
            asked = re.findall(r"/certs/([\w./-]+)", yaml.safe_dump(service) + configured)
            assert {*asked, "ca.pem"} <= files
            assert not [path for path in files if path.endswith("ca-key.pem")]
        trusted = [(tmp_path / "made" / "zookeeper-1" / path).read_bytes() for path in ("ca.pem", "quorum/ca.pem")]
        assert trusted[0] != trusted[1]
        properties = (tmp_path / "made" / "cli" / "admin.properties").read_text()
        assert "ssl.keystore.location=/certs/admin.pem\n" in properties
        assert "KLAMM_CERTIFICATES" in DEFAULTS


class TestKubernetes:
    @pytest.mark.parametrize(("role", "number"), [(role, number) for role, ids in PODS.items() for number in ids])
    def test_a_pod_has_tls_at_every_port(
        self, role: str, number: int, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        literals = dict(line.split("=", 1) for line in OVERLAY["configMapGenerator"][1]["literals"])
        (container,) = PATCHES[role]["spec"]["template"]["spec"]["containers"]
        pod = f"{role}-{number}"
        arguments = [argument.replace("$(POD_NAME)", pod) for argument in container["args"]]
        advertised = f"{pod}.{role}.klamm.svc:9092"
        environment = {**literals, "KLAMM_ID": str(number), "KLAMM_ADVERTISED": advertised}
        found = configuration(environment, arguments, folder, monkeypatch)
        assert {end.security_protocol for end in found.endpoints(9092, 9093)} == {"SSL"}
        assert found.security_protocol("METRICS") == "SSL"
        assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
        assert found.settings.client_auth_of("METRICS") == "none"
        assert found.settings.super_users == f"User:{client('admin').distinguished_name}"
        sources = PATCHES[role]["spec"]["template"]["spec"]["volumes"][0]["projected"]["sources"]
        named = {(source["secret"]["name"], item["path"]) for source in sources for item in source["secret"]["items"]}
        assert {(pod, f"{pod}.pem"), (f"{role}-{PODS[role][0]}", "ca.pem")} <= named
        # cert-manager makes it, by the names and with the identity that others look for.
        certificate = CERTIFICATES[pod]
        assert certificate["uris"] == [f"klamm://{role}/{number}"]
        assert advertised.partition(":")[0] in certificate["dnsNames"]

    def test_nodes_share_a_distinguished_name(self) -> None:
        names = {
            (spec["commonName"], *spec["subject"]["organizations"])
            for name, spec in CERTIFICATES.items()
            if name.startswith(("controller-", "broker-"))
        }
        assert names == {("node", "klamm")}
        assert {spec["secretName"] for spec in CERTIFICATES.values()} == CERTIFICATES.keys()

    @pytest.mark.parametrize("role", PATCHES)
    def test_a_patch_is_of_what_there_is(self, role: str) -> None:
        (container,) = PATCHES[role]["spec"]["template"]["spec"]["containers"]
        (patched,) = STATEFUL_SETS[role]["spec"]["template"]["spec"]["containers"]
        assert container["name"] == patched["name"]
        assert {patch["path"] for patch in OVERLAY["patches"]} == {f"{name}.yaml" for name in PATCHES}

    @pytest.mark.deep
    @pytest.mark.parametrize("overlay", ["secured", "cert-manager"])
    def test_kustomize_builds_it(self, overlay: str, tmp_path: Path) -> None:
        if shutil.which("go") is None:
            pytest.skip("kustomize is built with Go, which is not installed")
        environment = {**os.environ, "GOBIN": str(tmp_path)}
        made = subprocess.run(
            ["go", "install", KUSTOMIZE], env=environment, capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            pytest.skip(f"kustomize cannot be built: {made.stderr[-300:]}")
        command = [tmp_path / "kustomize", "build", str(KUBERNETES / overlay)]
        objects = list(yaml.safe_load_all(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        for found in objects:
            assert found["metadata"].get("namespace", "klamm") == "klamm"
            if not found["apiVersion"].startswith("cert-manager.io/"):
                kubernetes_validate.validate(found, OLDEST, strict=True)
        check_merged(objects)


def check_merged(objects: list[dict[str, Any]]) -> None:
    """Patches have replaced what they were to replace, and left the rest."""
    sets = {found["metadata"]["name"]: found for found in objects if found["kind"] == "StatefulSet"}
    services = {found["metadata"]["name"]: found for found in objects if found["kind"] == "Service"}
    (zookeeper,) = sets["zookeeper"]["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in zookeeper["ports"]}
    assert ports == {"client": 2281, "quorum": 2888, "election": 3888, "metrics": 7000}
    assert {port["name"]: port["port"] for port in services["zookeeper"]["spec"]["ports"]} == ports
    for role in PODS:
        spec = sets[role]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert container["readinessProbe"]["httpGet"] == {"scheme": "HTTPS", "path": "/healthz", "port": "metrics"}
        assert container["readinessProbe"]["periodSeconds"] == 10
        assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/var/lib/klamm", "/tmp", "/certs"}
        assert {volume["name"] for volume in spec["volumes"]} == {"certificates", "tmp"}
