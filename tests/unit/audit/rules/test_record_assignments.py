"""Replicas, leaders and requests that one record names."""

import pytest

from audit.rules.record_assignments import RULE
from state_log.record import Cause, Kind, LoggedStateChange
from tests.audits.columnar_audits import audit_batches

STATE = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "isr": (1,), "replicas": (1, 2)}
NEW = {"kind": Kind.PARTITION, "from_state": "NewPartition", "to_state": "OnlinePartition"}
MOVE = {"kind": Kind.ASSIGNMENT, "to_state": "started", "replicas": (1, 2), "cause": Cause("Zk")}
CALL = {"kind": Kind.ISR, **STATE, "cause": Cause("AlterPartitionReceived", 4)}


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({**NEW, **STATE}, None),
        ({**NEW, **STATE, "replicas": (1, 2, 1)}, "replicas-without-repetition"),
        ({**NEW, **STATE, "to_state": "OfflinePartition"}, "leader-fits-state"),
        ({**NEW, **STATE, "to_state": "OfflinePartition", "leader": -1}, None),
        ({**MOVE, "principal": "ANONYMOUS"}, None),
        ({**MOVE, "cause": Cause("ZkPartitionReassignment", 4)}, None),
        (MOVE, "plan-by-request"),
        ({**MOVE, "v": 1}, None),
        ({**MOVE, "cause": None}, None),
        ({**MOVE, "principal": "a", "adding_replicas": (3,)}, "move-within-replicas"),
        ({**MOVE, "principal": "a", "removing_replicas": (3,)}, "move-within-replicas"),
        ({**MOVE, "principal": "a", "adding_replicas": (2,), "removing_replicas": (2,)}, "move-within-replicas"),
        ({**MOVE, "to_state": "completed", "adding_replicas": (2,)}, "move-within-replicas"),
        ({**MOVE, "to_state": "completed"}, None),
        (CALL, "plan-by-request"),
        ({**CALL, "principal": "ANONYMOUS"}, None),
    ],
)
def test_a_record_is_checked_by_itself(fields: dict[str, object], found: str | None) -> None:
    base: dict[str, object] = {"v": 2, "seq": 7, "at_ms": 5, "node": "controller-1", "incarnation": "1.1"}
    base |= {"controller_epoch": 1, "topic": "t", "partition": 0}
    findings = audit_batches([[LoggedStateChange(**{**base, **fields})]]).values()  # type: ignore[arg-type]
    said = [(f.rule, f.records) for f in findings if f.rule in RULE.explains]
    assert said == ([] if found is None else [(found, ("controller-1/1.1/7",))])
