"""Errors as gRPC statuses."""

import grpc

from cluster.model.errors import ErrorCode
from cluster.rpc.status import STATUS_OF_ERROR


def test_every_error_has_a_status_that_is_no_success() -> None:
    assert set(STATUS_OF_ERROR) == set(ErrorCode) - {ErrorCode.NONE}
    assert grpc.StatusCode.OK not in STATUS_OF_ERROR.values()
