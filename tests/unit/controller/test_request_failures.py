"""What is said of requests to a broker that fail again and again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, ControllerId
from cluster.model.errors import ErrorCode
from cluster.requests.control import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    refusal,
)
from controller.decisions.brokers.failures import Failure, errors_after, failure_findings

HEAD = (ControllerId(1001), ControllerEpoch(9), BrokerEpoch(104))
REQUESTS: list[ControlRequest] = [LeaderAndIsrRequest(*HEAD), UpdateMetadataRequest(*HEAD), StopReplicaRequest(*HEAD)]
REFUSED = Failure(ErrorCode.UNSUPPORTED_VERSION, "h:9092: it is of Kafka 2.8 and does not understand version 7")
LOST = Failure(ErrorCode.NETWORK_EXCEPTION, "h:9092: no connection: refused")
CODES = [code for code in ErrorCode if code is not ErrorCode.STALE_CONTROLLER_EPOCH]


def kinds(failure: Failure | None, silent_s: float) -> list[str]:
    return [f.kind for f in failure_findings(BrokerId(3), failure, silent_s, {})]


@pytest.mark.rule("D-111")
def test_a_refusal_that_only_a_setting_ends_is_reported_at_once_and_other_failures_when_they_last() -> None:
    forbidden = Failure(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "h:9092: its authorizer refuses")
    assert kinds(REFUSED, 0) == kinds(REFUSED, 31) == ["requests_not_understood"]
    assert kinds(forbidden, 0) == kinds(forbidden, 31) == ["requests_not_authorized"]
    assert kinds(None, 30) == []
    assert kinds(None, 31) == ["silent_broker"]


@pytest.mark.rule("D-111")
def test_a_broker_that_an_attempt_did_not_reach_is_reported_within_seconds_and_a_slow_one_is_not() -> None:
    assert kinds(LOST, 3) == kinds(None, 4) == []
    assert kinds(LOST, 4) == ["silent_broker"]


@pytest.mark.rule("D-111")
def test_the_reason_of_the_last_attempt_is_named() -> None:
    (refused,) = failure_findings(BrokerId(3), REFUSED, 1, {})
    assert (refused.broker, refused.detail) == (3, f"broker 3 cannot be governed: {REFUSED.why}")
    (silent,) = failure_findings(BrokerId(3), LOST, 31, {})
    assert silent.detail == (
        "broker 3 is registered, but has not responded to a request for 31 s; the last attempt: h:9092: no connection: "
        "refused"
    )


@pytest.mark.rule("D-111")
@given(st.lists(st.tuples(st.sampled_from(REQUESTS), st.sampled_from(CODES)), max_size=8))
def test_an_error_stays_until_the_next_request_of_its_kind_is_carried_out(
    answered: list[tuple[ControlRequest, ErrorCode]],
) -> None:
    errors: dict[str, ErrorCode] = {}
    last: dict[str, ErrorCode] = {}
    for request, code in answered:
        errors = dict(errors_after(errors, request, refusal(request, code)))
        last[type(request).__name__.removesuffix("Request")] = code
    assert errors == {name: code for name, code in last.items() if code is not ErrorCode.NONE}


@pytest.mark.rule("D-111")
@pytest.mark.parametrize("request_", REQUESTS)
def test_the_rest_of_a_divided_request_does_not_end_the_error_of_a_part(request_: ControlRequest) -> None:
    name = type(request_).__name__.removesuffix("Request")
    carried_out = refusal(request_, ErrorCode.NONE)
    failed = errors_after({}, request_, refusal(request_, ErrorCode.UNKNOWN_SERVER_ERROR))
    assert errors_after(failed, request_, carried_out, is_further_part=True) == failed
    refused = refusal(request_, ErrorCode.KAFKA_STORAGE_ERROR)
    assert errors_after(failed, request_, refused, is_further_part=True) == {name: ErrorCode.KAFKA_STORAGE_ERROR}
    assert errors_after({}, request_, carried_out, is_further_part=True) == {}
    assert errors_after(failed, request_, carried_out) == {}


@pytest.mark.rule("D-111", "AG-10")
def test_epochs_that_a_broker_names_are_left_to_the_findings_about_epochs() -> None:
    request = UpdateMetadataRequest(*HEAD)
    stale = UpdateMetadataResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
    assert errors_after({}, request, stale) == {}
    named = UpdateMetadataResponse(ErrorCode.STALE_BROKER_EPOCH, broker_epoch=BrokerEpoch(150))
    assert errors_after({}, request, named) == {}
    # Brokers of Kafka name none.
    unnamed = UpdateMetadataResponse(ErrorCode.STALE_BROKER_EPOCH)
    assert errors_after({}, request, unnamed) == {"UpdateMetadata": ErrorCode.STALE_BROKER_EPOCH}


@pytest.mark.rule("D-111")
def test_errors_name_request_and_code() -> None:
    errors = {"StopReplica": ErrorCode.UNKNOWN_SERVER_ERROR, "LeaderAndIsr": ErrorCode.UNSUPPORTED_VERSION}
    found = list(failure_findings(BrokerId(3), None, 0, errors))
    assert [(f.kind, f.broker) for f in found] == [("requests_not_understood", 3), ("requests_fail", 3)]
    assert found[1].detail == (
        "broker 3 answered the last StopReplica with UNKNOWN_SERVER_ERROR, so it does not do what it was told; see in "
        "its log why, and restart it: it is told everything again"
    )
