"""The archive for support: what is in it, and what must not be."""

import json
import os
import tarfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from admin.cli.options import Cluster
from admin.cli.target import Target
from cluster.cli.documents import Format
from cluster.model import bounds
from deploy.local.cluster import LocalCluster
from launcher.bundle import (
    FILE_BYTES_MAX,
    TOTAL_BYTES_MAX,
    _answer,
    _awaited,
    _begin,
    _bounded,
    _config,
    _files_in,
    _log,
    _Part,
    _target,
    _write,
)
from launcher.redaction import REDACTED, redact, redact_document
from tests.processes.commands import run_klamm

SECRET = "hunter2-x9"


@pytest.mark.parametrize(
    "text",
    [
        f'password="{SECRET}";',
        f"  password='{SECRET}'",
        f'ssl.keystore.password = "{SECRET} with blanks"',
        f'{{"sasl.jaas.config": "Module required username=\\"u\\" password=\\"{SECRET}\\";"}}',
        f'{{\\"password\\": \\"{SECRET}\\"}}',
        f'KafkaServer {{ PlainLoginModule required\n  user_alice="{SECRET}"\n  user_bob-2 = "{SECRET}"; }};',
        f'{{"event": "sasl.jaas.config=PlainLoginModule required user_alice=\\"{SECRET}\\";"}}',
        f"PlainLoginModule required user_alice={SECRET};",
        f"KLAMM_TOKEN={SECRET} klamm",
        f"token: {SECRET}, next",
        f"connecting to postgres://user:{SECRET}@db:5432/x",
        f"Authorization: Bearer {SECRET}aaaa",
        f"Authorization: Basic {SECRET}aaaa==",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n",
        f"api_key={SECRET}",
        f"clientSecret={SECRET}",
        f"redis://:{SECRET}@cache:6379",
        f"https://{SECRET}@example.org/x",
        f"amqp://user:p@{SECRET}@queue/",
        f"secret_access_key={SECRET}",
        f"aws.access.key.id={SECRET}",
        f"AccountKey={SECRET}==",
        f'webhook_url = "https://hooks.example.org/services/T0/{SECRET}"',
        f"pwd={SECRET}",
        f"password=a,{SECRET}",
        f"password=a;b}}{SECRET}, next",
        f"ExecStart=/usr/bin/mysqldump --password {SECRET} --all",
        f"--db-password '{SECRET} with blanks'",
        f'["run", "--api-token", "{SECRET}"]',
        f"['--password','{SECRET}']",
        f"posting to https://hooks.slack.example/services/T0/B0/{SECRET}",
        f"<https://discord.example/api/webhooks/12/{SECRET}>",
        f"https://chat.example/v1/spaces/AA/messages?key=abc{SECRET}&x=1",
        f"https://prod.example/workflows/1?sv=1&sig={SECRET}",
        f"routing_key: {SECRET}",
    ],
)
def test_secrets_are_removed_from_text(text: str) -> None:
    assert SECRET not in redact(f"before\n{text}\nafter")
    assert redact(f"before\n{text}").startswith("before\n")


@pytest.mark.parametrize(
    "word",
    ["a", "a.", "password", "-password", "--password", "--password ", "a+", "password=", 'token="', "x://", "secret: "],
)
def test_the_time_grows_with_the_length_of_the_text_alone(word: str) -> None:
    """A log may be binary, and metrics come from whoever answers at that port: by squares this would take hours."""
    text = word * ((2 << 20) // len(word))
    assert redact(f"{text}\npassword={SECRET}").endswith(f"password={REDACTED}")
    assert redact_document({f"{text}!": "x"}) is not None


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "broker-1.log")
    for path in (tmp_path / "broker-1.log", Path("/dev/zero")):
        assert _log(path).content == f"{path}: is not a regular file\n"
        assert _config(path).content == f"{path}: is not a regular file\n"


def test_a_configuration_that_is_too_large_or_too_deep_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    for content in ("#" * (bounds.FILE_BYTES.maximum + 1), f"a = {'[' * 100_000}"):
        path.write_text(content)
        assert str(path) in _config(path).content


def test_logs_that_lead_out_of_the_data_folder_are_not_read(tmp_path: Path) -> None:
    """Whoever may write to the data folder must not choose what of the caller's files is sent away."""
    outside = tmp_path / "shadow"
    outside.write_text(f"root {SECRET}\n")
    cluster = LocalCluster.create_or_open(tmp_path / "c", controllers=1, brokers=1, owns_nodes=True)
    for folder, name in (("config", "a.toml"), ("logs", "a.log")):
        (tmp_path / "c" / folder).mkdir()
        (tmp_path / "c" / folder / name).symlink_to(outside)
    (tmp_path / "c" / "logs" / "own.log").write_text("mine\n")
    assert [path.name for path in _files_in(cluster.folder / "logs", "*.log")] == ["own.log"]
    assert _files_in(cluster.folder / "config", "*.toml") == []


def test_other_text_stays_as_it_is() -> None:
    text = "2026-01-01 broker 1: leader_epoch=7 topic=orders at 127.0.0.1:9092 file:///a/b?c=d\n{'a': 'b'}"
    assert redact(text) == text


def test_values_of_secret_configs_are_removed_whatever_their_place() -> None:
    def config(name: str) -> dict[str, Any]:
        return {"name": name, "value": SECRET, "source": "broker"}

    document = {
        "brokers": [{"id": 1, "configs": [config("ssl.key.password"), config("log.level")]}],
        "settings": {"sasl.jaas.config": {"deep": SECRET}, "empty.password": ""},
        "plan": [{"config": "ssl.key.password", "before": SECRET, "after": SECRET}],
        "said": f"password={SECRET}",
        "number": 7,
    }
    assert redact_document(document) == {
        "brokers": [{"id": 1, "configs": [{**config("ssl.key.password"), "value": REDACTED}, config("log.level")]}],
        "settings": {"sasl.jaas.config": REDACTED, "empty.password": ""},
        "plan": [{"config": "ssl.key.password", "before": REDACTED, "after": REDACTED}],
        "said": f"password={REDACTED}",
        "number": 7,
    }


