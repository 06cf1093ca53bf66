"""Variables that nothing reads are named, with the one that was meant."""

import os
import subprocess

import pytest

from cluster.config.config import NodeConfig
from launcher.environment import KNOWN, unknown_variables
from tests.processes.commands import LAUNCHER
from tests.processes.installations import ROOT
from tests.timeouts import TIMEOUT_S


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "KLAMM_BOOTSTAP",
            "warning: the environment variable KLAMM_BOOTSTAP has no effect: there is no such variable; "
            "did you mean KLAMM_BOOTSTRAP?",
        ),
        (
            "KLAMM_COLOUR",
            "warning: the environment variable KLAMM_COLOUR has no effect: there is no such variable",
        ),
    ],
)
def test_an_unknown_variable_is_named_with_the_nearest_known_one(name: str, said: str) -> None:
    assert unknown_variables(["PATH", "KLAMM_ID", name]) == [said]


def test_known_variables_and_those_of_others_are_not_mentioned() -> None:
    assert unknown_variables([*KNOWN, "klamm_listen", "HOME", "KLAMM_TEST_COMPOSE", "_KLAMM_COMPLETE"]) == []


def test_every_field_of_a_process_and_every_variable_of_compose_is_known() -> None:
    fields = {f"KLAMM_{name.upper()}" for name in NodeConfig.model_fields}
    in_compose = {line.partition("=")[0] for line in (ROOT / "deploy/docker/.env").read_text().splitlines()}
    of_compose = {name for name in in_compose if name.startswith("KLAMM_")}
    clients = {f"KLAMM_{name}" for name in ("BOOTSTRAP", "CLUSTER", "CONTEXT", "CLIENT_ID", "COMMAND_CONFIG")}
    assert fields | of_compose | clients == KNOWN


def test_a_command_says_it_before_it_runs() -> None:
    answer = subprocess.run(
        [*LAUNCHER, "--version"],
        env={**os.environ, "KLAMM_CONTEX\x1b": "x"},
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    assert "klamm: warning: the environment variable KLAMM_CONTEX\\x1b has no effect" in answer.stderr
    assert "did you mean KLAMM_CONTEXT?" in answer.stderr
