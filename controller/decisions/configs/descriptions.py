"""Describes configs: the value in force and its source.

Source: Kafka ConfigHelper.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from cluster.config.settings import Settings
from cluster.config.topic_configs import BROKER_KEYS
from cluster.requests.configs import DescribedConfig
from controller.decisions.configs.changes import DYNAMIC_BROKER_KEYS

OF_TOPIC: Final = 1
OF_THIS_BROKER: Final = 2
OF_ALL_BROKERS: Final = 3
OF_FILE: Final = 4
BUILT_IN: Final = 5


class BrokerLayers(Struct, frozen=True):
    """Defaults for topics: overrides of the active controller, which decides elections; cluster-wide overrides; and
    this controller's file, which agents share.
    """

    own: Mapping[str, str]
    of_all: Mapping[str, str]
    file: Settings


def describe_topic_configs(
    overrides: Mapping[str, str], brokers: BrokerLayers, wanted: Collection[str] | None
) -> tuple[DescribedConfig, ...]:
    """Every config that has an effect and every override, sorted by name."""
    described: list[DescribedConfig] = []
    for key in sorted({*BROKER_KEYS, *overrides}):
        if wanted is not None and key not in wanted:
            continue
        layers = [(overrides.get(key), OF_TOPIC)]
        if key in BROKER_KEYS:
            broker_key = BROKER_KEYS[key]
            if broker_key in DYNAMIC_BROKER_KEYS:
                layers.append((brokers.own.get(broker_key), OF_THIS_BROKER))
                layers.append((brokers.of_all.get(broker_key), OF_ALL_BROKERS))
            layers.append(_of_file(brokers.file, broker_key))
        described.append(_described(key, layers, read_only=False))
    return tuple(described)


def describe_overrides(overrides: Mapping[str, str], wanted: Collection[str] | None) -> tuple[DescribedConfig, ...]:
    """The overrides of a topic or client, sorted by name."""
    found = {key: value for key, value in overrides.items() if wanted is None or key in wanted}
    return tuple(_described(key, [(value, OF_TOPIC)], read_only=False) for key, value in sorted(found.items()))


def describe_broker_configs(
    own: Mapping[str, str], of_all: Mapping[str, str], file: Settings, wanted: Collection[str] | None
) -> tuple[DescribedConfig, ...]:
    """Every config that can change at run time and every override; the rest is in each broker's file.

    Rates of throttled replicas are in no file: without an override there is none.
    """
    described: list[DescribedConfig] = []
    in_files = {key for key in DYNAMIC_BROKER_KEYS if key.replace(".", "_") in Settings.model_fields}
    for key in sorted({*in_files, *own, *of_all}):
        if wanted is not None and key not in wanted:
            continue
        layers = [(own.get(key), OF_THIS_BROKER), (of_all.get(key), OF_ALL_BROKERS)]
        if key in in_files:
            layers.append(_of_file(file, key))
        described.append(_described(key, layers, read_only=key not in DYNAMIC_BROKER_KEYS))
    return tuple(described)


def _of_file(file: Settings, broker_key: str) -> tuple[str, int]:
    attribute = broker_key.replace(".", "_")
    value = getattr(file, attribute)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text, OF_FILE if attribute in file.model_fields_set else BUILT_IN


def _described(key: str, layers: Sequence[tuple[str | None, int]], *, read_only: bool) -> DescribedConfig:
    value, source = next((value, source) for value, source in layers if value is not None)
    return DescribedConfig(key, value, read_only, source)
