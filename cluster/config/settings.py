"""Every setting of controllers and agents, under Kafka's key, with Kafka's default.

The attribute is the key with underscores for dots: `replica.lag.time.max.ms` is `replica_lag_time_max_ms`. Both
programs accept all keys and use their own, so one file serves a whole cluster. Keys starting with `klamm.` have no
counterpart in Kafka. The sentence below each is its row in docs/configuration.md. Source: Kafka KafkaConfig.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationInfo, field_validator

from cluster.config.authorizer_keys import AuthorizerKeys
from cluster.config.connection_overrides import connection_overrides
from cluster.config.kafka_settings import KafkaKeys
from cluster.config.sasl_keys import SaslKeys
from cluster.config.setting_keys import Keys
from cluster.config.setting_types import (
    BACKGROUND_THREADS,
    INT32_MAX,
    INT64_MAX,
    AutomaticTopics,
    BackgroundThreads,
    CleanupPolicy,
    Level,
    ListenerName,
    NotNegative,
    Number,
    OrUnlimited,
    Positive,
    SizeInt32,
    Version,
)
from cluster.config.tls_keys import ZooKeeperTlsKeys
from cluster.model.bounds import LARGEST_BATCH
from cluster.model.broker import DEFAULT_LISTENER
from cluster.model.listeners import DEFAULT_CONTROL_LISTENER, ListenerNames
from cluster.model.protocol_version import NEWEST

_MS_PER_MINUTE: Final = 60_000
_MS_PER_HOUR: Final = 3_600_000
_KEYS_MEMORY_MIN: Final = 1 << 20
_REQUESTS_IN_MEMORY_MIN: Final = 16
"""The reserve of each kind of requests is an eighth, and has room for one while another one is processed."""


class _ClusterKeys(ZooKeeperTlsKeys):
    """Node ids, listeners, ZooKeeper, and timeouts between nodes. Times in ms."""

    broker_id: Annotated[Number, Field(ge=-1, le=INT32_MAX)] = -1
    """Id of the broker, instead of `id`; negative: generate one, if that is enabled."""
    broker_id_generation_enable: bool = True
    """Whether a broker without an id generates one."""
    reserved_broker_max_id: Annotated[Number, Field(ge=0, le=INT32_MAX)] = 1000
    """Generated ids start above it."""
    broker_rack: str | None = None
    """Rack of the broker; new replicas are spread over racks."""
    listeners: str | None = None
    """Addresses to listen at, in Kafka's form; instead of `listen` and `control_listen`."""
    advertised_listeners: str | None = None
    """Addresses that others connect to; instead of `advertised` and `control_advertised`."""
    listener_security_protocol_map: str | None = None
    """`LISTENER:PROTOCOL,…`, each PLAINTEXT, SSL, or SASL_SSL, where clients authenticate by a password or token;
    PLAINTEXT unless given. If one listener of the process has TLS, each must be named, the port for metrics as METRICS:
    none stays open by an oversight.
    """
    inter_broker_listener_name: ListenerName = DEFAULT_LISTENER
    """The listener for clients and replication."""
    control_plane_listener_name: ListenerName = DEFAULT_CONTROL_LISTENER
    """The listener for requests between controllers and brokers."""
    socket_request_max_bytes: SizeInt32 = 16_777_216
    """The largest request at the listener for clients; the control listener takes 128 MiB. Kafka's default is
    104857600, but gRPC holds each message in memory as a whole.
    """
    zookeeper_connect: str | None = None
    """Connect string of ZooKeeper, instead of `zookeeper`."""
    zookeeper_session_timeout_ms: Positive = 18_000
    """How long ZooKeeper waits for a silent process before its session ends, and a broker counts as dead."""
    zookeeper_connection_timeout_ms: Positive = Field(default_factory=lambda keys: keys["zookeeper_session_timeout_ms"])
    """For the first connection; the session timeout unless given."""
    zookeeper_max_in_flight_requests: Positive = 10
    """Requests sent to ZooKeeper before the first is answered."""
    java_security_auth_login_config: str | None = None
    """The JAAS file with the ZooKeeper credentials (in Kafka this system property); not set: anonymous sessions."""
    zookeeper_sasl_clientconfig: str = "Client"
    """The section of the JAAS file with the credentials of this process."""
    zookeeper_set_acl: bool = False
    """Whether znodes get ACLs that permit only their creator to write, instead of open ones. With TLS to ZooKeeper the
    creator is the distinguished name of the certificate, so all nodes need the same one.
    """
    controller_socket_timeout_ms: Positive = 30_000
    """How long a controller waits for the answer of a broker to a control request."""
    request_timeout_ms: Positive = 30_000
    """How long a broker waits for the answer of a controller."""
    socket_connection_setup_timeout_max_ms: Positive = 30_000
    """Limit to which `socket.connection.setup.timeout.ms` grows with every failed attempt."""
    socket_connection_setup_timeout_ms: Positive = 10_000
    """Time for a connection to another node to be made, at the first attempt."""
    inter_broker_protocol_version: Version = NEWEST
    """Version of Kafka that the znodes and requests are those of; lower it while older brokers run. Below 2.7-IV2 a
    leader writes ISR changes to ZooKeeper itself and announces them, instead of asking the controller.
    """
    num_io_threads: Positive = 8
    """Threads of a broker for disk operations."""
    background_threads: BackgroundThreads = BACKGROUND_THREADS
    """Accepted because it occurs in Kafka's configuration files."""


