"""The comparison of recorded scenarios finds every difference, and no others."""

from typing import Any

import pytest

from tests.recorded.compare import Difference, GoldenTrace, as_golden, differences, load_golden
from tests.recorded.conditions import holds
from tests.recorded.engine import StepResult
from tests.recorded.scenario import all_names, load


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
