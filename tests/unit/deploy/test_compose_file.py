"""What deploy/docker/compose.yaml promises, without an engine; tests/compose runs it on one."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

from cluster.config.config import load_config
from tests.processes.installations import ROOT

FOLDER = ROOT / "deploy" / "docker"
CONTENT = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = CONTENT["services"]
NODES = {name: service for name, service in SERVICES.items() if name.startswith(("controller-", "broker-"))}
PROFILES = ("core", "observe", "audit")
DEFAULTS = dict(
    line.split("=", 1) for line in (FOLDER / ".env").read_text().splitlines() if line and not line.startswith("#")
)
COMPOSE_V2 = "github.com/docker/compose/v2@v2.40.3"


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_every_service_is_restricted(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "mem_limit" in service
    assert not service.get("privileged")


def test_every_service_that_stays_has_a_health_check_and_starts_again() -> None:
    # A command is no process to be checked, and the health check of its image would be of one.
    assert SERVICES["cli"]["healthcheck"] == {"disable": True}
    for name, service in SERVICES.items():
        if name != "cli":
            assert service["restart"] == "unless-stopped"
            assert {"test", "interval", "timeout", "retries", "start_period"} <= service["healthcheck"].keys()
    for service in (*NODES.values(), SERVICES["audit"]):
        assert service["healthcheck"]["test"] == ["CMD", "klamm", "health"]
        assert int(service["healthcheck"]["interval"].removesuffix("s")) >= 10


def test_ports_are_published_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == len(NODES) + 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def published(variables: dict[str, str]) -> list[str]:
    """The ports on the host, with these variables over those of `.env`."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    return [Template(port).substitute({**DEFAULTS, **variables}).split(":")[1] for port in ports]


def test_the_second_cluster_of_the_document_shares_no_port_with_the_first() -> None:
    (shown,) = re.findall(r"^export (COMPOSE_PROJECT_NAME=.*)$", (ROOT / "docs/docker.md").read_text("utf-8"), re.M)
    second = dict(word.split("=", 1) for word in shown.split())
    assert second.keys() <= DEFAULTS.keys()
    assert second["COMPOSE_PROJECT_NAME"] != DEFAULTS["COMPOSE_PROJECT_NAME"]
    ports = [*published({}), *published(second)]
    assert len(set(ports)) == len(ports)
    assert published({})[-3:] == ["9090", "9093", "3000"]


def test_nothing_waits_for_every_member_of_what_can_do_without_one() -> None:
    waits = [
        (name, other)
        for name, service in SERVICES.items()
        for other, how in service.get("depends_on", {}).items()
        if how["condition"] != "service_started"
    ]
    assert waits == [], "one broken container would keep all of these from starting"


def test_no_limit_is_asked_for_that_an_engine_may_not_be_able_to_give() -> None:
    # Above the hard limit of the engine itself no container starts. klamm raises its own soft limit to the hard one.
    assert not [name for name, service in SERVICES.items() if "ulimits" in service]


def test_images_of_others_are_named_by_digest() -> None:
    named = {DEFAULTS[name] for name in DEFAULTS if name.endswith("_IMAGE") and not name.startswith("KLAMM_")}
    assert len(named) == 4
    for image in (DEFAULTS["KLAMM_BASE"], *named):
        assert re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", image), image


def test_images_are_built_on_the_same_base_with_and_without_compose() -> None:
    assert f"ARG BASE={DEFAULTS['KLAMM_BASE']}\n" in (FOLDER / "Dockerfile").read_text()


def test_the_cluster_is_in_every_profile() -> None:
    assert {profile for service in SERVICES.values() for profile in service["profiles"]} == {*PROFILES, "cli"}
    for name, service in SERVICES.items():
        if name.startswith(("zookeeper-", "controller-", "broker-")):
            assert service["profiles"] == list(PROFILES)


@pytest.mark.parametrize("name", NODES)
def test_the_environment_of_a_process_is_a_whole_configuration(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of_image = {"KLAMM_DATA": "/var/lib/klamm", "KLAMM_LISTEN": "0.0.0.0:9092", "KLAMM_CONTROL_LISTEN": "0.0.0.0:9093"}
    for key, value in {**of_image, **NODES[name]["environment"]}.items():
        monkeypatch.setenv(key, value.replace("${KLAMM_PORTS}", "190"))
    config = load_config(None)
    client, control, external = config.endpoints(9092, 9093, 9094)
    assert (client.address, control.address) == (f"{name}:9092", f"{name}:9093")
    assert NODES[name]["ports"] == [f"127.0.0.1:${{KLAMM_PORTS}}{external.port - 19_000:02d}:9094"]
    assert config.settings.min_insync_replicas == 2


def test_every_variable_has_a_default() -> None:
    text = (FOLDER / "compose.yaml").read_text() + (FOLDER / "compose.secured.yaml").read_text()
    used = {part.partition("}")[0] for part in text.split("${")[1:]}
    assert used == DEFAULTS.keys() - {"COMPOSE_PROJECT_NAME", "COMPOSE_PROFILES"}


@pytest.mark.parametrize("name", ["strimzi", "confluent"])
def test_copies_of_metrics_are_where_prometheus_reads_them_on_request_only(name: str) -> None:
    assert "/copies" not in (FOLDER / "compose.yaml").read_text()
    added = yaml.safe_load((FOLDER / f"compose.{name}.yaml").read_text())["services"]
    [(file, mounted, mode)] = [tuple(volume.split(":")) for volume in added["prometheus"]["volumes"]]
    assert (FOLDER / file).is_file()
    rule_files = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["rule_files"]
    assert any(Path(mounted).match(pattern) for pattern in rule_files if pattern.startswith("/"))
    assert (list(added), mode) == (["prometheus"], "ro")


def accepted(command: list[str]) -> str:
    """What compose makes of the file. The commands do not speak to an engine."""
    files = "compose.yaml:compose.strimzi.yaml:compose.confluent.yaml:compose.secured.yaml"
    environment = {**os.environ, "COMPOSE_PROFILES": ",".join(PROFILES), "COMPOSE_FILE": files}
    answer = subprocess.run(
        [*command, "config"], cwd=FOLDER, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert "/etc/klamm/copies/strimzi.rules.yaml" in answer.stdout
    return answer.stdout


def test_the_first_compose_accepts_the_file() -> None:
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed")
    assert "image: klamm-audit" in accepted(["docker-compose"])


@pytest.mark.deep
def test_the_second_compose_accepts_the_file(tmp_path: Path) -> None:
    """Built from its sources: `go install` refuses a module with exclude directives."""
    if shutil.which("go") is None:
        pytest.skip("compose v2 is built with Go, which is not installed")
    download = subprocess.run(
        ["go", "mod", "download", "-json", COMPOSE_V2], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    if download.returncode != 0:
        pytest.skip(f"the sources of compose v2 cannot be had: {download.stdout[-300:]}")
    source = shutil.copytree(json.loads(download.stdout)["Dir"], tmp_path / "source", copy_function=shutil.copyfile)
    source.chmod(0o755)
    subprocess.run(["go", "build", "-o", str(tmp_path / "compose"), "./cmd"], cwd=source, check=True)
    assert "image: klamm-audit" in accepted([str(tmp_path / "compose")])
