import json
from collections import Counter
from pathlib import Path
from random import Random

from audit.rules import check_values
from audit.source import rows_of
from simulator.record_checker import check_all
from tests.state_change_histories import draw, stamped, write_logs
from tests.unit.state_log.test_invariants import second_leader_by_an_agent


def test_checking_in_batches_by_key_finds_what_one_checker_finds(tmp_path: Path) -> None:
    cluster = draw(7, steps=60, partitions=3)
    second_leader_by_an_agent(cluster)
    by_key: dict[str, list[bytes]] = {}
    for path in write_logs(cluster.logs, tmp_path).values():
        for key, value in rows_of(path, 0, path.stat().st_size):
            by_key.setdefault(key, []).append(value)
    random, found, timelines = Random(3), Counter[str](), 0
    for key, values in by_key.items():
        state = None
        half = len(values) // 2
        for batch in (values[:half], values[half:]):
            if batch:
                state, outcomes = check_values(key.partition("/")[0], random.sample(batch, len(batch)), state)
                found.update(json.loads(row)["rule"] for table, row in outcomes if table == "findings")
                timelines += sum(table == "timelines" for table, _ in outcomes)
    expected = check_all(r for stream in stamped(cluster.logs) for r in stream)
    assert set(found) == {f.rule for f in expected} == {"one-leader-per-epoch"}
    assert timelines == sum(len(values) for key, values in by_key.items() if key.startswith("partition/"))
