"""Validates topic configs.

Checked before a topic is created, so that an invalid value is refused at once and not found by an agent later. Source:
Kafka TopicConfig, LogConfig.
"""

from collections.abc import Mapping
from typing import Final

from cluster.config import values
from cluster.config.topic_configs import CHECKS
from cluster.model.errors import ApiError, ErrorCode, all_refusals
from controller.kafka_configs.validation import refused_topic_configs

UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"
MIN_COMPACTION_LAG: Final = "min.compaction.lag.ms"
MAX_COMPACTION_LAG: Final = "max.compaction.lag.ms"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


def check_topic_configs(configs: Mapping[str, str], kafka_release: str | None = None) -> None:
    """Raise ApiError(INVALID_CONFIG) that names every unknown key and invalid value, sorted by key.

    `kafka_release`: of the brokers, if they are of Apache Kafka, e.g. `3.9`: then what that release accepts is valid.
    """
    if kafka_release is None:
        values.check_values(configs, CHECKS, of="topic")
        _check_lags(configs)
        return
    refused = sorted(refused_topic_configs(configs, kafka_release), key=lambda refusal: refusal.key)
    if refused:
        raise all_refusals([ApiError(ErrorCode.INVALID_CONFIG, r.message, field=r.key, value=r.value) for r in refused])


def _check_lags(configs: Mapping[str, str]) -> None:
    """Raise ApiError if records must be compacted before they may be. The numbers are valid."""
    least, most = (configs.get(key) for key in (MIN_COMPACTION_LAG, MAX_COMPACTION_LAG))
    if least is not None and most is not None and int(least) > int(most):
        message = f"{MIN_COMPACTION_LAG}={least!r}: must not exceed {MAX_COMPACTION_LAG} ({most})"
        raise ApiError(ErrorCode.INVALID_CONFIG, message, field=MIN_COMPACTION_LAG, value=least)


def min_insync_replicas(configs: Mapping[str, str], default: int) -> int:
    """The topic's min.insync.replicas as agents read it: a valid override, else the default."""
    value = configs.get(MIN_INSYNC_REPLICAS)
    return default if value is None or CHECKS[MIN_INSYNC_REPLICAS](value) is not None else int(value)


def parse_unclean_override(configs: Mapping[str, str]) -> bool | None:
    """The topic's override of unclean elections; None if there is none. Raises ValueError unless true or false."""
    value = configs.get(UNCLEAN_LEADER_ELECTION)
    if value is None:
        return None
    if values.boolean(value) is not None:
        raise ValueError(f"{UNCLEAN_LEADER_ELECTION} is {value!r}")
    return value.lower() == "true"
