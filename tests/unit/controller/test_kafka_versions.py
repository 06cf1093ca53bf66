"""What a controller announces to Kafka's clients."""

from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.connections import ApiVersion, ApiVersionsResponse
from controller.adapters.kafka.versions import announced


def test_produce_is_announced_as_clients_before_2_5_end_without_it() -> None:
    of_broker = ApiVersionsResponse(
        api_keys=tuple(ApiVersion(api_key=key, min_version=0, max_version=9) for key in (ApiKey.PRODUCE, ApiKey.FETCH))
    )
    keys = {version.api_key: version.max_version for version in announced((), of_broker).api_keys}
    assert keys[ApiKey.PRODUCE] == 9
    assert ApiKey.FETCH not in keys
