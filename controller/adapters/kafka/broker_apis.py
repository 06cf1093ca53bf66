"""What brokers ask the active controller: ISR changes, controlled shutdown and producer ids; and finalized features.

Source: Kafka KafkaApis.handleAlterPartitionRequest, handleControlledShutdownRequest, handleAllocateProducerIdsRequest,
handleUpdateFeatures.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from cluster.kafka_wire.conversion import convert
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.brokers import AlterPartitionRequest, BrokerState, UpdateFeaturesRequest
from cluster.model.broker import BrokerEpoch, BrokerId
from cluster.requests import agents, configs
from controller.adapters.kafka.conversions import AnsweredApi

UNSAFE_DOWNGRADE: Final = 3
"""What `allow_downgrade` of version 0 became (KIP-778)."""


def _isr_changes(message: AlterPartitionRequest) -> agents.AlterPartitionRequest:
    request = convert(message, agents.AlterPartitionRequest)
    members = [partition.new_isr_with_epochs for topic in message.topics for partition in topic.partitions]
    return replace(request, partitions=tuple(map(_with_epochs, request.partitions, members)))


def _with_epochs(item: agents.AlterPartitionItem, members: Sequence[BrokerState]) -> agents.AlterPartitionItem:
    """The newest version has the epoch of each member of the ISR, the others the ISR alone."""
    if not members:
        return item
    isr = tuple(BrokerId(member.broker_id) for member in members)
    return replace(item, new_isr=isr, new_isr_epochs=tuple(BrokerEpoch(member.broker_epoch) for member in members))


def _feature_updates(message: UpdateFeaturesRequest) -> configs.UpdateFeaturesRequest:
    updates = (
        replace(update, upgrade_type=UNSAFE_DOWNGRADE) if update.allow_downgrade else update
        for update in message.feature_updates
    )
    return convert(replace(message, feature_updates=tuple(updates)), configs.UpdateFeaturesRequest)


BROKER_APIS: Final[tuple[AnsweredApi[Any], ...]] = (
    AnsweredApi(ApiKey.ALTER_PARTITION, agents.AlterPartitionRequest, request=_isr_changes),
    AnsweredApi(ApiKey.CONTROLLED_SHUTDOWN, agents.ControlledShutdownRequest),
    AnsweredApi(ApiKey.ALLOCATE_PRODUCER_IDS, agents.AllocateProducerIdsRequest),
    AnsweredApi(ApiKey.UPDATE_FEATURES, configs.UpdateFeaturesRequest, request=_feature_updates),
)
