"""What brokers ask the active controller: ISR changes, controlled shutdown and producer ids; and finalized features.

Source: Kafka KafkaApis.handleAlterPartitionRequest, handleControlledShutdownRequest, handleAllocateProducerIdsRequest,
handleUpdateFeatures.
"""

from itertools import groupby
from typing import Any, Final

from cluster.kafka_wire.api_keys import ApiKey
from cluster.kafka_wire.messages import brokers as wire_brokers
from cluster.model.broker import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch
from cluster.model.errors import ApiError
from cluster.requests import agents, configs
from controller.adapters.kafka.conversions import Conversion, topic_id_or_none, topic_id_or_zero

UNSAFE_DOWNGRADE: Final = 3
"""What `allow_downgrade` of version 0 became (KIP-778)."""


def _isr_changes(message: wire_brokers.AlterPartitionRequest) -> agents.AlterPartitionRequest:
    return agents.AlterPartitionRequest(
        BrokerId(message.broker_id),
        BrokerEpoch(message.broker_epoch),
        tuple(_proposal(topic, partition) for topic in message.topics for partition in topic.partitions),
    )


def _proposal(
    topic: wire_brokers.AlterPartitionRequestTopicData, partition: wire_brokers.AlterPartitionRequestPartitionData
) -> agents.AlterPartitionItem:
    with_epochs = partition.new_isr_with_epochs
    isr = tuple(member.broker_id for member in with_epochs) if with_epochs else partition.new_isr
    return agents.AlterPartitionItem(
        topic.topic_name,
        topic_id_or_none(topic.topic_id),
        partition.partition_index,
        LeaderEpoch(partition.leader_epoch),
        tuple(map(BrokerId, isr)),
        PartitionEpoch(partition.partition_epoch),
        partition.leader_recovery_state,
        tuple(BrokerEpoch(member.broker_epoch) for member in with_epochs),
    )


def _isr_changed(
    _: wire_brokers.AlterPartitionRequest, response: agents.AlterPartitionResponse
) -> wire_brokers.AlterPartitionResponse:
    """The results by topic; each is found by id, or by name in the versions without ids."""
    topics = groupby(response.partitions, lambda result: (result.topic_name, result.topic_id))
    return wire_brokers.AlterPartitionResponse(
        error_code=response.error_code,
        topics=tuple(
            wire_brokers.AlterPartitionResponseTopicData(
                topic_name=name,
                topic_id=topic_id_or_zero(topic_id),
                partitions=tuple(
                    wire_brokers.AlterPartitionResponsePartitionData(
                        partition_index=result.partition_index,
                        error_code=result.error_code,
                        leader_id=result.leader_id,
                        leader_epoch=result.leader_epoch,
                        isr=result.isr,
                        leader_recovery_state=result.leader_recovery_state,
                        partition_epoch=result.partition_epoch,
                    )
                    for result in results
                ),
            )
            for (name, topic_id), results in topics
        ),
    )


def _isr_change_refused(_: wire_brokers.AlterPartitionRequest, error: ApiError) -> wire_brokers.AlterPartitionResponse:
    return wire_brokers.AlterPartitionResponse(error_code=error.code)


def _shutdown(message: wire_brokers.ControlledShutdownRequest) -> agents.ControlledShutdownRequest:
    return agents.ControlledShutdownRequest(BrokerId(message.broker_id), BrokerEpoch(message.broker_epoch))


def _shut_down(
    _: wire_brokers.ControlledShutdownRequest, response: agents.ControlledShutdownResponse
) -> wire_brokers.ControlledShutdownResponse:
    return wire_brokers.ControlledShutdownResponse(
        error_code=response.error_code,
        remaining_partitions=tuple(
            wire_brokers.RemainingPartition(topic_name=p.topic_name, partition_index=p.partition_index)
            for p in response.remaining_partitions
        ),
    )


def _shutdown_refused(
    _: wire_brokers.ControlledShutdownRequest, error: ApiError
) -> wire_brokers.ControlledShutdownResponse:
    return wire_brokers.ControlledShutdownResponse(error_code=error.code)


def _allocation(message: wire_brokers.AllocateProducerIdsRequest) -> agents.AllocateProducerIdsRequest:
    return agents.AllocateProducerIdsRequest(BrokerId(message.broker_id), BrokerEpoch(message.broker_epoch))


def _allocated(
    _: wire_brokers.AllocateProducerIdsRequest, response: agents.AllocateProducerIdsResponse
) -> wire_brokers.AllocateProducerIdsResponse:
    return wire_brokers.AllocateProducerIdsResponse(
        error_code=response.error_code,
        producer_id_start=response.producer_id_start,
        producer_id_len=response.producer_id_len,
    )


def _allocation_refused(
    _: wire_brokers.AllocateProducerIdsRequest, error: ApiError
) -> wire_brokers.AllocateProducerIdsResponse:
    return wire_brokers.AllocateProducerIdsResponse(error_code=error.code)


def _feature_updates(message: wire_brokers.UpdateFeaturesRequest) -> configs.UpdateFeaturesRequest:
    return configs.UpdateFeaturesRequest(
        tuple(
            configs.FeatureUpdate(
                update.feature,
                update.max_version_level,
                UNSAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type,
            )
            for update in message.feature_updates
        ),
        message.timeout_ms,
        validate_only=message.validate_only,
    )


def _features_updated(
    _: wire_brokers.UpdateFeaturesRequest, response: configs.UpdateFeaturesResponse
) -> wire_brokers.UpdateFeaturesResponse:
    return wire_brokers.UpdateFeaturesResponse(
        error_message=None,
        results=tuple(
            wire_brokers.UpdatableFeatureResult(
                feature=result.feature, error_code=result.error_code, error_message=result.error_message
            )
            for result in response.results
        ),
    )


def _feature_update_refused(
    _: wire_brokers.UpdateFeaturesRequest, error: ApiError
) -> wire_brokers.UpdateFeaturesResponse:
    return wire_brokers.UpdateFeaturesResponse(error_code=error.code, error_message=error.message)


BROKER_APIS: Final[tuple[Conversion[Any], ...]] = (
    Conversion(ApiKey.ALTER_PARTITION, _isr_changes, _isr_changed, _isr_change_refused),
    Conversion(ApiKey.CONTROLLED_SHUTDOWN, _shutdown, _shut_down, _shutdown_refused),
    Conversion(ApiKey.ALLOCATE_PRODUCER_IDS, _allocation, _allocated, _allocation_refused),
    Conversion(ApiKey.UPDATE_FEATURES, _feature_updates, _features_updated, _feature_update_refused),
)
