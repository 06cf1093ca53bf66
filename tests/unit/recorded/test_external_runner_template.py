"""The template for an external scenario runner: filled in as a runner does, it gives configurations that load."""

import json
import pathlib
import shlex
import tomllib

import pytest
from typer.testing import CliRunner

from cluster.config.config import load_config
from launcher.__main__ import app
from tests.recorded.scenario import all_names, load

TEMPLATE = pathlib.Path(__file__).resolve().parents[3] / "tests" / "recorded" / "external_runner" / "klamm.toml"


def filled(text: str, **values: object) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


@pytest.mark.parametrize("role", ["controller", "broker"])
@pytest.mark.parametrize("name", all_names())
def test_the_configuration_of_every_scenario_loads(role: str, name: str, tmp_path: pathlib.Path) -> None:
    ((file, body),) = tomllib.loads(TEMPLATE.read_text())["files"][role].items()
    values = {
        "id": 3,
        "dir": tmp_path,
        "zookeeper": "127.0.0.1:22900",
        "port": 23003,
        "rack": "a",
        "config_json": json.dumps(load(name).settings),
    }
    path = tmp_path / filled(file, **values)
    path.write_text(filled(body, **values))
    config = load_config(path)
    assert (config.id, config.listen) == (3, "127.0.0.1:23003")
    assert config.settings.replica_lag_time_max_ms == load(name).settings["replica.lag.time.max.ms"]


def test_every_command_of_the_template_exists() -> None:
    for command in tomllib.loads(TEMPLATE.read_text())["commands"].values():
        verb = shlex.split(command)[1]
        assert CliRunner().invoke(app, [verb, "--help"]).exit_code == 0, verb
