"""Each API of Kafka: its messages, versions, and the versions of the headers before them."""

from functools import cache
from importlib import import_module

from msgspec import Struct

from cluster.kafka_wire.api_keys import ApiKey
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.names import snake_case
from cluster.kafka_wire.schema import load_schema


class Api(Struct, frozen=True):
    """One API. `latest_version`: the newest of Kafka 3.9; `flexible_from`: None if no version is flexible."""

    key: ApiKey
    request_type: type[Message]
    response_type: type[Message]
    oldest_version: int
    latest_version: int
    flexible_from: int | None

    def has(self, version: int) -> bool:
        """Whether the version is known."""
        return self.oldest_version <= version <= self.latest_version

    def is_flexible(self, version: int) -> bool:
        """Whether a version has compact and tagged fields; so has any newer one than those known."""
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        """The version of the header before a request of this version."""
        if self.key is ApiKey.CONTROLLED_SHUTDOWN and version == 0:
            return 0
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """The version of the header before a response of this version."""
        # A client that asks for versions cannot know yet which header its answer will have (KIP-511).
        return 1 if self.is_flexible(version) and self.key is not ApiKey.API_VERSIONS else 0


@cache
def api(key: ApiKey) -> Api:
    """The API of a key."""
    name = "".join(word.capitalize() for word in key.name.split("_"))
    request = load_schema(f"{name}Request")
    return Api(
        key=key,
        request_type=message_type(f"{name}Request"),
        response_type=message_type(f"{name}Response"),
        oldest_version=request.valid_versions.first,
        latest_version=request.valid_versions.last,
        flexible_from=request.flexible_versions.first if request.flexible_versions else None,
    )


def api_of(message_type: type[Message]) -> Api:
    """The API that a request or response belongs to."""
    key = load_schema(message_type.SCHEMA).api_key
    assert key is not None, f"{message_type.__name__} is no request or response"
    return api(ApiKey(key))


def message_type(name: str) -> type[Message]:
    """The class of a message by its name, e.g. `LeaderAndIsrRequest`. Its module is imported when first needed."""
    found: type[Message] = getattr(import_module(f"cluster.kafka_wire.messages.{snake_case(name)}"), name)
    return found
