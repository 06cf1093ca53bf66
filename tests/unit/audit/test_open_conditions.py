"""States that no controller wrote: the first of each controller epoch are named, all are counted."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow
import pytest

from audit.batches.cluster_state import ClusterState
from audit.report.open_conditions import Open, _add_unwritten, _first_of_epochs, add_unwritten
from audit.rules.applied_states import UNWRITTEN


def state(number: int, epoch: int, at_ms: int) -> dict[str, Any]:
    named = {"topic": "t", "topic_id": None, "partition": 0, "node": "broker-1", "incarnation": "1", "seq": number}
    return {"leader": 1, "leader_epoch": 4, "isr": [1], "sub": number, "key": 7, **named} | {
        "at_ms": at_ms,
        "last_controller_epoch": epoch,
    }


def found(rows: Sequence[dict[str, Any]]) -> Open:
    table = pyarrow.Table.from_pylist(list(rows), UNWRITTEN.schema)
    result = Open([], [])
    _add_unwritten(result, dict(_first_of_epochs(table)), None, ClusterState())
    return result


@pytest.mark.parametrize("count", [0, 1, 19, 20, 21, 60])
@pytest.mark.parametrize("times", [1, 3, 1_000])
def test_columns_find_what_rows_do_in_any_order(count: int, times: int) -> None:
    random = Random(count * times)
    rows = [state(number, random.choice((-1, 3, 4)), random.randrange(times)) for number in range(count)]
    expected = Open([], [])
    add_unwritten(expected, rows, None, ClusterState())
    random.shuffle(rows)
    assert found(rows) == expected
    assert sum(1 for _ in expected.unknown) == len({row["last_controller_epoch"] for row in rows})
