"""Every setting of controllers and agents, under Kafka's key, with Kafka's default.

The attribute is the key with underscores for dots: `replica.lag.time.max.ms` is `replica_lag_time_max_ms`. Both
programs accept all keys and use their own, so one file serves a whole cluster. Keys starting with `klamm.` have no
counterpart in Kafka. Source: Kafka KafkaConfig.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from cluster.broker import DEFAULT_LISTENER
from cluster.compression import LARGEST_BATCH
from cluster.listeners import DEFAULT_CONTROL_LISTENER, ListenerNames
from cluster.protocol_version import NEWEST, ProtocolVersion

INT64_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1
_MS_PER_MINUTE: Final = 60_000
_MS_PER_HOUR: Final = 3_600_000
_BACKGROUND_THREADS: Final = 10
_REQUESTS_IN_MEMORY_MIN: Final = 16
"""The reserve of each kind of requests is an eighth, and has room for one while another one is processed."""


def _refuse_bool(value: object) -> object:
    # TOML and JSON tell booleans from numbers, Python does not: without this, `true` would read as 1.
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _refuse_true(value: bool) -> bool:
    if value:
        raise ValueError("must be false: topics are created on request only")
    return value


def _upper_case(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _refuse_another_size(value: int) -> int:
    if value != _BACKGROUND_THREADS:
        raise ValueError(f"must be {_BACKGROUND_THREADS}: work in the background has no threads of its own")
    return value


def _refuse_movers(value: int | None) -> int | None:
    if value is not None:
        raise ValueError("must not be given: replicas are not moved between the log directories of a broker")
    return value


def _parse_version(value: object) -> object:
    return ProtocolVersion.parse(value) if isinstance(value, str) else value


_Number = Annotated[int, BeforeValidator(_refuse_bool)]
Positive = Annotated[_Number, Field(ge=1, le=INT64_MAX)]
NotNegative = Annotated[_Number, Field(ge=0, le=INT64_MAX)]
SizeInt32 = Annotated[_Number, Field(ge=1, le=INT32_MAX)]
OrUnlimited = Annotated[_Number, Field(ge=-1, le=INT64_MAX)]
"""-1 stands for "no limit"."""
ListenerName = Annotated[str, BeforeValidator(_upper_case), Field(pattern="^[A-Z][A-Z0-9_]*$")]
Version = Annotated[ProtocolVersion, BeforeValidator(_parse_version)]


class _Keys(BaseModel):
    model_config = ConfigDict(
        alias_generator=lambda attribute: attribute.replace("_", "."),
        arbitrary_types_allowed=True,
        extra="forbid",
        frozen=True,
        # By name too, so that code and tests can write Settings(replica_lag_time_max_ms=...).
        validate_by_name=True,
        validate_by_alias=True,
        # Defaults take part in the cross checks.
        validate_default=True,
    )


class _ClusterKeys(_Keys):
    """Node ids, listeners, ZooKeeper, and timeouts between nodes. Times in ms."""

    broker_id: Annotated[_Number, Field(ge=-1, le=INT32_MAX)] = -1
    """Negative: generate one, if that is enabled."""
    broker_id_generation_enable: bool = True
    reserved_broker_max_id: Annotated[_Number, Field(ge=0, le=INT32_MAX)] = 1000
    """Generated ids start above it."""
    broker_rack: str | None = None
    listeners: str | None = None
    advertised_listeners: str | None = None
    listener_security_protocol_map: str | None = None
    """`LISTENER:PROTOCOL,…`; the protocol of both listeners must be PLAINTEXT."""
    inter_broker_listener_name: ListenerName = DEFAULT_LISTENER
    """The listener for clients and replication."""
    control_plane_listener_name: ListenerName = DEFAULT_CONTROL_LISTENER
    """The listener for requests between controllers and brokers."""
    socket_request_max_bytes: SizeInt32 = 16_777_216
    """The largest request at the listener for clients; the control listener takes 128 MiB. Kafka's default is
    104857600, but gRPC holds each message in memory as a whole.
    """
    zookeeper_connect: str | None = None
    zookeeper_session_timeout_ms: Positive = 18_000
    zookeeper_connection_timeout_ms: Positive = Field(default_factory=lambda keys: keys["zookeeper_session_timeout_ms"])
    """For the first connection; the session timeout unless given."""
    zookeeper_max_in_flight_requests: Positive = 10
    java_security_auth_login_config: str | None = None
    """The JAAS file with the ZooKeeper credentials (in Kafka this system property); None: anonymous sessions."""
    zookeeper_sasl_clientconfig: str = "Client"
    """The section of that file."""
    zookeeper_set_acl: bool = False
    """Whether znodes get ACLs that permit only their creator to write, instead of open ones."""
    controller_socket_timeout_ms: Positive = 30_000
    request_timeout_ms: Positive = 30_000
    socket_connection_setup_timeout_max_ms: Positive = 30_000
    socket_connection_setup_timeout_ms: Positive = 10_000
    inter_broker_protocol_version: Version = NEWEST
    num_io_threads: Positive = 8
    background_threads: Annotated[Positive, AfterValidator(_refuse_another_size)] = _BACKGROUND_THREADS
    """Accepted because it occurs in Kafka's configuration files."""