def test_the_archive_of_a_stopped_cluster_has_no_secret_and_is_bounded(tmp_path: Path) -> None:
    cluster = LocalCluster.create_or_open(tmp_path / "c", controllers=1, brokers=1, owns_nodes=True)
    password = (tmp_path / "c" / "zookeeper-login.jaas").read_text().split('password="')[1].split('"')[0]
    for folder in ("config", "logs"):
        (tmp_path / "c" / folder).mkdir()
    (tmp_path / "c" / "config" / "broker-1.toml").write_text(
        f'# the old password was {SECRET}\nid = 1\n[settings]\n"ssl.key.password" = "{SECRET}"\n'
    )
    (tmp_path / "c" / "config" / "broker-2.toml").write_text(f"password = {SECRET}\n[broken")
    line = f"connecting with password={SECRET} user=u\n"
    (tmp_path / "c" / "logs" / "broker-1.log").write_text(line * (1 << 20))
    answer = run_klamm(
        *("bundle", "--data", str(cluster.folder), "--output", str(tmp_path / "out"), "--timeout", "30", "-o", "json")
    )
    assert answer.returncode == 0, answer.stderr
    written = json.loads(answer.stdout)
    file = Path(written["file"])
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        contents = {
            member.name.partition("/")[2]: (archive.extractfile(member) or pytest.fail(member.name)).read()
            for member in archive.getmembers()
        }
    assert sorted(contents) == sorted(written["parts"])
    assert {"versions.json", "doctor.json", "health.json", "topics.json"} <= set(contents)
    assert json.loads(contents["config/c-config-broker-1.toml.json"]) == {
        "id": 1,
        "settings": {"ssl.key.password": REDACTED},
    }
    log = contents["logs/c-logs-broker-1.log"]
    assert log.startswith(f"connecting with password={REDACTED} user=u\n".encode())
    assert len(log) <= 256 << 10
    assert b"is stopped" in contents["health.json"]
    for name, content in contents.items():
        assert SECRET.encode() not in content, name
        assert password.encode() not in content, name


def test_what_does_not_fit_is_cut_and_says_so() -> None:
    assert len(_begin("x" * (FILE_BYTES_MAX + 1))) == FILE_BYTES_MAX
    assert "[cut" in _begin("x" * (FILE_BYTES_MAX + 1))
    assert _begin("x") == "x"
    parts = [_Part(str(n), "x" * (TOTAL_BYTES_MAX // 2)) for n in range(3)]
    assert [len(part.content) > 1000 for part in _bounded(parts)] == [True, True, False]


@pytest.mark.parametrize(
    ("output", "file"),
    [
        ("", "bundle-1.tar.gz"),
        ("support", "support/bundle-1.tar.gz"),
        ("not/yet/there", "not/yet/there/bundle-1.tar.gz"),
        ("b.tgz", "b.tgz"),
        ("new/b.tar.gz", "new/b.tar.gz"),
        ("folder.tgz", "folder.tgz/bundle-1.tar.gz"),
        ("incident-2026.11", "incident-2026.11/bundle-1.tar.gz"),
    ],
)
def test_the_archive_is_the_file_that_is_named_or_in_the_folder_that_is_named(
    tmp_path: Path, output: str, file: str
) -> None:
    (tmp_path / "folder.tgz").mkdir()
    target = _target(tmp_path / output, "bundle-1")
    assert target == tmp_path / file
    _write(target, "bundle-1", [_Part("a.json", "{}")])
    with tarfile.open(target) as archive:
        assert archive.getnames() == ["bundle-1/a.json"]
    assert target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("b.zip", "b.zip: the archive is a compressed tar: name a file that ends in .tar.gz or .tgz, or a folder"),
        ("b.tar", "b.tar: the archive is a compressed tar: name a file that ends in .tar.gz or .tgz, or a folder"),
        ("there.tgz", "there.tgz: is there already: name a new file, or a folder"),
        ("notes", "notes: is a file: name a new file that ends in .tar.gz or .tgz, or a folder"),
    ],
)
def test_what_cannot_be_the_archive_is_refused_before_anything_is_asked(tmp_path: Path, output: str, said: str) -> None:
    for name in ("there.tgz", "notes"):
        (tmp_path / name).write_text("something else")
    answer = run_klamm("bundle", "--data", "nowhere", "--output", output, folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert said in " ".join(answer.stderr.replace("\u2502", " ").split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", "there.tgz"]
    assert (tmp_path / "there.tgz").read_text() == "something else"


def test_a_command_that_does_not_end_in_time_is_named_and_ended() -> None:
    cluster = Cluster(Target("127.0.0.1:1"), 60, Format.JSON)
    part = _answer(cluster, time.monotonic(), "health.json", ("cluster", "health"))
    assert part == _Part("health.json", "no answer within 0 s\n")


def test_a_long_wait_for_the_parts_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    done: Future[_Part] = Future()
    done.set_result(_Part("a", ""))
    with ThreadPoolExecutor() as pool:
        late = pool.submit(lambda: (time.sleep(3), _Part("b", ""))[1])
        parts = _awaited([late, done], time.monotonic() + 60)
    assert [part.name for part in parts] == ["b", "a"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("1 of 2 files collected; waiting up to 5")
