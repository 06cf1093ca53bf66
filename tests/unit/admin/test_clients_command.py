"""`klamm clients` refuses what does not name a client."""

import pytest
from typer.testing import CliRunner

from launcher.__main__ import app


@pytest.mark.parametrize("command", [["describe", ""], ["alter", "", "--config", "producer_byte_rate=5"]])
def test_an_empty_name_is_not_the_default_of_all_clients(command: list[str]) -> None:
    answer = CliRunner().invoke(app, ["clients", *command, "--bootstrap", "127.0.0.1:1"])
    assert answer.exit_code == 2
    assert "is empty: name one, or 'default' for all" in " ".join(answer.output.split())
