import pytest

from broker_agent.log.config import LogConfig
from broker_agent.requests.topic_configs import default_log_config, override
from cluster.config.settings import Settings


@pytest.mark.rule("R15.1")
@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("retention.ms", "-1", {"retention_ms": -1}),
        ("min.insync.replicas", "2", {"min_insync_replicas": 2}),
        ("max.message.bytes", "1000", {"max_message_bytes": 1000}),
        ("message.timestamp.type", "LogAppendTime", {"message_timestamp_type": "LogAppendTime"}),
        ("message.timestamp.before.max.ms", "7", {"message_timestamp_before_max_ms": 7}),
        ("message.timestamp.after.max.ms", "7", {"message_timestamp_after_max_ms": 7}),
        ("min.insync.replicas", "0", {}),
        ("retention.ms", "-2", {}),
        ("segment.bytes", "many", {}),
        ("message.timestamp.type", "Never", {}),
        ("cleanup.policy", "compact", {"cleanup_policy": "compact"}),
        ("cleanup.policy", "compact, delete", {"cleanup_policy": "compact, delete"}),
        ("cleanup.policy", "shred", {}),
        ("cleanup.policy", "", {}),
        ("min.cleanable.dirty.ratio", "0.25", {"min_cleanable_dirty_ratio": 0.25}),
        ("min.cleanable.dirty.ratio", "1.5", {}),
        ("min.cleanable.dirty.ratio", "much", {}),
        ("delete.retention.ms", "0", {"delete_retention_ms": 0}),
        ("max.compaction.lag.ms", "1", {"max_compaction_lag_ms": 1}),
        ("max.compaction.lag.ms", "0", {}),
        ("min.compaction.lag.ms", "7", {"min_compaction_lag_ms": 7}),
        ("compression.type", "lz4", {}),
    ],
)
def test_what_makes_sense_overrides_the_default_and_the_rest_is_left(
    key: str, text: str, expected: dict[str, object]
) -> None:
    assert override(LogConfig(), {key: text}, "orders") == LogConfig(**expected)  # type: ignore[arg-type]


def test_the_brokers_settings_are_the_defaults_of_kafka() -> None:
    assert default_log_config(Settings()) == LogConfig()
