"""How long a client over its quota is throttled, and which quota it has.

Source: Kafka ClientQuotaManager, QuotaUtils.throttleTime; KIP-13.
"""

from collections.abc import Mapping
from typing import Final

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
CLIENT_QUOTAS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)


def throttle_time_ms(rate: float, quota: float, window_ms: float) -> int:
    """The time after which the mean of the window is the quota again, if nothing comes; 0 if it is not exceeded."""
    return max(0, round((rate - quota) / quota * window_ms))


def parse_quotas(overrides: Mapping[str, str]) -> dict[str, float]:
    """The valid quotas among the configs of a client id, in bytes per second; others are left out."""
    found = {}
    for key in CLIENT_QUOTAS:
        try:
            value = float(overrides[key])
        except (KeyError, ValueError):
            continue
        if 0 < value < float("inf"):
            found[key] = value
    return found
