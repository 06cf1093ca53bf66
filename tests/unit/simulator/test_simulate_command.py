"""`klamm simulate`: the same seed is the same run wherever it runs; what a run finds is shown and exits 3."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from cluster.cli.documents import Format
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ConfigError
from cluster.znodes.paths import state_path
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import SetData
from launcher.__main__ import app
from simulator.actions import Limit
from simulator.cluster_simulation import ClusterSimulation, LoadedClusterSimulation
from simulator.command import Order, execute, replay
from simulator.partition_znodes import assignments, partition_state
from simulator.replication_simulation import ReplicationSimulation
from simulator.run import Simulation, SimulationRun, run_simulation
from state_log.invariants import TRUNCATED_BELOW_HIGH_WATERMARK
from state_log.reader import find_segments, read_state_changes
from state_log.record import Kind, StateChange
from state_log.writer import parse_segment_name
from tests.processes.commands import LAUNCHER, run_klamm

SEEDS = ("--seeds", "13..19", "--minutes", "0.2")
"""One of each workload at least."""
WORKLOADS = {"admin", "full disks", "load", "moving replicas", "replication", "topics"}


def simulate(*arguments: str, hash_seed: str = "0") -> Any:
    answer = subprocess.run(
        [*LAUNCHER, "simulate", *arguments, "-o", "json"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(answer.stdout)


class WithRecordOutsideTheTables(ClusterSimulation):
    """One node records a transition that is not in the state tables."""

    async def converge(self) -> None:
        await super().converge()
        record = StateChange(
            kind=Kind.PARTITION,
            topic="t1",
            partition=0,
            from_state="NonExistentPartition",
            to_state="OnlinePartition",
        )
        self.cluster.nodes[0].incarnations[-1].append([record])


class WithTruncationBelowTheHighWatermark(LoadedClusterSimulation):
    """A broker records one, of a partition whose replicas no power failure concerns."""

    async def converge(self) -> None:
        await super().converge()
        cut = StateChange(kind=Kind.TRUNCATION, topic="t0", partition=0, to_offset=Offset(3), high_watermark=Offset(5))
        next(iter(self.cluster.agents.values())).incarnations[-1].append([cut])


class WithLostRecord(ReplicationSimulation):
    """A producer is said to have been acknowledged a batch that no log has."""

    async def converge(self) -> None:
        await super().converge()
        self.checker.acknowledged[1_000_000] = 1


class WithBrokenRequest(ClusterSimulation):
    """A request that nobody waits for ends with an error that no fault explains."""

    async def prepare(self) -> None:
        await super().prepare()

        async def fail() -> None:
            raise ValueError("a broken handler")

        self.background.start(fail())


class WithWriteThatSkipsAnEpoch(ClusterSimulation):
    """The active controller writes a state whose leader epoch is two higher."""

    async def converge(self) -> None:
        await super().converge()
        active = self.cluster.active_controller()
        assert active is not None
        tree = self.cluster.zookeeper.tree
        [tp, *_] = assignments(tree)
        state = partition_state(tree, tp)
        assert state is not None
        body = encode_state(replace(state, leader_epoch=LeaderEpoch(state.leader_epoch + 2)))
        await active.incarnations[-1].zookeeper.multi([SetData(state_path(tp), body, state.partition_epoch)])


def run_with_record_outside_the_tables(seed: int, minutes: float) -> SimulationRun:
    return run_simulation(seed, lambda: WithRecordOutsideTheTables(seed), Limit(seconds=60 * minutes))


def order(seeds: Sequence[int], form: Format) -> Order:
    return Order(seeds, is_range=len(seeds) > 1, minutes=0.05, jobs=1, output=None, form=form)


def test_one_seed_gives_one_trace_in_any_process_and_in_any_order() -> None:
    alone = simulate(*SEEDS, "--jobs", "1", hash_seed="1")
    shared = simulate(*SEEDS, "--jobs", "3", hash_seed="2")
    assert alone == shared
    assert {run["workload"] for run in alone["runs"]} == WORKLOADS
    assert len({run["trace_hash"] for run in alone["runs"]}) == 7
    assert all(run["violations"] == [] and run["steps"] > 1000 for run in alone["runs"])
    assert all(run["virtual_ms"] >= 12_000 for run in alone["runs"])


def test_the_replay_of_one_run_is_that_run() -> None:
    [run] = simulate("--seeds", "4..4", "--minutes", "0.2")["runs"]
    assert run["replay"] == "klamm simulate --seed 4 --minutes 0.2"
    assert simulate(*run["replay"].split()[2:], hash_seed="3") == run


def test_the_limit_of_time_is_part_of_the_replay() -> None:
    assert replay(1, 3.0) == "klamm simulate --seed 1 --minutes 3"
    assert replay(1, 0.25) == "klamm simulate --seed 1 --minutes 0.25"


def test_a_record_that_breaks_a_rule_is_found_and_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(order([7], Format.JSON), run_with_record_outside_the_tables) == 3
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    [violation] = found["violations"]
    assert violation["rule"] == "legal-partition-transition"
    assert (violation["topic"], violation["partition"]) == ("t1", 0)
    assert len(violation["records"]) == 1
    assert "replay it with: klamm simulate --seed 7 --minutes 0.05" in shown.err


def test_a_table_shows_what_was_violated_and_the_command_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(order([7, 8], Format.TABLE), run_with_record_outside_the_tables) == 3
    out = capsys.readouterr().out
    assert "seed 8 violates legal-partition-transition: NonExistentPartition to OnlinePartition" in out
    assert "replay:  klamm simulate --seed 8 --minutes 0.05" in out


@pytest.mark.parametrize(
    ("make", "rule", "says"),
    [
        (lambda: WithLostRecord(7, "fetch"), "P28", "acknowledged at 1000000"),
        (lambda: WithWriteThatSkipsAnEpoch(7), "INV-1", "leader_epoch="),
        (lambda: WithTruncationBelowTheHighWatermark(7), TRUNCATED_BELOW_HIGH_WATERMARK, "truncated to 3, below"),
        (lambda: WithBrokenRequest(7), "unexpected-error", "ValueError: a broken handler"),
    ],
)
def test_whatever_a_run_finds_is_its_result(make: Callable[[], Simulation], rule: str, says: str) -> None:
    run = run_simulation(7, make, Limit(actions=20))
    [violation] = run.result.violations
    assert violation.rule == rule
    assert says in violation.message


def test_the_logs_of_each_seed_are_files_that_other_commands_read(tmp_path: Path) -> None:
    output = tmp_path / "runs"
    answer = run_klamm("simulate", "--seeds", "2..3", "--minutes", "0.2", "--output", str(output))
    assert answer.returncode == 0, answer.stderr
    assert sorted(path.name for path in output.iterdir()) == ["seed-2", "seed-3"]
    segments = find_segments([output / "seed-3"])
    assert all(parse_segment_name(path.name) for path in segments)
    nodes = {f"controller-{id_}" for id_ in (1001, 1002, 1003)} | {f"broker-{id_}" for id_ in (1, 2, 3, 4)}
    assert {record.node for record in read_state_changes([output / "seed-3"])} <= nodes
    assert run_klamm("audit", "verify", "--log-dir", str(output / "seed-3")).returncode == 0
    document = json.loads((output / "seed-3" / "run.json").read_text())
    assert document["seed"] == 3
    assert document["actions"]


def test_logs_of_an_earlier_run_are_not_mixed_with_those_of_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "seed-2").mkdir()
    answer = run_klamm("simulate", "--seeds", "1..2", "--minutes", "0.05", "--output", str(tmp_path))
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"klamm: --output: {tmp_path / 'seed-2'}: is there already\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--seeds", "5..1"), "--seeds: '5..1': the last seed is smaller than the first"),
        (("--seeds", "1-5"), "--seeds: '1-5': must be FIRST..LAST, as in 1..200"),
        (("--seeds", "1..2..3"), "--seeds: '1..2..3': must be FIRST..LAST"),
        (("--seeds", "1..99999999"), "--seeds: '1..99999999': more than 1000000 seeds"),
        (("--seed", "1", "--seeds", "1..2"), "--seed: 1: cannot be given together with --seeds 1..2"),
        (("--minutes", "0"), "--minutes: 0.0: must be between"),
        (("--minutes", "nan"), "--minutes: nan: must be between"),
    ],
)
def test_wrong_usage_names_the_option_and_the_value(arguments: tuple[str, ...], says: str) -> None:
    answer = CliRunner().invoke(app, ["simulate", *arguments])
    # Which the launcher says on stderr and ends with 2, as in the test above.
    assert isinstance(answer.exception, ConfigError)
    assert says in str(answer.exception)
    assert answer.stdout == ""


def test_the_command_ends_with_the_code_of_what_it_found() -> None:
    script = (
        "import sys; from tests.unit.simulator.test_simulate_command import *; "
        "sys.exit(execute(order([7], Format.JSON), run_with_record_outside_the_tables))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, cwd=Path.cwd())
    assert answer.returncode == 3
