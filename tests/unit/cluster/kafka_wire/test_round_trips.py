"""Any values of any version of any message are themselves again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.kafka_wire.codec import decode, encode
from cluster.kafka_wire.schema import load_schema, schema_names
from tests.examples import examples
from tests.kafka.message_strategies import messages


@pytest.mark.parametrize("name", schema_names())
@examples(8, deep=20)
@given(data=st.data())
def test_messages_are_themselves_again(name: str, data: st.DataObject) -> None:
    valid = load_schema(name).valid_versions
    version = data.draw(st.integers(valid.first, valid.last), label="version")
    message = data.draw(messages(name, version), label="message")
    assert decode(type(message), version, encode(message, version)) == message
