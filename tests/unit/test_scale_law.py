"""The scale law names cases that grow faster than their size, and plots every case once."""

import xml.etree.ElementTree as ET

import pytest

from benchmarks.control_plane_cases import CASES
from benchmarks.scale_law import Point, by_brokers, by_size, exponent, tell
from benchmarks.scale_plot import plot
from launcher.benches import ControlPlaneCase

SIZES = (1_000, 10_000, 30_000, 100_000)


def points(case: str, power: float) -> list[Point]:
    return [Point(case, size, 5, 1.0, 10 + size**power / 100, None, 1, 1) for size in SIZES]


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_is_the_power_by_which_it_grows(power: float) -> None:
    assert exponent((float(size), 3 * size**power) for size in SIZES) == pytest.approx(power)


def test_one_size_has_no_exponent() -> None:
    assert exponent([(1000, 3)]) is None
    assert exponent([(1000, 3), (10_000, 0)]) is None


def test_cases_that_grow_faster_than_their_size_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = [*points("linear", 1.0), *points("square", 2.0)]
    assert tell("by partitions", by_size(found, 5)) == ["square"]
    assert capsys.readouterr().out.count("worse than linear") == 1
    # One number of brokers is no series.
    assert by_brokers(found, 10_000) == []


def test_each_case_is_a_line_with_its_exponent() -> None:
    series = by_size([*points("linear", 1.0), *points("<square>", 2.0)], 5)
    svg = ET.fromstring(plot("CPU & time", [("partitions", series), ("brokers", [])]))
    lines = [element for element in svg if element.tag.endswith("polyline")]
    texts = [element.text or "" for element in svg if element.tag.endswith("text")]
    assert len(lines) == 2
    assert [text for text in texts if "linear" in text or "square" in text] == ["2.00 <square>", "0.96 linear"]
    assert "CPU & time" in texts


def test_the_command_line_selects_every_case() -> None:
    assert [case.value for case in ControlPlaneCase] == list(CASES)
