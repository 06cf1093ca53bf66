"""What a request to move a replica to another log directory leads to: one row per case."""

import pytest
from msgspec.structs import replace

from broker_agent.decisions.log_dirs import DirectoryMove, MovableReplica, plan_directory_move
from cluster.model.errors import ErrorCode

HOSTED = MovableReplica(
    target="/b",
    is_log_dir=True,
    is_failed=False,
    fits_name=True,
    is_offline=False,
    is_hosted=True,
    directory="/a",
    moves_to=None,
)
NONE, NOT_AVAILABLE = ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE
ABSENT = {"is_hosted": False, "directory": None}


@pytest.mark.rule("R11.8")
@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, DirectoryMove(NONE, is_preferred=True, begins_copy=True)),
        ({"fits_name": False, "is_log_dir": False}, DirectoryMove(ErrorCode.INVALID_TOPIC_EXCEPTION)),
        ({"is_log_dir": False, "is_offline": True}, DirectoryMove(ErrorCode.LOG_DIR_NOT_FOUND)),
        ({"is_failed": True, "moves_to": "/c"}, DirectoryMove(ErrorCode.KAFKA_STORAGE_ERROR)),
        ({"is_offline": True, "moves_to": "/c"}, DirectoryMove(ErrorCode.KAFKA_STORAGE_ERROR)),
        ({"moves_to": "/b"}, DirectoryMove(NONE, is_preferred=True)),
        ({"moves_to": "/c"}, DirectoryMove(NONE, ends_move=True, is_preferred=True, begins_copy=True)),
        ({"target": "/a"}, DirectoryMove(NONE)),
        ({"target": "/a", "moves_to": "/b"}, DirectoryMove(NONE, ends_move=True)),
        (ABSENT, DirectoryMove(NOT_AVAILABLE, is_preferred=True)),
        ({"is_hosted": False}, DirectoryMove(NOT_AVAILABLE, is_preferred=True)),
        ({"is_hosted": False, "moves_to": "/c"}, DirectoryMove(NOT_AVAILABLE, ends_move=True, is_preferred=True)),
        ({"is_hosted": False, "target": "/a"}, DirectoryMove(NOT_AVAILABLE)),
    ],
)
def test_each_case_of_a_request_to_move_a_replica(known: dict[str, object], expected: DirectoryMove) -> None:
    assert plan_directory_move(replace(HOSTED, **known)) == expected
