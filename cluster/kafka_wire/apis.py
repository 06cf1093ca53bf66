"""Each API of Kafka: its messages, versions, and the versions of the headers before them."""

from functools import cache
from importlib import import_module

from msgspec import Struct

from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import MODULES
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.schema import load_apis, load_schema


class KafkaApi(Struct, frozen=True):
    """One API. `latest_version`: the newest of Kafka 3.9; `flexible_from`: None if no version is flexible."""

    key: ApiKey
    name: str
    oldest_version: int
    latest_version: int
    flexible_from: int | None

    @property
    def request_type(self) -> type[Message]:
        """The class of its requests, where klamm reads or writes them."""
        return message_type(f"{self.name}Request")

    @property
    def response_type(self) -> type[Message]:
        """The class of its responses, where klamm reads or writes them."""
        return message_type(f"{self.name}Response")

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
def api(key: ApiKey) -> KafkaApi:
    """The API of a key."""
    found = load_apis()[key]
    return KafkaApi(
        key=key,
        name=found.name,
        oldest_version=found.valid_versions.first,
        latest_version=found.valid_versions.last,
        flexible_from=found.flexible_versions.first if found.flexible_versions else None,
    )


def api_of(message_type: type[Message]) -> KafkaApi:
    """The API that a request or response belongs to."""
    key = load_schema(message_type.SCHEMA).api_key
    assert key is not None, f"{message_type.__name__} is no request or response"
    return api(ApiKey(key))


@cache
def message_type(name: str) -> type[Message]:
    """The class of a message by its name, e.g. `LeaderAndIsrRequest`. Its module is imported when first needed."""
    return struct_type(name, name)


def struct_type(message: str, struct: str) -> type[Message]:
    """The class of a struct of a message; that of the whole message by its own name."""
    module = vars(import_module(f"cluster.kafka_wire.messages.{MODULES[message]}"))
    # Structs of several messages that have the same name are told apart by the message's.
    found: type[Message] = module.get(f"{message}{struct}") or module[struct]
    return found