class _NetworkKeys(_ClusterKeys):
    """Bounds of what a process takes from others. Times in ms, sizes in bytes."""

    queued_max_requests: Annotated[Number, Field(ge=8, le=INT32_MAX)] = 4096
    """Requests being handled at once; those that wait for records, replicas or the cluster do not count. Kafka's
    default is 500, of requests that wait for a thread.
    """
    queued_max_request_bytes: Positive = 268_435_456
    """Bytes of requests and responses in memory at once; without a bound in Kafka (-1)."""
    max_connections: SizeInt32 = INT32_MAX
    """Connections of each listener, of all Kafka listeners of a controller together; never more than their share of the
    open files of the process. At Kafka listeners a new connection takes the place of the one that was idle for longest.
    """
    max_connections_per_ip: SizeInt32 = INT32_MAX
    """Connections with open requests from one address; at Kafka listeners of a controller all connections, at most 3/8
    of the places, but for hosts of registered brokers.
    """
    max_connections_per_ip_overrides: str | None = None
    """`HOST:NUMBER,…`: what holds for these hosts at Kafka listeners of a controller instead, brokers' or not.
    """
    connections_max_idle_ms: SizeInt32 = 600_000
    """Connections without requests are closed after this time."""
    klamm_max_open_requests: Annotated[Number, Field(ge=8, le=INT32_MAX)] = 65_536
    """Requests being handled or waiting, streams included."""
    klamm_max_topics: SizeInt32 = INT32_MAX
    """Topics of the cluster, at controllers; a further one is refused with POLICY_VIOLATION."""
    klamm_max_partitions: SizeInt32 = INT32_MAX
    """Partitions of the cluster, at controllers; what would go beyond it is refused with POLICY_VIOLATION."""
    klamm_max_requests_per_connection: SizeInt32 = 2048
    """Open requests of one connection; a client keeps further ones to itself."""
    klamm_request_transfer_timeout_ms: Positive = 30_000
    """Time for a request to arrive, from its headers to its last byte."""

    @field_validator("max_connections_per_ip_overrides")
    @classmethod
    def _overrides_are_numbers_of_hosts(cls, value: str | None) -> str | None:
        connection_overrides(value)
        return value

    @field_validator("queued_max_request_bytes")
    @classmethod
    def _each_reserve_has_room_for_a_request(cls, value: int, info: ValidationInfo) -> int:
        request_bytes = info.data.get("socket_request_max_bytes")
        if request_bytes is not None and value < _REQUESTS_IN_MEMORY_MIN * request_bytes:
            raise ValueError(
                f"must be at least {_REQUESTS_IN_MEMORY_MIN} times socket.request.max.bytes ({request_bytes})"
            )
        return value


