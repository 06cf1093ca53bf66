"""What changed settings would do, told without changing them: the keys, and the elections that they lead to."""

from collections.abc import Mapping

from cluster.partition import TopicPartition
from cluster.requests.configs import AlterConfigsResource
from cluster.requests.plans import Plan, PlannedSetting
from cluster.znodes.configs import DEFAULT_ENTITY, ConfigEntity
from controller.active_controller import ActiveController
from controller.config_store import overrides_of
from controller.decisions.configs.changes import altered
from controller.decisions.configs.topic_configs import parse_unclean_override
from controller.decisions.partitions.leader_election import ElectionFailure, Offline
from controller.decisions.partitions.requested_elections import RequestedElections, preview_elections
from controller.dynamic_settings import DynamicSettings
from controller.handlers.partitions.partition_transitions import unclean_allowed


async def preview_alterations(
    active: ActiveController, wanted: Mapping[ConfigEntity, AlterConfigsResource]
) -> tuple[Plan, set[ConfigEntity]]:
    """The plan without keys that stay as they are, and those whose present settings cannot be read."""
    stored = await active.configs.read(list(wanted))
    before = {entity: config for entity, config in stored.items() if config is not None}
    after = {entity: altered(config.overrides, wanted[entity].configs) for entity, config in before.items()}
    settings: list[PlannedSetting] = []
    for entity, new in after.items():
        old, resource = before[entity].overrides, wanted[entity]
        settings += [
            PlannedSetting(resource.resource_type, resource.resource_name, key, old.get(key), new.get(key))
            for key in sorted({*old, *new})
            if old.get(key) != new.get(key)
        ]
    elections = await _preview_elections(active, after)
    return Plan(elections.changes, elections.requests, tuple(settings)), wanted.keys() - before.keys()


async def _preview_elections(active: ActiveController, after: Mapping[ConfigEntity, dict[str, str]]) -> Plan:
    """Partitions without a leader get one where the new settings allow an unclean election (EP-30, EP-31)."""
    context = active.context
    waiting = [tp for tp in context.partitions_awaiting_leader() if tp in context.leaderships]
    by_topic = {entity.name: overrides for entity, overrides in after.items() if entity.type == "topics"}
    allowed: dict[str, bool | ElectionFailure] = {}
    concerned: list[TopicPartition] = []
    for topic, overrides in by_topic.items():
        if _allows(overrides):
            allowed[topic] = True
            concerned += [tp for tp in waiting if tp.topic == topic]
    if await _allows_from_now_on(active, after):
        others = [tp for tp in waiting if tp.topic not in by_topic]
        current = {tp: context.leaderships[tp] for tp in others}
        allowed |= await unclean_allowed(active, current, Offline(), default=True)
        concerned += others
    elections = RequestedElections(Offline(), tuple(concerned), {})
    settings = active.config.request_settings
    return preview_elections(context, elections, active.config.id, settings, unclean_allowed=allowed).plan


def _allows(overrides: Mapping[str, str]) -> bool:
    try:
        return parse_unclean_override(overrides) is True
    except ValueError:
        return False


async def _allows_from_now_on(active: ActiveController, after: Mapping[ConfigEntity, dict[str, str]]) -> bool:
    """Whether this controller's own settings come to allow unclean elections."""
    layers = [ConfigEntity("brokers", str(active.config.id)), ConfigEntity("brokers", DEFAULT_ENTITY)]
    if active.settings.unclean_leader_election_enable or not any(layer in after for layer in layers):
        return False
    stored = await active.configs.read(layers)
    own, of_all = (after.get(layer, overrides_of(stored[layer])) for layer in layers)
    foreseen = DynamicSettings(active.config)
    foreseen.override(own=own, of_all=of_all)
    return foreseen.unclean_leader_election_enable
