"""What refuses a request of Kafka's clients has an encoding in every version in which the request is answered."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.kafka_wire.apis import api
from cluster.kafka_wire.codec import decode, encode
from cluster.model.broker import ControllerId
from cluster.model.errors import ApiError, ErrorCode
from controller.adapters.kafka.acl_apis import ACL_APIS
from controller.adapters.kafka.config_apis import config_apis
from controller.adapters.kafka.conversions import AnsweredApi
from controller.adapters.kafka.session import OF_ACTIVE_CONTROLLER
from tests.examples import examples
from tests.kafka.message_strategies import messages

CONVERSIONS = (*OF_ACTIVE_CONTROLLER, *ACL_APIS, *config_apis(ControllerId(1001)))
VERSIONS = [
    (conversion, version)
    for conversion in CONVERSIONS
    for version in range(api(conversion.key).oldest_version, api(conversion.key).latest_version + 1)
]


@pytest.mark.rule("D-83")
@pytest.mark.parametrize(("conversion", "version"), VERSIONS)
@examples(15, deep=100)
@given(data=st.data())
def test_a_refusal_can_be_encoded_in_every_version(conversion: AnsweredApi[Any], version: int, data: Any) -> None:
    called = api(conversion.key)
    message = data.draw(messages(called.request_type.__name__, version))
    refused = conversion.refusal(message, ApiError(ErrorCode.NOT_CONTROLLER, "ask 1002"))
    encoded = encode(conversion.fitted(refused, version), version)
    assert isinstance(decode(called.response_type, version, encoded), called.response_type)