class _ControllerKeys(Keys):
    """Elections, rebalancing, topic defaults and controlled shutdown."""

    auto_leader_rebalance_enable: bool = True
    """Whether the controller moves leadership back to preferred replicas by itself."""
    leader_imbalance_per_broker_percentage: Annotated[Number, Field(ge=0, le=100)] = 10
    """Share of its preferred partitions that a broker may not lead before they are moved back."""
    leader_imbalance_check_interval_seconds: Positive = 300
    """Time between two checks of the balance of leaders, in seconds."""
    unclean_leader_election_enable: bool = False
    """Whether a replica that is not in sync may lead when no other is alive; loses records."""
    auto_create_topics_enable: AutomaticTopics = False
    """Accepted because it occurs in Kafka's configuration files; Kafka's own default is true."""
    delete_topic_enable: bool = True
    """Whether topics can be deleted."""
    controlled_shutdown_enable: bool = True
    """Whether a broker that stops moves its leaderships away first."""
    controlled_shutdown_max_retries: NotNegative = 3
    """How often a controlled shutdown is tried again."""
    controlled_shutdown_retry_backoff_ms: NotNegative = 5000
    """Time between the attempts of a controlled shutdown."""
    num_partitions: SizeInt32 = 1
    """Partitions of a new topic, where its creation names no number."""
    default_replication_factor: Annotated[Number, Field(ge=1, le=32_767)] = 1
    """Replicas of each partition of a new topic, where its creation names no number."""


class _ReplicationKeys(Keys):
    """Followers, the ISR and purgatories. Times in ms, sizes in bytes."""

    replica_lag_time_max_ms: Positive = 30_000
    """A follower that has not caught up for this long leaves the ISR."""
    replica_socket_timeout_ms: Positive = 30_000
    """How long a follower waits for the answer to a fetch."""
    replica_fetch_wait_max_ms: NotNegative = 500
    """How long a leader may hold a follower's fetch while there are no records."""
    replica_fetch_min_bytes: SizeInt32 = 1
    """Bytes for which a leader answers a follower's fetch at once."""
    replica_fetch_max_bytes: SizeInt32 = 1_048_576
    """Bytes of one partition in a follower's fetch; a larger batch is fetched alone."""
    replica_fetch_response_max_bytes: SizeInt32 = 10_485_760
    """Bytes of all partitions in a follower's fetch."""
    replica_fetch_backoff_ms: NotNegative = 1000
    """Pause of a follower after a fetch that failed."""
    num_replica_fetchers: Positive = 1
    """Connections over which a broker fetches from each leader."""
    max_incremental_fetch_session_cache_slots: NotNegative = 1000
    """Fetch sessions of followers and consumers that a broker keeps; a follower takes the slot of a consumer. Whoever
    has none names all partitions in each fetch.
    """
    replica_selector_class: Literal["org.apache.kafka.common.replica.RackAwareReplicaSelector"] | None = None
    """Which replica a consumer reads from: not set, the leader; with Kafka's class for racks, one that is in sync in
    the consumer's own rack.
    """
    replication_quota_window_num: SizeInt32 = 11
    """Samples over which the rates of throttled replicas are measured."""
    replication_quota_window_size_seconds: SizeInt32 = 1
    """Length of such a sample, in seconds."""
    num_replica_alter_log_dirs_threads: Positive | None = None
    """Replicas that are copied between log directories at once; by default as many as there are directories."""
    replica_alter_log_dirs_io_max_bytes_per_second: NotNegative = INT64_MAX
    """Bytes per second of all copies between log directories together; 0: none."""
    replica_high_watermark_checkpoint_interval_ms: Positive = 5000
    """Time between two checkpoints of the high watermarks."""
    min_insync_replicas: SizeInt32 = 1
    """Replicas that must be in sync for a produce with acks=all to be accepted."""
    fetch_purgatory_purge_interval_requests: NotNegative = 1000
    """Bound of completed requests that stay in a purgatory. Here none ever do, which satisfies every bound."""
    producer_purgatory_purge_interval_requests: NotNegative = 1000
    """Bound of completed requests that stay in a purgatory. Here none ever do, which satisfies every bound."""
    delete_records_purgatory_purge_interval_requests: NotNegative = 1
    """Bound of completed requests that stay in a purgatory. Here none ever do, which satisfies every bound."""


def _from_hours(hours_key: str, default_ms: int) -> Any:
    """Default of a `….ms` key: the corresponding `….hours` key, if given."""

    def choose(keys: dict[str, Any]) -> int:
        hours = keys[hours_key]
        return default_ms if hours is None else hours * _MS_PER_HOUR

    return Field(default_factory=choose)


def _retention_ms(keys: dict[str, Any]) -> int:
    for key, unit in (("log_retention_minutes", _MS_PER_MINUTE), ("log_retention_hours", _MS_PER_HOUR)):
        if keys[key] is not None:
            return -1 if keys[key] == -1 else int(keys[key]) * unit
    return 604_800_000


