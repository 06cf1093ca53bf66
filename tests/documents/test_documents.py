"""The documents are true to the program: every command that they show is one that there is, and works."""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.config.config import load_config
from cluster.model.errors import ConfigError
from cluster.tls.authority import client, node, write_certificates
from launcher.__main__ import app
from tests.documents.pages import PAGES, ROOT, Block, blocks, blocks_of, unmarked_commands
from tests.documents.running import reader_folder, run
from tests.processes.certificates import write_secret

BLOCKS = [block for page in PAGES for block in blocks(page)]
AT_ONCE = {"docs/tutorial.md"}
"""Pages whose commands run with the other tests; those of the others in the deep suite."""


def command_lines() -> list[str]:
    """What `klamm` is called with, at the start of a line or behind a pipe."""
    parts = (part for block in BLOCKS for command in block.commands for part in re.split(r" +# |[|>;]|&&", command))
    return [match[1] for part in parts if (match := re.match(r" *(?:\./)?klamm (.*)", part))]


def pages_to_run() -> list[object]:
    runnable = sorted({block.page for block in BLOCKS if block.not_run is None})
    names = [str(page.relative_to(ROOT)) for page in runnable]
    return [pytest.param(name, marks=[] if name in AT_ONCE else [pytest.mark.deep]) for name in names]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_commands_are_in_blocks_of_shell(page: Path) -> None:
    assert unmarked_commands(page) == []


@pytest.mark.parametrize("arguments", command_lines())
def test_a_documented_command_line_names_a_command_and_options_that_there_are(arguments: str) -> None:
    # Asked for its help, a command does nothing else, and still complains of what it does not know.
    answer = CliRunner().invoke(app, [*shlex.split(arguments), "--help"])
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize("arguments", ["topics describ orders", "topics create orders --partition 3"])
def test_an_error_would_be_noticed(arguments: str) -> None:
    assert CliRunner().invoke(app, [*shlex.split(arguments), "--help"]).exit_code == 2


@pytest.mark.real
@pytest.mark.parametrize("name", pages_to_run())
def test_the_commands_of_a_page_work_one_after_the_other(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    with reader_folder(folder) as environment:
        wrong = [(block.name, why) for block, why in run(blocks(ROOT / name), folder, environment) if why]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_configuration_files_that_are_shown_are_accepted(page: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    write_certificates(
        keys, [node("broker", 1), *(node("controller", id) for id in (901, 1001)), client("outside")], days=1
    )
    write_secret(keys / "users", b"ann=secret\n")
    (keys / "keys.json").write_text(
        '{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}'
    )
    for number, text in enumerate(re.findall(r"^```toml\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)):
        file = tmp_path / f"{number}.toml"
        # Keys must be there.
        file.write_text(text.replace("/etc/klamm/", f"{keys}/"))
        try:
            load_config(file)
        except ConfigError as error:
            # The one thing that a file for Kerberos may lack where the tests run.
            assert str(error).startswith("settings: GSSAPI: is not installed"), error  # noqa: PT017


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    site = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(site, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "operating" / "index.html").exists()


def test_the_reference_of_the_grpc_services_is_what_the_proto_files_say() -> None:
    spec = importlib.util.spec_from_file_location("make_grpc_reference", ROOT / "docs" / "make_grpc_reference.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.page(made.read_files()) == made.PAGE.read_text(), "run .venv/bin/python docs/make_grpc_reference.py"


def test_what_a_comment_says_of_a_block_is_read(tmp_path: Path) -> None:
    page = ROOT / "docs" / "nothing.md"
    text = (
        "<!-- first: true -->\n<!-- exit code 3 -->\n```sh\nklamm cluster health\n```\n\n"
        "<!-- not run: long -->\n```sh\nx\n```\n"
    )
    found = list(blocks_of(page, text))
    assert found == [
        Block(page, 4, "klamm cluster health\n", ("true",), 3),
        Block(page, 9, "x\n", not_run="long"),
    ]
