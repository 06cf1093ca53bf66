"""How long a client over its quota is throttled.

Source: Kafka ClientQuotaManager, QuotaUtils.throttleTime; KIP-13.
"""


def throttle_time_ms(rate: float, quota: float, window_ms: float) -> int:
    """The time after which the mean of the window is the quota again, if nothing comes; 0 if it is not exceeded."""
    return max(0, round((rate - quota) / quota * window_ms))
