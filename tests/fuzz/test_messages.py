"""Bytes that are nearly a message: what decodes can be encoded again and is the same, the rest is refused by name."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import ApiError, ErrorCode
from cluster.rpc.codec import Codec
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.cluster_under_fire import METHODS
from tests.fuzz.messages import Draw, messages, on_the_wire
from tests.fuzz.test_requests import known

CODECS = {
    f"{name} {kind}": codec
    for name, method in METHODS.items()
    for kind, codec in (("request", method.request), ("response", method.response))
}


@st.composite
def encoded(draw: Draw) -> tuple[Codec, bytes]:
    codec = CODECS[draw(st.sampled_from(sorted(CODECS)))]
    return codec, draw(on_the_wire(draw(messages(codec.message_class.DESCRIPTOR, known()))))


@fuzz(examples=300)
@given(encoded())
def test_messages(sent: tuple[Codec, bytes]) -> None:
    count_case("messages")
    codec, data = sent
    refused: ApiError | None = None
    try:
        value = codec.decode(data)
    except ApiError as error:
        refused = error
    if refused is not None:
        assert refused.code is ErrorCode.INVALID_REQUEST
        assert len(str(refused)) < 1000
        return
    assert codec.decode(codec.encode(value)) == value
