"""The comparison of what each identity is answered by a broker and by a controller of klamm has every API."""

from cluster.kafka_wire.schema import load_apis
from tests.kafka.every_api import NOT_ANSWERED, every_api


def test_every_api_that_brokers_serve_is_compared() -> None:
    asked = list(every_api(None, "topic", new_topic="new"))
    assert {api.name for api in load_apis().values()} <= {request.api for request in asked}
    assert {request.name for request in asked} >= NOT_ANSWERED
    assert len({request.name for request in asked}) == len(asked)