class _NetworkKeys(_ClusterKeys):
    """Bounds of what a process takes from others. Times in ms, sizes in bytes."""

    queued_max_requests: Annotated[_Number, Field(ge=8, le=INT32_MAX)] = 4096
    """Requests being handled at once; those that wait for records, replicas or the cluster do not count. Kafka's
    default is 500, of requests that wait for a thread.
    """
    queued_max_request_bytes: Positive = 268_435_456
    """Bytes of requests and responses in memory at once; without a bound in Kafka (-1)."""
    max_connections: SizeInt32 = INT32_MAX
    """Connections of each listener."""
    max_connections_per_ip: SizeInt32 = INT32_MAX
    """Connections with open requests from one address."""
    connections_max_idle_ms: SizeInt32 = 600_000
    """Connections without requests are closed after this time."""
    klamm_max_open_requests: Annotated[_Number, Field(ge=8, le=INT32_MAX)] = 65_536
    """Requests being handled or waiting, streams included."""
    klamm_max_requests_per_connection: SizeInt32 = 2048
    """Open requests of one connection; a client keeps further ones to itself."""
    klamm_request_transfer_timeout_ms: Positive = 30_000
    """Time for a request to arrive, from its headers to its last byte."""

    @field_validator("queued_max_request_bytes")
    @classmethod
    def _each_reserve_has_room_for_a_request(cls, value: int, info: ValidationInfo) -> int:
        request_bytes = info.data.get("socket_request_max_bytes")
        if request_bytes is not None and value < _REQUESTS_IN_MEMORY_MIN * request_bytes:
            raise ValueError(
                f"must be at least {_REQUESTS_IN_MEMORY_MIN} times socket.request.max.bytes ({request_bytes})"
            )
        return value


class _ControllerKeys(_Keys):
    """Elections, rebalancing, topic defaults and controlled shutdown."""

    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: Annotated[_Number, Field(ge=0, le=100)] = 10
    leader_imbalance_check_interval_seconds: Positive = 300
    unclean_leader_election_enable: bool = False
    auto_create_topics_enable: Annotated[bool, AfterValidator(_refuse_true)] = False
    """Accepted because it occurs in Kafka's configuration files; Kafka's own default is true."""
    delete_topic_enable: bool = True
    controlled_shutdown_enable: bool = True
    controlled_shutdown_max_retries: NotNegative = 3
    controlled_shutdown_retry_backoff_ms: NotNegative = 5000
    num_partitions: SizeInt32 = 1
    default_replication_factor: Annotated[_Number, Field(ge=1, le=32_767)] = 1


class _ReplicationKeys(_Keys):
    """Followers, the ISR and purgatories. Times in ms, sizes in bytes."""

    replica_lag_time_max_ms: Positive = 30_000
    replica_socket_timeout_ms: Positive = 30_000
    replica_fetch_wait_max_ms: NotNegative = 500
    replica_fetch_min_bytes: SizeInt32 = 1
    replica_fetch_max_bytes: SizeInt32 = 1_048_576
    replica_fetch_response_max_bytes: SizeInt32 = 10_485_760
    replica_fetch_backoff_ms: NotNegative = 1000
    num_replica_fetchers: Positive = 1
    num_replica_alter_log_dirs_threads: Annotated[Positive | None, AfterValidator(_refuse_movers)] = None
    replica_high_watermark_checkpoint_interval_ms: Positive = 5000
    min_insync_replicas: SizeInt32 = 1
    # Bound of completed requests that stay in purgatories. Here none ever do, which satisfies every bound.
    fetch_purgatory_purge_interval_requests: NotNegative = 1000
    producer_purgatory_purge_interval_requests: NotNegative = 1000
    delete_records_purgatory_purge_interval_requests: NotNegative = 1


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


