"""Golden traces against what a run showed: which step and field differ."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tests.recorded.engine import StepResult
from tests.recorded.scenario import GOLDEN

MISSING = "(missing)"


class GoldenStep(Struct, frozen=True):
    """`stable`: the values that every recorded run had. `unstable`: fields that varied, which are not compared."""

    index: int
    do: dict[str, Any]
    stable: dict[str, Any]
    unstable: dict[str, list[Any]] = {}


class GoldenTrace(Struct, frozen=True):
    scenario: str
    implementation: str
    runs: int
    steps: tuple[GoldenStep, ...]


class Difference(Struct, frozen=True):
    step: int
    action: dict[str, Any]
    field: str
    golden: Any
    found: Any

    def __str__(self) -> str:
        action = msgspec.json.encode(self.action).decode()
        return f"step {self.step} {action}: {self.field}: golden {self.golden!r}, found {self.found!r}"


def load_golden(name: str, protocol: str = "") -> GoldenTrace:
    """What Kafka did. `protocol`: its inter.broker.protocol.version, where it is not that of the jars."""
    return msgspec.json.decode((golden_of(protocol) / f"{name}.json").read_bytes(), type=GoldenTrace)


def golden_of(protocol: str = "") -> Path:
    """The folder of the traces of a protocol version."""
    return GOLDEN.with_name(f"{GOLDEN.name}_of_{protocol}") if protocol else GOLDEN


def differences(golden: GoldenTrace, results: Sequence[StepResult]) -> list[Difference]:
    """Every stable field that a run lacks, has besides, or has with another value."""
    if len(golden.steps) != len(results):
        return [Difference(-1, {}, "steps", len(golden.steps), len(results))]
    return [row for step, result in zip(golden.steps, results, strict=True) for row in _step(step, result)]


def _step(step: GoldenStep, result: StepResult) -> list[Difference]:
    found = result.fields()
    return [
        Difference(step.index, step.do, field, step.stable.get(field, MISSING), found.get(field, MISSING))
        for field in sorted({*step.stable, *found} - set(step.unstable))
        if step.stable.get(field, MISSING) != found.get(field, MISSING)
    ]


def as_golden(golden: GoldenTrace, implementation: str, results: Sequence[StepResult]) -> GoldenTrace:
    """One run of another implementation as a golden trace, of the steps and without the unstable fields of `golden`."""
    steps = tuple(
        GoldenStep(step.index, step.do, _without(result.fields(), step.unstable), step.unstable)
        for step, result in zip(golden.steps, results, strict=True)
    )
    return GoldenTrace(golden.scenario, implementation, 1, steps)


def _without(fields: dict[str, Any], unstable: dict[str, list[Any]]) -> dict[str, Any]:
    return {field: value for field, value in fields.items() if field not in unstable}
