"""The topic configs of each release of Kafka as data: `topic_configs.json`, made by `make_tables.py` from its jars.

A field of that file lists all entries that it has in any release, each with the first and the last release that has it.
"""

from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

TABLE: Final = Path(__file__).with_name("topic_configs.json")

JARS: Final = {
    "2.4": "2.4.1",
    "2.5": "2.5.1",
    "2.6": "2.6.3",
    "2.7": "2.7.2",
    "2.8": "2.8.2",
    "3.0": "3.0.2",
    "3.1": "3.1.2",
    "3.2": "3.2.3",
    "3.3": "3.3.2",
    "3.4": "3.4.1",
    "3.5": "3.5.2",
    "3.6": "3.6.2",
    "3.7": "3.7.2",
    "3.8": "3.8.1",
    "3.9": "3.9.1",
}
"""By release, from the oldest, the version whose jars its table was made from."""


class TopicConfigKey(Struct, frozen=True):
    """One key. `type`: of Kafka's ConfigDef, in lower case; `default`: None if there is none.

    A number is from `least` to `most`, both inclusive; a text, or each element of a list, is one of `values`.
    `validator` and `shown`: the class of any other validator, and the text that Kafka shows for it.
    """

    name: str
    type: str
    default: str | None
    least: float | None = None
    most: float | None = None
    values: tuple[str, ...] | None = None
    validator: str | None = None
    shown: str = ""


class TopicConfigTable(Struct, frozen=True):
    """Holds what one release says. Keys are in the order in which Kafka checks them."""

    keys: tuple[TopicConfigKey, ...]
    refused: tuple[tuple[str, str], ...]
    """Switches that may not be on in a cluster on ZooKeeper without tiered storage, each with Kafka's message."""
    formats: frozenset[str]
    """The message formats that are known, by release and in full."""
    unknown_format: tuple[str]
    """Kafka's message for a format `?`."""
    apis: frozenset[tuple[int, int]]
    """The key of each API of a broker, and its latest version."""


@cache
def topic_config_table(release: str) -> TopicConfigTable:
    """The table of a release such as `3.9`. KeyError for one that is not in JARS.

    Releases are ordered as texts: 3.9 is the last one with ZooKeeper.
    """
    if release not in JARS:
        raise KeyError(release)
    every = msgspec.json.decode(TABLE.read_bytes())
    fields = {field: [entry for since, until, entry in every[field] if since <= release <= until] for field in every}
    return msgspec.convert(fields, TopicConfigTable)


def release_of(api_versions: dict[int, int]) -> str:
    """The release of a broker by the latest version of each API that it offers, by API key.

    The newest release none of whose APIs is newer than the broker's; the oldest for a broker older than all of them.
    """
    for release in reversed(JARS):
        if all(latest <= api_versions.get(key, -1) for key, latest in topic_config_table(release).apis):
            return release
    return next(iter(JARS))
