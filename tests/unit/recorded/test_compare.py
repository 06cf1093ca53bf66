"""The comparison of recorded scenarios finds every difference, and no others."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.recorded import deviations
from tests.recorded.compare import Difference, GoldenTrace, as_golden, differences, load_golden
from tests.recorded.conditions import holds
from tests.recorded.deviations import expected_of, stated, stated_names, unneeded
from tests.recorded.engine import StepResult
from tests.recorded.scenario import all_names, load
from tests.rule_coverage import BOOKS, read_book


def as_recorded(golden: GoldenTrace) -> list[StepResult]:
    """Results of a run that did exactly what Kafka did."""
    results = []
    for step in golden.steps:
        fields = dict(step.stable)
        outcome, met, quiet = fields.pop("outcome"), fields.pop("until_met", None), fields.pop("quiet", None)
        results.append(StepResult(outcome, met, quiet, fields))
    return results


@pytest.mark.parametrize("name", all_names())
def test_every_scenario_has_a_golden_trace_of_its_steps(name: str) -> None:
    golden = load_golden(name)
    assert len(load(name).steps) == len(golden.steps)
    assert differences(golden, as_recorded(golden)) == []


def changed(results: list[StepResult], step: int, **fields: Any) -> list[StepResult]:
    old = results[step]
    snapshot = {**(old.snapshot or {}), **{name.replace("__", "."): value for name, value in fields.items()}}
    return [*results[:step], StepResult(old.outcome, old.met, old.quiet, snapshot), *results[step + 1 :]]


def test_a_wrong_value_and_an_additional_field_are_both_found() -> None:
    golden = load_golden("create-rf1")
    results = changed(as_recorded(golden), 1, brokers=[1, 2], surprise=1)
    action = golden.steps[1].do
    assert differences(golden, results) == [
        Difference(1, action, "brokers", [1, 2, 3], [1, 2]),
        Difference(1, action, "surprise", "(missing)", 1),
    ]


def test_a_missing_step_is_found() -> None:
    golden = load_golden("create-rf1")
    assert differences(golden, as_recorded(golden)[:-1])


def test_unstable_fields_are_not_compared() -> None:
    golden = load_golden("kill-all-together")
    step = next(s for s in golden.steps if s.unstable)
    field = next(iter(step.unstable))
    results = as_recorded(golden)
    (results[step.index].snapshot or {})[field] = "never seen"
    assert differences(golden, results) == []


SNAPSHOT = {
    "brokers": [1, 2],
    "topics": ["t"],
    "controller.present": True,
    "controller.epoch_delta": 1,
    "admin.delete_topics": ["gone"],
    "admin.reassign_partitions": None,
    "admin.preferred_replica_election": None,
    "partitions.t-0.state": "present",
    "partitions.t-0.leader": 2,
    "partitions.t-0.isr": [1, 2],
    "partitions.t-0.adding": [],
    "partitions.t-1.state": "absent",
}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"broker_up": 2}, True),
        ({"broker_up": 3}, False),
        ({"broker_down": 3}, True),
        ({"broker_down": 1}, False),
        ({"leader": ["t", 0, 2]}, True),
        ({"leader": ["t", 0, 1]}, False),
        ({"leader": ["t", 1, 1]}, False),
        ({"isr": ["t", 0, [2, 1]]}, True),
        ({"isr": ["t", 0, [2]]}, False),
        ({"isr_size": ["t", 0, 2]}, True),
        ({"isr_size": ["t", 0, 3]}, False),
        ({"no_state": ["t", 1]}, True),
        ({"no_state": ["t", 0]}, False),
        ({"topic_gone": "other"}, True),
        ({"topic_gone": "gone"}, False),
        ({"topic_gone": "t"}, False),
        ({"reassignment_done": True}, True),
        ({"election_done": True}, True),
        ({"controller": "present"}, True),
    ],
)
def test_conditions(condition: dict[str, Any], expected: bool) -> None:
    assert holds(condition, SNAPSHOT, 0) is expected


def test_a_controller_has_changed_only_when_the_epoch_rose_during_the_step() -> None:
    assert holds({"controller": "changed"}, SNAPSHOT, 0)
    assert not holds({"controller": "changed"}, SNAPSHOT, 1)


def test_a_partition_that_still_adds_a_replica_is_being_reassigned() -> None:
    assert not holds({"reassignment_done": True}, {**SNAPSHOT, "partitions.t-0.adding": [3]}, 0)


def test_a_run_as_golden_trace_is_compared_but_for_what_was_unstable() -> None:
    golden = load_golden("create-rf1")
    results = changed(as_recorded(golden), 1, brokers=[1, 2])
    own = as_golden(golden, "another version", results)
    assert differences(own, results) == []
    assert [row.field for row in differences(own, as_recorded(golden))] == ["brokers"]
    assert not any(step.stable.keys() & step.unstable.keys() for step in own.steps)


@pytest.mark.parametrize("name", all_names())
def test_a_stated_deviation_says_what_the_recording_does_not(name: str) -> None:
    assert unneeded(load_golden(name)) == []


def test_deviations_are_stated_of_scenarios_that_there_are_and_by_rules_that_there_are() -> None:
    rules = {rule.id for rule in read_book(BOOKS["controller"].read_text("utf-8"))}
    assert set(stated_names()) <= set(all_names())
    assert {deviation.rule for name in stated_names() for deviation in stated(name)} <= rules


STATED = [
    {"rule": "D-1", "kafka": "has three", "klamm": "has two", "steps": {"1": {"brokers": [1, 2]}}},
    {"rule": "D-2", "kafka": "none", "klamm": "one more", "steps": {"1": {"more": 1}}, "varies": {"1": {"topics": []}}},
]


@pytest.fixture
def with_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoldenTrace:
    monkeypatch.setattr(deviations, "FOLDER", tmp_path)
    (tmp_path / "create-rf1.json").write_bytes(msgspec.json.encode(STATED))
    return load_golden("create-rf1")


def test_what_is_stated_is_expected_instead_of_what_was_recorded(with_stated: GoldenTrace) -> None:
    expected = expected_of(with_stated)
    as_stated = changed(as_recorded(with_stated), 1, brokers=[1, 2], more=1, topics="anything")
    assert differences(expected, as_stated) == []
    assert [(row.step, row.field) for row in differences(expected, as_recorded(with_stated))] == [
        (1, "brokers"),
        (1, "more"),
    ]
    assert unneeded(with_stated) == []


def test_a_statement_of_what_was_recorded_is_unneeded(with_stated: GoldenTrace, tmp_path: Path) -> None:
    fields = {"brokers": [1, 2, 3], "absent": "(missing)", "topics": []}
    said = [{**STATED[0], "steps": {"1": fields, "99": {"brokers": []}}}]
    (tmp_path / "create-rf1.json").write_bytes(msgspec.json.encode(said))
    steps = (replace(step, unstable={"topics": []}) for step in with_stated.steps)
    assert unneeded(replace(with_stated, steps=tuple(steps))) == [
        "create-rf1: D-1, step 1: brokers",
        "create-rf1: D-1, step 1: absent",
        "create-rf1: D-1, step 1: topics",
        "create-rf1: D-1, step 99: brokers",
    ]
