"""Every metric with its labels, unit, meaning, and what to do; read from `metrics.toml`.

The source of the HELP lines of an exposition and of `docs/metrics.md`; tests compare it with what processes expose.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

FILE: Final = Path(__file__).with_name("metrics.toml")
GAUGE, COUNTER, SUMMARY, STATE = TYPES = ("gauge", "counter", "summary", "state")


class DescribedMetric(Struct, frozen=True):
    """One metric. `labels`: the sets of label names with which it occurs. `per_partition`: only with
    `klamm.metrics.partitions`. `once_active`: on controllers that are or were active.
    """

    bean: str
    name: str
    type: str
    unit: str
    meaning: str
    action: str
    programs: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    per_partition: bool = False
    once_active: bool = False


@cache
def catalogue() -> tuple[DescribedMetric, ...]:
    """Read all metrics, in the order of the file."""
    return tuple(
        _described(group, row) for group in tomllib.loads(FILE.read_text("utf-8"))["group"] for row in group["metrics"]
    )


@cache
def meanings() -> Mapping[str, str]:
    """Map MBean and name (`domain:type=T,name=N`) to the meaning of the metric, with its unit."""
    return {f"{d.bean},name={d.name}": f"{d.meaning} Unit: {d.unit}." if d.unit else d.meaning for d in catalogue()}


def _described(group: Mapping[str, Any], row: list[str]) -> DescribedMetric:
    name, type_, unit, meaning, action = row
    assert type_ in TYPES, f"{group['bean']} {name}: {type_} is none of {TYPES}"
    labels = group.get("labels", [])
    sets = labels if labels and isinstance(labels[0], list) else [labels]
    return DescribedMetric(
        group["bean"],
        name,
        type_,
        unit,
        meaning,
        action,
        tuple(group["in"]),
        tuple(map(tuple, sets)),
        per_partition=group.get("per_partition", False),
        once_active=group.get("once_active", False),
    )
