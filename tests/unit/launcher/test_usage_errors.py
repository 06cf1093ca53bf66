"""What the command line says of values that an option does not take."""

import pytest
from typer.testing import CliRunner

from cluster.model.exit_codes import ExitCode
from launcher.__main__ import app


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topics", "create", "t", "--partitions", "0"], "'--partitions': '0': must be at least 1"),
        (["topics", "create", "t", "--partitions", "x"], "'--partitions': 'x': must be a whole number"),
        (["topics", "list", "--timeout", "0"], "'--timeout': '0': must be from 0.1 to 2,000,000"),
        (["zookeeper", "--port", "70000"], "'--port': '70000': must be from 0 to 65,535"),
        (
            ["broker", "--override", "ssl.key.password=MARKER"],
            "--override: ssl.key.password: is a secret, and",
        ),
        (["up", "--config", "ssl.keystore.key=MARKER"], "--config: ssl.keystore.key: is a secret, and"),
        (["topics", "list", "-o", "foo"], "'-o' / '--format': 'foo' is not one of 'table', 'json', 'yaml'."),
    ],
)
def test_a_value_is_named_with_what_it_may_be(arguments: list[str], said: str) -> None:
    answer = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert answer.exit_code == ExitCode.USAGE
    assert said in " ".join(answer.stderr.replace("│", " ").split())
    assert "MARKER" not in answer.output
