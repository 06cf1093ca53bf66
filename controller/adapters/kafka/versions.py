"""Which versions a controller announces to Kafka's brokers and clients: its own, and for the rest those of a broker.

Source: Kafka ApiVersionsResponse, KIP-35, KIP-511.
"""

from collections.abc import Collection, Iterable
from typing import Final

from cluster.kafka_wire.apis import api
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.connections import ApiVersion, ApiVersionsResponse

NEVER_PASSED_ON: Final = frozenset(
    {
        # Of controllers to brokers and between brokers: from here they would have a controller's word.
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ENVELOPE,
        # A controller leads no partitions, and a produce request with acks=0 has no response to wait for.
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        # The broker would authenticate this controller, not the client.
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }
)

OF_SASL: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
"""What a listener with SASL answers besides."""
_ANNOUNCED_ALWAYS: Final = frozenset({ApiKey.PRODUCE})
"""Clients before 2.5 end at a node that announces no version of it, whatever they want (ApiVersions.update)."""


def announced(own: Collection[ApiKey], of_broker: ApiVersionsResponse | None) -> ApiVersionsResponse:
    """The versions of `own` APIs as they are answered here, and of the others as the broker answers them.

    Without a broker: those that a client could use once there is one.
    """
    if of_broker is None:
        passed_on: Iterable[ApiVersion] = map(_known, ApiKey)
        of_broker = ApiVersionsResponse()
    else:
        passed_on = of_broker.api_keys
    ranges = {v.api_key: v for v in passed_on if v.api_key not in NEVER_PASSED_ON - _ANNOUNCED_ALWAYS}
    ranges |= {key: _known(key) for key in (*own, ApiKey.API_VERSIONS)}
    return ApiVersionsResponse(
        api_keys=tuple(ranges[key] for key in sorted(ranges)),
        supported_features=of_broker.supported_features,
        finalized_features_epoch=of_broker.finalized_features_epoch,
        finalized_features=of_broker.finalized_features,
        zk_migration_ready=of_broker.zk_migration_ready,
    )


def _known(key: ApiKey) -> ApiVersion:
    known = api(key)
    return ApiVersion(api_key=key, min_version=known.oldest_version, max_version=known.latest_version)