class _LogKeys(_Keys):
    """Logs. Times in ms, sizes in bytes; the finest unit given takes precedence."""

    log_dirs: tuple[str, ...] | None = None
    log_segment_bytes: Annotated[_Number, Field(ge=14, le=INT32_MAX)] = 1_073_741_824
    log_roll_hours: Positive | None = None
    log_roll_ms: Positive = _from_hours("log_roll_hours", 604_800_000)
    log_roll_jitter_hours: NotNegative | None = None
    log_roll_jitter_ms: NotNegative = _from_hours("log_roll_jitter_hours", 0)
    log_retention_hours: OrUnlimited | None = None
    log_retention_minutes: OrUnlimited | None = None
    log_retention_ms: OrUnlimited = Field(default_factory=_retention_ms)
    log_retention_bytes: OrUnlimited = -1
    log_retention_check_interval_ms: Positive = 300_000
    log_initial_task_delay_ms: NotNegative = 30_000
    log_index_interval_bytes: Annotated[_Number, Field(ge=0, le=INT32_MAX)] = 4096
    log_index_size_max_bytes: Annotated[_Number, Field(ge=4, le=INT32_MAX)] = 10_485_760
    log_flush_interval_messages: Positive = INT64_MAX
    log_flush_interval_ms: NotNegative = INT64_MAX
    log_flush_scheduler_interval_ms: NotNegative = INT64_MAX
    log_flush_offset_checkpoint_interval_ms: NotNegative = 60_000
    log_flush_start_offset_checkpoint_interval_ms: NotNegative = 60_000
    log_segment_delete_delay_ms: NotNegative = 60_000
    log_cleanup_policy: Literal["delete"] = "delete"
    """Logs are not compacted."""
    message_max_bytes: Annotated[_Number, Field(ge=0, le=INT32_MAX)] = 1_048_588
    log_message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    fetch_max_bytes: Annotated[_Number, Field(ge=1024, le=INT32_MAX)] = 57_671_680
    producer_id_expiration_ms: Positive = 86_400_000
    num_recovery_threads_per_data_dir: Positive = 1

    @field_validator("log_retention_ms")
    @classmethod
    def _nothing_is_kept_for_no_time(cls, value: int) -> int:
        if value == 0:
            raise ValueError("must be -1 (no limit) or at least 1")
        return value

    @field_validator("log_dirs", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


class _KlammKeys(_Keys):
    """klamm's own settings. Times in ms, sizes in bytes."""

    klamm_state_change_log_dir: str | None = None
    """Directory of the state-change log; None: `state-change-log` in the first data directory."""
    klamm_state_change_log_segment_bytes: Positive = 67_108_864
    """Segments roll above this size."""
    klamm_state_change_log_segment_ms: Positive = 3_600_000
    """Segments roll at this age."""
    klamm_state_change_log_flush_interval_ms: Positive = 1000
    """Time between two fsyncs of the state-change log."""
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
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower_case)] = "info"
    """Log lines of this level and above are written. `klamm brokers alter` changes it while a process runs."""
    klamm_metrics_partitions: bool = True
    """Whether metrics of single partitions and logs are exported."""
    klamm_damaged_replica_election_delay_ms: NotNegative = 60_000
    """How long a damaged replica that is the only one in sync waits for another before it is elected."""
    klamm_log_scrub_bytes_per_second: NotNegative = 4_194_304
    """How fast a broker verifies the checksums of its stored batches in the background; 0: not at all."""
    klamm_log_scrub_interval_ms: Positive = 604_800_000
    """Time between two such passes over all logs."""
    klamm_log_open_files_max: Positive | None = None
    """Log files kept open while they are not in use, at most; None: half of what the limit of open files of the
    process leaves, and connections have the other half.
    """
    klamm_max_decompressed_batch_bytes: Annotated[_Number, Field(ge=1, le=LARGEST_BATCH)] = 104_857_600
    """A leader refuses a client's batch that decompresses to more."""
    klamm_decompression_memory_bytes: Positive = 268_435_456
    """What a broker decompresses at a time, all batches together; one batch always fits."""


class Settings(_KlammKeys, _LogKeys, _ReplicationKeys, _ControllerKeys, _NetworkKeys):
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
        if value and info.data.get("java_security_auth_login_config", "") is None:
            raise ValueError(
                "needs an authenticated ZooKeeper session: java.security.auth.login.config must name a JAAS file"
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
