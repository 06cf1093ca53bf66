"""Every metric of a controller and of an agent: domain, type, name and labels; most as Kafka's dashboards ask for."""

from typing import Final

SESSION: Final = {
    "kafka.server:type=SessionExpireListener": (
        "SessionState",
        "ZooKeeperDisconnectsPerSec",
        "ZooKeeperSyncConnectsPerSec",
        "ZooKeeperAuthFailuresPerSec",
        "ZooKeeperReadOnlyConnectsPerSec",
        "ZooKeeperSaslAuthenticationsPerSec",
        "ZooKeeperExpiresPerSec",
    ),
    "kafka.server:type=ZooKeeperClientMetrics": ("ZooKeeperRequestLatencyMs",),
    "klamm.zookeeper:type=Client": ("Requests", "RoundTrips"),
}
REQUESTS: Final = {
    "kafka.network:type=RequestMetrics,request": (
        "RequestsPerSec",
        "RequestBytes",
        "TotalTimeMs",
        "RequestQueueTimeMs",
        "LocalTimeMs",
        "RemoteTimeMs",
        "ThrottleTimeMs",
        "ResponseQueueTimeMs",
        "ResponseSendTimeMs",
    ),
    "kafka.network:type=RequestMetrics,error,request": ("ErrorsPerSec",),
    "kafka.network:type=RequestChannel": ("RequestQueueSize", "ResponseQueueSize"),
    "kafka.network:type=SocketServer": ("MemoryPoolUsed", "MemoryPoolAvailable"),
    "kafka.server:type=socket_server_metrics": ("connection_count",),
    "klamm.network:type=Admission,kind": ("RefusedRequestsPerSec", "HandledRequests", "OpenRequests"),
}
CONTROLLER: Final = (
    SESSION
    | REQUESTS
    | {
        "kafka.controller:type=KafkaController": (
            "ActiveControllerCount",
            "ControllerState",
            "OfflinePartitionsCount",
            "PreferredReplicaImbalanceCount",
            "GlobalTopicCount",
            "GlobalPartitionCount",
            "TopicsToDeleteCount",
            "ReplicasToDeleteCount",
            "TopicsIneligibleToDeleteCount",
            "ReplicasIneligibleToDeleteCount",
            "ActiveBrokerCount",
            "FencedBrokerCount",
        ),
        "kafka.controller:type=ControllerStats": (
            "UncleanLeaderElectionsPerSec",
            "ControllerChangeRateAndTimeMs",
            "LeaderElectionRateAndTimeMs",
            "TopicChangeRateAndTimeMs",
            "TopicDeletionRateAndTimeMs",
            "PartitionReassignmentRateAndTimeMs",
            "AutoLeaderBalanceRateAndTimeMs",
            "ManualLeaderBalanceRateAndTimeMs",
            "ControlledShutdownRateAndTimeMs",
            "IsrChangeRateAndTimeMs",
            "LeaderAndIsrResponseReceivedRateAndTimeMs",
            "LogDirChangeRateAndTimeMs",
            "ControllerShutdownRateAndTimeMs",
            "UncleanLeaderElectionEnableRateAndTimeMs",
            "TopicUncleanLeaderElectionEnableRateAndTimeMs",
            "ListPartitionReassignmentRateAndTimeMs",
            "UpdateFeaturesRateAndTimeMs",
        ),
        "kafka.controller:type=ControllerEventManager": ("EventQueueSize", "EventQueueTimeMs"),
        "kafka.controller:type=ControllerChannelManager": ("TotalQueueSize",),
        "kafka.controller:type=ControllerChannelManager,broker_id": ("QueueSize", "RequestRateAndQueueTimeMs"),
        "kafka.server:type=MetadataLoader": ("CurrentControllerId",),
        "klamm.controller:type=Failover": (
            "LoadMs",
            "ReplicaMachineMs",
            "PartitionMachineMs",
            "SentMs",
            "FirstAcknowledgementMs",
            "LastAcknowledgementMs",
        ),
    }
)
_OF_TOPICS: Final = (
    "MessagesInPerSec",
    "BytesInPerSec",
    "BytesOutPerSec",
    "BytesRejectedPerSec",
    "TotalProduceRequestsPerSec",
    "TotalFetchRequestsPerSec",
    "FailedProduceRequestsPerSec",
    "FailedFetchRequestsPerSec",
    "InvalidMagicNumberRecordsPerSec",
    "InvalidMessageCrcRecordsPerSec",
    "InvalidOffsetOrSequenceRecordsPerSec",
    "NoKeyCompactedTopicRecordsPerSec",
)
AGENT: Final = (
    SESSION
    | REQUESTS
    | {
        "kafka.server:type=ReplicaManager": (
            "LeaderCount",
            "PartitionCount",
            "OfflineReplicaCount",
            "UnderReplicatedPartitions",
            "UnderMinIsrPartitionCount",
            "AtMinIsrPartitionCount",
            "ReassigningPartitions",
            "ProducerIdCount",
            "IsrExpandsPerSec",
            "IsrShrinksPerSec",
            "FailedIsrUpdatesPerSec",
        ),
        "kafka.cluster:type=Partition,partition,topic": (
            "UnderReplicated",
            "UnderMinIsr",
            "AtMinIsr",
            "InSyncReplicasCount",
            "ReplicasCount",
            "LastStableOffsetLag",
        ),
        "kafka.server:type=ReplicaFetcherManager,clientId": (
            "MaxLag",
            "MinFetchRate",
            "FailedPartitionsCount",
            "DeadThreadCount",
        ),
        "kafka.server:type=FetcherLagMetrics,clientId,partition,topic": ("ConsumerLag",),
        "kafka.server:type=FetcherStats,brokerHost,brokerPort,clientId": ("RequestsPerSec", "BytesPerSec"),
        "kafka.server:type=BrokerTopicMetrics": (
            *_OF_TOPICS,
            "ReplicationBytesInPerSec",
            "ReplicationBytesOutPerSec",
            "ReassignmentBytesInPerSec",
            "ReassignmentBytesOutPerSec",
        ),
        "kafka.server:type=BrokerTopicMetrics,topic": _OF_TOPICS,
        "kafka.server:type=DelayedOperationPurgatory,delayedOperation": ("PurgatorySize", "NumDelayedOperations"),
        "kafka.server:type=DelayedProduceMetrics": ("ExpiresPerSec",),
        "kafka.server:type=DelayedFetchMetrics,fetcherType": ("ExpiresPerSec",),
        "kafka.server:type=DelayedDeleteRecordsMetrics": ("ExpiresPerSec",),
        "kafka.log:type=Log,partition,topic": ("NumLogSegments", "LogStartOffset", "LogEndOffset", "Size"),
        "kafka.log:type=LogManager": ("OfflineLogDirectoryCount",),
        "kafka.log:type=LogManager,logDirectory": ("LogDirectoryOffline",),
        "kafka.log:type=LogManager,dir": ("remainingLogsToRecover",),
        "kafka.log:type=LogManager,dir,threadNum": ("remainingSegmentsToRecover",),
        "kafka.log:type=LogFlushStats": ("LogFlushRateAndTimeMs",),
        "kafka.log:type=LogScrub": ("BytesVerifiedPerSec", "DamagedReplicasPerSec"),
        "kafka.server:type=KafkaServer": ("BrokerState",),
    }
)
CONTROLLER_MOVES: Final = (
    "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count",
    "kafka_server_sessionexpirelistener_zookeepersyncconnectspersec",
    "kafka_network_requestmetrics_totaltimems_count",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_globaltopiccount",
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "kafka_controller_kafkacontroller_activebrokercount",
    "kafka_controller_controllerstats_controllerchangerateandtimems_count",
    "kafka_controller_controllerstats_topicchangerateandtimems_count",
    "kafka_controller_controllereventmanager_eventqueuetimems_count",
    "kafka_controller_controllerchannelmanager_requestrateandqueuetimems_count",
)
"""What an active controller has counted when topics were made."""
AGENT_MOVES: Final = (
    "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count",
    "kafka_server_sessionexpirelistener_zookeepersyncconnectspersec",
    "kafka_network_requestmetrics_requestspersec",
    "kafka_network_requestmetrics_requestbytes_count",
    "kafka_network_requestmetrics_errorspersec",
    "kafka_network_requestmetrics_localtimems_sum",
    "kafka_network_requestmetrics_remotetimems_sum",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_brokertopicmetrics_bytesinpersec",
    "kafka_server_brokertopicmetrics_bytesoutpersec",
    "kafka_server_brokertopicmetrics_totalproducerequestspersec",
    "kafka_server_brokertopicmetrics_totalfetchrequestspersec",
    "kafka_server_brokertopicmetrics_replicationbytesinpersec",
    "kafka_server_brokertopicmetrics_replicationbytesoutpersec",
    "kafka_server_fetcherstats_requestspersec",
    "kafka_server_fetcherstats_bytespersec",
    "kafka_server_delayedfetchmetrics_expirespersec",
    "kafka_server_kafkaserver_brokerstate",
    "kafka_log_log_numlogsegments",
    "kafka_log_log_size",
)
"""What every agent has counted that leads and follows partitions with records."""


def exposed(expected: dict[str, tuple[str, ...]]) -> set[tuple[str, tuple[str, ...]]]:
    """The same as a scraper sees it: names as the JMX exporter writes them, and the names of their labels."""
    found = set()
    for bean, names in expected.items():
        where, _, labels = bean.partition(",")
        domain, _, type_ = where.partition(":type=")
        prefix = f"{domain.replace('.', '_')}_{type_}"
        found |= {
            (f"{prefix}_{name}".lower().replace("-", "_"), tuple(labels.split(",")) if labels else ()) for name in names
        }
    return found