class _QuotaKeys(Keys):
    """How the rates of clients are measured."""

    quota_window_num: SizeInt32 = 11
    """Samples over which the rates of clients with quotas are measured."""
    quota_window_size_seconds: SizeInt32 = 1
    """Length of such a sample, in seconds."""
    controller_quota_window_num: SizeInt32 = 11
    """Samples over which the changes of clients with `controller_mutation_rate` are measured."""
    controller_quota_window_size_seconds: SizeInt32 = 1
    """Length of such a sample, in seconds. A client that was quiet may change at once what its rate allows in all
    samples.
    """


class _LogKeys(Keys):
    """Logs. Times in ms, sizes in bytes; the finest unit given takes precedence."""

    log_dirs: tuple[str, ...] | None = None
    """Data directories, instead of `data`."""
    log_segment_bytes: Annotated[Number, Field(ge=14, le=INT32_MAX)] = 1_073_741_824
    """Size at which a segment is closed and the next one begun."""
    log_roll_hours: Positive | None = None
    """As `log.roll.ms`, in hours."""
    log_roll_ms: Positive = _from_hours("log_roll_hours", 604_800_000)
    """Age at which a segment is closed and the next one begun."""
    log_roll_jitter_hours: NotNegative | None = None
    """As `log.roll.jitter.ms`, in hours."""
    log_roll_jitter_ms: NotNegative = _from_hours("log_roll_jitter_hours", 0)
    """Random time by which segments roll earlier, so that they do not roll all at once."""
    log_retention_hours: OrUnlimited | None = None
    """As `log.retention.ms`, in hours."""
    log_retention_minutes: OrUnlimited | None = None
    """As `log.retention.ms`, in minutes."""
    log_retention_ms: OrUnlimited = Field(default_factory=_retention_ms)
    """Segments whose records are older are deleted; -1: never."""
    log_retention_bytes: OrUnlimited = -1
    """Size of a partition above which its oldest segments are deleted; -1: no limit."""
    log_retention_check_interval_ms: Positive = 300_000
    """Time between two checks of retention."""
    log_initial_task_delay_ms: NotNegative = 30_000
    """Time from the start of a broker to its first check of retention."""
    log_index_interval_bytes: Annotated[Number, Field(ge=0, le=INT32_MAX)] = 4096
    """Bytes of records between two entries of an index."""
    log_index_size_max_bytes: Annotated[Number, Field(ge=4, le=INT32_MAX)] = 10_485_760
    """Size of an index at which its segment is closed."""
    log_flush_interval_messages: Positive = INT64_MAX
    """Records after which a log is flushed to disk."""
    log_flush_interval_ms: NotNegative = INT64_MAX
    """Time after which a log is flushed to disk."""
    log_flush_scheduler_interval_ms: NotNegative = INT64_MAX
    """Time between two checks whether a log is to be flushed."""
    log_flush_offset_checkpoint_interval_ms: NotNegative = 60_000
    """Time between two checkpoints of the recovery points."""
    log_flush_start_offset_checkpoint_interval_ms: NotNegative = 60_000
    """Time between two checkpoints of the log start offsets."""
    log_segment_delete_delay_ms: NotNegative = 60_000
    """Time for which the files of a deleted segment or partition are kept."""
    log_cleanup_policy: CleanupPolicy = "delete"
    """What becomes of old records: `delete` by age and size, `compact` to the last one of each key, or both:
    `compact,delete`.
    """
    log_cleaner_enable: bool = True
    """Whether logs whose policy includes `compact` are compacted."""
    log_cleaner_threads: SizeInt32 = 1
    """Logs that a broker compacts at the same time."""
    log_cleaner_io_max_bytes_per_second: Annotated[float, Field(gt=0)] = 1.7976931348623157e308
    """What compaction reads and writes, all logs together; without a limit unless given."""
    log_cleaner_dedupe_buffer_size: Positive = 134_217_728
    """Memory for keys, of all logs that are compacted at the same time; each needs 1 MiB. A key takes 200 bytes of it
    (24 in Kafka); what does not fit is left for the next round.
    """
    log_cleaner_io_buffer_size: Annotated[Number, Field(ge=0, le=INT32_MAX)] = 524_288
    """What compaction reads at a time, of all logs that are compacted at the same time."""
    log_cleaner_io_buffer_load_factor: Annotated[float, Field(gt=0, le=1)] = 0.9
    """The share of the memory for keys that is used."""
    log_cleaner_backoff_ms: NotNegative = 15_000
    """How long compaction waits while no log is dirty enough."""
    log_cleaner_min_cleanable_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The share of bytes that were not compacted yet from which on a log is compacted."""
    log_cleaner_delete_retention_ms: NotNegative = 86_400_000
    """How long a tombstone stays after it was compacted for the first time."""
    log_cleaner_min_compaction_lag_ms: NotNegative = 0
    """The age below which records are not compacted."""
    log_cleaner_max_compaction_lag_ms: Positive = INT64_MAX
    """The age at which records are compacted, however few they are."""
    message_max_bytes: Annotated[Number, Field(ge=0, le=INT32_MAX)] = 1_048_588
    """The largest batch that is accepted."""
    log_message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    """Whether records have the time of the producer or that of their append."""
    fetch_max_bytes: Annotated[Number, Field(ge=1024, le=INT32_MAX)] = 57_671_680
    """The largest answer to a fetch."""
    producer_id_expiration_ms: Positive = 86_400_000
    """After this time without records a partition forgets an idempotent producer."""
    num_recovery_threads_per_data_dir: Positive = 1
    """Threads that load and recover the logs of a directory at the start."""

    @field_validator("log_retention_ms")
    @classmethod
    def _nothing_is_kept_for_no_time(cls, value: int) -> int:
        if value == 0:
            raise ValueError("must be -1 (no limit) or at least 1")
        return value

    @field_validator("log_cleaner_dedupe_buffer_size")
    @classmethod
    def _each_cleaner_has_room_for_keys(cls, value: int, info: ValidationInfo) -> int:
        threads = info.data.get("log_cleaner_threads")
        if threads is not None and value < threads * _KEYS_MEMORY_MIN:
            raise ValueError(f"must be at least {_KEYS_MEMORY_MIN} for each of log.cleaner.threads ({threads})")
        return value

    @field_validator("log_cleaner_max_compaction_lag_ms")
    @classmethod
    def _records_may_be_compacted_before_they_must(cls, value: int, info: ValidationInfo) -> int:
        least = info.data.get("log_cleaner_min_compaction_lag_ms")
        if least is not None and value < least:
            raise ValueError(f"must be at least log.cleaner.min.compaction.lag.ms ({least})")
        return value

    @field_validator("log_dirs", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


class _KlammKeys(Keys):
    """klamm's own settings. Times in ms, sizes in bytes."""

    klamm_state_change_log_dir: str | None = None
    """Directory of the state-change log; not set: `state-change-log` in the first data directory."""
    klamm_state_change_log_segment_bytes: Positive = 67_108_864
    """Segments roll above this size."""
    klamm_state_change_log_segment_ms: Positive = 3_600_000
    """Segments roll at this age."""
    klamm_state_change_log_flush_interval_ms: Positive = 1000
    """Time between two fsyncs of the state-change log."""
    klamm_state_change_log_head_interval_ms: Positive = 10_000
    """Shortest time between two writes of a log's head to `/klamm/state_log`, and between two records of another
    node's head.
    """
    klamm_state_change_log_retention_ms: OrUnlimited = -1
    """Sealed segments older than this are deleted; -1 keeps them all."""
    klamm_state_change_log_retention_unaudited: bool = True
    """Whether retention keeps segments that no audit has processed yet."""
    klamm_replica_truncation_mode: Literal["fetch", "epoch-query"] = "fetch"
    """How a follower finds where its log diverges: from fetch responses, or by requesting epoch end offsets."""
    klamm_zookeeper_auth_scheme: Literal["sasl", "digest"] = "sasl"
    """Authentication scheme: SASL DIGEST-MD5 as in Kafka, or ZooKeeper's `digest`, which needs no
    server configuration.
    """
    log_level: Level = "info"
    """Log lines of this level and above are written. `klamm brokers alter` changes it while a process runs."""
    klamm_metrics_partitions: bool = True
    """Whether metrics of single partitions and logs are exported."""
    klamm_leader_rebalance_max_elections: Positive = 1000
    """Leaderships that one check of the balance moves back, at most; the next check follows a second later."""
    klamm_damaged_replica_election_delay_ms: NotNegative = 60_000
    """How long a damaged replica that is the only one in sync waits for another before it is elected; so do replicas
    that may lack records, as their machines lost power, for others in sync that are not there yet.
    """
    klamm_delete_topic_absent_broker_grace_ms: OrUnlimited = 600_000
    """How long a topic deletion waits for a broker that is away before it is completed without it; what the broker
    still has is deleted when it is back. -1 waits for ever, as Kafka does.
    """
    klamm_controllers_expected: NotNegative = 0
    """How many controllers there are to be: with fewer, `klamm cluster health` has an issue. 0: two, if there were ever
    more than one. Set it to 1 where one is meant to be enough.
    """
    klamm_failover_elect_first: bool = False
    """Whether a controller that takes over elects leaders first for partitions whose leader is gone, and then takes
    replicas on brokers that are gone out of ISRs: such partitions are led sooner, under a leader epoch that is one
    lower. Kafka does it the other way round.
    """
    klamm_standby_warm: bool = True
    """Whether a controller that is not active follows the topics and partitions in ZooKeeper, so that it does not have
    to read them once it takes over. Needs ZooKeeper 3.6, without its WatchManagerOptimized; otherwise it reads them.
    """
    klamm_standby_max_partitions: Positive = 1_000_000
    """With more partitions a controller that is not active does not follow them until it is restarted, to save its
    memory, of which each partition takes about half a kilobyte.
    """
    klamm_log_scrub_bytes_per_second: NotNegative = 4_194_304
    """How fast a broker verifies the checksums of its stored batches in the background; 0: not at all."""
    klamm_log_scrub_interval_ms: Positive = 604_800_000
    """Time between two passes of the scrub over all logs."""
    klamm_log_dir_min_free_bytes: NotNegative | None = None
    """Free space, per log directory, below which a broker takes no records there: what is left is kept for truncations,
    deletions, checkpoints and the state-change log. With a quarter more it takes records again. Not set: 256 MiB, or a
    twentieth of the file system if that is less; 0: records may take everything.
    """
    klamm_log_open_files_max: Positive | None = None
    """Log files kept open while they are not in use, at most; not set: half of what the limit of open files of the
    process leaves, and connections have the other half.
    """
    klamm_max_decompressed_batch_bytes: Annotated[Number, Field(ge=1, le=LARGEST_BATCH)] = 104_857_600
    """A leader refuses a client's batch that decompresses to more."""
    klamm_decompression_memory_bytes: Positive = 268_435_456
    """What a broker decompresses at a time, all batches together; one batch always fits."""


