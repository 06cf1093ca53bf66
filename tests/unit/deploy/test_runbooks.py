"""Runbooks are whole, ask for metrics that there are, and type commands that suit the place."""

import re
import shlex
from typing import Final

import pytest
import yaml
from typer.testing import CliRunner

from launcher.__main__ import app
from tests.processes.installations import ROOT
from tests.unit.deploy.test_prometheus_rules import OF_OTHERS, RUNBOOKS, exposed_names, metrics_of

TEXT: Final = RUNBOOKS.read_text("utf-8")
PARTS: Final = ("```promql\n", "\nLook at:\n", "\nDo:\n", "\nIt is over when ")


def runbooks() -> dict[str, str]:
    return dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))


def runbook_queries() -> list[str]:
    """What runbooks say to ask Prometheus, a query in a line."""
    blocks = re.findall(r"^```promql\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def what_to_type() -> dict[str, list[str]]:
    """By place, the commands of the table."""
    table = TEXT.split("## What to type where the cluster runs")[1].split("\n\n")[2].splitlines()
    rows = [line.strip("|").split(" | ") for line in (table[0], *table[2:])]
    return {
        cells[0].split(",")[0].strip(" `"): [code for cell in cells[1:] for code in re.findall(r"`([^`]+)`", cell)]
        for cells in zip(*rows, strict=True)
    }


def commands_of_klamm() -> list[str]:
    """What runbooks and their table say to type, in running text; placeholders are in capitals."""
    return sorted({match for match in re.findall(r"`klamm ([a-z][^`…]*)`", TEXT) if "*" not in match})


@pytest.mark.parametrize("arguments", commands_of_klamm())
def test_a_command_of_a_runbook_is_one_that_there_is(arguments: str) -> None:
    # Asked for its help, a command does nothing else, and still complains of what it does not know.
    answer = CliRunner().invoke(app, [*shlex.split(arguments), "--help"])
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize(("name", "text"), runbooks().items(), ids=runbooks())
def test_a_runbook_says_what_to_ask_what_to_do_and_when_it_is_over(name: str, text: str) -> None:
    places = [text.find(part) for part in PARTS]
    assert -1 not in places, name
    assert places == sorted(places)
    assert "klamm status" not in text, "only a cluster of `klamm up` has it: say **state**"


def test_every_metric_that_a_runbook_asks_for_is_exposed() -> None:
    asked = {name for query in runbook_queries() for name in metrics_of(query)}
    assert sorted(name for name in asked - exposed_names() if not OF_OTHERS.match(name)) == []


def test_every_word_in_bold_that_runbooks_use_is_in_the_table() -> None:
    table = TEXT.split("## ActiveControllerCount")[0]
    used = {word for text in runbooks().values() for word in re.findall(r"\*\*([^*]+)\*\*", text)}
    assert sorted(word for word in used if f"| **{word}**" not in table) == []


def test_commands_for_compose_name_services_and_folders_that_it_has() -> None:
    services = yaml.safe_load((ROOT / "deploy/docker/compose.yaml").read_text())["services"]
    commands = what_to_type()["docker compose"]
    named = {match[1] for line in commands if (match := re.search(r"(?:exec|run --rm) ([\w-]+)", line))} - {"NODE"}
    assert {"audit", "cli", "zookeeper-1"} == named <= services.keys()
    assert "--output=/var/lib/klamm/audit" in services["audit"]["command"]
    assert any("audit report --output /var/lib/klamm/audit" in line for line in commands)
    # The check of ZooKeeper is that of its container.
    assert any(services["zookeeper-1"]["healthcheck"]["test"][-1].split("; grep")[0] in line for line in commands)


def test_commands_for_systemd_name_units_and_folders_that_there_are() -> None:
    commands = what_to_type()["systemd"]
    units = set(re.findall(r"(?:-u|status|start|KILL) ((?:klamm-\w+ ?)+)", "\n".join(commands)))
    names = {name for group in units for name in group.split()}
    assert names == {"klamm-broker", "klamm-controller"}
    assert all((ROOT / "deploy/systemd" / f"{name}.service").is_file() for name in names)
    audit = (ROOT / "deploy/systemd/klamm-audit.service").read_text()
    assert "--output /var/lib/klamm-audit/output" in audit
    assert "/opt/klamm/bin/klamm audit report --output /var/lib/klamm-audit/output" in commands
    assert "ExecStart=/opt/klamm/bin/klamm" in audit


def test_commands_for_kubernetes_name_pods_and_services_of_the_base() -> None:
    base = ROOT / "deploy/kubernetes/base"
    files = {path.stem: list(yaml.safe_load_all(path.read_text())) for path in base.glob("*er.yaml")}
    firsts = {
        document["metadata"]["name"]: document["spec"]["ordinals"]["start"]
        for documents in files.values()
        for document in documents
        if document["kind"] == "StatefulSet"
    }
    text = "\n".join(what_to_type()["Kubernetes"])
    pods = set(re.findall(r"\b([a-z]+)-(\d+)\b", text))
    assert {(name, int(number)) for name, number in pods} == set(firsts.items())
    assert set(re.findall(r"-n (\w+)", text)) == {
        yaml.safe_load((base / "namespace.yaml").read_text())["metadata"]["name"]
    }
