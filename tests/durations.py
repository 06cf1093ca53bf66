"""The pytest plugin that keeps the machine busy to the end, and records how long each file of tests took.

Files are given whole to several processes. A long one that begins last leaves the others idle, and so do files that
all compute, or all wait for processes, at the same time. So both kinds begin side by side, each with its longest. A
full run writes build/durations.json; copy it to tests/durations.json when the order is no longer true.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "tests" / "durations.json"
MEASURED = ROOT / "build" / "durations.json"
_SHORTEST_S = 2
"""Shorter files are not recorded: their order does not matter."""
_TICKS = os.sysconf("SC_CLK_TCK")


class FileDuration(msgspec.Struct, frozen=True):
    """How long a file of tests takes: seconds from its first test to its last, and the CPU that is used meanwhile."""

    seconds: int
    cpu_seconds: int

    @property
    def share(self) -> float:
        """How much of its time it computes; above 1 where its processes do so at the same time."""
        return self.cpu_seconds / max(self.seconds, 1)


class Durations:
    """Orders the files, and measures each: its tests in all processes of the run, and its CPU in the one it runs in."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._cpu_seconds: defaultdict[str, float] = defaultdict(float)
        self._so_far = _cpu_seconds()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        recorded = msgspec.json.decode(RECORDED.read_bytes(), type=dict[str, FileDuration])
        place = {file: number for number, file in enumerate(mixed(recorded))}
        # Stable: the tests of a file keep their order, and files that are not recorded theirs.
        items.sort(key=lambda item: place.get(_file(item.nodeid), len(place)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        file = _file(item.nodeid)
        try:
            return (yield)
        finally:
            if nextitem is None or _file(nextitem.nodeid) != file:
                so_far = _cpu_seconds()
                self._cpu_seconds[file] += max(0, so_far - self._so_far)
                self._so_far = so_far

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[_file(report.nodeid)] += report.duration

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for file, seconds in getattr(node, "workeroutput", {}).get("cpu_seconds", {}).items():
            self._cpu_seconds[file] += seconds

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["cpu_seconds"] = dict(self._cpu_seconds)
        elif self._config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            self._write()

    def _write(self) -> None:
        long = {
            file: FileDuration(round(seconds), round(self._cpu_seconds[file]))
            for file, seconds in sorted(self._seconds.items())
            if seconds >= _SHORTEST_S
        }
        MEASURED.parent.mkdir(exist_ok=True)
        MEASURED.write_text(json.dumps(msgspec.to_builtins(long), indent=1) + "\n", "utf-8")


def mixed(recorded: Mapping[str, FileDuration]) -> list[str]:
    """Order files so that some compute while others wait: longest first of both kinds, which end at the same time."""
    longest = sorted(recorded, key=lambda file: -recorded[file].seconds)
    total = sum(of.seconds for of in recorded.values())
    usual = sum(of.cpu_seconds for of in recorded.values()) / max(total, 1)
    kinds = [[file for file in longest if (recorded[file].share > usual) is computes] for computes in (True, False)]
    totals = [sum(recorded[file].seconds for file in kind) for kind in kinds]
    begun = [0, 0]
    order = []
    while any(kinds):
        _, kind = min((begun[n] / max(totals[n], 1), n) for n in (0, 1) if kinds[n])
        file = kinds[kind].pop(0)
        begun[kind] += recorded[file].seconds
        order.append(file)
    return order


def _file(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]


def _cpu_seconds() -> float:
    """The CPU of this process and its descendants so far, of those that ended as far as their parents know it."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The command in parentheses may hold anything.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # It has ended.
        process = int(stat.parent.name)
        children[int(fields[1])].append(process)
        ticks[process] = sum(map(int, fields[11:15]))
    waiting, total = [os.getpid()], 0
    while waiting:
        process = waiting.pop()
        total += ticks.get(process, 0)
        waiting += children[process]
    return total / _TICKS
