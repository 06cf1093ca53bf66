"""The topic configs of each release of Kafka as data: `tables/*.json`, made by `make_tables.py` from its jars."""

from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

TABLES: Final = Path(__file__).with_name("tables")

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
    """What one release says. Keys are in the order in which Kafka checks them."""

    keys: tuple[TopicConfigKey, ...]
    refused: dict[str, str]
    """Switches that may not be on in a cluster on ZooKeeper without tiered storage, each with Kafka's message."""
    formats: frozenset[str]
    """The message formats that are known, by release and in full."""
    unknown_format: str
    """Kafka's message for a format `?`."""
    apis: dict[str, int]
    """The latest version of each API of a broker, by its key."""

    def key(self, name: str) -> TopicConfigKey | None:
        """The key of that name, None if the release has none."""
        return next((key for key in self.keys if key.name == name), None)


@cache
def topic_config_table(release: str) -> TopicConfigTable:
    """The table of a release such as `3.9`. KeyError for one that is not in JARS."""
    if release not in JARS:
        raise KeyError(release)
    return msgspec.json.decode((TABLES / f"{release}.json").read_bytes(), type=TopicConfigTable)


def release_of(api_versions: dict[int, int]) -> str:
    """The release of a broker by the latest version of each API that it offers, by API key.

    The newest release none of whose APIs is newer than the broker's; the oldest for a broker older than all of them.
    """
    for release in reversed(JARS):
        apis = topic_config_table(release).apis.items()
        if all(int(key) in api_versions and latest <= api_versions[int(key)] for key, latest in apis):
            return release
    return next(iter(JARS))


def as_text(table: dict[str, Any]) -> str:
    """A table as JSON, with a line for each key."""
    lines = [f'  "{name}": {_encoded(value)}' for name, value in table.items() if name != "keys"]
    keys = ",\n".join(f"    {_encoded(key)}" for key in table["keys"])
    return "{\n" + ",\n".join([f'  "keys": [\n{keys}\n  ]', *lines]) + "\n}\n"


def _encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()