class Settings(
    AuthorizerKeys,
    KafkaKeys,
    SaslKeys,
    _KlammKeys,
    _LogKeys,
    _QuotaKeys,
    _ReplicationKeys,
    _ControllerKeys,
    _NetworkKeys,
):
    """All settings, validated; see the groups above."""

    @property
    def listener_names(self) -> ListenerNames:
        return ListenerNames(self.inter_broker_listener_name, self.control_plane_listener_name)

    @field_validator("control_plane_listener_name")
    @classmethod
    def _listeners_differ(cls, value: str, info: ValidationInfo) -> str:
        if value == info.data.get("inter_broker_listener_name"):
            raise ValueError("must differ from inter.broker.listener.name: control requests have their own listener")
        return value

    @field_validator("replica_fetch_wait_max_ms")
    @classmethod
    def _fetch_wait_is_shorter_than_lag(cls, value: int, info: ValidationInfo) -> int:
        _at_most(value, info, "replica.lag.time.max.ms")
        return _at_most(value, info, "replica.socket.timeout.ms")

    @field_validator("zookeeper_set_acl")
    @classmethod
    def _owners_have_an_identity(cls, value: bool, info: ValidationInfo) -> bool:
        # Not a second error if the file name itself is invalid.
        has_certificate = info.data.get("zookeeper_ssl_client_enable") and info.data.get(
            "zookeeper_ssl_keystore_location"
        )
        if value and not has_certificate and info.data.get("java_security_auth_login_config", "") is None:
            raise ValueError(
                "needs an authenticated ZooKeeper session: java.security.auth.login.config must name a JAAS file, or "
                "zookeeper.ssl.keystore.location a certificate"
            )
        return value

    @field_validator("socket_connection_setup_timeout_ms")
    @classmethod
    def _setup_timeout_has_a_ceiling(cls, value: int, info: ValidationInfo) -> int:
        return _at_most(value, info, "socket.connection.setup.timeout.max.ms")


def _at_most(value: int, info: ValidationInfo, key: str) -> int:
    limit = info.data.get(key.replace(".", "_"))
    if limit is not None and value > limit:
        raise ValueError(f"must not exceed {key} ({limit})")
    return value
