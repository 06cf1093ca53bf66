"""The command line as a program sees it: exit codes, streams, and what is not imported."""

import json
import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from cluster.aio.clock import SystemClock
from cluster.cli.typed_command import as_typed, name_cluster
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch
from cluster.model.errors import ApiError, ErrorCode, FieldViolation
from cluster.model.exit_codes import ExitCode
from cluster.process.identity import identify
from cluster.process.local_cluster import BROKER, CONTROLLER, STATE_FILE, LocalClusterState, Member
from deploy.local.cluster import LocalCluster
from launcher.__main__ import error_lines
from state_log.record import Cause, Kind, StateChange
from state_log.writer import FileStateChangeLog
from tests.processes.commands import LAUNCHER, run_klamm
from tests.timeouts import TIMEOUT_S
from tests.unit.launcher.test_every_command import ALL, options

HEAVY = ("pyspark", "kazoo", "pandas", "pyarrow", "aiokafka", "uvicorn")


@pytest.fixture(autouse=True)
def _no_cluster_is_named() -> None:
    """Commands that ran in this process have named theirs."""
    name_cluster()


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["topics", "create"],
        ["topics", "create", "t", "--partitions", "0"],
        ["topics", "create", "t", "--partitions", "many"],
        ["topics", "create", "t", "--config", "no-equals-sign", "--bootstrap", "localhost:1"],
        ["topics", "create", "t", "--replica-assignment", "1:x", "--bootstrap", "localhost:1"],
        ["topics", "create", "t", "--replica-assignment", "1:2", "--partitions", "1", "--bootstrap", "localhost:1"],
        ["topics", "list", "--bootstrap", "nohost"],
        ["topics", "list", "--bootstrap", ","],
        ["topics", "list", "-o", "xml"],
        ["produce", "t", "--acks", "2"],
        ["produce", "t", "--count", "0"],
        ["produce", "t", "--header", "noequals", "--bootstrap", "localhost:1"],
        ["produce", "t", "--header", b"\xff=1".decode(errors="surrogateescape"), "--bootstrap", "localhost:1"],
        ["produce", "t", "--key-separator", "", "--bootstrap", "localhost:1"],
        ["produce", "t", "--compression", "brotli"],
        ["consume", "t", "--since", "soon", "--bootstrap", "localhost:1"],
        ["consume", "t", "--since", "1d", "--from-beginning", "--bootstrap", "localhost:1"],
        ["top", "--metrics", "nohost", "--bootstrap", "localhost:1"],
        ["doctor", "--zookeeper", "nohost", "--bootstrap", "localhost:1"],
        ["bundle", "--metrics", "nohost", "--bootstrap", "localhost:1"],
        ["completion", "tcsh"],
        ["up", "--racks", "a,,b"],
        ["up", "--port", "80"],
        ["produce", "t", "--count", "1", "--file", "/dev/null", "--bootstrap", "localhost:1"],
        ["topics", "list", "--timeout", "inf", "--bootstrap", "localhost:1"],
        ["produce", "t", "--timeout", "inf", "--bootstrap", "localhost:1"],
        ["consume", "t", "--timeout", "inf", "--bootstrap", "localhost:1"],
        ["consume", "t", "--from-beginning", "--offset", "3"],
        ["story", "orders"],
        ["broker"],
        ["topics", "alter", "t"],
        ["topics", "alter", "t", "--replica-assignment", "1:2"],
        ["reassign", "generate", "--broker-list", "1,2"],
        ["reassign", "cancel"],
        ["reassign", "execute", "/dev/null"],
        ["elect", "preferred"],
        ["elect", "unclean", "--all-topic-partitions", "--topic", "t"],
        ["brokers", "alter", "somebody", "--config", "a=b"],
        ["features", "upgrade", "--feature", "no-level", "--bootstrap", "localhost:1"],
        ["features", "downgrade", "--feature", "f=-1", "--bootstrap", "localhost:1"],
        ["features", "disable"],
        ["reassign", "verify"],
        ["up", "--brokers", "0"],
        ["up", "--zookeeper", "127.0.0.1:2181//chroot"],
        ["up", "--config", "no.such.key=1"],
        ["up", "--config", "leader.imbalance.check.interval.seconds=soon"],
        ["up", "--config", "broker.id=7"],
        ["simulate", "--seeds", "5..1"],
        ["simulate", "--seed", "-1"],
        ["simulate", "--jobs", "0"],
        ["reassign", "verify", "a.json", "--reassignment-json-file", "b.json"],
    ],
)
def test_wrong_usage_exits_2_and_leaves_stdout_alone(arguments: list[str], tmp_path: Path) -> None:
    answer = run_klamm(*arguments, folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr


def test_the_version_is_that_of_the_installed_package() -> None:
    answer = run_klamm("--version")
    assert (answer.returncode, answer.stdout) == (0, f"klamm {version('klamm')}\n")


@pytest.mark.parametrize(
    "arguments",
    [["topics", "list"], ["status"], ["down"], ["produce", "t", "--count", "1"], ["story", "orders-0"]],
)
def test_without_a_cluster_every_command_says_how_to_get_one(arguments: list[str], tmp_path: Path) -> None:
    answer = run_klamm(*arguments, folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "klamm up" in answer.stderr or "--data" in answer.stderr


@pytest.mark.parametrize("arguments", [["topics", "list"], ["produce", "t", "--count", "1"], ["watch"]])
def test_commands_on_a_stopped_cluster_say_so_without_waiting(arguments: list[str], tmp_path: Path) -> None:
    LocalCluster.create_or_open(tmp_path / ".klamm")
    # Beyond any timeout of the test, so that only an answer without a wait passes.
    answer = run_klamm(*arguments, "--timeout", "100000", folder=tmp_path, timeout_s=TIMEOUT_S)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == "klamm: the cluster in .klamm is stopped; start it with 'klamm up --detach'\n"


def test_commands_say_so_when_kafkas_brokers_run_without_klamms_controllers(tmp_path: Path) -> None:
    broker = Member(BROKER, 1, 9092, 0, identify(os.getpid()))
    state = LocalClusterState(1, "127.0.0.1:2181", [Member(CONTROLLER, 1001, 9701, 7701), broker], {}, kafka="3.9.1")
    (tmp_path / ".klamm").mkdir()
    (tmp_path / ".klamm" / STATE_FILE).write_bytes(msgspec.json.encode(state))
    answer = run_klamm("topics", "list", folder=tmp_path, timeout_s=TIMEOUT_S)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        "klamm: none of the controllers that 'klamm up' started runs, and Kafka's brokers may have one of their own; "
        "start klamm's with 'klamm up --detach', or name one that was started otherwise with --bootstrap HOST:PORT\n"
    )


@pytest.mark.parametrize("command", ["adopt", "leave"])
def test_a_cluster_on_this_machine_is_adopted_and_left_by_its_folder(command: str, tmp_path: Path) -> None:
    LocalCluster.create_or_open(tmp_path / "own", controllers=1, brokers=1)
    own = run_klamm(command, "--data", str(tmp_path / "own"))
    assert (own.returncode, own.stdout) == (2, "")
    assert "its brokers are klamm's own: there is nothing to adopt or to leave" in " ".join(
        own.stderr.replace("│", "").split()
    )
    neither = run_klamm(command)
    both = run_klamm(command, "--data", str(tmp_path), "--zookeeper", "zk:2181")
    for answer in (neither, both):
        assert answer.returncode == 2
        assert "give --zookeeper, or --data for a cluster that" in " ".join(answer.stderr.replace("│", "").split())
    nowhere = run_klamm(command, "--data", str(tmp_path / "nowhere"))
    assert nowhere.returncode == 1
    assert "no cluster in" in nowhere.stderr


def test_the_status_of_a_stopped_cluster_is_shown_with_a_code_of_its_own(tmp_path: Path) -> None:
    LocalCluster.create_or_open(tmp_path, controllers=1, brokers=1)
    answer = run_klamm("status", "--data", str(tmp_path))
    assert answer.returncode == 3
    assert answer.stderr == (
        "zookeeper is stopped; controller 1001 is stopped; broker 1 is stopped; no controller is active\n"
    )
    assert [line.split()[0] for line in answer.stdout.splitlines()] == ["ROLE", "zookeeper", "controller", "broker"]


@pytest.mark.parametrize("partition", ["nosuch-0", "orders-99"])
def test_the_story_of_an_unknown_partition_is_an_error(partition: str, tmp_path: Path) -> None:
    log = FileStateChangeLog(tmp_path, node="controller-1001", incarnation="1700000000000.1", clock=SystemClock())
    log.append([StateChange(kind=Kind.TOPIC, topic="orders", to_state="created")])
    log.close()
    answer = run_klamm("story", partition, "--log-dir", str(tmp_path))
    assert (answer.returncode, answer.stdout) == (1, "")
    assert f"no records of partition {partition}" in answer.stderr


def test_the_story_explains_each_request_once(tmp_path: Path) -> None:
    log = FileStateChangeLog(tmp_path, node="controller-1001", incarnation="1700000000000.1", clock=SystemClock())
    asked = StateChange(
        kind=Kind.PARTITION,
        topic="orders",
        partition=0,
        cause=Cause("CreateTopicsReceived", 1),
        controller_epoch=ControllerEpoch(1),
        request_id="r-1",
        principal="ANONYMOUS",
        to_state="NewPartition",
    )
    log.append([asked, replace(asked, to_state="OnlinePartition", reason="initialised")])
    log.close()
    answer = run_klamm("story", "orders-0", "--log-dir", str(tmp_path))
    first, second, _, header, explained = answer.stdout.splitlines()[-5:]
    assert first.endswith("CreateTopics               1")
    assert second.endswith("CreateTopics, initialised  1")
    assert header.split() == ["REQUEST", "WHAT_IS_KNOWN_OF_IT"]
    assert explained.startswith("1        request id r-1, at ")


def test_the_story_is_cut_to_the_last_events_and_to_a_time(tmp_path: Path) -> None:
    log = FileStateChangeLog(tmp_path, node="controller-1001", incarnation="1700000000000.1", clock=SystemClock())
    states = [f"state-{number}" for number in range(5)]
    log.append(
        [
            StateChange(
                kind=Kind.PARTITION,
                topic="orders",
                partition=0,
                to_state=state,
                leader=BrokerId(1),
                leader_epoch=LeaderEpoch(epoch),
            )
            for epoch, state in enumerate(states)
        ]
    )
    log.close()

    def shown(*options: str) -> tuple[list[str], list[int]]:
        answer = json.loads(run_klamm("story", "orders-0", "--log-dir", str(tmp_path), "-o", "json", *options).stdout)
        epochs = [span["leader_epoch"] for span in answer["leaderships"]]
        return [record["to_state"] for record in answer["records"]], epochs

    assert shown("--limit", "2") == (states[-2:], [3, 4])
    assert shown("--since", "1d") == (states, [0, 1, 2, 3, 4])
    assert shown("--since", "2999-01-01")[0] == []
    assert run_klamm("story", "orders-0", "--log-dir", str(tmp_path), "--since", "soon").returncode == 2


def test_an_unreachable_address_is_named(tmp_path: Path) -> None:
    answer = run_klamm("topics", "list", "--bootstrap", "127.0.0.1:1", "--timeout", "1", folder=tmp_path)
    assert answer.returncode == 1
    assert "127.0.0.1:1" in answer.stderr
    assert "no answer: 127.0.0.1:1 not answering" in answer.stderr


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = run_klamm("zookeeper", "--port", "0", "--data", "file/below", folder=tmp_path)
    assert (answer.returncode, answer.stderr) == (1, "klamm: file/below: Not a directory\n")


def test_a_full_disk_behind_the_output_gives_a_message() -> None:
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            [*LAUNCHER, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=TIMEOUT_S
        )
    assert (answer.returncode, answer.stderr) == (1, "klamm: No space left on device\n")


def test_a_closed_input_is_an_empty_one(tmp_path: Path) -> None:
    command = shlex.join([*LAUNCHER, "topics", "delete", "orders"])
    answer = subprocess.run(
        ["sh", "-c", f"exec {command} <&-"],
        env={**os.environ, "KLAMM_CLUSTER": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert (answer.returncode, answer.stderr.splitlines()[0][:21]) == (1, "klamm: no cluster in ")


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_has_seen_enough_ends_a_command_as_by_the_signal(lines: int) -> None:
    # Few lines are lost when the process ends, many while it still writes.
    script = f"""
import sys, typer
from launcher.__main__ import app, main
@app.command("much")
def much() -> None:
    for _ in range({lines}):
        sys.stdout.write("a line\\n")
sys.argv = ["klamm", "much"]
sys.stdin.read()
main()
"""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", ExitCode.PIPE_CLOSED)


def test_several_errors_are_reported_on_a_line_each_and_one_with_what_it_said() -> None:
    both = [FieldViolation("a", "too small"), FieldViolation("b", "unknown")]
    error = ApiError(ErrorCode.INVALID_CONFIG, "too small; unknown", field="a", value="1", violations=both)
    assert error_lines(error) == ["INVALID_CONFIG", "  a: too small", "  b: unknown"]
    error = ApiError(ErrorCode.INVALID_CONFIG, "too small", field="a", value="1")
    assert error_lines(error) == ["INVALID_CONFIG: too small (a: 1)"]
    error = ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "brokers [9] are not alive", field="broker")
    assert error_lines(error) == ["BROKER_NOT_AVAILABLE: brokers [9] are not alive"]


@pytest.mark.parametrize("command", ["topics list", "cluster describe", "produce t --count 1", "--help", "status"])
def test_a_command_imports_no_more_than_it_needs_and_collects_garbage(command: str, tmp_path: Path) -> None:
    first = command.split(maxsplit=1)[0]
    of_nobody = [] if first in {"--help", "status"} else ["--bootstrap", "127.0.0.1:1", "--timeout", "0.2"]
    script = f"""
import gc, json, sys
sys.argv = {["klamm", *command.split(), *of_nobody]!r}
from klamm.entry import main
try:
    main()
except SystemExit:
    pass
print(json.dumps([gc.isenabled(), *sorted({{name.partition(".")[0] for name in sys.modules}})]))
"""
    answer = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        timeout=TIMEOUT_S,
    )
    collects, *imported = json.loads(answer.stdout.splitlines()[-1])
    assert collects or first == "--help"
    allowed = {"aiokafka"} if first == "produce" else set()
    assert {*imported} & set(HEAVY) <= allowed


def test_help_goes_to_stdout() -> None:
    answer = run_klamm("--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "Usage" in answer.stdout


def test_what_the_caller_named_cannot_control_the_terminal(tmp_path: Path) -> None:
    answer = run_klamm("broker", "--config", f"{tmp_path}/x\x1b[31m\ny")
    assert answer.returncode == ExitCode.USAGE
    assert answer.stderr == f"klamm: {tmp_path}/x\\x1b[31m\\ny: cannot be read: No such file or directory\n"


@pytest.mark.parametrize("position", [{"COMP_CWORD": "x"}, {}])
def test_a_completion_that_no_shell_asks_for_is_no_traceback(position: dict[str, str]) -> None:
    answer = subprocess.run(
        LAUNCHER,
        env={**os.environ, "_KLAMM_COMPLETE": "complete_bash", "COMP_WORDS": "klamm to", **position},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (ExitCode.USAGE, "", "")


def test_messages_name_commands_as_this_one_was_typed(tmp_path: Path) -> None:
    answer = subprocess.run(
        [*LAUNCHER, "topics", "list", "--data", str(tmp_path)],
        env={**os.environ, "_KLAMM_COMMAND": "./klamm"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert "'./klamm up" in answer.stderr


def test_doctor_names_commands_as_it_was_typed(tmp_path: Path) -> None:
    LocalCluster.create_or_open(tmp_path / "c", controllers=1, brokers=1)
    answer = subprocess.run(
        [*LAUNCHER, "doctor", "--data", str(tmp_path / "c"), "-o", "json", "--timeout", "1"],
        env={**os.environ, "_KLAMM_COMMAND": "./klamm"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert f"'./klamm up --detach --data {tmp_path / 'c'}'" in answer.stdout
    assert "'klamm " not in answer.stdout + answer.stderr


def test_a_command_in_quotes_is_named_as_it_is_to_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "see `klamm cluster health`, 'klamm up'; klamm is there"
    assert as_typed(text) == text
    monkeypatch.setenv("_KLAMM_COMMAND", "./klamm")
    assert as_typed(text) == "see `./klamm cluster health`, './klamm up'; klamm is there"


@pytest.mark.parametrize(
    ("options", "text", "typed"),
    [
        ({"data": Path("/d x")}, "'klamm topics list' shows", "'klamm topics list --data '/d x'' shows"),
        ({"data": Path("/d")}, "start it with 'klamm up --detach'", "start it with 'klamm up --detach --data /d'"),
        ({"data": Path("/d")}, "'klamm up --detach --data /d'", "'klamm up --detach --data /d'"),
        ({"bootstrap": "b:9092"}, "see `klamm cluster health`!", "see `klamm cluster health --bootstrap b:9092`!"),
        ({"bootstrap": "b:9092"}, "'klamm up --detach'", "'klamm up --detach'"),
        (
            {"context": "prod"},
            "'klamm reassign list', 'klamm contexts'",
            "'klamm reassign list --context prod', 'klamm contexts'",
        ),
        ({"data": None}, "'klamm topics list'", "'klamm topics list'"),
    ],
)
def test_a_command_in_a_message_names_the_cluster_as_this_one_did(
    options: dict[str, object], text: str, typed: str
) -> None:
    name_cluster(**options)
    assert as_typed(text) == typed


def test_the_commands_that_take_the_cluster_are_those_that_messages_give_it_to() -> None:
    name_cluster(bootstrap="b:1")
    asking = {name for name in ALL if as_typed(f"'klamm {name}'").endswith("--bootstrap b:1'")}
    name_cluster(data="d")
    of_data = {name for name in ALL if as_typed(f"'klamm {name}'").endswith("--data d'")}
    assert asking == {name for name, c in ALL.items() if {"--bootstrap", "--data", "--context"} <= options(c)}
    assert of_data == asking | {"down", "status", "up"}


def with_a_reader_that_has_enough(*arguments: str) -> int:
    """The exit code of a command whose reader has closed the pipe, as in `klamm … | head -0`."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run([*LAUNCHER, *arguments], stdout=writer, stderr=subprocess.DEVNULL, check=False).returncode
    finally:
        os.close(writer)


def test_an_audit_keeps_the_exit_code_of_its_verdict_where_nobody_reads_it(tmp_path: Path) -> None:
    log = FileStateChangeLog(tmp_path, node="controller-1001", incarnation="1700000000000.1", clock=SystemClock())
    log.append([StateChange(kind=Kind.TOPIC, topic="t", to_state="created")] * 3)
    log.close()
    (segment,) = tmp_path.glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    assert with_a_reader_that_has_enough("audit", "verify", "--log-dir", str(tmp_path)) == ExitCode.OK
    segment.write_bytes(lines[0] + lines[2])
    assert with_a_reader_that_has_enough("audit", "verify", "--log-dir", str(tmp_path)) == ExitCode.FINDINGS
