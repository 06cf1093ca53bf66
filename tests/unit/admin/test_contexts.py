"""Clusters by name, and what goes before what."""

import concurrent.futures
import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from admin.cli.contexts_file import (
    DEFAULT_DATA,
    Context,
    Contexts,
    changing_contexts,
    contexts_path,
    read_contexts,
    write_contexts,
)
from admin.cli.target import Target, find_target
from cluster.model.errors import ConfigError, StartupError
from launcher.__main__ import app


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("KLAMM_BOOTSTRAP", "KLAMM_CLUSTER", "KLAMM_CONTEXT"):
        monkeypatch.delenv(name, raising=False)


def klamm(*arguments: str, code: int = 0) -> str:
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == code, answer.output
    return answer.stdout


def test_without_a_file_the_cluster_of_the_current_folder_is_meant() -> None:
    assert find_target() == Target(None, DEFAULT_DATA)
    (shown,) = json.loads(klamm("contexts", "list", "-o", "json"))["contexts"]
    assert shown == {"name": "local", "current": True, "bootstrap": None, "data": ".klamm", "command_config": None}


def test_contexts_are_added_used_shown_and_removed(tmp_path: Path) -> None:
    klamm("contexts", "add", "production", "--bootstrap", "a:1, b:2")
    klamm("contexts", "add", "demo", "--data", "somewhere", "--use")
    assert find_target() == Target(None, Path("somewhere").resolve())
    klamm("contexts", "use", "production")
    assert find_target() == Target("a:1,b:2", origin="the context production")
    assert json.loads(klamm("contexts", "show", "-o", "json")) == {"bootstrap": "a:1,b:2", "data": None}
    listed = klamm("contexts", "list").splitlines()
    assert [line.split()[0] for line in listed] == ["CURRENT", "-", "-", "*"]
    klamm("contexts", "remove", "production")
    assert find_target() == Target()
    assert list(read_contexts().contexts) == ["demo"]
    assert stat.S_IMODE(contexts_path().stat().st_mode) == 0o600
    assert [path.name for path in contexts_path().parent.iterdir()] == ["contexts.json"]


def test_options_go_before_the_environment_and_that_before_the_current_context() -> None:
    klamm("contexts", "add", "one", "--bootstrap", "one:1", "--use")
    klamm("contexts", "add", "two", "--bootstrap", "two:2")
    assert find_target() == Target("one:1", origin="the context one")
    by_context = {"KLAMM_CONTEXT": "two"}
    assert find_target(environment=by_context) == Target("two:2", origin="the context two")
    by_folder = {**by_context, "KLAMM_CLUSTER": "/f"}
    assert find_target(environment=by_folder) == Target(None, Path("/f"))
    by_address = {**by_folder, "KLAMM_BOOTSTRAP": "env:1"}
    assert find_target(environment=by_address) == Target("env:1", origin="KLAMM_BOOTSTRAP")
    assert find_target(context="two", environment=by_address) == Target("two:2", origin="the context two")
    assert find_target(None, Path("/g"), "two", by_address) == Target(None, Path("/g"))
    assert find_target("flag:1", Path("/g"), "two", by_address) == Target("flag:1", origin="--bootstrap")


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "x"],
        ["add", "x", "--bootstrap", "a:1", "--data", "d"],
        ["add", "local", "--bootstrap", "a:1"],
        ["add", "a b", "--bootstrap", "a:1"],
    ],
)
def test_what_cannot_be_added_is_refused(arguments: list[str]) -> None:
    klamm("contexts", *arguments, code=2)
    assert not contexts_path().exists()


def test_an_unknown_context_is_named_with_those_that_there_are() -> None:
    klamm("contexts", "add", "one", "--bootstrap", "one:1")
    with pytest.raises(StartupError, match="no context 'other'; there are: local, one"):
        find_target(context="other")


def test_a_file_that_is_not_ours_is_an_error_that_names_it() -> None:
    contexts_path().parent.mkdir()
    contexts_path().write_text('{"current": 7}')
    with pytest.raises(StartupError, match=r"contexts.json cannot be read: .*; mend or remove it"):
        find_target()


def test_the_folder_is_that_of_the_xdg_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somebody")
    assert contexts_path({}) == Path("/somebody/.config/klamm/contexts.json")
    assert contexts_path({"XDG_CONFIG_HOME": "relative"}) == Path("/somebody/.config/klamm/contexts.json")
    assert contexts_path({"XDG_CONFIG_HOME": "/c"}) == Path("/c/klamm/contexts.json")


def test_who_changes_them_at_the_same_time_loses_nothing() -> None:
    def add(number: int) -> None:
        with changing_contexts() as known:
            write_contexts(Contexts(known.current, {**known.contexts, f"c{number}": Context("h:1")}))

    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        list(pool.map(add, range(64)))
    assert len(read_contexts().contexts) == 64


def test_a_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    """As of people who keep their configuration in a repository."""
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text("{}")
    contexts_path().parent.mkdir(parents=True)
    contexts_path().symlink_to(elsewhere)
    klamm("contexts", "add", "production", "--bootstrap", "a:1")
    assert contexts_path().is_symlink()
    assert "production" in elsewhere.read_text()


def test_a_file_that_never_ends_is_refused(tmp_path: Path) -> None:
    contexts_path().parent.mkdir()
    contexts_path().symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="has more than"):
        read_contexts()
