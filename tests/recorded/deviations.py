"""Where klamm does on purpose not what a recording shows: the stated deviations of scenarios.

`stated_deviations/<scenario>.json` has them, each with the rule of docs/rules that asks for it. A difference that is
not stated fails a replay, and so does a stated one that is no longer there. docs/recorded-deviations.md lists them all;
`state_deviations.py` writes them.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tests.recorded.compare import MISSING, GoldenStep, GoldenTrace
from tests.recorded.scenario import DATA

FOLDER: Final = DATA / "stated_deviations"


class Deviation(Struct, frozen=True, forbid_unknown_fields=True):
    """One deviation of a scenario. `kafka`, `klamm`: what each does, in words.

    `steps`: step -> field -> klamm's value, "(missing)" if it has none. `varies`: likewise, with the values of fields
    that differ from run to run, which are not compared.
    """

    rule: str
    kafka: str
    klamm: str
    steps: dict[int, dict[str, Any]] = {}
    varies: dict[int, dict[str, list[Any]]] = {}


def stated_names() -> list[str]:
    """The scenarios that have deviations."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def stated(name: str) -> tuple[Deviation, ...]:
    """The deviations of a scenario; none if it is replayed as recorded."""
    path = FOLDER / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=tuple[Deviation, ...]) if path.exists() else ()


def expected_of(golden: GoldenTrace) -> GoldenTrace:
    """The trace that klamm is to show: the recorded one, changed by what is stated."""
    deviations = stated(golden.scenario)
    return replace(golden, steps=tuple(_changed(step, deviations) for step in golden.steps)) if deviations else golden


def unneeded(golden: GoldenTrace) -> list[str]:
    """Stated values that say nothing: Kafka's own, of a field that is not compared, or of a step that there is not."""
    steps = {step.index: step for step in golden.steps}
    return [
        f"{golden.scenario}: {deviation.rule}, step {index}: {field}"
        for deviation in stated(golden.scenario)
        for fields in (deviation.steps, deviation.varies)
        for index, values in fields.items()
        for field, value in values.items()
        if index not in steps or field in steps[index].unstable or steps[index].stable.get(field, MISSING) == value
    ]


def _changed(step: GoldenStep, deviations: Sequence[Deviation]) -> GoldenStep:
    stable, unstable = dict(step.stable), dict(step.unstable)
    for deviation in deviations:
        stable.update(deviation.steps.get(step.index, {}))
        unstable.update(deviation.varies.get(step.index, {}))
    kept = {field: value for field, value in stable.items() if value != MISSING and field not in unstable}
    return replace(step, stable=kept, unstable=unstable)
