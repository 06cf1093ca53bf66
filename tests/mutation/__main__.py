"""`python -m tests.mutation`: changes decisions and rules in one place at a time and shows what no test notices.

Modules and tests are loaded once. A forked process runs all tests and says which lines each of them runs; then each
mutant gets a process of its own, that changes one function and runs the tests of that line until one fails.
"""

import argparse
import gc
import importlib
import json
import os
import random
import resource
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from coverage import Coverage
from hypothesis import Phase, settings

from launcher.checks import TESTS_OF_DECISIONS
from launcher.installation import ROOT
from tests.decision_coverage import clear_caches
from tests.mutation.mutants import Mutant, Mutants, apply

_CPU_LIMIT_S: Final = 120
"""Of one mutant. What computes longer never ends; that a machine is busy is no reason."""
_PYTEST: Final = ("-q", "-m", "not deep and not real", "-p", "no:cacheprovider", "--timeout", "300")
_SHOWN_AFTER: Final = 25
_KILLED: Final = 10
_RESULTS: Final = {0: "survived", _KILLED: "killed", -9: "timeout", -24: "timeout"}


class Mutation:
    """The pytest plugin that runs the collected tests for each mutant, in place of running them once."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._failed = False
        self._running: dict[int, tuple[str, str, Path]] = {}
        self._results: defaultdict[str, Counter[str]] = defaultdict(Counter)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        # That an example fails is enough here: it is not made smaller, and not explained.
        settings.register_profile("mutation", settings(), phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutation")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} files of tests cannot be collected")
        session.config.pluginmanager.unregister(name="terminalreporter")
        with tempfile.TemporaryDirectory(prefix="mutation-") as temporary:
            covered = Path(temporary) / "covered.json"
            os.waitpid(_forked(lambda: self._measure(session, covered), Path(temporary)), 0)
            if not covered.exists():
                sys.exit("a test fails without a mutant")
            lines = json.loads(covered.read_text("utf-8"))
            for folder, path, mutant in self._drawn():
                if len(self._running) == self._options.processes:
                    self._await_one()
                tests = _tests_of(mutant, lines.get(path, {}))
                if not tests:
                    self._results[folder]["run only at import"] += 1
                    continue
                place = Path(tempfile.mkdtemp(dir=temporary))
                process = _forked(lambda p=path, m=mutant, t=tests: self._try(session, p, m, t), place)
                shown = f"{path}:{mutant.line}\n{mutant.diff((ROOT / path).read_text('utf-8'))}"
                self._running[process] = (folder, shown, place)
            while self._running:
                self._await_one()
        for folder in self._results:
            self._show_so_far(folder)
        return True

    def _drawn(self) -> Iterator[tuple[str, str, Mutant]]:
        for folder in self._options.paths:
            files = sorted((ROOT / folder).rglob("*.py")) or [ROOT / folder]
            mutants = {str(file.relative_to(ROOT)): Mutants(file.read_text("utf-8")) for file in files}
            every = [(path, number) for path, of_path in mutants.items() for number in range(len(of_path))]
            sample = min(self._options.sample or len(every), len(every))
            print(f"{folder}: {sample} of {len(every)} mutants, seed {self._options.seed}", flush=True)
            # In the order of the draw: those that were tried so far are a sample as well.
            for path, number in random.Random(self._options.seed).sample(every, sample):
                yield folder, path, mutants[path][number]

    def _measure(self, session: pytest.Session, covered: Path) -> int:
        """Run all tests and write for each line of each file the numbers of the tests that run it, quickest first."""
        measured = Coverage(config_file=str(ROOT / "pyproject.toml"), data_file=None)
        measured.start()
        durations = {}
        for number in range(len(session.items)):
            measured.switch_context(str(number))
            before = os.times().user
            if not self._passes(session, [number]):
                os.write(2, f"{session.items[number].nodeid} fails without a mutant\n".encode())
                return 1
            durations[number] = os.times().user - before
        measured.stop()
        data = measured.get_data()
        lines = {
            str(Path(file).relative_to(ROOT)): {
                line: sorted((int(context) for context in contexts if context), key=durations.__getitem__)
                for line, contexts in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        covered.write_text(json.dumps(lines), "utf-8")
        return 0

    def _try(self, session: pytest.Session, path: str, mutant: Mutant, tests: list[int]) -> int:
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_LIMIT_S, _CPU_LIMIT_S))
        gc.unfreeze()  # What is frozen is not listed, and so not found.
        apply(mutant, importlib.import_module(path.removesuffix(".py").replace("/", ".")))
        gc.freeze()  # Fixtures of tests collect garbage.
        return 0 if self._passes(session, tests) else _KILLED

    def _passes(self, session: pytest.Session, tests: list[int]) -> bool:
        for item, following in pairwise([*(session.items[number] for number in tests), None]):
            assert item is not None
            clear_caches()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return False
        return True

    def _await_one(self) -> None:
        process, status = os.wait()
        folder, shown, place = self._running.pop(process)
        shutil.rmtree(place)
        code = os.waitstatus_to_exitcode(status)
        result = _RESULTS.get(code, f"ended with {code}")
        self._results[folder][result] += 1
        if result != "killed":
            print(f"--- {result}: {shown}", flush=True)
        if self._results[folder].total() % _SHOWN_AFTER == 0:
            self._show_so_far(folder)

    def _show_so_far(self, folder: str) -> None:
        results = sorted(self._results[folder].items())
        print(f"{folder}: {', '.join(f'{number} {result}' for result, number in results)}", flush=True)


def _tests_of(mutant: Mutant, lines: dict[str, list[int]]) -> list[int]:
    """The tests that run the line of the change; of the whole function where the line has no code of its own."""
    of_function = (test for line in mutant.lines for test in lines.get(str(line), ()))
    return lines.get(str(mutant.line)) or list(dict.fromkeys(of_function))


def _forked(run: Callable[[], int], temporary: Path) -> int:
    """Run in a process that shows nothing, with its own folder for temporary files. Its exit code is the result."""
    sys.stdout.flush()
    process = os.fork()
    if process != 0:
        return process
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        tempfile.tempdir = str(temporary)
        code = run()
    finally:
        os._exit(code)


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m tests.mutation", description="Mutate decisions and rules.")
    parser.add_argument("paths", nargs="+", help="folders or files, as controller/decisions")
    parser.add_argument("--sample", type=int, help="mutants of each path, drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--tests", nargs="+", default=TESTS_OF_DECISIONS, help="folders or files (default: all three)")
    parser.add_argument("--processes", type=int, default=2, help="at a time (default: 2)")
    os.chdir(ROOT)
    options = parser.parse_args()
    plugins: list[Any] = [Mutation(options)]
    sys.exit(pytest.main([*_PYTEST, *options.tests], plugins))
