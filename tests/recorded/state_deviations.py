"""States what a replay in memory shows as deviations of a scenario, after a change that is to deviate.

    python -m tests.recorded.state_deviations reassign-replace --rule D-95 --kafka "stops ..." --klamm "elects ..."

Read what it wrote before committing it, and run docs/make_deviations_table.py.
"""

import argparse
import logging
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import structlog

from simulator.cluster import simulate
from tests.recorded.compare import MISSING, Difference, differences, load_golden
from tests.recorded.deviations import FOLDER, Deviation, expected_of, stated
from tests.recorded.engine import replay
from tests.recorded.in_memory_cluster import InMemoryCluster
from tests.recorded.scenario import load

_SEEDS: Final = range(1, 6)


async def _found(name: str, seed: int) -> list[Difference]:
    cluster = InMemoryCluster(load(name), seed)
    await cluster.start()
    return differences(expected_of(load_golden(name)), await replay(load(name), cluster, lambda _: None))


def _as_deviation(name: str, arguments: argparse.Namespace) -> Deviation:
    """What runs in memory show that is neither recorded nor stated; fields in which runs differ vary."""
    golden = {step.index: step.stable for step in expected_of(load_golden(name)).steps}
    runs: list[Mapping[tuple[int, str], Any]] = []
    for seed in _SEEDS:
        rows = simulate(lambda seed=seed: _found(name, seed))
        if any(row.step < 0 for row in rows):
            sys.exit(f"{name}: seed {seed} ended early: {rows[0]}")
        runs.append({(row.step, row.field): row.found for row in rows})
    steps: dict[int, dict[str, Any]] = defaultdict(dict)
    varies: dict[int, dict[str, list[Any]]] = defaultdict(dict)
    for step, field in sorted({key for run in runs for key in run}):
        values = [run.get((step, field), golden[step].get(field, MISSING)) for run in runs]
        if all(value == values[0] for value in values):
            steps[step][field] = values[0]
        else:
            varies[step][field] = [value for position, value in enumerate(values) if value not in values[:position]]
    return Deviation(arguments.rule, arguments.kafka, arguments.klamm, steps, varies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", metavar="SCENARIO")
    parser.add_argument(
        "--rule", required=True, help="the rule of docs/rules that asks for the deviation, such as D-95"
    )
    parser.add_argument("--kafka", required=True, help="what Kafka does, as a phrase")
    parser.add_argument("--klamm", required=True, help="what klamm does instead, as a phrase")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    FOLDER.mkdir(exist_ok=True)
    for name in arguments.scenarios:
        deviation = _as_deviation(name, arguments)
        if deviation.steps or deviation.varies:
            text = msgspec.json.format(msgspec.json.encode((*stated(name), deviation)), indent=2)
            (FOLDER / f"{name}.json").write_bytes(text + b"\n")
        print(
            f"{name}: {sum(map(len, deviation.steps.values()))} fields, {sum(map(len, deviation.varies.values()))} vary"
        )


if __name__ == "__main__":
    main()
